# SPDX-License-Identifier: GPL-2.0-only
"""Builds the simulated machine: one memory channel as `drfq-mc memory` describes it, and its agents."""

import os
import sys

import _m5.core
import m5
from m5.objects import *
from m5.util import fatal

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(sys.path[0], "stdlib"))
import supported
import thesis_caches

refused = supported.problem(getattr(_m5.core, "gem5Version", None))
if refused:
    fatal("%s", refused)
try:
    from m5.objects import DrfqMemCtrl
except ImportError:
    fatal("this gem5 was built without the SimObjects of gem5-backend/gem5 (scons ... EXTRAS=DIRECTORY)")

TIMES = {
    "tRCD": "tRCD",
    "tCL": "tCL",
    "tCWL": "tCWL",
    "tRP": "tRP",
    "tRAS": "tRAS",
    "tRRD": "tRRD",
    "tXAW": "tFAW",
    "tWTR": "tWTR",
    "tRTW": "tRTW",
    "tRTP": "tRTP",
    "tWR": "tWR",
    "tBURST": "tBURST",
    "tCS": "tCS",
    "tREFI": "tREFI",
    "tRFC": "tRFC",
    "tCK": "tCK",
}
TIMES_OF_GROUPS = {"tRRD_L": "tRRD_L", "tWTR_L": "tWTR_L", "tCCD_L": "tCCD_L", "tCCD_L_WR": "tCCD_L_WR"}
PAGES = {"open": "open", "open-adaptive": "open_adaptive", "closed": "close"}
BUS_BITS = 32
LINE_BITS = 6  # a line of 64 bytes is in one channel
CHANNELS = [1, 2, 4, 8, 16]


def fail(message):
    """Ends gem5 with a message. gem5 aborts on the text of a SystemExit."""
    print(f"gem5: error: {message}", file=sys.stderr)
    sys.exit(1)


def channel_range(size, channels, number):
    """The addresses of one channel. Successive lines are in successive channels."""
    if channels == 1:
        return AddrRange(size)
    bits = channels.bit_length() - 1
    return AddrRange(
        start=0, size=size * channels, intlvHighBit=LINE_BITS + bits - 1, intlvBits=bits, intlvMatch=number
    )


def dram(memory, channels, number):
    """gem5's DRAM with the timing of the description. Power figures are LPDDR2's and mean nothing."""
    if memory["map"] != "row-bank-column":
        fatal("gem5 has no address map '%s'; give the experiment map = \"row-bank-column\"", memory["map"])
    interface = LPDDR2_S4_1066_1x32()
    grouped = memory["groups"] > 1
    for name, key in {**TIMES, **(TIMES_OF_GROUPS if grouped else {})}.items():
        setattr(interface, name, f"{memory[key + '_ps']}ps")
    interface.bank_groups_per_rank = memory["groups"] if grouped else 0
    interface.device_bus_width = BUS_BITS
    interface.burst_length = memory["burst_bytes"] * 8 // BUS_BITS
    interface.devices_per_rank = 1
    interface.device_rowbuffer_size = f"{memory['row_bytes']}B"
    interface.ranks_per_channel = memory["ranks"]
    interface.banks_per_rank = memory["banks"]
    interface.activation_limit = memory["activation_limit"]
    interface.max_accesses_per_row = memory["accesses_per_row"]
    interface.page_policy = PAGES[memory["page"]]
    interface.addr_mapping = "RoRaBaCoCh"
    interface.read_buffer_size = memory["read_entries"]
    interface.write_buffer_size = memory["write_entries"]
    size = memory["rows"] * memory["banks"] * memory["row_bytes"]
    interface.device_size = f"{size}B"
    interface.range = channel_range(size * memory["ranks"], channels, number)
    interface.null = True
    return interface


def controller(memory, log, decisions, channels=1, number=0):
    if memory["fill"]:
        fail("'fill' is a rule of the model's; gem5's DRAM does not tell what fits")
    return DrfqMemCtrl(
        dram=dram(memory, channels, number),
        frfcfs=memory["policy"] == "frfcfs",
        cores=memory["cores"],
        share=memory["admission"] == "share",
        tie_bursts=memory["tie_bursts"],
        run_bursts=memory["run_bursts"],
        prepare=bool(memory["prepare"]),
        batch=bool(memory["batch"]),
        aging=f"{memory['aging_ps']}ps",
        write_high_thresh_perc=memory["drain_high_percent"],
        write_low_thresh_perc=memory["drain_low_percent"],
        min_writes_per_switch=memory["drain_min_writes"],
        min_reads_per_switch=memory["drain_min_reads"],
        static_frontend_latency=f"{memory['frontend_ps']}ps",
        static_backend_latency=f"{memory['backend_ps']}ps",
        decision_log=log,
        decisions=decisions,
        version=_m5.core.gem5Version,
    )


