# SPDX-License-Identifier: GPL-2.0-only
"""Prints how two mbw shared memory, from the ground truth of tests/vm/guest/mbw.py: mbw_shares.py FILE."""

import json
import statistics
import sys

WEIGHTS = ((1, 1), (1, 2), (2, 3), (3, 4))
MODES = ("labels at each switch", "labels copied")
WINDOWS = 5


def ratio(line):
    """The traffic of core 2 by that of core 1."""
    light, heavy = (line["cores"][cpu]["read_bytes"] + line["cores"][cpu]["write_bytes"] for cpu in (1, 2))
    return heavy / light


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    assert len(lines) >= len(MODES) * len(WEIGHTS) * (WINDOWS + 1), f"{len(lines)} lines of ground truth"
    for mode in MODES:
        for light, heavy in WEIGHTS:
            windows, lines = lines[1 : WINDOWS + 1], lines[WINDOWS + 1 :]
            errors = [100 * (ratio(line) * light / heavy - 1) for line in windows]
            total = statistics.median(
                sum(core["read_bytes"] + core["write_bytes"] for core in line["cores"]) / line["interval_ns"]
                for line in windows
            )
            print(
                f"{mode}, weights {light}:{heavy}: error of the ratio {statistics.median(errors):+.2f} % "
                f"(n = {len(errors)}, {min(errors):+.2f} to {max(errors):+.2f}), total {total:.4f} bytes/ns"
            )


main()
