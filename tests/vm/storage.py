# SPDX-License-Identifier: GPL-2.0-only
"""Judges what tests/vm/guest/storage.py measured, by the machine's own account and the disk's log.

storage.py verify MEASURED LOG      every byte that fio moved is in the log
storage.py replay LOG REPLAYED      the disk's log and a replay have the same times
storage.py rates LOG HOSTS          the disk's rates while the host was idle and while it was busy
storage.py charge MEASURED TRUTH ROWS COMMIT DATE
                                    what the scheduler charged, and what the disk moved; writes rows of docs/results
storage.py shares TRUTH ROWS COMMIT DATE MBW:READER ...
                                    how mbw and a reader of the disk of these weights shared memory; writes rows of
                                    docs/results
"""

import collections
import csv
import math
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from measurements.json_lines import json_lines
from measurements.rows import median_row, write_rows

WRITE, READ = "1", "2"
# Ways to read and write whose charges must be exact.
EXACT = (
    "direct",
    "direct write",
    "libaio, depth 8",
    "io_uring, depth 8",
    "io_uring, full queue",
    "io_uring, full queue, mixed",
    "io_uring, SQPOLL",
    "io_uring, workers",
    "io_uring, passthrough",
    "buffered write, fsync",
)
# Ways through the page cache, and the most of what the disk moves for one that may be charged wrong: two pages.
CACHED = ("buffered read", "mapped read")
CACHED_PCT = 0.2
# fio's Identify command, an answer of the controller that the disk's count of data leaves out.
ADMIN_BYTES = {"io_uring, passthrough": 4096}
# Ways to write without a file system: each byte is the writer's.
WITHOUT_FILES = ("the disk itself", "dm-crypt")
# Of what the disk moves for a buffered write of a file, at most: charged to another task, or to none: blocks of the
# file system, and its journal. 90 writes in six boots had 0.02 to 0.16 % and 0.04 to 0.23 %. As much again is allowed
# as they differ.
WRONG_PCT = 0.3
UNOWNED_PCT = 0.4
# Of each pair of weights.
WINDOWS = 5
# The largest error of their ratio, in the median of the windows.
RATIO_PCT = 3
# The most by which an idle and a busy host may differ: rates and medians, and the 99th percentile; phases of `rates`.
RATE_LIMIT_PCT = 1
TAIL_LIMIT_PCT = 2
PHASES = 6
# Reads at each end of a phase that do not count, the greatest depth; and the fewest that a stretch of time needs.
EDGE = 64
STRETCH_READS = 20
STRETCHES = 2


def log(path):
    with open(path, encoding="ascii", newline="") as file:
        return list(csv.DictReader(file))


def moved(rows, opcode):
    return sum(int(row["bytes"]) for row in rows if row["opcode"] == opcode)


def verify(measured, log_file):
    (fio,), rows = json_lines(measured), log(log_file)
    assert all(row["status"] == "0" for row in rows), [row for row in rows if row["status"] != "0"][:3]
    late = [int(row["signalled_ps"]) - int(row["due_ps"]) for row in rows]
    print(
        f"{len(rows)} commands; fio wrote {fio['written']} and read {fio['read']} bytes; latest signal {max(late)} ps"
    )
    assert min(late) >= 0
    assert fio["written"] > 0 and fio["read"] == fio["written"], fio
    assert moved(rows, WRITE) == fio["written"], f"the disk wrote {moved(rows, WRITE)} bytes"
    # The kernel reads the disk's first blocks when it looks for partitions.
    assert moved(rows, READ) >= fio["read"], f"the disk read {moved(rows, READ)} bytes"


def phases(rows):
    """Reads, split where the disk had no command for 20 ms, without those of a phase's edges."""
    out, last = [], None
    for row in sorted((row for row in rows if row["opcode"] == READ), key=lambda row: int(row["started_ps"])):
        if last is None or int(row["started_ps"]) - last > 20e9:
            out.append([])
        out[-1].append(row)
        last = max(last or 0, int(row["due_ps"]))
    return [phase[EDGE:-EDGE] for phase in out if len(phase) > 3 * EDGE]


