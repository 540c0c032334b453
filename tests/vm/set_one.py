# SPDX-License-Identifier: GPL-2.0-only
"""Judges what tests/vm/guest/set_one.py left, by the modelled machine's own count of monitoring ids:
set_one.py VARIANT LOG TRUTH [ROWS COMMIT DATE]

The error of a window is the largest one of an mbw's traffic, relative to weighted max-min of what all mbw moved in it.
No mbw takes more than one moves alone. What is charged is compared over all windows of a case, and so is what the
controller counted for the same task: with the truth, and with each other. Exit status 1 if the median of a case misses
its goal, a charge is more than CHARGE_PCT off, or charges and the controller's counts are more than COUNT_PCT apart in
the median of COUNTS at least: of fewer it says nothing. The controller counts a line that is written back for the core
that evicts it, MBM for the line's owner, so one count is up to some percent off.
"""

import json
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from max_min import fill
from measurements.rows import median_row, write_rows

# What runs beside the mbw: the names of rows.
BESIDE = {
    "": "two mbw",
    "spinner": "two mbw and a spinner",
    "2 spinners": "two mbw and two spinners",
    "light": "two mbw and a reader of 0.02 m",
    "sleeper": "two mbw and a sleeper",
    "phases": "two mbw and a task of two phases",
    "crowd": "six mbw",
}

# What an mbw may be charged too much or too little. Copied labels are late.
CHARGE_PCT = {"labels at each switch": 1.5, "labels copied": 4}
# How far what the PMU counts and what the controller counts may be apart in the median. Copied labels are late.
COUNT_PCT = {"labels at each switch": 1, "labels copied": 4}
COUNTS = 9


def read_lines(path):
    return Path(path).read_text(encoding="utf-8").splitlines()


def moved(line, rmids):
    """Bytes of each monitoring id."""
    counts = {row["rmid"]: row["read_bytes"] + row["write_bytes"] for row in line["rmids"]}
    return [counts.get(rmid, 0) for rmid in rmids]


def goal(weights):
    """The largest error that the project wants, %."""
    return 3 if len(weights) == 3 or max(weights) >= 4 * min(weights) else 1


def may_miss(weights):
    """Beside a light mbw, a heavy one takes at most about four times as much, whatever its weight."""
    return len(weights) == 2 and max(weights) > 4 * min(weights)


def errors(weights, windows, demand):
    """The largest relative error in each window, %."""
    out = []
    for line, counts in windows:
        due = fill(weights, [demand * line["interval_ns"]] * len(weights), sum(counts))
        out.append(max(abs(100 * (got / part - 1)) for got, part in zip(counts, due)))
    return out


def percent_off(measured, reference):
    return [100 * (one / other - 1) for one, other in zip(measured, reference)]


class Counts:
    """How far what was counted of each mbw is off, in all cases (%)."""

    # What is compared: the name in the log, or in a row.
    CHARGE, COUNTED, APART = "error of the charge", "error of the controller's count", "charge against that count"

    def __init__(self):
        self.percent = {self.CHARGE: [], self.COUNTED: [], self.APART: []}

    def add(self, run, windows):
        """Takes in a case and prints it."""
        true = [sum(counts) for counts in zip(*(counts for _, counts in windows))]
        found = {
            self.CHARGE: percent_off(run["charged"], true),
            self.COUNTED: percent_off(run["controller"], true),
            self.APART: percent_off(run["charged"], run["controller"]),
        }
        for what, errors_ in found.items():
            print(f"  {what}:", *(f"{error:+.2f} %" for error in errors_))
            self.percent[what] += errors_

    def rows(self, variant, **about):
        for what, found in self.percent.items():
            columns = about | {"unit": "% of what it moved"}
            if what == self.APART:
                columns |= {"unit": "% apart", "at_most": str(COUNT_PCT[variant]), "verdict": self.verdict(variant)}
            yield median_row(found, **columns, case="all", what=what, variant=variant, expected="0")

    def verdict(self, variant):
        """Of charges and the controller's counts."""
        found = self.percent[self.APART]
        if len(found) < COUNTS:
            return ""
        return "ok" if statistics.median(map(abs, found)) <= COUNT_PCT[variant] else "failed"

    def missed(self, variant):
        for what, found in self.percent.items():
            print(f"{what}: {min(found):+.2f} to {max(found):+.2f} %, median {statistics.median(found):+.2f} %")
        if max(map(abs, self.percent[self.CHARGE])) > CHARGE_PCT[variant]:
            yield f"{self.CHARGE}: more than {CHARGE_PCT[variant]} %"
        if self.verdict(variant) == "failed":
            yield f"{self.APART}: more than {COUNT_PCT[variant]} % in the median"


def main():
    variant, log, truth, *publish = sys.argv[1:]
    runs = [json.loads(line) for line in read_lines(log) if line.startswith('{"case"')]
    lines = [json.loads(line) for line in read_lines(truth)]
    commit, date = publish[1:] or ("", "")
    rows, counts, demand, missed = [], Counts(), None, []
    for run in runs:
        windows = [(line, moved(line, run["rmids"])) for line in lines[1 : run["windows"] + 1]]
        lines = lines[run["windows"] + 1 :]
        rates = [[bytes_ / line["interval_ns"] for bytes_ in window] for line, window in windows]
        if run["case"] == "alone":
            demand = max(rate[0] for rate in rates)
            print(f"alone: {demand:.4f} bytes/ns")
            counts.add(run, windows)
            continue
        ratio, _, beside = run["case"].partition("+")
        off = errors(run["weights"], windows, demand)
        total = sum(map(sum, rates)) / len(rates)
        print(f"{run['case']}: worst error {statistics.median(off):.2f} % (to {max(off):.2f}), total {total:.4f}")
        print("  bytes/ns:", *(f"{sum(rate) / len(rates):.4f}" for rate in zip(*rates)))
        counts.add(run, windows)
        verdict = "ok" if statistics.median(off) <= goal(run["weights"]) else "failed"
        if verdict == "failed" and not may_miss(run["weights"]):
            missed.append(f"{run['case']}: {statistics.median(off):.2f} % instead of {goal(run['weights'])} %")
        name = "three mbw" if len(ratio.split(":")) == 3 and not beside else BESIDE[beside]
        about = {"series": "set-one", "case": name, "variant": variant, "commit": commit, "date": date}
        judged = {"expected": "0", "at_most": str(goal(run["weights"])), "verdict": verdict}
        rows.append(median_row(off, **about, **judged, what=ratio, unit="%"))
        # The error is relative to what all moved, so it does not show if that is little.
        totals = [1e3 * sum(rate) for rate in rates]
        rows.append(median_row(totals, **about, what=f"{ratio}: total of all mbw", unit="MB/s"))
    rows += counts.rows(series="set-one", variant=variant, commit=commit, date=date)
    if publish:
        write_rows(Path(publish[0]), rows)
    missed += counts.missed(variant)
    sys.exit("\n".join(missed) or None)


main()
