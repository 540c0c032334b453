# SPDX-License-Identifier: GPL-2.0-only
"""Judges what tests/vm/guest/raid.py measured, by the kernel's count of what the disks below moved.

raid.py MEASURED KERNEL ROWS COMMIT DATE    writes rows of docs/results
"""

import sys
from pathlib import Path

from storage import without_task

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from measurements.json_lines import json_lines
from measurements.rows import median_row, write_rows

ARRAYS = ("raid0", "raid1", "raid1, bitmap", "raid1, write-behind", "raid10", "raid5")
WAYS = 9
# What md writes for itself has no owner: superblocks and bitmaps, 0 to 0.07 % of what the disks move. As much again is
# allowed.
UNOWNED_PCT = 0.15
# Where writes are done later, some pages are charged wrong. 12 buffered writes had 0 to 0.34 %, and 0.06 to 0.40 %
# without an owner. As much again is allowed as they differ.
LATER, LATER_PCT = "raid1, write-behind", 0.75


def judge(row):
    """Parts of what the disks moved (%): charged to the wrong task; charged to no task."""
    moved, (charged,), (written,) = row["disk"], row["charged"], row["writers"]
    unowned = moved - charged - row["others"] - row["dma_ended_bytes"]
    # Below 0 if md still writes its bitmap: the disks count what they have done.
    in_no_book = moved - charged - row["others"] - without_task(row)
    # A reader is to be charged all that was read, and a writer to raid5 what the disks below move, with the parity.
    wrong = row["others"] + row["dma_ended_bytes"] + (abs(charged - written) if written else 0)
    print(
        f"{row['path']}: disks {moved}, written {written}, charged {charged}, to others {row['others']}, without an "
        f"owner {unowned}, in no book {in_no_book}"
    )
    return 100 * wrong / moved, 100 * abs(unowned) / moved


def right(array, way, wrong, unowned):
    """Whether these parts (%) are what they may be."""
    if array == LATER and "buffered write" in way:
        return max(wrong, unowned) <= LATER_PCT
    return wrong == 0 and unowned <= UNOWNED_PCT


def main():
    measured, kernel, rows_file, commit, date = sys.argv[1:]
    errors, failed = {}, []
    for row in json_lines(measured):
        array, way = row["path"].split("/")
        wrong, unowned = judge(row)
        errors.setdefault((array, way, "charged wrong"), []).append(wrong)
        errors.setdefault((array, way, "without an owner"), []).append(unowned)
        if not right(array, way, wrong, unowned):
            failed.append(row["path"])
    assert len(errors) == 2 * WAYS * len(ARRAYS), f"{len(errors)} series"
    about = {"series": "storage-md", "unit": "% of what the disks moved", "commit": commit, "date": date}
    rows = []
    for (array, way, variant), found in errors.items():
        about_way = {"case": array, "what": way, "variant": f"{kernel}, {variant}", "expected": "0"}
        rows.append(median_row(found, **about_way, **about))
    write_rows(Path(rows_file), rows)
    assert not failed, f"charged wrong: {failed}"


if __name__ == "__main__":
    main()
