# SPDX-License-Identifier: GPL-2.0-only
"""Runs a program without a kernel on an X86Board with the thesis' caches: bare_metal.py PROGRAM DISK."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "gem5", "stdlib"))
import m5
import thesis_caches
from drfq_caches import ThesisCaches
from drfq_memory import DrfqMemory
from gem5.components.boards.x86_board import X86Board
from gem5.components.processors.cpu_types import CPUTypes
from gem5.components.processors.simple_processor import SimpleProcessor
from gem5.isas import ISA
from gem5.resources.resource import DiskImageResource, KernelResource
from m5.objects import Root

OWNER_OF_DISK = 0xE0000000  # bare_metal.cc writes it
LIMIT_TICKS = 10**12  # a second; the program ends far earlier


def main():
    program, disk = sys.argv[1:]
    processor = SimpleProcessor(cpu_type=CPUTypes.TIMING, isa=ISA.X86, num_cores=1)
    memory = DrfqMemory(size="3GiB")
    board = X86Board(thesis_caches.CLOCK, processor, memory, ThesisCaches())
    memory.label_devices([board.pc.south_bridge.ide], at=OWNER_OF_DISK)
    # A disk without partitions: the board wants one.
    board.set_kernel_disk_workload(KernelResource(local_path=program), DiskImageResource(local_path=disk))
    Root(full_system=True, board=board)
    board._pre_instantiate()  # connects the parts, as gem5's Simulator would
    m5.instantiate()
    print("ended:", m5.simulate(LIMIT_TICKS).getCause())


if __name__ == "__m5_main__":
    main()