def stretches(phase, switches):
    """Reads of a phase in a row that ended while the host was idle, or busy: two lists of lists.

    `switches`: the line of the log at which the host was idle or busy from then on.
    """
    found = {"idle": [], "busy": []}
    phase = sorted(phase, key=lambda row: row["line"])
    for (begin, host), (end, _) in zip(switches, [*switches[1:], (math.inf, "")], strict=True):
        stretch = [row for row in phase if begin < row["line"] <= end]
        if len(stretch) >= STRETCH_READS:
            found[host].append(stretch)
    return found["idle"], found["busy"]


def rate(parts):
    """MB/s of stretches."""
    size = time = 0
    for rows in parts:
        ends = sorted((int(row["due_ps"]), int(row["bytes"])) for row in rows)
        size += sum(size for _, size in ends[1:])
        time += ends[-1][0] - ends[0][0]
    return size * 1e6 / time


def wait_us(parts):
    return [(int(row["due_ps"]) - int(row["started_ps"])) / 1e6 for rows in parts for row in rows]


def rates(log_file, hosts_file):
    rows = log(log_file)
    for number, row in enumerate(rows):
        row["line"] = number + 2
    with open(hosts_file, encoding="ascii", newline="") as file:
        switches = [(int(line), host) for line, host in csv.reader(file)]
    found_phases = phases(rows)
    assert len(found_phases) == PHASES, len(found_phases)
    failed = []
    for phase in found_phases:
        idle, busy = stretches(phase, switches)
        assert min(len(idle), len(busy)) >= STRETCHES, f"a phase has {len(idle)} idle and {len(busy)} busy stretches"
        waits = [wait_us(parts) for parts in (idle, busy)]
        found = {
            "rate": (RATE_LIMIT_PCT, rate(idle), rate(busy)),
            "median": (RATE_LIMIT_PCT, *map(statistics.median, waits)),
            "p99": (TAIL_LIMIT_PCT, *(statistics.quantiles(one, n=100)[98] for one in waits)),
        }
        shown = []
        for what, (limit, on_idle, on_busy) in found.items():
            error = 100 * (on_busy / on_idle - 1)
            shown.append(f"{what} {on_idle:.3f}, busy {error:+.3f} %")
            if abs(error) > limit:
                failed.append(f"{what} of reads of {phase[0]['bytes']}: {error:+.2f} %")
        count = f"{len(waits[0])} reads in {len(idle)} stretches, busy {len(waits[1])} in {len(busy)}"
        print(f"{phase[0]['bytes']} bytes, {count} (MB/s, us): {'; '.join(shown)}")
    assert not failed, failed


def without_task(row):
    """Bytes that the scheduler counted and charged to no task."""
    return row["dma_unattributed_bytes"] + row["dma_ended_bytes"]


def judge_way(row, moved_):
    """A way that fio reads or writes in. Returns whether it is right, and the disk's bytes that were charged wrong."""
    error = 100 * (row["fio"] / moved_ - 1)
    lacking = moved_ - row["fio"] - row["others"] - without_task(row)
    print(
        f"{row['path']}: disk {moved_}, charged to fio {row['fio']} ({error:+.2f} %), to others {row['others']}, "
        f"to no task {without_task(row)}, not charged yet {lacking}"
    )
    if row["path"] in CACHED:
        right = abs(error) + 100 * row["others"] / moved_ <= CACHED_PCT
    else:
        right = row["fio"] == moved_ and row["others"] == lacking == 0
    return right, {"charged wrong": error}


def judge_buffered(row, moved_):
    """A buffered write. Returns the same."""
    pairs = list(zip(row["writers"], row["charged"], strict=True)) + [(row["ended"], row["dma_ended_bytes"])]
    wrong = 100 * (sum(abs(written - charged) for written, charged in pairs) + row["others"]) / moved_
    unowned = 100 * row["dma_unattributed_bytes"] / moved_
    print(
        f"{row['path']}: disk {moved_}, written {row['writers']}, charged {row['charged']}, to others {row['others']}; "
        f"of writers that ended {row['dma_ended_bytes']}; wrong {wrong:.3f} %, without an owner {unowned:.3f} %"
    )
    lost = moved_ - sum(row["charged"]) - row["others"] - without_task(row)
    if lost:
        print(f"{row['path']}: {lost} bytes are in no book")
    if row["path"].startswith(WITHOUT_FILES):
        right = lost == wrong == unowned == 0
    else:
        right = lost == 0 and wrong <= WRONG_PCT and unowned <= UNOWNED_PCT
    return right, {"charged wrong": wrong, "without an owner": unowned}


