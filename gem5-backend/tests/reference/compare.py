#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Random traces through drfq-mc and the reference: every decision must be the same.

usage: compare.py DRFQ_MC [TRACES [FIRST_SEED]]
"""

import os
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import reference

# A preset with other values: an entry of several bursts, each of which leaves a gap on the bus.
GAPS = {"groups": 2, "ccd_l": 15000, "ccd_l_wr": 22500}
reference.DRAMS["gaps"] = {**reference.DRAMS["lpddr2-1066-x32"], **GAPS}
TABLES = {name: f'dram = "{name}"\n' for name in ("lpddr2-1066-x32", "ddr4-2400")}
TABLES["gaps"] = 'dram = "lpddr2-1066-x32"\ngroups = 2\ntCCD_L_ns = 15\ntCCD_L_WR_ns = 22.5\n'


def options(rng):
    return dict(
        dram=rng.choice(["lpddr2-1066-x32", "lpddr2-1066-x32", "ddr4-2400", "gaps"]),
        policy=rng.choice(["lvtf", "lvtf", "frfcfs"]),
        entries=rng.choice([8, 16, 32, 128]),
        tie=rng.choice([0, 1, 16, 64]),
        least_run=rng.choice([0, 0, 3, 16]),
        prepare=rng.choice([False, False, True]),
        aging=rng.choice([0, 0, 500000]),
        fill=rng.choice([False, False, True]),
        batch=rng.choice([False, True]),
        admission=rng.choice(["thesis", "share"]),
    )


def memory_table(o):
    return (
        f'[memory]\n{TABLES[o["dram"]]}policy = "{o["policy"]}"\nread_entries = {o["entries"]}\n'
        f"write_entries = {o['entries']}\ntie_bursts = {o['tie']}\nrun_bursts = {o['least_run']}\n"
        f"prepare = {str(o['prepare']).lower()}\n"
        f"fill = {str(o['fill']).lower()}\nbatch = {str(o['batch']).lower()}\n"
        f'aging_ns = {o["aging"] // 1000}\nadmission = "{o["admission"]}"\n'
    )


def trace(rng):
    lines = ["drfq-trace 1"]
    for core in range(4):
        lines.append(f"W 0 {reference.PID_CORE + 8 * core} {rng.choice([0, core + 10, core + 10])}")
    now = 0
    streams = [rng.randrange(1 << 20) * 64 for _ in range(5)]
    pace = rng.choice([2000, 8000, 20000, 60000])
    for _ in range(rng.choice([60, 150, 300])):
        now += rng.randrange(pace)
        if rng.random() < 0.002:
            now += rng.randrange(20000000)
        if rng.random() < 0.08:
            which = rng.choice([reference.VT_CORE + 8 * rng.randrange(5), reference.VT_PID + 8 * rng.randrange(14)])
            lines.append(f"W {now} {which} {rng.randrange(4)}")
            continue
        agent = rng.randrange(5)
        if rng.random() < 0.2:
            streams[agent] = rng.randrange(1 << 20) * 64
        size = rng.choice([64, 64, 64, 32, 128, 100])
        owner = rng.choice([f"c {agent}", f"s {agent + 9}", "s 9000", "-"]) if rng.random() < 0.3 else f"c {agent}"
        lines.append(f"P {now} {rng.choice('RRW')} {streams[agent]} {size} {agent} {owner}")
        streams[agent] += rng.choice([64, 64, 64, 0])
    return "\n".join(lines) + "\n"


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    first = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    decisions = 0
    with tempfile.TemporaryDirectory() as d:
        path, memory, log = (os.path.join(d, n) for n in ("trace", "memory.toml", "log"))
        for seed in range(first, first + count):
            rng = random.Random(seed)
            o, text = options(rng), trace(rng)
            with open(path, "w", encoding="ascii") as f:
                f.write(text)
            with open(memory, "w", encoding="ascii") as f:
                f.write(memory_table(o))
            subprocess.run(
                [sys.argv[1], "replay", "--memory", memory, "--log", log, path], check=True, stdout=subprocess.DEVNULL
            )
            with open(log, encoding="ascii") as f:
                got = f.read().splitlines()
            want = reference.replay(text, **o)
            decisions += len(want)
            if got == want:
                continue
            at = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
            print(f"seed {seed} {o}: decision {at} of {len(want)} differs")
            for i in range(max(0, at - 3), at + 2):
                print("  core     ", got[i] if i < len(got) else "-")
                print("  reference", want[i] if i < len(want) else "-")
            return 1
    print(f"{count} traces, {decisions} decisions, all the same")
    return 0


if __name__ == "__main__":
    sys.exit(main())
