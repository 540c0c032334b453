# SPDX-License-Identifier: GPL-2.0-only
"""The SimObjects of this directory. gem5-backend/gem5/README.md says how they fit together."""

from m5.objects.Cache import Cache
from m5.objects.ClockedObject import ClockedObject
from m5.objects.Device import BasicPioDevice
from m5.objects.MemCtrl import MemCtrl
from m5.objects.PciDevice import PciDevice, PciMemBar
from m5.objects.Prefetcher import StridePrefetcher, TaggedPrefetcher
from m5.params import *
from m5.proxy import *
from m5.SimObject import PyBindMethod, SimObject


class DrfqDeviceOwners(BasicPioDevice):
    """The owners of what gem5's own devices send, as a register of 8 bytes for each device."""

    type = "DrfqDeviceOwners"
    cxx_header = "gem5/device_owners.hh"
    cxx_class = "gem5::DrfqDeviceOwners"

    devices = VectorParam.SimObject("Each sends requests under one requestor id, as a DmaDevice does")
    owners = VectorParam.UInt64([], "Hardware ids at the start, in the order of the devices; missing ones are 0: none")


class DrfqMemCtrl(MemCtrl):
    """A memory controller whose decisions are the core's; its DRAM and its timing are gem5's."""

    type = "DrfqMemCtrl"
    cxx_header = "gem5/mem_ctrl.hh"
    cxx_class = "gem5::memory::DrfqMemCtrl"

    agents = VectorResponsePort("A port for each agent; the inherited port is for a crossbar")
    frfcfs = Param.Bool(False, "The baseline: decide as stock gem5 does")
    cores = Param.Unsigned(4, "Cores that the registers know")
    share = Param.Bool(False, "Admission keeps room for what each owner claims")
    tie_bursts = Param.Unsigned(64, "Shortest run of one direction while virtual times tie")
    run_bursts = Param.Unsigned(0, "Shortest run of one direction, whatever the virtual times")
    prepare = Param.Bool(False, "Among the lowest virtual time pick as FR-FCFS does")
    batch = Param.Bool(False, "Where virtual times do not decide, turn the bus as FR-FCFS does")
    aging = Param.Latency("1ms", "A burst that waits longer goes first; 0: never")
    decision_log = Param.String("", "File for every decision (host/DECISIONS.md); empty: none")
    decisions = Param.Counter(100000, "The most decisions to log")
    version = Param.String("", "Of gem5, for the log")
    device_owners = Param.DrfqDeviceOwners(NULL, "Labels what devices send without a label")


class DrfqRegisters(BasicPioDevice):
    """The controller's registers on a bus."""

    type = "DrfqRegisters"
    cxx_header = "gem5/register_device.hh"
    cxx_class = "gem5::DrfqRegisters"
    cxx_exports = [PyBindMethod("get"), PyBindMethod("set")]

    controllers = VectorParam.DrfqMemCtrl("The controllers, one for each channel, that have the registers")


class DrfqPciRegisters(PciDevice):
    """The registers as the PCI function that `scx_drfq --controller mmio:auto` finds (interface/registers.toml)."""

    type = "DrfqPciRegisters"
    cxx_header = "gem5/pci_registers.hh"
    cxx_class = "gem5::DrfqPciRegisters"

    controllers = VectorParam.DrfqMemCtrl("The controllers, one for each channel, that have the registers")

    VendorID = 0x1AF4
    DeviceID = 0x1110
    ClassCode = 0x05  # memory
    BAR2 = PciMemBar(size="512KiB")


class DrfqAgent(ClockedObject):
    """Sends the packets of one generator of model/generator.hh. Silent until the host tells it what to send."""

    type = "DrfqAgent"
    cxx_header = "gem5/agent.hh"
    cxx_class = "gem5::DrfqAgent"

    port = RequestPort("To the memory")
    system = Param.System(Parent.any, "The system that knows its requestor id")
    memory_bytes = Param.UInt64("Size of the memory, at which addresses begin again from 0 as in the model")


class DrfqHost(SimObject):
    """Runs experiments on the agents, or serves the socket protocol."""

    type = "DrfqHost"
    cxx_header = "gem5/host.hh"
    cxx_class = "gem5::DrfqHost"
    cxx_exports = [PyBindMethod("experiment"), PyBindMethod("proceed"), PyBindMethod("serve")]

    controllers = VectorParam.DrfqMemCtrl("The controllers, one for each channel")
    agents = VectorParam.DrfqAgent([], "Agents that experiments and demands may use")


class DrfqCache(Cache):
    """A cache whose write-backs carry the label of the access that caused them."""

    type = "DrfqCache"
    cxx_header = "gem5/cache.hh"
    cxx_class = "gem5::DrfqCache"

    device_owners = Param.DrfqDeviceOwners(NULL, "For an I/O cache: labels what devices send without a label")


class DrfqStridePrefetcher(StridePrefetcher):
    """A prefetcher whose requests carry the label of the access that caused them."""

    type = "DrfqStridePrefetcher"
    cxx_header = "gem5/prefetcher.hh"
    cxx_class = "gem5::prefetch::DrfqStride"


class DrfqTaggedPrefetcher(TaggedPrefetcher):
    type = "DrfqTaggedPrefetcher"
    cxx_header = "gem5/prefetcher.hh"
    cxx_class = "gem5::prefetch::DrfqTagged"
