#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""The configurations of gem5/, built of a stand-in's objects (gem5/stand-in/python.py).

usage: gem5_configs_test.py DRFQ_MC
"""

import importlib.util
import json
import os
import subprocess
import sys
import unittest

GEM5 = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "gem5")
sys.path[:0] = [os.path.join(GEM5, "configs")]
specification = importlib.util.spec_from_file_location("stand_in", os.path.join(GEM5, "stand-in", "python.py"))
stand_in = importlib.util.module_from_spec(specification)
specification.loader.exec_module(stand_in)
stand_in.install()
import board as board_script  # noqa: E402
import system  # noqa: E402
from drfq_caches import ThesisCaches  # noqa: E402
from drfq_memory import GIB, DrfqMemory, ThesisDram  # noqa: E402

MEMORY = json.loads(subprocess.run([sys.argv.pop(1), "memory"], capture_output=True, text=True, check=True).stdout)


def shape(cache):
    return type(cache).__name__, cache.size, cache.assoc, cache.tag_latency, cache.data_latency


class Caches(unittest.TestCase):
    def test_the_thesis_caches_have_the_shapes_of_table_5_1(self):
        built = system.build(MEMORY, 4, "thesis").system
        self.assertEqual([shape(c) for c in built.l1], [("DrfqCache", "64KiB", 4, 2, 2)] * 4)
        self.assertEqual(shape(built.l2), ("DrfqCache", "2MiB", 8, 8, 8))
        self.assertEqual(built.cache_line_size, system.thesis_caches.LINE_BYTES)
        self.assertEqual(shape(system.DrfqCache(**system.thesis_caches.parameters("l1i")))[1:], ("32KiB", 4, 2, 2))

    def test_the_thesis_latencies_count_cycles_of_the_cpus(self):
        built = system.build(MEMORY, 2, "thesis").system
        for part in [*built.l1, built.l2bus, built.l2]:
            self.assertEqual(part.clk_domain.clock, "3GHz")

    def test_plain_caches_are_gem5s_own(self):
        for kind, name, prefetcher in [
            ("plain", "Cache", "StridePrefetcher"),
            ("labelled", "DrfqCache", "DrfqStridePrefetcher"),
            ("thesis", "DrfqCache", "DrfqStridePrefetcher"),
        ]:
            built = system.build(MEMORY, 1, kind, prefetch=True).system
            self.assertEqual([type(c).__name__ for c in (*built.l1, built.l2)], [name] * 2, kind)
            self.assertEqual(type(built.l2.prefetcher).__name__, prefetcher)


class Board:
    """Of gem5's standard library, with two cores. Its parts tell which board it is."""

    def __init__(self, memory, caches, isa="x86", **parts):
        self.memory, self.caches = memory, caches
        self.iobus = stand_in.Recorder() if parts else None
        self.cores = [stand_in.Recorder(name=f"core{n}") for n in range(2)]
        self.mem_ranges = ["the memory"]
        self.isa, self.pci_devices, self.system_port = isa, [], None
        for core in self.cores:
            core.get_isa = lambda: isa
            for method in ("icache", "dcache", "walker_ports", "interrupt"):
                setattr(core, f"connect_{method}", self.recorder(core, method))
        vars(self).update(parts)

    def recorder(self, core, method):
        def connect(*ports):
            for port in ports:
                setattr(core, method, port)

        return connect

    def connect(self):
        """As gem5 does, in its order. Returns the connections as (class of owner, port, class of owner, port)."""
        stand_in.CONNECTIONS.clear()
        self.memory.incorporate_memory(self)
        self.caches.incorporate_cache(self)
        return [(type(a).__name__, port, type(b).__name__, other) for (a, port), (b, other) in stand_in.CONNECTIONS]

    def get_memory(self):
        return self.memory

    def get_cache_hierarchy(self):
        return self.caches

    def get_processor(self):
        return self

    def get_cores(self):
        return self.cores

    def get_num_cores(self):
        return len(self.cores)

    def has_io_bus(self):
        return self.iobus is not None

    has_coherent_io = has_io_bus

    def get_io_bus(self):
        return self.iobus

    def get_mem_side_coherent_io_port(self):
        return self.iobus.mem_side_ports

    def connect_system_port(self, port):
        self.system_port = port

    def _add_pci_device(self, device):
        self.pci_devices.append(device)


def thesis_caches():
    caches = ThesisCaches(prefetch=True)
    caches.is_ruby = lambda: False
    return caches


