#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Rows of the pairwise design (pairwise.py) on gem5 and on the model.

usage: pairwise_gem5.py [--row N]... [--draws N] [--duration-ms N] [--out FILE] DRFQ_MC GEM5

GEM5 is the binary. `fill` is off on both, because gem5's DRAM does not tell what fits. A row whose agents are all alike
is symmetric: which of them moves more depends on the draw. It is compared by the mean of 32 draws, and by all agents
together. Any other row is compared by each agent too. The rows of the result (docs/results/README.md) go to FILE.
"""

import argparse
import datetime
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "tools")]
import pairwise  # noqa: E402
from measurements.rows import Row, write_rows  # noqa: E402

ROWS = range(1, 11)
SYMMETRIC_DRAWS = 32


def is_symmetric(row):
    return len(set(pairwise.agents_of(row))) == 1


def text_of(row, seed, duration_ms):
    """The row's experiment under our rules without `fill`."""
    text = pairwise.text_of(row, "lvtf", seed)
    was = f"duration_ms = {pairwise.duration_ms(row)}\n"
    assert "fill = true\n" in text and was in text
    return text.replace("fill = true\n", "fill = false\n").replace(was, f"duration_ms = {duration_ms}\n")


def rates_of(drfq_mc, text, agents, options=()):
    """What each agent moved (bytes/ns)."""
    return pairwise.run([drfq_mc], text, options)[-agents:]


def compare(model, gem5):
    """Both totals, and how the model's differs (%), as does the agent that differs most. Of means over the draws."""
    means = [[statistics.mean(rates) for rates in zip(*draws, strict=True)] for draws in (model, gem5)]
    total = 100 * (sum(means[0]) / sum(means[1]) - 1)
    agents = [100 * (m / g - 1) for m, g in zip(*means, strict=True)]
    return sum(means[0]), sum(means[1]), total, max(agents, key=abs)


def result_rows(row, model, gem5, commit):
    of_model, of_gem5, total, agent = compare(model, gem5)
    shown = [
        ("gem5", "bytes/ns", of_gem5),
        ("model", "bytes/ns", of_model),
        ("model against gem5, total", "%", total),
    ]
    if not is_symmetric(row):
        shown.append(("model against gem5, worst agent", "%", agent))
    for variant, unit, value in shown:
        fields = dict.fromkeys(Row.__dataclass_fields__, "")
        fields |= {
            "series": "gem5-design", "case": pairwise.what_of(row), "what": "total" if unit != "%" else "difference",
            "variant": variant, "unit": unit, "value": f"{value:.4g}" if unit != "%" else f"{value:.2f}",
            "statistic": "mean" if len(gem5) > 1 else "single", "n": str(len(gem5)),
            "commit": commit, "date": datetime.date.today().isoformat(),
        }  # fmt: skip
        yield Row(**fields)


def simulator(gem5, out):
    """The options of drfq-mc run that run an experiment on gem5."""
    config = HERE.parent / "gem5" / "configs" / "experiment.py"
    return ["--simulator", shlex.join([gem5, "-d", out, str(config)])]


def run_row(drfq_mc, gem5, row, draws, duration_ms):
    agents = len(pairwise.agents_of(row))
    rates = {"model": [], "gem5": []}
    with tempfile.TemporaryDirectory() as out:
        for seed in range(1, draws + 1):
            text = text_of(row, seed, duration_ms or pairwise.duration_ms(row))
            rates["model"].append(rates_of(drfq_mc, text, agents))
            rates["gem5"].append(rates_of(drfq_mc, text, agents, simulator(gem5, out)))
    return rates["model"], rates["gem5"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--row", type=int, action="append", help="a row of the design (1 to 10)")
    parser.add_argument("--draws", type=int, default=1, help="of a row that is not symmetric (1)")
    parser.add_argument("--duration-ms", type=int, default=0, help="simulated time of each run (the design's)")
    parser.add_argument("--out", type=Path, default=Path("gem5-design.csv"))
    parser.add_argument("drfq_mc", metavar="DRFQ_MC")
    parser.add_argument("gem5", metavar="GEM5")
    o = parser.parse_args()
    commit = subprocess.run(
        ["git", "-C", HERE, "rev-parse", "--short=7", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()
    rows = []
    for number in o.row or ROWS:
        row = pairwise.design(60)[number - 1]
        draws = SYMMETRIC_DRAWS if is_symmetric(row) else o.draws
        found = list(result_rows(row, *run_row(o.drfq_mc, o.gem5, row, draws, o.duration_ms), commit))
        rows += found
        write_rows(o.out, rows)
        print(
            f"{number}: {pairwise.what_of(row)}: " + ", ".join(f"{r.variant} {r.value}" for r in found), file=sys.stderr
        )


if __name__ == "__main__":
    main()
