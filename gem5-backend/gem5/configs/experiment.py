# SPDX-License-Identifier: GPL-2.0-only
"""Runs one combination of an experiment file; `drfq-mc run --simulator` calls it for each (host/simulator.hh)."""

import argparse
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import m5
import system

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument(
    "--caches",
    choices=["none", "plain", "labelled", "thesis"],
    default="none",
    help="put caches before the memory: gem5's own, those that keep the labels, or those with table 5.1's sizes",
)
parser.add_argument("--prefetch", action="store_true", help="with a stride prefetcher in the second level")
parser.add_argument(
    "--channels", type=int, choices=system.CHANNELS, default=1, help="controllers, between which lines alternate"
)
parser.add_argument("--log", default="", help="write the decisions to this file (host/DECISIONS.md)")
parser.add_argument("--decisions", type=int, default=100000, help="at most so many (%(default)s)")
parser.add_argument(
    "--checkpoint-at",
    nargs=2,
    metavar=("NS", "DIR"),
    help="drain and write a checkpoint at the first update of the registers from NS on, then go on",
)
parser.add_argument("--restore", metavar="DIR", help="start from the checkpoint that such a run wrote")
parser.add_argument("what", choices=["experiment"])
parser.add_argument("file")
parser.add_argument("point", type=int)
parser.add_argument("seed", type=int)
parser.add_argument("agents", type=int)
parser.add_argument("memory", type=json.loads)
args = parser.parse_args()


def folder(base):
    """The checkpoint of this combination."""
    return os.path.join(base, f"{args.point}-{args.seed}")


if (args.checkpoint_at or args.restore) and args.caches != "none":
    system.fail("gem5's caches lose their lines in a checkpoint, so it takes no --caches")
if args.checkpoint_at and args.log:
    system.fail("a log does not tell of the drain before a checkpoint, so --checkpoint-at takes no --log")
restore = folder(args.restore) if args.restore else None
if restore and not os.path.isdir(restore):
    system.fail(f"there is no checkpoint {restore}; --checkpoint-at writes it, for the same combination")
root = system.build(
    args.memory, args.agents, args.caches, args.prefetch, args.log, args.decisions, restore, args.channels
)
host = root.system.host
until = float(args.checkpoint_at[0]) if args.checkpoint_at else 0.0
figures = host.experiment(args.file, args.point, args.seed, until)
if figures == "":
    m5.checkpoint(folder(args.checkpoint_at[1]))
    # gem5 resumes at its simulate() only, which the host does not call.
    m5.simulate(0)
    figures = host.proceed()
if figures.startswith("error: "):
    system.fail(figures.removeprefix("error: "))
print(figures, end="")