def caches_of(system, kind):
    """A first-level cache for each agent, the bus behind them, and a second level."""
    if kind == "thesis":
        domain = SrcClockDomain(clock=thesis_caches.CLOCK, voltage_domain=system.clk_domain.voltage_domain)
        system.cache_clk_domain = domain

        def thesis(level):
            return DrfqCache(**thesis_caches.parameters(level), clk_domain=domain)

        # An agent sends what a core sends to its data cache.
        return [thesis("l1d") for _ in system.agents], L2XBar(clk_domain=domain), thesis("l2")

    def cache(size, lines, latency):
        return (DrfqCache if kind == "labelled" else Cache)(
            size=size,
            assoc=8,
            tag_latency=latency,
            data_latency=latency,
            response_latency=latency,
            mshrs=lines,
            tgts_per_mshr=8,
            write_buffers=lines,
        )

    return [cache("32KiB", 32, 1) for _ in system.agents], L2XBar(), cache("512KiB", 64, 8)


def connect_cached(system, kind, prefetch):
    """A first-level cache for each agent, a shared second level, and the controller's one port."""
    system.l1, system.l2bus, system.l2 = caches_of(system, kind)
    if prefetch:
        system.l2.prefetcher = StridePrefetcher() if kind == "plain" else DrfqStridePrefetcher()
    system.membus = SystemXBar(width=64)
    for agent, l1 in zip(system.agents, system.l1):
        agent.port = l1.cpu_side
        l1.mem_side = system.l2bus.cpu_side_ports
    system.l2.cpu_side = system.l2bus.mem_side_ports
    system.l2.mem_side = system.membus.cpu_side_ports
    system.system_port = system.membus.cpu_side_ports
    for c in system.controllers:
        system.membus.mem_side_ports = c.port


def crossbar():
    """A crossbar that takes no time."""
    return NoncoherentXBar(width=64, frontend_latency=0, forward_latency=0, response_latency=0, header_latency=0)


def connect(system, memory):
    """A port for each agent at each controller, or a crossbar in front of one port."""
    if memory["ports"] == "multi":
        system.system_port = system.controllers[0].agents
        if len(system.controllers) == 1:
            for agent in system.agents:
                agent.port = system.controllers[0].agents
            return
        # An agent's crossbar finds the channel. A refused packet holds up its own agent only.
        system.finders = [crossbar() for _ in system.agents]
        for agent, finder in zip(system.agents, system.finders):
            agent.port = finder.cpu_side_ports
            for c in system.controllers:
                finder.mem_side_ports = c.agents
        return
    system.membus = crossbar()
    for agent in system.agents:
        agent.port = system.membus.cpu_side_ports
    system.system_port = system.membus.cpu_side_ports
    for c in system.controllers:
        system.membus.mem_side_ports = c.port


def build(memory, agents, caches="none", prefetch=False, log="", decisions=100000, restore=None, channels=1):
    """The root, instantiated and started; its host is root.system.host. restore: the folder of a checkpoint."""
    system = System(mem_mode="timing", cache_line_size=64)
    system.clk_domain = SrcClockDomain(clock="1GHz", voltage_domain=VoltageDomain())
    if log and channels > 1:
        fail("a log holds the decisions of one channel, so it takes no several")
    system.controllers = [controller(memory, log, decisions, channels, number) for number in range(channels)]
    memory_bytes = memory["rows"] * memory["banks"] * memory["row_bytes"] * memory["ranks"] * channels
    system.mem_ranges = [AddrRange(memory_bytes)]
    system.agents = [DrfqAgent(memory_bytes=memory_bytes) for _ in range(agents)]
    if caches == "none":
        connect(system, memory)
    else:
        connect_cached(system, caches, prefetch)
    system.host = DrfqHost(controllers=system.controllers, agents=system.agents)
    root = Root(full_system=False, system=system)
    m5.instantiate(restore)
    # Starts the objects; the host simulates from here on.
    m5.simulate(0)
    return root
