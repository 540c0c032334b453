#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A pairwise design: any two settings of the controller's load meet in some row.

usage: pairwise.py [--rows N] [--first N] [--last N] [--seeds N] [--out FILE] COMMAND...

COMMAND is drfq-mc, with words before it if need be. Each row runs under FR-FCFS and under lowest virtual time first
with the options that are recommended for throughput: admission by shares, row preparation, filling, batches of writes,
least runs of RUN_BURSTS, and runs of TIE_BURSTS, at most half a queue, while virtual times tie. The rows of the result
(docs/results/README.md) go to FILE.

Shares are held against weighted max-min fairness: no agent could move more without taking from one that moves no more
for its weight. Agents that move alike for their weights form a level. Each level but the last has a run in which it and
those before it go strictly first, by fixed virtual times, and the loop orders the others. A level that moves at least
its weight's part of itself and the next one there joins that one: it could have its part. The error of a level is what
it moves more there. Within a level, the error of an agent is its distance from its weight's part.

The total is held against FR-FCFS with each agent limited to what it moved under our rules, times the quotient of the
bandwidth that both had: to the part of FR-FCFS' bandwidth that it is due.

Times of the loop are a 128th of the scheduler's: a register's quantum is 33 us, and an update comes every 7.8 us. The
slack and the lead of bpf/drfq.h (DRFQ_BUS_SLACK_NS, DRFQ_BUS_LEAD_NS) are the scheduler's. A run takes at least 40 ms,
as many quanta as 5 s, and 4 ms for each weight: what a quantum is of the due of weight 1 decides how fine a share can
be.
"""

import argparse
import datetime
import itertools
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from measurements.rows import Row, write_rows

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
batch = true
run_bursts = {run_bursts}
tie_bursts = {tie_bursts}
[loop]
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
FIGURES = ["total.bytes_per_ns", "read_wait_max_ns", "write_wait_max_ns"]
SERIES = "controller-design"
RUN_BURSTS = 8
TIE_BURSTS = 32
SHIFT, M_BYTES_PER_NS = 15, 4
DURATION_MS, WEIGHT_MS = 40, 4
BASELINE_SEEDS = 2  # FR-FCFS varies by less than 1 % with the seed
LEVEL = 0.01  # what moves less than this more for its weight is alike, or less than a register's quantum


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


def agent(name, kind, lines, weight, vtime, bytes_per_s):
    fixed = f"vtime = {vtime}\n" if vtime else ""
    return (
        f'[[agent]]\nname = "{name}"\n{kind}outstanding_lines = {lines}\nweight = {weight}\narray_kib = 4096\n'
        f"{fixed}bytes_per_s = {bytes_per_s}\n"
    )


def agents_of(row):
    """Agents of weight 1 and of the row's weight by turns, and the device."""
    kinds = KINDS[row["kind"]]
    text = [(kinds[i // 2 % len(kinds)], row["lines"], row["weight"] if i % 2 else 1) for i in range(row["agents"])]
    if row["device"]:
        text.append(('kind = "dma"\n', 32, 1))
    return text


def run(command, text, options=()):
    """The table that drfq-mc prints, as lists of cells without the settings. options: of its `run`."""
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "row.toml")
        with open(path, "w", encoding="ascii") as f:
            f.write(text)
        out = subprocess.run([*command, "run", *options, path], check=True, capture_output=True, text=True).stdout
    lines = [line.strip("| ").split(" | ") for line in out.splitlines() if line.startswith("| ")]
    return [float(c) for c in lines[1]]


def text_of(row, policy, seed, vtimes=None, limits=None):
    """An experiment. vtimes: fixed virtual times, by agent, beside the loop; limits: the agents' rates (bytes/ns)."""
    text = SHARED.format(
        policy=policy, shift=SHIFT, entries=row["entries"], warmup=1, duration=duration_ms(row), seeds=[seed],
        run_bursts=RUN_BURSTS, tie_bursts=min(TIE_BURSTS, row["entries"] // 2),
    )  # fmt: skip
    for i, (kind, lines, weight) in enumerate(agents_of(row)):
        limit = round(limits[i] * 1e9) if limits else 0
        text += agent(f"a{i}", kind, lines, weight, (vtimes or {}).get(i), limit)
    names = FIGURES + [f"a{i}.bytes_per_ns" for i in range(len(agents_of(row)))]
    return text + REPORT.format(columns=", ".join(f'"{name}"' for name in names))


def measure(command, row, policy, seed, **settings):
    """The figures, and the rates of the agents (bytes/ns)."""
    agents = len(agents_of(row))
    got = run(command, text_of(row, policy, seed, **settings))
    return dict(zip(FIGURES, got[-agents - len(FIGURES) : -agents], strict=True)), got[-agents:]


def weights_of(row):
    return [weight for _, _, weight in agents_of(row)]


def duration_ms(row):
    return max(DURATION_MS, WEIGHT_MS * sum(weights_of(row)))


def quantum(row, total):
    """A register's quantum of memory time, as a part of what is due to weight 1 in a run: how fine a share can be."""
    return (1 << SHIFT) * M_BYTES_PER_NS * sum(weights_of(row)) / (total * duration_ms(row) * 1e6)


def levels_of(rates, weights, alike):
    """Agents by what they move for their weights, least first; those of a level differ by less than a part `alike`."""
    levels = []
    for i in sorted(range(len(rates)), key=lambda i: rates[i] / weights[i]):
        first = levels[-1][0] if levels else i
        if levels and rates[i] / weights[i] <= (1 + alike) * rates[first] / weights[first]:
            levels[-1].append(i)
        else:
            levels.append([i])
    return levels


def worst_error(rates, weights, levels, strict):
    """The worst error of an agent within its level, or of a level but the last against `strict`: what each of them
    moves if it and those before it go first."""
    worst = 0.0
    for level, first in itertools.zip_longest(levels, strict, fillvalue=0):
        moved = sum(rates[i] for i in level)
        if not moved:
            return float("inf")
        part = moved / sum(weights[i] for i in level)
        worst = max([worst, first / moved - 1, *(abs(rates[i] / (part * weights[i]) - 1) for i in level)])
    return worst


def joined(levels, rates, weights, strict):
    """The levels with the first one that could have its weight's part of itself and the next joined to that; none if
    there is none. strict: as of worst_error."""
    for k, (level, after) in enumerate(itertools.pairwise(levels)):
        both = level + after
        part = sum(rates[i] for i in both) / sum(weights[i] for i in both)
        if strict[k] >= part * sum(weights[i] for i in level):
            return [*levels[:k], both, *levels[k + 2 :]]
    return None


def moved_first(command, row, seed, levels):
    """What the last of the levels moves (bytes/ns) if they go strictly one after another, before the agents of none."""
    vtimes = {i: k + 1 for k, level in enumerate(levels) for i in level}
    got = measure(command, row, "lvtf", seed, vtimes=vtimes)[1]
    return sum(got[i] for i in levels[-1])


def max_min_error(command, row, seed, rates):
    """The worst error against weighted max-min fairness, and the number of levels."""
    weights = weights_of(row)
    levels = levels_of(rates, weights, max(LEVEL, quantum(row, sum(rates))))
    while True:
        strict = [moved_first(command, row, seed, levels[: k + 1]) for k in range(len(levels) - 1)]
        fewer = joined(levels, rates, weights, strict)
        if fewer is None:
            return worst_error(rates, weights, levels, strict), len(levels)
        levels = fewer


def against_baseline(command, row, seed, rates):
    """The total against FR-FCFS', free and with each agent limited to its part."""
    free = measure(command, row, "frfcfs", seed)[0]["total.bytes_per_ns"]
    limits = [rate * free / sum(rates) for rate in rates]
    limited = measure(command, row, "frfcfs", seed, limits=limits)[0]["total.bytes_per_ns"]
    return sum(rates) / free, sum(rates) / limited


def what_of(row):
    device = ", device" if row["device"] else ""
    return (
        f"{row['agents']} {row['kind']} of {row['lines']} lines, weights 1:{row['weight']}, "
        f"queues of {row['entries']}{device}"
    )


def result_rows(command, row, seeds, commit):
    errors, quanta, waits, free, limited, most_levels = [], [], [], [], [], 1
    for seed in range(1, seeds + 1):
        figures, rates = measure(command, row, "lvtf", seed)
        error, levels = max_min_error(command, row, seed, rates)
        errors.append(round(100 * error, 6))
        most_levels = max(most_levels, levels)
        quanta.append(100 * quantum(row, sum(rates)))
        waits.append(max(figures["read_wait_max_ns"], figures["write_wait_max_ns"]) / 1e3)
        if seed <= BASELINE_SEEDS:
            part = against_baseline(command, row, seed, rates)
            free.append(100 * part[0])
            limited.append(100 * part[1])
    shown = [
        ("worst error, %", errors),
        ("one quantum of weight 1, %", quanta),
        ("total against FR-FCFS, %", free),
        ("total against limited FR-FCFS, %", limited),
        ("longest wait, us", waits),
    ]
    case = "all can use their weight's part" if most_levels == 1 else "some cannot use their weight's part"
    for variant, values in shown:
        fields = dict.fromkeys(Row.__dataclass_fields__, "")
        fields |= {
            "series": SERIES, "case": case, "what": what_of(row),
            "variant": variant, "unit": "see column", "value": f"{statistics.median(values):.3g}",
            "statistic": "median", "spread": f"{(max(values) - min(values)) / 2:.3g}", "spread_kind": "half range",
            "least": f"{min(values):.3g}", "greatest": f"{max(values):.3g}", "n": str(len(values)),
            "commit": commit, "date": datetime.date.today().isoformat(),
        }  # fmt: skip
        yield Row(**fields)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--rows", type=int, default=60)
    parser.add_argument("--first", type=int, default=1, help="begin with this row of the design (1)")
    parser.add_argument("--last", type=int, help="end with this row (the design's last)")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("controller-design.csv"))
    parser.add_argument("command", nargs="+", metavar="COMMAND")
    o = parser.parse_args()
    here = os.path.dirname(os.path.abspath(__file__))
    commit = subprocess.run(
        ["git", "-C", here, "rev-parse", "--short=7", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()
    rows = []
    for i, row in enumerate(design(o.rows)):
        if not o.first <= i + 1 <= (o.last or o.rows):
            continue
        found = list(result_rows(o.command, row, o.seeds, commit))
        rows += found
        write_rows(o.out, rows)
        print(f"{i + 1} of {o.rows}: {what_of(row)}: {found[0].value} %", file=sys.stderr)


if __name__ == "__main__":
    main()
