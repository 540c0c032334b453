# SPDX-License-Identifier: GPL-2.0-only
"""A STAND-IN for gem5's Python: objects that record their parameters and connections.

It checks nothing that gem5 checks, so it catches what our configurations break, not what gem5 changes.
"""

import sys
import types

CONNECTIONS = []  # ((object, port), (object, port)), in the order of assignment
# What `from m5.objects import *` gives; any other name can be imported by itself.
NAMES = [
    *("AddrRange", "Cache", "L2XBar", "LPDDR2_S4_1066_1x32", "NoncoherentXBar", "Root", "SrcClockDomain"),
    *("StridePrefetcher", "System", "SystemXBar", "VoltageDomain"),
    *("DrfqAgent", "DrfqCache", "DrfqHost", "DrfqMemCtrl", "DrfqStridePrefetcher"),
]


class Port:
    """An attribute that was never set."""

    def __init__(self, owner, name):
        self.owner, self.name = owner, name


class Recorder:
    """A SimObject: attributes are parameters, children or ports."""

    def __init__(self, *positional, **parameters):
        self._positional = positional
        for name, value in parameters.items():
            setattr(self, name, value)

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return Port(self, name)

    def __setattr__(self, name, value):
        if isinstance(value, Port):
            CONNECTIONS.append(((self, name), (value.owner, value.name)))
        else:
            super().__setattr__(name, value)


class Objects(types.ModuleType):
    """m5.objects: a class for every name."""

    __all__ = NAMES

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        setattr(self, name, type(name, (Recorder,), {}))
        return getattr(self, name)


class ChanneledMemory(Recorder):
    """The standard library's memory of several channels."""

    def __init__(self, dram, channels, interleaving, size=None):
        super().__init__()
        self._dram_class, self._num_channels, self._size = dram, channels, size
        self._addr_mapping = "RoRaBaCoCh"
        self._create_mem_interfaces_controller()

    def incorporate_memory(self, board):
        pass

    def get_size(self):
        return self._size

    def get_uninterleaved_range(self):
        return [types.SimpleNamespace(end=self._size)]

    def get_mem_ports(self):
        return [(None, controller.port) for controller in self.mem_ctrl]


def module(name, **contents):
    """Makes a module importable."""
    made = types.ModuleType(name)
    made.__path__ = []
    vars(made).update(contents)
    sys.modules[name] = made
    return made


def fatal(message, *values):
    raise SystemExit(message % values)


def install_standard_library():
    for name in ("gem5", "gem5.components", "gem5.components.memory", "gem5.components.cachehierarchies"):
        module(name)
    module("gem5.components.memory.memory", ChanneledMemory=ChanneledMemory)
    classic = "gem5.components.cachehierarchies.classic"
    module(classic)
    module(f"{classic}.abstract_classic_cache_hierarchy", AbstractClassicCacheHierarchy=Recorder)
    for name in ("boards", "processors"):
        module(f"gem5.components.{name}")
    module("gem5.components.boards.simple_board", SimpleBoard=Recorder)
    module("gem5.components.processors.cpu_types", CPUTypes=types.SimpleNamespace(TIMING="timing"))
    module("gem5.components.processors.simple_processor", SimpleProcessor=Recorder)
    module("gem5.isas", ISA=types.SimpleNamespace(X86="x86", ARM="arm"), get_isa_from_str=str)
    module("gem5.resources")
    module("gem5.resources.resource", BinaryResource=Recorder)


def install():
    """From here on, `import m5` and the modules of gem5 that we use give the stand-in."""
    install_standard_library()
    core = module("_m5.core", gem5Version="24.0.0.1")
    module("_m5", core=core)
    objects = Objects("m5.objects")
    sys.modules["m5.objects"] = objects
    util = module("m5.util", fatal=fatal)
    module("m5", objects=objects, util=util, instantiate=lambda _=None: None, simulate=lambda _=None: None)
