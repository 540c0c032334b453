# SPDX-License-Identifier: GPL-2.0-only
"""Judges what tests/vm/guest/set_one.py left, by the modelled machine's own count of monitoring ids:
set_one.py VARIANT LOG TRUTH [ROWS COMMIT DATE]

The error of a window is the largest one of an mbw's traffic, relative to weighted max-min of what all mbw moved in it.
No mbw takes more than one moves alone. What is charged is compared over all windows of a case. Exit status 1 if the
median of a case misses its goal, or a charge is more than CHARGE_PCT off.
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


def charge_errors(run, windows):
    """How far what each mbw was charged is off, %."""
    true = [sum(counts) for counts in zip(*(counts for _, counts in windows))]
    return [100 * (charge / bytes_ - 1) for charge, bytes_ in zip(run["charged"], true)]


def main():
    variant, log, truth, *publish = sys.argv[1:]
    runs = [json.loads(line) for line in read_lines(log) if line.startswith('{"case"')]
    lines = [json.loads(line) for line in read_lines(truth)]
    commit, date = publish[1:] or ("", "")
    rows, charges, demand, missed = [], [], None, []
    for run in runs:
        windows = [(line, moved(line, run["rmids"])) for line in lines[1 : run["windows"] + 1]]
        lines = lines[run["windows"] + 1 :]
        rates = [[count / line["interval_ns"] for count in counts] for line, counts in windows]
        charges += charge_errors(run, windows)
        if run["case"] == "alone":
            demand = max(rate[0] for rate in rates)
            print(f"alone: {demand:.4f} bytes/ns")
            continue
        ratio, _, beside = run["case"].partition("+")
        off = errors(run["weights"], windows, demand)
        total = sum(map(sum, rates)) / len(rates)
        print(f"{run['case']}: worst error {statistics.median(off):.2f} % (to {max(off):.2f}), total {total:.4f}")
        print("  bytes/ns:", *(f"{sum(rate) / len(rates):.4f}" for rate in zip(*rates)))
        print("  charges off by", *(f"{error:+.2f} %" for error in charge_errors(run, windows)))
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
    print(f"charges are {min(charges):+.2f} to {max(charges):+.2f} % off")
    about = {"series": "set-one", "case": "all", "what": "error of the charge", "variant": variant}
    rows.append(median_row(charges, **about, unit="% of what it moved", expected="0", commit=commit, date=date))
    if publish:
        write_rows(Path(publish[0]), rows)
    if max(map(abs, charges)) > CHARGE_PCT[variant]:
        missed.append(f"a charge is more than {CHARGE_PCT[variant]} % off")
    sys.exit("\n".join(missed) or None)


main()
