#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A pairwise design: any two settings of the controller's load meet in some row.

usage: pairwise.py [--rows N] [--seeds N] [--out FILE] COMMAND...

COMMAND is drfq-mc, with words before it if need be. Each row runs under FR-FCFS and under lowest virtual time first
with admission by shares, row preparation and filling. The rows of the result (docs/results/README.md) go to FILE.

All times of the loop are a 128th of the scheduler's: a register's quantum is 33 us, and an update comes every 7.8 us. A
run of 10 ms has as many quanta as one of 1.3 s.
"""

import argparse
import csv
import datetime
import itertools
import os
import random
import subprocess
import sys
import tempfile

FACTORS = {
    "agents": [2, 3, 4, 8],
    "weight": [1, 2, 4, 8],
    "lines": [1, 4, 8, 32, 64],
    "entries": [32, 64, 128, 256],
    "kind": ["reads", "copies", "random", "mixed"],
    "device": [False, True],
}
KINDS = {
    "reads": ['kind = "stream"\n'],
    "copies": ['kind = "copy"\n'],
    "random": ['kind = "chase"\n'],
    "mixed": ['kind = "copy"\n', 'kind = "chase"\n'],
}
SHARED = """title = "row"
[memory]
cores = 16
read_entries = {entries}
write_entries = {entries}
policy = "{policy}"
admission = "share"
prepare = true
fill = true
[loop]
enabled = {loop}
update_us = 7.8125
shift = {shift}
delta_ms = 0.3125
cap_ms = 0.3125
wake_ms = 0.3125
[run]
warmup_ms = {warmup}
duration_ms = {duration}
window_ms = 1
seeds = {seeds}
"""
REPORT = "[report]\ncolumns = [{columns}]\n"
FIGURES = ["share_error_percent", "total.bytes_per_ns", "read_wait_max_ns", "write_wait_max_ns"]
SHIFT, M_BYTES_PER_NS, DURATION_MS = 15, 4, 10
BASELINE_SEEDS = 2  # FR-FCFS varies by less than 1 % with the seed
STATISTICS = ["median", "min", "max"]


def pairs(row):
    return {frozenset([a, b]) for a, b in itertools.combinations(row.items(), 2)}


def design(count):
    """Rows, each the best of many random ones for the pairs not met yet; once all are met, again from none."""
    rng = random.Random(1)
    every = {
        frozenset([(a, x), (b, y)])
        for a, b in itertools.combinations(FACTORS, 2)
        for x in FACTORS[a]
        for y in FACTORS[b]
    }
    rows, missing = [], set(every)
    while len(rows) < count:
        tries = [{name: rng.choice(values) for name, values in FACTORS.items()} for _ in range(200)]
        best = max((t for t in tries if t not in rows), key=lambda t: len(pairs(t) & missing))
        rows.append(best)
        missing -= pairs(best)
        if not missing:
            missing = set(every)
    return rows


def agent(name, kind, lines, weight):
    return f'[[agent]]\nname = "{name}"\n{kind}outstanding_lines = {lines}\nweight = {weight}\narray_kib = 4096\n'


def agents_of(row):
    """Agents of weight 1 and of the row's weight by turns, and the device."""
    kinds = KINDS[row["kind"]]
    text = [(kinds[i // 2 % len(kinds)], row["lines"], row["weight"] if i % 2 else 1) for i in range(row["agents"])]
    if row["device"]:
        text.append(('kind = "dma"\n', 32, 1))
    return text


def run(command, text):
    """The table that drfq-mc prints, as lists of cells without the settings."""
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "row.toml")
        with open(path, "w", encoding="ascii") as f:
            f.write(text)
        out = subprocess.run([*command, "run", path], check=True, capture_output=True, text=True).stdout
    lines = [line.strip("| ").split(" | ") for line in out.splitlines() if line.startswith("| ")]
    return [float(c) for c in lines[1]]


def alone(command, row, found):
    """Bandwidth of each agent of a row alone (bytes/ns). found: keeps what was measured."""
    result = []
    for kind, lines, _ in agents_of(row):
        key = (kind, lines, row["entries"])
        if key not in found:
            text = SHARED.format(
                policy="lvtf", shift=SHIFT, entries=row["entries"], loop="false", warmup=0.2, duration=1, seeds=[1]
            )
            text += agent("a", kind, lines, 1) + REPORT.format(columns='"a.bytes_per_ns"')
            found[key] = run(command, text)[-1]
        result.append(found[key])
    return result


def measure(command, row, policy, seeds):
    names = [f"{figure}@{statistic}" for figure in FIGURES for statistic in STATISTICS]
    seeds = list(range(1, seeds + 1))
    text = SHARED.format(
        policy=policy, shift=SHIFT, entries=row["entries"], loop="true", warmup=1, duration=DURATION_MS, seeds=seeds
    )
    for i, (kind, lines, weight) in enumerate(agents_of(row)):
        text += agent(f"a{i}", kind, lines, weight)
    text += REPORT.format(columns=", ".join(f'"{n}"' for n in names))
    return dict(zip(names, run(command, text)[-len(names) :], strict=True))


def case_of(command, row, total, found):
    """Whether each agent can use what is due to it."""
    agents = agents_of(row)
    weights = sum(weight for _, _, weight in agents)
    able = all(a >= total * w / weights for a, (_, _, w) in zip(alone(command, row, found), agents, strict=True))
    return "all can use their due share" if able else "one cannot use its due share"


def what_of(row):
    device = ", device" if row["device"] else ""
    return (
        f"{row['agents']} {row['kind']} of {row['lines']} lines, weights 1:{row['weight']}, "
        f"queues of {row['entries']}{device}"
    )


def quantum_percent(row, total):
    """A register's quantum of memory time against what is due to weight 1 in a run: how fine a share can be."""
    weights = sum(weight for _, _, weight in agents_of(row))
    return 100 * (1 << SHIFT) * M_BYTES_PER_NS * weights / (total * DURATION_MS * 1e6)


def result_rows(row, case, got, baseline, seeds, commit):
    waits = {s: max(got[f"{q}_wait_max_ns@{s}"] for q in ("read", "write")) / 1e3 for s in STATISTICS}
    shown = [
        ("worst share error, %", {s: got[f"share_error_percent@{s}"] for s in STATISTICS}),
        (
            "one quantum of weight 1, %",
            dict.fromkeys(STATISTICS, quantum_percent(row, got["total.bytes_per_ns@median"])),
        ),
        ("total against FR-FCFS, %", {s: 100 * got[f"total.bytes_per_ns@{s}"] / baseline for s in STATISTICS}),
        ("longest wait, us", waits),
    ]
    for variant, v in shown:
        yield {
            "series": "controller-design", "case": case, "what": what_of(row), "variant": variant,
            "unit": "see column", "value": f"{v['median']:.3g}", "statistic": "median",
            "spread": f"{(v['max'] - v['min']) / 2:.3g}", "spread_kind": "half range",
            "least": f"{v['min']:.3g}", "greatest": f"{v['max']:.3g}", "n": seeds,
            "commit": commit, "date": datetime.date.today().isoformat(),
        }  # fmt: skip


COLUMNS = [
    "series",
    "case",
    "what",
    "variant",
    "unit",
    "value",
    "statistic",
    "spread",
    "spread_kind",
    "least",
    "greatest",
    "n",
    "expected",
    "at_most",
    "error_median_pct",
    "error_worst_pct",
    "verdict",
    "commit",
    "date",
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--rows", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--out", default="controller-design.csv")
    parser.add_argument("command", nargs="+", metavar="COMMAND")
    o = parser.parse_args()
    here = os.path.dirname(os.path.abspath(__file__))
    commit = subprocess.run(
        ["git", "-C", here, "rev-parse", "--short=7", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()
    with open(o.out, "w", encoding="ascii", newline="") as f:
        writer = csv.DictWriter(f, COLUMNS, restval="", lineterminator="\n")
        writer.writeheader()
        found = {}
        for i, row in enumerate(design(o.rows)):
            got = measure(o.command, row, "lvtf", o.seeds)
            total = "total.bytes_per_ns@median"
            baseline = measure(o.command, row, "frfcfs", min(o.seeds, BASELINE_SEEDS))[total]
            case = case_of(o.command, row, got[total], found)
            writer.writerows(result_rows(row, case, got, baseline, o.seeds, commit))
            f.flush()
            print(f"{i + 1} of {o.rows}: {what_of(row)}: {got['share_error_percent@median']:.2f} %", file=sys.stderr)


if __name__ == "__main__":
    main()
