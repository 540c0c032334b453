#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A pairwise design: any two settings of the controller's load meet in some row.

usage: pairwise.py [--rows N] [--first N] [--last N] [--seeds N] [--out FILE] COMMAND...

COMMAND is drfq-mc, with words before it if need be. Each row runs under FR-FCFS and under lowest virtual time first
with admission by shares, row preparation and filling. The rows of the result (docs/results/README.md) go to FILE.

An agent is due its weight's part of the total where its demand allows, else its demand beside the others. That demand
is measured: the agent goes strictly first, with fixed virtual times. Beside a device, what the processes can use
together is measured with the device strictly last.

All times of the loop are a 128th of the scheduler's: a register's quantum is 33 us, and an update comes every 7.8 us. A
run of 10 ms has as many quanta as one of 1.3 s.
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
FIGURES = ["total.bytes_per_ns", "read_wait_max_ns", "write_wait_max_ns"]
SHIFT, M_BYTES_PER_NS, DURATION_MS = 15, 4, 10
BASELINE_SEEDS = 2  # FR-FCFS varies by less than 1 % with the seed


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


def agent(name, kind, lines, weight, vtime=1):
    return (
        f'[[agent]]\nname = "{name}"\n{kind}outstanding_lines = {lines}\nweight = {weight}\narray_kib = 4096\n'
        f"vtime = {vtime}\n"
    )


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


def text_of(row, policy, columns, vtimes=None, **times):
    """An experiment. vtimes: the agents' fixed virtual times, without the loop."""
    settings = {"warmup": 1, "duration": DURATION_MS, "seeds": [1], **times}
    text = SHARED.format(
        policy=policy, shift=SHIFT, entries=row["entries"], loop="true" if vtimes is None else "false", **settings
    )
    for i, (kind, lines, weight) in enumerate(agents_of(row)):
        text += agent(f"a{i}", kind, lines, weight, 1 if vtimes is None else vtimes[i])
    return text + REPORT.format(columns=", ".join(f'"{name}"' for name in columns))


def rates(row):
    return [f"a{i}.bytes_per_ns" for i in range(len(agents_of(row)))]


def measure(command, row, policy, seeds):
    """For each seed, the figures and the rates of the agents."""
    names = FIGURES + rates(row)
    runs = []
    for seed in range(1, seeds + 1):
        got = run(command, text_of(row, policy, names, seeds=[seed]))
        runs.append(dict(zip(names, got[-len(names) :], strict=True)))
    return runs


def over(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def demands(command, row):
    """What each agent moves when it goes strictly first (bytes/ns), and all processes when the device goes last."""
    agents, first = agents_of(row), {}
    times = {"warmup": 0.5, "duration": 2}
    for i, (kind, lines, _) in enumerate(agents):
        if (kind, lines) not in first:
            vtimes = [1 if k == i else 2 for k in range(len(agents))]
            first[kind, lines] = run(command, text_of(row, "lvtf", [f"a{i}.bytes_per_ns"], vtimes, **times))[-1]
    together = float("inf")
    if row["device"]:
        vtimes = [1] * (len(agents) - 1) + [2]
        together = sum(run(command, text_of(row, "lvtf", rates(row), vtimes, **times))[-len(agents) : -1])
    return [first[kind, lines] for kind, lines, _ in agents], together


def fill(total, weights, most):
    """Shares by weight, none above its most; if all reach it, the rest is divided by weight."""
    due, open_, left = [0.0] * len(weights), set(range(len(weights))), total
    while open_:
        level = left / sum(weights[i] for i in open_)
        bound = [i for i in open_ if most[i] <= level * weights[i]]
        if not bound or len(bound) == len(open_):
            for i in open_:
                due[i] = level * weights[i]
            return due
        for i in bound:
            due[i] = most[i]
            left -= most[i]
            open_.remove(i)
    return due


def due_of(row, total, most, together):
    """What each agent is due of a total. Beside a device, the processes are due no more than they can use together."""
    weights = [weight for _, _, weight in agents_of(row)]
    due = fill(total, weights, most)
    if row["device"] and sum(due[:-1]) > together:
        return [*fill(together, weights[:-1], most[:-1]), total - together]
    return due


def worst_error(got, due):
    """The largest error of a share, percent."""
    return 100 * max(abs(g / d - 1) for g, d in zip(got, due, strict=True))


def by_weight(row, total):
    weights = [weight for _, _, weight in agents_of(row)]
    return [total * w / sum(weights) for w in weights]


def errors_of(row, got, demand):
    """Over the seeds: the worst error against what demand allows, and against the weights alone."""
    most, together = demand
    # What the processes did move together, they can move.
    able = [max(together, sum(g[:-1])) for g in got]
    due = [worst_error(g, due_of(row, sum(g), most, a)) for g, a in zip(got, able, strict=True)]
    plain = [worst_error(g, by_weight(row, sum(g))) for g in got]
    return over(due), over(plain)


def case_of(row, total, demand):
    """Whether each agent can use its weight's part of the total."""
    due = due_of(row, total, *demand)
    able = all(d >= 0.99 * w for d, w in zip(due, by_weight(row, total), strict=True))
    return "all can use their weight's part" if able else "one cannot use its weight's part"


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


def result_rows(row, runs, demand, baseline, commit):
    totals = over([r["total.bytes_per_ns"] for r in runs])
    due, plain = errors_of(row, [[r[name] for name in rates(row)] for r in runs], demand)
    shown = [
        ("worst share error, %", due),
        ("worst error against weights, %", plain),
        ("one quantum of weight 1, %", dict.fromkeys(totals, quantum_percent(row, totals["median"]))),
        ("total against FR-FCFS, %", {s: 100 * v / baseline for s, v in totals.items()}),
        ("longest wait, us", over([max(r["read_wait_max_ns"], r["write_wait_max_ns"]) / 1e3 for r in runs])),
    ]
    case = case_of(row, totals["median"], demand)
    for variant, v in shown:
        fields = dict.fromkeys(Row.__dataclass_fields__, "")
        fields |= {
            "series": "controller-design", "case": case, "what": what_of(row),
            "variant": variant, "unit": "see column", "value": f"{v['median']:.3g}", "statistic": "median",
            "spread": f"{(v['max'] - v['min']) / 2:.3g}", "spread_kind": "half range",
            "least": f"{v['min']:.3g}", "greatest": f"{v['max']:.3g}", "n": str(len(runs)),
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
        runs = measure(o.command, row, "lvtf", o.seeds)
        base = measure(o.command, row, "frfcfs", min(o.seeds, BASELINE_SEEDS))
        baseline = statistics.median(r["total.bytes_per_ns"] for r in base)
        found = list(result_rows(row, runs, demands(o.command, row), baseline, commit))
        rows += found
        write_rows(o.out, rows)
        print(
            f"{i + 1} of {o.rows}: {what_of(row)}: {found[0].value} %, against weights {found[1].value} %",
            file=sys.stderr,
        )


if __name__ == "__main__":
    main()
