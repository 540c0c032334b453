# SPDX-License-Identifier: GPL-2.0-only
"""Prints how two mbw shared memory, from the ground truth of tests/vm/guest/mbw.py, and writes rows of docs/results:
mbw_shares.py TRUTH ROWS COMMIT DATE.
"""

import json
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from measurements.rows import median_row, write_rows

WEIGHTS = ((1, 1), (1, 2), (2, 3), (3, 4))
MODES = ("labels at each switch", "labels copied")
WINDOWS = 5


def ratio(line):
    """The traffic of core 2 by that of core 1."""
    light, heavy = (line["cores"][cpu]["read_bytes"] + line["cores"][cpu]["write_bytes"] for cpu in (1, 2))
    return heavy / light


def main():
    truth, rows_file, commit, date = sys.argv[1:]
    rows = []
    with open(truth, encoding="utf-8") as file:
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
            about = {"series": "mbw", "case": "two mbw", "what": f"{light}:{heavy}", "variant": mode, "unit": "%"}
            rows.append(median_row(errors, **about, expected="0", commit=commit, date=date))
    write_rows(Path(rows_file), rows)


main()
