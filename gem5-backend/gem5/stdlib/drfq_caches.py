# SPDX-License-Identifier: GPL-2.0-only
"""The thesis' caches for a board of gem5's standard library, whose memory is a DrfqMemory. All keep owners."""

import thesis_caches
from gem5.components.cachehierarchies.classic.abstract_classic_cache_hierarchy import AbstractClassicCacheHierarchy
from gem5.isas import ISA
from m5.objects import BadAddr, DrfqCache, DrfqStridePrefetcher, L2XBar, SystemXBar


class ThesisCaches(AbstractClassicCacheHierarchy):
    """Table 5.1: L1 of each core, a shared L2. The table has no caches of page walks, which therefore go to L2.

    Latencies are cycles of the board's clock: give the board thesis_caches.CLOCK. prefetch: a stride prefetcher in L2.
    """

    def __init__(self, prefetch=False):
        super().__init__()
        self._prefetch = prefetch
        self.membus = SystemXBar(width=64)
        self.membus.bad_address = BadAddr()
        self.membus.default = self.membus.bad_address.pio

    def get_mem_side_port(self):
        return self.membus.mem_side_ports

    def get_cpu_side_port(self):
        return self.membus.cpu_side_ports

    def incorporate_cache(self, board):
        board.connect_system_port(self.membus.cpu_side_ports)
        for _, port in board.get_memory().get_mem_ports():
            self.membus.mem_side_ports = port
        cores = board.get_processor().get_cores()
        self.l1i = [self._cache("l1i") for _ in cores]
        self.l1d = [self._cache("l1d") for _ in cores]
        self.l2bus = L2XBar()
        self.l2 = self._cache("l2")
        if self._prefetch:
            self.l2.prefetcher = DrfqStridePrefetcher()
        for core, l1i, l1d in zip(cores, self.l1i, self.l1d):
            self._connect(core, l1i, l1d)
        self.l2.cpu_side = self.l2bus.mem_side_ports
        self.l2.mem_side = self.membus.cpu_side_ports
        if board.has_coherent_io():
            self._add_io_cache(board)

    def _cache(self, level):
        return DrfqCache(**thesis_caches.parameters(level))

    def _connect(self, core, l1i, l1d):
        core.connect_icache(l1i.cpu_side)
        core.connect_dcache(l1d.cpu_side)
        l1i.mem_side = self.l2bus.cpu_side_ports
        l1d.mem_side = self.l2bus.cpu_side_ports
        core.connect_walker_ports(self.l2bus.cpu_side_ports, self.l2bus.cpu_side_ports)
        if core.get_isa() == ISA.X86:
            core.connect_interrupt(self.membus.mem_side_ports, self.membus.cpu_side_ports)
        else:
            core.connect_interrupt()

    def _add_io_cache(self, board):
        """The small cache through which devices reach the memory (thesis, section 3.1.2)."""
        self.iocache = DrfqCache(
            size="1KiB",
            assoc=8,
            tag_latency=50,
            data_latency=50,
            response_latency=50,
            mshrs=20,
            tgts_per_mshr=12,
            addr_ranges=board.mem_ranges,
        )
        owners = board.get_memory().get_device_owners()
        if owners is not None:
            self.iocache.device_owners = owners
        self.iocache.cpu_side = board.get_mem_side_coherent_io_port()
        self.iocache.mem_side = self.membus.cpu_side_ports
