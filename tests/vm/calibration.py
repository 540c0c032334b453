#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Compares a calibration with the machine's own count: tests/vm/calibration.py MEASURED TRUTH [--within PERCENT].

MEASURED is the output of tests/vm/guest/calibrate.py. The truth of m is the largest traffic of all cores in any
interval of ground truth, which is 100 ms. Fails if the calibration differs by more than PERCENT.
"""

import argparse
import json
import math
import pathlib
import statistics
import sys


def total(line: dict) -> float:
    """Bytes per second that all cores moved."""
    return sum(core["read_bytes"] + core["write_bytes"] for core in line["cores"]) / line["interval_ns"] * 1e9


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measured", type=pathlib.Path)
    parser.add_argument("truth", type=pathlib.Path)
    parser.add_argument("--within", type=float, default=math.inf)
    args = parser.parse_args()
    text = args.measured.read_text(encoding="utf-8").splitlines()
    found = json.loads(next(line for line in text if line.startswith("{")))
    lines = [json.loads(line) for line in args.truth.read_text(encoding="utf-8").splitlines()]
    # Several intervals of the best load, so that no single burst counts.
    rates = sorted((total(line) for line in lines if line["interval_ns"] > 50e6), reverse=True)
    true = statistics.median(rates[:3])
    m, estimate = found["calibration"]["bytes_per_s"], found["estimate"]
    error = 100 * (m / true - 1)
    print(f"m: calibrated {m / 1e6:.1f} MB/s, counted {true / 1e6:.1f} MB/s: off by {error:+.2f} %")
    print(f"the estimate {estimate / 1e6:.1f} MB/s is off by {100 * (estimate / true - 1):+.2f} %")
    for domain in found["calibration"]["domains"]:
        print(json.dumps(domain))
    return int(abs(error) > args.within)


if __name__ == "__main__":
    sys.exit(main())