class StandardLibrary(unittest.TestCase):
    def test_each_channel_has_our_controller_with_the_boards_cores(self):
        memory = DrfqMemory(channels=2, size=GIB, share=True)
        made = Board(memory, thesis_caches()).connect()
        self.assertEqual([type(c).__name__ for c in memory.mem_ctrl], ["DrfqMemCtrl"] * 2)
        self.assertEqual([(c.cores, c.share, type(c.dram)) for c in memory.mem_ctrl], [(2, True, ThesisDram)] * 2)
        self.assertEqual(made.count(("SystemXBar", "mem_side_ports", "DrfqMemCtrl", "port")), 2)

    def test_without_an_io_bus_the_registers_are_on_the_memory_bus_above_the_memory(self):
        memory = DrfqMemory(size=GIB)
        made = Board(memory, thesis_caches()).connect()
        self.assertIn(("DrfqRegisters", "pio", "SystemXBar", "mem_side_ports"), made)
        self.assertEqual(memory.registers.pio_addr, GIB)
        self.assertEqual(memory.registers.controllers, memory.mem_ctrl)
        elsewhere = DrfqMemory(size=GIB, registers_at=5 * GIB)
        Board(elsewhere, thesis_caches()).connect()
        self.assertEqual(elsewhere.registers.pio_addr, 5 * GIB)

    def test_on_the_x86_board_the_registers_are_a_pci_function(self):
        memory, pc = DrfqMemory(size=3 * GIB), stand_in.Recorder(pci_host="the host")
        board = Board(memory, thesis_caches(), pc=pc)
        made = board.connect()
        self.assertEqual(memory.registers.host, "the host")
        self.assertIn(("DrfqPciRegisters", "pio", "Recorder", "mem_side_ports"), made)
        self.assertIn(("DrfqPciRegisters", "dma", "Recorder", "cpu_side_ports"), made)
        with self.assertRaisesRegex(ValueError, "3 GiB"):
            Board(DrfqMemory(size=GIB), thesis_caches(), pc=pc).connect()

    def test_on_the_arm_board_the_registers_are_a_pci_device_of_the_board(self):
        board = Board(DrfqMemory(size=GIB), thesis_caches(), isa="arm", realview=stand_in.Recorder())
        board.connect()
        self.assertEqual([type(d).__name__ for d in board.pci_devices], ["DrfqPciRegisters"])

    def test_ruby_no_caches_and_an_unknown_board_are_refused(self):
        ruby = thesis_caches()
        ruby.is_ruby = lambda: True
        for board, why in [
            (Board(DrfqMemory(size=GIB), ruby), "Ruby"),
            (Board(DrfqMemory(size=GIB), None), "a bus"),
            (Board(DrfqMemory(size=GIB), thesis_caches(), platform="RISC-V's"), "no place"),
        ]:
            with self.assertRaisesRegex(ValueError, why):
                board.connect()

    def test_every_cache_of_the_board_keeps_the_owners(self):
        caches = thesis_caches()
        made = Board(DrfqMemory(size=3 * GIB), caches, pc=stand_in.Recorder(pci_host="the host")).connect()
        levels = [*caches.l1i, *caches.l1d, caches.l2, caches.iocache]
        self.assertEqual({type(cache).__name__ for cache in levels}, {"DrfqCache"})
        self.assertEqual(shape(caches.l1i[0])[1:], ("32KiB", 4, 2, 2))
        self.assertEqual(shape(caches.l1d[1])[1:], ("64KiB", 4, 2, 2))
        self.assertEqual(type(caches.l2.prefetcher).__name__, "DrfqStridePrefetcher")
        # Two L1 caches and two page walkers for each core.
        self.assertEqual(sum(m[2:] == ("L2XBar", "cpu_side_ports") for m in made), 8)
        self.assertIn(("DrfqCache", "mem_side", "SystemXBar", "cpu_side_ports"), made)

    def test_devices_are_labelled_in_the_io_cache_and_at_the_controllers(self):
        memory, caches = DrfqMemory(channels=2, size=3 * GIB), thesis_caches()
        pc = stand_in.Recorder(pci_host="the host", ide="the disks' controller")
        memory.label_devices([pc.ide], at=0xE0000000, owners=(7,))
        made = Board(memory, caches, pc=pc).connect()
        owners = memory.get_device_owners()
        self.assertEqual((owners.devices, owners.owners, owners.pio_addr), ([pc.ide], [7], 0xE0000000))
        self.assertTrue(all(part.device_owners is owners for part in (*memory.mem_ctrl, caches.iocache)))
        self.assertIn(("DrfqDeviceOwners", "pio", "Recorder", "mem_side_ports"), made)

    def test_without_an_io_bus_the_owners_are_on_the_memory_bus(self):
        memory = DrfqMemory(size=GIB)
        memory.label_devices(["an accelerator"], at=2 * GIB)
        made = Board(memory, thesis_caches()).connect()
        self.assertIn(("DrfqDeviceOwners", "pio", "SystemXBar", "mem_side_ports"), made)


class Registers:
    """Counts what a core's program moves, and clears the count when it is read, as the controller does."""

    def __init__(self):
        self.values = {}

    def get(self, offset):
        return self.values.pop(offset, 0)

    def set(self, offset, value):
        self.values[offset] = value


class BoardScript(unittest.TestCase):
    def test_a_program_is_charged_its_bytes_by_its_weight(self):
        registers, offset, moved = Registers(), board_script.tables.OFFSET, [0, 0]
        board_script.name_owners(registers, 2)
        self.assertEqual([registers.values[offset["pid_core"] + 8 * core] for core in range(2)], [2, 3])
        for _ in range(2):
            registers.set(offset["traffic"] + 8 * 2, 600)
            registers.set(offset["traffic"] + 8 * 3, 600)
            board_script.charge(registers, [1, 3], moved)
        self.assertEqual(moved, [1200, 1200])
        self.assertEqual([registers.values[offset["vtime_core"] + 8 * core] for core in range(2)], [1200, 400])


if __name__ == "__main__":
    unittest.main()
