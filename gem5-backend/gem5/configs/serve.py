# SPDX-License-Identifier: GPL-2.0-only
"""Serves the socket protocol (PROTOCOL.md) from gem5. Stops on SIGINT and SIGTERM."""

import argparse
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import system

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--socket", required=True, help="where to listen; the file is private to this user")
parser.add_argument(
    "--free-running",
    type=float,
    metavar="RATE",
    default=0.0,
    help="simulated seconds per second, at most; without it the writer advances time (lock-step)",
)
parser.add_argument("--agents", type=int, default=256, help="demands that can be served at a time (%(default)s)")
parser.add_argument("memory", type=json.loads, help="what `drfq-mc memory [FILE]` prints")
args = parser.parse_args()

error = system.build(args.memory, args.agents).system.host.serve(args.socket, args.free_running)
if error:
    system.fail(error.removeprefix("error: "))
