# SPDX-License-Identifier: GPL-2.0-only
"""Judges what tests/vm/guest/network.py measured, by the counters of the network cards.

network.py MEASURED KERNEL [ROWS COMMIT DATE]    writes rows of docs/results, if it is told where
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from measurements.json_lines import json_lines
from measurements.rows import median_row, write_rows

# What else crosses the cable: how the kernel finds neighbours, and how it opens and closes a connection (bytes).
OTHERS_BYTES = 5000
# A card counts the tag of a VLAN, which no packet has any more at its socket: these bytes of a frame of that length,
# and of an acknowledgement for every second frame.
VLAN = "a stream over a VLAN"
TAG_BYTES, FRAME_BYTES = 1.5 * 4, 1518
# Sockets of the cases that are watched for 2 s, data and control at both ends.
SOCKETS = {"iperf3, 1 stream": 4, "iperf3, 4 streams, both ways": 18, "iperf3, datagrams": 4}
# Of a socket fewer bytes wait to be charged (NET_BATCH_BYTES).
BATCH_BYTES = 16384
# At either end a task's account and the cards' counters are read some ms apart. With the 8 ms of a packet, it is so
# much of 2 s (%).
EDGES_PCT = 100 * 2 * 8 / 2000


def most(row):
    """The most that may be charged to the wrong task, and to no task (bytes)."""
    moved = sum(row["cards"].values())
    if row["case"] in SOCKETS:
        return EDGES_PCT / 100 * moved, SOCKETS[row["case"]] * BATCH_BYTES
    tags = max(row["cards"].values()) * TAG_BYTES / FRAME_BYTES if row["case"] == VLAN else 0
    return OTHERS_BYTES + tags, OTHERS_BYTES + tags


def judge(row):
    """Whether the charges are right, and parts of what the cards moved (%): to the wrong task; to no task."""
    moved = sum(row["cards"].values())
    wrong = row["idle"] + sum(abs(row["charged"][card] - bytes_) for card, bytes_ in row["cards"].items())
    unowned = row["net_bytes"] - row["net_charged_bytes"]
    wrong_most, unowned_most = most(row)
    print(
        f"{row['case']}: cards {row['cards']}, charged {row['charged']}, wrong {wrong} of at most {wrong_most:.0f}, "
        f"without an owner {unowned} of at most {unowned_most:.0f}"
    )
    right = wrong <= wrong_most and abs(unowned) <= unowned_most
    return right, 100 * wrong / moved, 100 * abs(unowned) / moved


def main():
    measured, kernel, *to = sys.argv[1:]
    rows, failed = [], []
    found = json_lines(measured)
    assert len(found) == 9, f"{len(found)} cases"
    *crossing, loopback = found
    if sum(loopback["charged"].values()) > OTHERS_BYTES:
        failed.append(f"loopback: {loopback}")
    for row in crossing:
        right, wrong, unowned = judge(row)
        if not right:
            failed.append(row["case"])
        if to:
            about = {"series": "network-charge", "case": kernel, "what": row["case"]}
            about |= {"unit": "% of what the cards moved", "expected": "0", "commit": to[1], "date": to[2]}
            rows.append(median_row([wrong], variant="charged wrong", **about))
            rows.append(median_row([unowned], variant="without an owner", **about))
    if to:
        write_rows(Path(to[0]), rows)
    assert not failed, f"charged wrong: {failed}"


if __name__ == "__main__":
    main()
