# SPDX-License-Identifier: GPL-2.0-only
"""Judges what tests/vm/guest/network.py measured, by the counters of the network cards.

network.py MEASURED KERNEL [ROWS COMMIT DATE]    writes rows of docs/results, if it is told where
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from measurements.json_lines import json_lines
from measurements.rows import median_row, write_rows

# Of what the cards moved, at most.
WRONG_PCT = 2
UNOWNED_PCT = 1


def judge(row):
    """Parts of what the cards moved (%): charged to the wrong task; charged to no task."""
    moved = sum(row["cards"].values())
    wrong = row["idle"] + sum(abs(row["charged"][card] - bytes_) for card, bytes_ in row["cards"].items())
    unowned = row["net_bytes"] - row["net_charged_bytes"]
    print(f"{row['case']}: cards {row['cards']}, charged {row['charged']}, without an owner {unowned}")
    return 100 * wrong / moved, 100 * abs(unowned) / moved


def main():
    measured, kernel, *to = sys.argv[1:]
    rows, failed = [], []
    found = json_lines(measured)
    assert len(found) == 9, f"{len(found)} cases"
    *crossing, loopback = found
    # The neighbour discovery of the kernel is all that crosses the cable meanwhile.
    if sum(loopback["charged"].values()) >= 10_000:
        failed.append(f"loopback: {loopback}")
    for row in crossing:
        wrong, unowned = judge(row)
        if wrong > WRONG_PCT or unowned > UNOWNED_PCT:
            failed.append(row["case"])
        if to:
            about = {"series": "network-charge", "case": kernel, "what": row["case"]}
            about |= {"unit": "% of what the cards moved", "expected": "0", "commit": to[1], "date": to[2]}
            rows.append(median_row([wrong], variant="charged wrong", **about))
            rows.append(median_row([unowned], variant="without an owner", **about))
    if to:
        write_rows(Path(to[0]), rows)
    assert not failed, f"charged wrong: {failed}"


main()