def charge(measured, truth, rows_file, commit, date):
    # Each path has two lines of ground truth; the second covers the path.
    rows, devices = json_lines(measured), [line["device"] for line in json_lines(truth)[1::2]]
    failed, errors = [], {}
    assert len(rows) == len(devices), f"{len(rows)} paths, {len(devices)} lines of ground truth for them"
    for row, device in zip(rows, devices, strict=True):
        moved_ = device["to_memory_bytes"] + device["from_memory_bytes"] + ADMIN_BYTES.get(row["path"], 0)
        least = row["bytes"] if "bytes" in row else sum(row["writers"]) + row["ended"]
        assert moved_ >= least, f"{row['path']}: the disk moved {moved_} bytes of {least}"
        right, found = judge_way(row, moved_) if "fio" in row else judge_buffered(row, moved_)
        if not right:
            failed.append(row["path"])
        for variant, error in found.items():
            errors.setdefault((row["path"], variant), []).append(error)
    assert set(EXACT + CACHED) <= {row["path"] for row in rows}, "not all ways were measured"
    assert any("ended" in row for row in rows), "no buffered write was measured"
    about = {"series": "storage-charge", "case": "reads and writes of the disk", "unit": "% of what it moved"}
    about |= {"expected": "0", "commit": commit, "date": date}
    rows = [median_row(n, what=path, variant=variant, **about) for (path, variant), n in errors.items()]
    write_rows(Path(rows_file), rows)
    assert not failed, f"charged wrong: {failed}"


def device_bytes(line):
    return line["device"]["to_memory_bytes"] - line["device"]["cached_bytes"]


def core_bytes(line, core):
    return line["cores"][core]["read_bytes"] + line["cores"][core]["write_bytes"]


def shares(truth, rows_file, commit, date, *ratios):
    found, rows, failed = json_lines(truth), [], []
    assert len(found) >= (len(ratios) + 1) * (WINDOWS + 1), f"{len(found)} lines of ground truth"
    for ratio in (*ratios, "1:0"):  # the last part is mbw alone
        mbw, reader = (int(weight) for weight in ratio.split(":"))
        windows, found = found[1 : WINDOWS + 1], found[WINDOWS + 1 :]
        parts = [
            (core_bytes(line, 1) / line["interval_ns"], device_bytes(line) / line["interval_ns"]) for line in windows
        ]
        rates_ = [statistics.median(part[i] for part in parts) for i in (0, 1)]
        text = f"mbw:disk {ratio}: mbw {rates_[0]:.4f}, disk {rates_[1]:.4f}, total {sum(rates_):.4f} bytes/ns"
        if reader:
            errors = [100 * (b * mbw / (a * reader) - 1) for a, b in parts]
            text += (
                f"; error of the ratio {statistics.median(errors):+.2f} % "
                f"(n = {len(errors)}, {min(errors):+.2f} to {max(errors):+.2f})"
            )
            if abs(statistics.median(errors)) > RATIO_PCT:
                failed.append(ratio)
            about = {"series": "storage-shares", "case": "mbw and a reader of the disk", "unit": "%"}
            about |= {"what": ratio, "variant": "error of the ratio", "expected": "0"}
            rows.append(median_row(errors, **about, commit=commit, date=date))
        print(text)
    write_rows(Path(rows_file), rows)
    assert not failed, f"more than {RATIO_PCT} % off: {failed}"


def replay(log_file, replayed):
    columns = ("pid", "started_ps", "due_ps")
    logged, again = ([tuple(row[column] for column in columns) for row in log(path)] for path in (log_file, replayed))
    assert logged, f"{log_file} has no command"
    # The replay has commands of the controller's administration, too.
    missing = list((collections.Counter(logged) - collections.Counter(again)).elements())
    assert not missing, f"{len(missing)} of {len(logged)} commands, first {dict(zip(columns, missing[0]))}"
    print(f"{len(logged)} commands have the same times in a replay")


def main():
    mode, *words = sys.argv[1:]
    {"verify": verify, "replay": replay, "rates": rates, "charge": charge, "shares": shares}[mode](*words)


if __name__ == "__main__":
    main()
