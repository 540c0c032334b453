# SPDX-License-Identifier: GPL-2.0-only
"""Programs share the memory of a board of gem5's standard library by their weights, each on its core.

It needs a gem5 with an ISA. The configuration stands for the agent: it charges each program what the controller
counted, and writes the virtual times.
"""

import argparse
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "stdlib"))
sys.path.insert(0, os.path.join(sys.path[0], "..", "..", "interface"))
import m5
import tables
import thesis_caches
from drfq_caches import ThesisCaches
from drfq_memory import DrfqMemory
from gem5.components.boards.simple_board import SimpleBoard
from gem5.components.processors.cpu_types import CPUTypes
from gem5.components.processors.simple_processor import SimpleProcessor
from gem5.isas import get_isa_from_str
from gem5.resources.resource import BinaryResource
from m5.objects import Process, Root

FIRST_ID = 2  # the agent gives id 1 to no task
UPDATE_TICKS = 10**9  # a millisecond


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--isa", default="x86", help="of the programs; gem5 must have it (%(default)s)")
    parser.add_argument("--weights", type=int, nargs="+", help="of the programs (default: 1 each)")
    parser.add_argument("--updates", type=int, default=20, help="of the virtual times, one a millisecond (%(default)s)")
    parser.add_argument("program", nargs="+", help="a static executable; the first runs on core 0")
    parsed = parser.parse_args()
    if parsed.weights is None:
        parsed.weights = [1] * len(parsed.program)
    if len(parsed.weights) != len(parsed.program) or min(parsed.weights) < 1:
        parser.error("--weights takes a positive weight for each program")
    return parsed


def build(programs, isa):
    """The board, a program on each core, and its memory."""
    memory = DrfqMemory()
    processor = SimpleProcessor(cpu_type=CPUTypes.TIMING, isa=get_isa_from_str(isa), num_cores=len(programs))
    board = SimpleBoard(thesis_caches.CLOCK, processor, memory, ThesisCaches())
    # gem5 gives the same process to all cores.
    board.set_se_binary_workload(BinaryResource(local_path=programs[0]))
    for number, (core, program) in enumerate(zip(processor.get_cores(), programs)):
        core.set_workload(Process(executable=program, cmd=[program], pid=100 + number))
    return board, memory


def name_owners(registers, cores):
    """Says which id runs on each core."""
    for core in range(cores):
        registers.set(tables.OFFSET["pid_core"] + 8 * core, FIRST_ID + core)
        registers.set(tables.OFFSET["vtime_core"] + 8 * core, 0)


def charge(registers, weights, moved):
    """Charges what each program moved since the last call, and writes its virtual time."""
    for core, weight in enumerate(weights):
        moved[core] += registers.get(tables.OFFSET["traffic"] + 8 * (FIRST_ID + core))
        registers.set(tables.OFFSET["vtime_core"] + 8 * core, moved[core] // weight)


def main():
    args = arguments()
    board, memory = build(args.program, args.isa)
    Root(full_system=False, board=board)
    board._pre_instantiate()  # connects the parts, as gem5's Simulator would
    m5.instantiate()
    name_owners(memory.registers, len(args.program))
    moved = [0] * len(args.program)
    for _ in range(args.updates):
        event = m5.simulate(UPDATE_TICKS)
        charge(memory.registers, args.weights, moved)
        if event.getCause() != "simulate() limit reached":
            break
    for program, weight, count in zip(args.program, args.weights, moved):
        print(f"{os.path.basename(program)}, weight {weight}: {count} bytes")


if __name__ == "__m5_main__":
    main()
