# SPDX-License-Identifier: GPL-2.0-only
"""Compares what tests/vm/guest/missed.py says was charged with the modelled machine's own account:
missed.py LOG TRUTH ROWS COMMIT DATE

Exit status 1 if the median of a program's charges is more than CHARGE_PCT off, or more than what docs/results reports
as missed.
"""

import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import resctrl
from measurements.json_lines import json_lines
from measurements.rows import median_row, write_rows

# A part of what events miss that is smaller than this is not charged (LEAST_PART in missed.rs).
CHARGE_PCT = 5
# What is known to be off by more: the controller counts lines of fdtd for the chaser, which evicts them.
MISSED = {("fdtd", "chase"): 20, ("chase", "fdtd"): 31}
NAMES = {"fdtd": "fdtd", "fio": "a reader of the disk", "mbw": "mbw", "chase": "a pointer chaser"}


def moved(line, name, rmid):
    """What a program moved (bytes). The device counts no ids, and only fio uses it."""
    return resctrl.traffic(line, rmid) + (line["device"]["to_memory_bytes"] if name == "fio" else 0)


def main(log, truth, rows_path, commit, date):
    lines, rows, missed = json_lines(truth), [], []
    for run in (line for line in json_lines(log) if "charged" in line):
        windows = lines[1 : len(run["charged"]) + 1]
        lines = lines[len(windows) + 1 :]
        for i, (name, rmid) in enumerate(zip(run["case"], run["rmids"])):
            true = [moved(line, name, rmid) for line in windows]
            off = [100 * (told[i] / bytes_ - 1) for told, bytes_ in zip(run["charged"], true)]
            names = [name, *(other for other in run["case"] if other != name)]
            case = " beside ".join(NAMES[each] for each in names)
            about = {"series": "missed", "case": case, "commit": commit, "date": date}
            rates = [1e3 * bytes_ / line["interval_ns"] for bytes_, line in zip(true, windows)]
            rows.append(median_row(rates, 1, **about, what="moved", unit="MB/s"))
            verdict = "ok" if abs(statistics.median(off)) <= CHARGE_PCT else "failed"
            judged = {"expected": "0", "at_most": str(CHARGE_PCT), "verdict": verdict}
            rows.append(median_row(off, 1, **about, **judged, what="error of the charge", unit="% of what it moved"))
            rate, error = rows[-2:]
            print(f"{case}: {rate.value} MB/s, charge off by {error.value} % ({error.least} to {error.greatest})")
            if abs(statistics.median(off)) > MISSED.get(tuple(names), CHARGE_PCT):
                missed.append(f"{case}: the charge is {error.value} % off")
    write_rows(Path(rows_path), rows)
    sys.exit("\n".join(missed) or None)


main(*sys.argv[1:])
