# SPDX-License-Identifier: GPL-2.0-only
"""Compares MBM readings with the machine's own account: resctrl.py MEASURED GROUND-TRUTH NUMBER-OF-READINGS."""

import json
import pathlib
import sys

# A counter of the machine "scarce" counts in units of 2 KiB, so that two readings are off by less than one unit.
UNIT_BYTES = 2048


def traffic(line: dict, rmid: int) -> int:
    """Bytes of an RMID in an interval of ground truth."""
    return sum(group["read_bytes"] + group["write_bytes"] for group in line["rmids"] if group["rmid"] == rmid)


def main(measured: str, truth: str, number: str) -> int:
    """Prints the comparison. Returns the exit status."""
    steps = [json.loads(line) for line in pathlib.Path(measured).read_text("utf-8").splitlines()]
    lines = [json.loads(line) for line in pathlib.Path(truth).read_text("utf-8").splitlines()]
    rows = [step for step in steps if step["step"] == "mbm"]
    # Lines of ground truth stand before and after either reading. The reading itself causes some traffic.
    if len(rows) != int(number) or len(lines) < 4 * len(rows):
        print(f"expected {number} measurements, found {len(rows)} with {len(lines)} lines of ground truth")
        return 1
    worst, widest, outside, total, rates = 0, 0, 0, 0, {}
    for index, row in enumerate(rows):
        before, inner, after = (traffic(line, row["rmid"]) for line in lines[4 * index + 1 : 4 * index + 4])
        outer = before + inner + after
        outside = max(outside, inner - row["bytes"], row["bytes"] - outer)
        widest, total = max(widest, outer - inner), total + inner
        worst = max(worst, abs(row["bytes"] / inner - 1))
        rates.setdefault(row["level"], []).append(inner / row["ns"])
    mean = {level: sum(found) / len(found) for level, found in sorted(rates.items())}
    print(f"{len(rows)} readings of {total // len(rows)} bytes each: at most {100 * worst:.4f} % from the truth")
    print(f"at most {outside} bytes outside of the truth's bounds, which are at most {widest} bytes apart")
    print("bytes/ns by level: " + ", ".join(f"{level}: {rate:.4f}" for level, rate in mean.items()))
    for step in steps:
        if step["step"] == "limbo":
            print(f"a freed RMID was usable after {step['ms']} ms")
    if outside > UNIT_BYTES:
        print(f"FAILED: a reading is more than {UNIT_BYTES} bytes outside of the truth's bounds")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
