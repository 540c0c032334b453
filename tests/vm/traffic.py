#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Compares what the scheduler charged, as tests/vm/guest/traffic.py printed it, with the machine's own count.

    tests/vm/traffic.py LOG TRUTH [--within PERCENT] [--turns PERCENT] [--equal PERCENT] [--except OP]

The machine counts what each monitoring id read and wrote; a machine without ids counts that for each core. Prints a
line for each task, and the dominant share of mbw and of the tasks beside it. Fails if the charge of a stream or of mbw
is off by more than the first PERCENT, that of streams that take turns on a CPU by more than the second, mbw's share by
more than the third, or if a counter was read in vain. OP of a stream is not judged.
"""

import argparse
import json
import math
import pathlib
import sys

M_BYTES_PER_S = 266_666_667
CPUS = 4


def moved(line: dict, name: str, rmid: int | None) -> int:
    """The bytes that the task of this name read and wrote."""
    if rmid is None:
        row = line["cores"][int(name.split("@")[1])]
    else:
        row = next((row for row in line["rmids"] if row["rmid"] == rmid), {"read_bytes": 0, "write_bytes": 0})
    return row["read_bytes"] + row["write_bytes"]


def judge(row: dict, line: dict, args: argparse.Namespace) -> list[str]:
    """Prints what one load did. Returns what is off."""
    failures, turns = [], row.get("turns", {})
    within = args.turns if turns else args.within
    true = {name: moved(line, name, rmid) for name, rmid in row["rmids"].items()}
    for name, bytes_ in true.items():
        charged = row["tasks"][name]["charged_bytes"]
        error = 100 * (charged / bytes_ - 1) if bytes_ else math.inf
        rate = bytes_ / line["interval_ns"] * 1e3
        turn = f" in turns of {row['tasks'][name]['cpu_ns'] / turns[name] / 1e6:.2f} ms" if turns else ""
        print(f"{row['load']}: {name} moved {rate:.1f} MB/s{turn}, its charge is off by {error:+.2f} %")
        judged = "@" in name or name == "mbw"
        if judged and abs(error) > within and name.split("@")[0] not in args.excepted:
            failures.append(f"{name} was charged {error:+.2f} % too much, not within {within} %")
    if "mbw" in true:
        failures += judge_shares(row, line, true, args)
    return failures


def judge_shares(row: dict, line: dict, true: dict, args: argparse.Namespace) -> list[str]:
    """Prints each dominant share against the mean of those without mbw. Returns what is off."""
    shares = {}
    for name, task in row["tasks"].items():
        memory = true[name] / line["interval_ns"] * 1e9 / M_BYTES_PER_S
        shares[name] = 100 * max(memory, task["cpu_ns"] / row["ns"] / CPUS)
    mbw = shares.pop("mbw")
    others = sum(shares.values()) / len(shares)
    apart = 100 * (mbw / others - 1)
    print(
        f"dominant shares: mbw's {mbw:.2f} %, the others' {others:.2f} % ({min(shares.values()):.2f} to "
        f"{max(shares.values()):.2f}): {apart:+.2f} % apart"
    )
    failures = []
    for name, share in {"mbw": mbw, **shares}.items():
        off = 100 * (share / others - 1)
        if abs(off) > args.equal:
            failures.append(f"{name}'s share is {off:+.2f} % off, not within {args.equal} %")
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", type=pathlib.Path)
    parser.add_argument("truth", type=pathlib.Path)
    parser.add_argument("--within", type=float, default=math.inf)
    parser.add_argument("--turns", type=float, default=math.inf)
    parser.add_argument("--equal", type=float, default=math.inf)
    parser.add_argument("--except", dest="excepted", action="append", default=[])
    args = parser.parse_args()
    rows = [json.loads(line) for line in args.log.read_text(encoding="utf-8").splitlines() if line.startswith("{")]
    # Two lines of ground truth for each load, and the machine's last one.
    lines = [json.loads(line) for line in args.truth.read_text(encoding="utf-8").splitlines()]
    loads, system = rows[:-1], rows[-1]
    assert len(lines) >= 2 * len(loads), f"{len(lines)} lines of ground truth for {len(loads)} loads"
    failures = []
    for row, line in zip(loads, lines[1::2]):
        failures += judge(row, line, args)
    print(system["mem_source"])
    if system["pmu_read_errors"] or system["pmu_multiplexed"]:
        failures.append(f"counters were read in vain or multiplexed: {system}")
    for failure in failures:
        print(f"FAILED: {failure}")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
