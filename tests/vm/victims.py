# SPDX-License-Identifier: GPL-2.0-only
"""Judges what tests/vm/guest/victims.py measured, by the modelled machine's own account.

victims.py limits DIR BOOT               prints VICTIM:HOGS:RATE for each case: what a hog may move if memory is shared
                                         fairly (bytes/s)
victims.py report DIR ROWS COMMIT DATE   prints the figures, and writes rows of docs/results; fails if scx_drfq with
                                         throttling slows a victim down by more than is allowed

DIR has NAME.json and NAME.truth of each boot NAME.
"""

import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from measurements.json_lines import json_lines
from measurements.rows import COLUMNS, Row, write_rows

# The boots, and what their variants are called. The reference comes before those that are held against it.
BOOTS = {
    "eevdf": "EEVDF",
    "limited": "EEVDF, hogs limited to their fair shares",
    "default": "scx_drfq",
    "mba": "scx_drfq --mba on --entity task",
}
JUDGED = "mba"
TITLES = {"chase": "a pointer chaser", "lbm": "lbm"}
# What a slowdown may be beyond what a fair share allows.
ALLOWED = 1.03


def rates(look, line):
    """Bytes/ns of all tasks, and of a hog."""
    late = line["interval_ns"] / look["measured_ns"] - 1
    # The victim frees its memory before it tells the end. Only the rates have that error.
    assert abs(late) < 0.08, f"{look}: the interval is {100 * late:.1f} % longer than what it covers"
    # A victim alone has moved all of it by the end.
    took = line["interval_ns"] if look["hogs"] else look["measured_ns"]
    cores = [(core["read_bytes"] + core["write_bytes"]) / took for core in line["cores"]]
    return sum(cores), statistics.mean(cores[1 : 1 + look["hogs"]] or [0])


def measured(directory, boot):
    """The runs of a boot by case (victim, hogs): time (ns), bytes/ns of all tasks and of a hog, and the limit."""
    files = directory / f"{boot}.json", directory / f"{boot}.truth"
    looks, truth = (json_lines(path) if path.exists() else [] for path in files)
    assert len(truth) >= len(looks), f"{boot}: {len(looks)} looks, {len(truth)} lines of ground truth"
    found = {}
    for look, line in zip(looks, truth):
        if "measured_ns" in look:
            runs = found.setdefault((look["victim"], look["hogs"]), [])
            runs.append((look["measured_ns"], *rates(look, line), look["rate"] / 1e9))
    return found


def column(runs, number):
    return [run[number] for run in runs]


def fair_part(total, demand, hogs):
    """What each of some hogs gets of a total by max-min with equal weights, beside a victim of this demand."""
    return max(total / (hogs + 1), (total - demand) / hogs)


def limits(directory, boot):
    runs = measured(directory, boot)
    for (victim, hogs), own in runs.items():
        if hogs:
            demand = statistics.median(column(runs[victim, 0], 1))
            total = statistics.median(column(own, 1))
            print(f"{victim}:{hogs}:{1e9 * fair_part(total, demand, hogs):.0f}")


class Report:
    """Rows of docs/results, printed as they are made."""

    def __init__(self, provenance):
        self.provenance = provenance
        self.rows = []
        self.missed = []

    def add(self, case, variant, what, unit, values, expected=None, at_most=None):
        value = statistics.median(values)
        row = dict.fromkeys(COLUMNS, "") | {"series": "victims", "case": case, "what": what, "variant": variant}
        row |= {"unit": unit, "value": f"{value:.3f}", "n": str(len(values)), "statistic": "single"} | self.provenance
        if len(values) > 1:
            row |= {"statistic": "median", "least": f"{min(values):.3f}", "greatest": f"{max(values):.3f}"}
        if expected:
            row |= {"expected": f"{expected:.3f}"}
        if at_most:
            row |= {"at_most": f"{at_most:.3f}", "verdict": "ok" if value <= at_most else "failed"}
        self.rows.append(Row(**row))
        spread = f" ({min(values):.3f} to {max(values):.3f}, n = {len(values)})"
        print(f"{case}, {variant}: {what} {value:.3f} {unit}{spread} {row['verdict']}".rstrip())
        return row["verdict"]


def report(directory, provenance):
    out = Report(provenance)
    boots = {boot: measured(directory, boot) for boot in BOOTS}
    alone = {victim: statistics.median(column(runs, 0)) for (victim, hogs), runs in boots["eevdf"].items() if not hogs}
    allowed = {}
    for boot, cases in boots.items():
        for (victim, hogs), runs in cases.items():
            case = f"{TITLES[victim]} beside {hogs} {'hog' if hogs == 1 else 'hogs'}" if hogs else TITLES[victim]
            slowdowns = [time / alone[victim] for time in column(runs, 0)]
            if boot == "limited":
                allowed[victim, hogs] = statistics.median(slowdowns)
            reference = allowed.get((victim, hogs))
            verdict = out.add(
                *(case, BOOTS[boot], "slowdown", "x", slowdowns),
                at_most=ALLOWED * reference if boot == JUDGED and reference else None,
            )
            if verdict == "failed":
                out.missed.append(case)
            if reference and boot not in ("eevdf", "limited"):
                parts = [slowdown / reference for slowdown in slowdowns]
                out.add(case, BOOTS[boot], "slowdown by what a fair share allows", "x", parts)
            out.add(case, BOOTS[boot], "total", "bytes/ns", column(runs, 1))
            if hogs:
                out.add(case, BOOTS[boot], "a hog", "bytes/ns", column(runs, 2), expected=runs[0][3])
    return out


def main():
    mode, directory, *words = sys.argv[1:]
    if mode == "limits":
        limits(Path(directory), *words)
        return 0
    rows_file, commit, date = words
    out = report(Path(directory), {"commit": commit, "date": date})
    write_rows(Path(rows_file), out.rows)
    for case in out.missed:
        print(f"FAILED: {case}: slower than {ALLOWED} times what a fair share allows")
    return int(bool(out.missed))


if __name__ == "__main__":
    sys.exit(main())
