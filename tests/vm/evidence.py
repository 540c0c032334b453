#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Compares what `scx_drfq evidence` found with the machine's own count:
tests/vm/evidence.py EVIDENCE TRUTH MACHINE [--rows FILE --case MACHINE --commit COMMIT --date DATE]. Rows are those of
docs/results. The first MACHINE is the file that describes the machine, the other one its name.

TRUTH has a line for each 100 ms. A load of the sensors runs alone, so its time is found by the writes of its core's
traffic. Fails if the load's own count or MBM differs by more than 2 %, or m by more than 5 %. Events may count less
than a load moves; below 93 % of it, the summary must say so. Fails, too, if a sensor that the machine has or a
scheduler that can run there gave nothing.
"""

import argparse
import csv
import json
import pathlib
import statistics
import sys
import tomllib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))

from measurements.rows import COLUMNS

# The part of a load's traffic that it writes.
WRITES = {"read": (0, 0.05), "write": (0.45, 0.55), "copy": (0.30, 0.37)}
ALONE = 0.95
# Sets 1 and 4; set 1 has two pairs of weights.
SETS = 3


def moved(core: dict) -> int:
    return core["read_bytes"] + core["write_bytes"]


def rate(lines: list, cpu: int, load: str) -> float:
    """What a core moves while it alone runs this kind of load (bytes per second), the median of its intervals."""
    found = []
    for line in lines:
        own, total = moved(line["cores"][cpu]), sum(map(moved, line["cores"]))
        if own == 0 or own < ALONE * total:
            continue
        low, high = WRITES[load]
        if low <= line["cores"][cpu]["write_bytes"] / own <= high:
            found.append(own / line["interval_ns"] * 1e9)
    if not found:
        sys.exit(f"evidence.py: TRUTH has no interval of 100 ms in which CPU {cpu} runs a {load} load alone")
    # Ticks move a little, and the first touch of a load's memory some: the load itself moves most. The median leaves
    # out the intervals in which it began or ended.
    return statistics.median(one for one in found if one > 0.75 * max(found))


def lacking(evidence: dict, machine: dict) -> list[str]:
    """What the machine has, and the evidence has nothing of."""
    sensors, found = evidence["sensors"], []
    monitors = machine.get("rdt", {}).get("rmids", 0) > 0
    schedulers = ["the kernel's scheduler", "scx_drfq --mba off"]
    if machine.get("rdt", {}).get("mba_closes", 0) > 0:
        schedulers.append("scx_drfq --mba on --entity task")
    by_load = {row["load"]: row for row in sensors["rows"]}
    for load in WRITES:
        keys = {"load_bytes": "own count"} | ({"event_bytes": "events"} if "pmu" in machine else {})
        keys |= {"mbm_bytes": "MBM"} if monitors else {}
        found += [f"{load}: {what}" for key, what in keys.items() if not by_load.get(load, {}).get(key)]
    if monitors and "pmu" in machine and not sensors["factors"]:
        found.append("bytes of an event by MBM")
    for scheduler in schedulers:
        measured = {row["set"] for row in evidence["sets"]["rows"] if row["scheduler"] == scheduler and row["loads"]}
        found += [f"{SETS - len(measured)} sets under {scheduler}"] if len(measured) < SETS else []
    for row in evidence["sets"]["rows"]:
        idle = sum(got["dominant_share"] <= 0 for got in row["loads"])
        found += [f"{idle} loads of {row['set']} under {row['scheduler']}"] if idle else []
    return found


def rows(evidence: dict, errors: dict, m: float) -> list[tuple]:
    """What, variant, unit, value and expected value of each row of docs/results."""
    found = [(f"error of {what}: {load}", "", "% of what it moved", value, 0) for (load, what), value in errors.items()]
    found.append(("error of m", "", "%", m, 0))
    for row in evidence["sets"]["rows"]:
        if row["spread"] is not None:
            found.append((f"{row['set']}: dominant shares", row["scheduler"], "% apart", 100 * row["spread"], 0))
        found.append((f"{row['set']}: total", row["scheduler"], "% of m", 100 * row["part_of_m"], ""))
    return found


def write_rows(args: argparse.Namespace, found: list[tuple]) -> None:
    """Appends the rows to a file in the form of docs/results/data."""
    new = not args.rows.exists()
    with args.rows.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="", lineterminator="\n")
        if new:
            writer.writeheader()
        for what, variant, unit, value, expected in found:
            writer.writerow(
                {
                    "series": "evidence",
                    "case": args.case,
                    "what": what,
                    "variant": variant,
                    "unit": unit,
                    "value": round(value, 2),
                    "statistic": "single",
                    "n": 1,
                    "expected": expected,
                    "commit": args.commit,
                    "date": args.date,
                }
            )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("evidence", type=pathlib.Path)
    parser.add_argument("truth", type=pathlib.Path)
    parser.add_argument("machine", type=pathlib.Path)
    parser.add_argument("--rows", type=pathlib.Path)
    for name in ("--case", "--commit", "--date"):
        parser.add_argument(name, default="")
    args = parser.parse_args()
    text = args.evidence.read_text(encoding="utf-8")
    evidence = json.loads(text[text.index("{") :])
    lines = [json.loads(line) for line in args.truth.read_text(encoding="utf-8").splitlines()]
    lines = [line for line in lines if line["interval_ns"] > 50e6]
    nothing = lacking(evidence, tomllib.loads(args.machine.read_text(encoding="utf-8")))
    for what in nothing:
        print(f"FAILED: the evidence has nothing of this: {what}")
    errors = {}
    factors = {factor["event"]: factor["bytes"] for factor in evidence["sensors"]["factors"]}
    for row in evidence["sensors"]["rows"]:
        true = rate(lines, row["cpu"], row["load"])
        for what, key in (("the load's own count", "load_bytes"), ("events", "event_bytes"), ("MBM", "mbm_bytes")):
            if row[key] is not None:
                errors[row["load"], what] = 100 * (row[key] / row["seconds"] / true - 1)
        if factors:
            fitted = sum(factors[event] * count for event, count in row["counts"])
            errors[row["load"], "events by MBM's factors"] = 100 * (fitted / row["seconds"] / true - 1)
    for (load, what), value in errors.items():
        print(f"{load}: {what}: {value:+.2f} %")
    totals = sorted((sum(map(moved, line["cores"])) / line["interval_ns"] * 1e9 for line in lines), reverse=True)
    m = 100 * (evidence["calibration"]["bytes_per_s"] / statistics.median(totals[:3]) - 1)
    print(f"m: {m:+.2f} %")
    for sentence in evidence["summary"]:
        print(sentence)
    if args.rows:
        write_rows(args, rows(evidence, errors, m))
    worst = max(abs(value) for (_, what), value in errors.items() if what != "events")
    unsaid = [
        load
        for (load, what), value in errors.items()
        if what == "events"
        and value < -7
        and not any(f"a {load} load" in s and "too little" in s for s in evidence["summary"])
    ]
    return int(worst > 2 or abs(m) > 5 or bool(unsaid) or bool(nothing))


if __name__ == "__main__":
    sys.exit(main())
