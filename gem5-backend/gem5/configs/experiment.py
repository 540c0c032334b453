# SPDX-License-Identifier: GPL-2.0-only
"""Runs one combination of an experiment file; `drfq-mc run --simulator` calls it for each (host/simulator.hh)."""

import argparse
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import system

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument(
    "--caches",
    choices=["none", "plain", "labelled"],
    default="none",
    help="put caches before the memory: gem5's own, or those that keep the labels",
)
parser.add_argument("--prefetch", action="store_true", help="with a stride prefetcher in the second level")
parser.add_argument("--log", default="", help="write the decisions to this file (host/DECISIONS.md)")
parser.add_argument("--decisions", type=int, default=100000, help="at most so many (%(default)s)")
parser.add_argument("what", choices=["experiment"])
parser.add_argument("file")
parser.add_argument("point", type=int)
parser.add_argument("seed", type=int)
parser.add_argument("agents", type=int)
parser.add_argument("memory", type=json.loads)
args = parser.parse_args()

root = system.build(args.memory, args.agents, args.caches, args.prefetch, args.log, args.decisions)
figures = root.system.host.experiment(args.file, args.point, args.seed)
if figures.startswith("error: "):
    sys.exit(figures)
print(figures, end="")
