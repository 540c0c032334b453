# SPDX-License-Identifier: GPL-2.0-only
"""Checks of the results that sections.sh leaves.

There is one function per section. It returns lines that describe the results, or raises CheckFailed.
"""

import json
import pathlib
from collections.abc import Callable

# The memory bandwidth m of machine "thesis": the thesis' 4 bytes/ns at 3 GHz, 15 times slower.
M_BYTES_PER_NS = 4 / 15
# Lines of ground truth that a section requests, after the one that sections.sh writes before it.
LINES = {
    "mbm": 2,
    "counters": 6 * 4 * 3,
    "stat": 8 * 2,
    "ratios": 4 * 2,
    "contention": 3 * 2,
    "mba": 4 * 2,
    "cat": 5 * 2,
    "scheduler": 2,
    "registers": 2,
}


class CheckFailed(Exception):
    """A result differs from what is expected."""


def check(holds: bool, what: str) -> None:
    """Raises CheckFailed with the text unless the condition holds."""
    if not holds:
        raise CheckFailed(what)


def is_within(value: float, expected: float, tolerance: float) -> bool:
    """Whether a value differs from the expected one by at most this fraction of it."""
    return abs(value - expected) <= tolerance * expected


class Results:
    """The files that one boot left. sections: those that it ran, in order."""

    def __init__(self, directory: pathlib.Path, sections: list[str]) -> None:
        self.directory = directory
        self._sections = sections

    def text(self, name: str) -> str:
        return (self.directory / name).read_text(encoding="utf-8")

    def json(self, name: str) -> list[dict]:
        return [json.loads(line) for line in self.text(name).splitlines()]

    def notes(self, name: str) -> dict[str, list[str]]:
        """Reads lines NAME TAB VALUE of a section. Values of one name are collected in order."""
        found: dict[str, list[str]] = {}
        for line in self.text(name).splitlines():
            key, value = line.split("\t", 1)
            found.setdefault(key, []).append(value.strip())
        return found

    def ground_truth(self, section: str) -> list[dict]:
        """The lines of ground truth that a section requested. Each covers the time since the one before it."""
        start = 0
        for name in self._sections[: self._sections.index(section)]:
            start += 1 + LINES.get(name, 0)
        lines = self.json("ground_truth")[start + 1 : start + 1 + LINES[section]]
        check(
            len(lines) == LINES[section],
            f"{section} requested {LINES[section]} lines of ground truth, found {len(lines)}",
        )
        return lines


def traffic(row: dict) -> int:
    """Bytes that a core or group read and wrote."""
    return row["read_bytes"] + row["write_bytes"]


def resctrl(results: Results) -> list[str]:
    """Every file of resctrl's info directory, and operations on groups."""
    measured = {key: values[0] for key, values in results.notes("resctrl").items()}
    expected = {
        "mkdir": "ok",
        "rmdir": "ok",
        "tasks": "ok",
        "info/L3/bit_usage": "0=SSSSSSSS",
        "info/L3/cbm_mask": "ff",
        "info/L3/min_cbm_bits": "1",
        "info/L3/num_closids": "8",
        "info/L3/shareable_bits": "0",
        "info/L3/sparse_masks": "0",
        # 2 MiB of cache divided by 64 RMIDs.
        "info/L3_MON/max_threshold_occupancy": "32768",
        "info/L3_MON/mon_features": "llc_occupancy mbm_total_bytes mbm_local_bytes",
        "info/L3_MON/num_rmids": "64",
        "info/MB/bandwidth_gran": "10",
        "info/MB/delay_linear": "1",
        "info/MB/min_bandwidth": "10",
        "info/MB/num_closids": "8",
        "schemata.default": "MB:0=100 L3:0=ff",
        "schemata.written": "MB:0=30 L3:0=f",
        "schemata.MB:0=200": "refused",
        "schemata.L3:0=5": "refused",
        "schemata.L3:0=1ff": "refused",
        "schemata.L3:0=0": "refused",
        "schemata.nonsense": "refused",
    }
    for key, value in expected.items():
        check(measured.get(key) == value, f"{key} is {measured.get(key)!r}, not {value!r}")
    occupancy, total = int(measured["mon.llc_occupancy"]), int(measured["mon.mbm_total_bytes"])
    check(
        0 < occupancy <= 1 << 20, f"llc_occupancy is {occupancy} bytes, but the group may fill only half of the 2 MiB"
    )
    check(
        total > 0 and int(measured["mon.mbm_local_bytes"]) >= total,
        f"the group read memory, but mbm_total_bytes is {total}, above mbm_local_bytes or 0",
    )
    return [f"{len(expected)} files and writes as expected; occupancy {occupancy}, traffic {total} bytes"]


def mbm(results: Results) -> list[str]:
    """A group's traffic as the kernel reports it."""
    measured = int(results.notes("mbm")["bytes"][0])
    groups = [row for row in results.ground_truth("mbm")[1]["rmids"] if row["rmid"] != 0]
    truth = sum(traffic(row) for row in groups)
    check(is_within(measured, truth, 0.01), f"mbm_total_bytes rose by {measured}, but the group's traffic was {truth}")
    return [f"mbm_total_bytes {measured}, ground truth {truth}: {100 * (measured / truth - 1):+.3f} %"]


def counters(results: Results) -> list[str]:
    """perf counters in user mode, each beside the ground truth of the same piece of work."""
    runs, lines = results.json("counters"), results.ground_truth("counters")
    check(len(runs) == 6, f"expected 6 runs of pmu_check, found {len(runs)}")

    def true_count(run: int, event: int, field: str) -> int:
        return lines[run * 12 + 3 * event + 2]["cores"][3][field]["user"]

    out = []
    for index in range(0, 6, 2):
        empty, full, diffs = runs[index], runs[index + 1], {}
        for event, (name, field, slack) in enumerate(
            (
                ("instructions", "instructions", 0),
                ("cycles", "cycles", 1),
                ("cache_references", "llc_references", 0),
                ("cache_misses", "llc_misses", 0),
            )
        ):
            # Reading the counter costs the same in both runs.
            counted = full[name] - empty[name]
            truth = true_count(index + 1, event, field) - true_count(index, event, field)
            diffs[name] = counted - truth
            check(abs(counted - truth) <= slack, f"{full['op']}: {counted} {name}, ground truth {truth}")
        out.append(f"{full['op']}: " + ", ".join(f"{full[n]} {n} ({d:+d})" for n, d in diffs.items()))
    return out


def stat(results: Results) -> list[str]:
    """perf stat of a program, beside the ground truth of the same program."""
    lines = results.ground_truth("stat")[1::2]
    fields = {
        "instructions": "instructions",
        "cycles": "cycles",
        "cache-references": "llc_references",
        "cache-misses": "llc_misses",
    }
    counts: dict[str, dict[str, list[int]]] = {}
    shares = set()
    for run, rows in results.notes("stat").items():
        for event, count, share in (row.split("\t") for row in rows):
            counts.setdefault(run, {}).setdefault(event, []).append(int(count))
            if run == "many":
                shares.add(float(share))
            else:
                check(share == "100.00", f"{run}: {event} was counted {share} % of the time")

    def true_count(run: int, event: str) -> int:
        return lines[run]["cores"][3][fields[event]]["user"]

    out = []
    for index, op in enumerate(("spin", "read", "write")):
        diffs = {}
        for event in fields:
            # Outside its two lines of ground truth the program executes the same instructions and accesses no memory.
            idle = counts[f"{op}.0"][event][0] - true_count(2 * index, event)
            diffs[event] = counts[f"{op}.2"][event][0] - true_count(2 * index + 1, event) - idle
            check(idle == 0 or not event.startswith("cache"), f"{op}: {idle} {event} outside the program's work")
        out.append(f"{op}: " + ", ".join(f"{counts[f'{op}.2'][n][0]} {n} ({d:+d})" for n, d in diffs.items()))
        # perf rounds cycles on the first CPU and on the one to which the program moved, the ground truth on the latter
        # only. That makes three rounded differences in either run, each off by less than 1.
        check(not any(abs(diffs[event]) > 5 * (event == "cycles") for event in fields), out[-1])
    check(max(shares) < 100, "the kernel did not multiplex the events: each was counted all the time")
    errors = {event: [100 * (count / true_count(7, event) - 1) for count in counts["many"][event]] for event in fields}
    text = "12 events at once: errors of " + ", ".join(
        f"{min(e):+.2f} to {max(e):+.2f} % ({event})" for event, e in errors.items()
    )
    check(all(abs(error) <= 2 for e in errors.values() for error in e), text)
    return out + [text]


def multiplex(results: Results) -> list[str]:
    """More events than counters."""
    notes = results.notes("multiplex")
    one = int(notes["one"][0].split("\t")[0])
    rows = [row.split("\t") for row in notes["many"]]
    check(
        len(rows) == 8 and all(float(share) < 100 for _, share in rows),
        "the kernel did not multiplex the events: each was counted all the time",
    )
    errors = [100 * (int(count) / one - 1) for count, _ in rows]
    check(max(map(abs, errors)) <= 2, f"errors of {min(errors):+.2f} to {max(errors):+.2f} %")
    return [
        f"{len(rows)} of instructions at once, each {rows[0][1]} % of the time: errors of {min(errors):+.2f} to "
        f"{max(errors):+.2f} %"
    ]


def ratios(results: Results) -> list[str]:
    """Memory traffic per byte of a stream."""
    out = []
    for index, (stream, expected) in enumerate(zip(results.json("ratios"), (3, 1, 2, 0), strict=True)):
        core = results.ground_truth("ratios")[2 * index + 1]["cores"][1]
        ratio = traffic(core) / stream["bytes"]
        text = f"{stream['op']}: traffic {ratio:.3f} times the bytes"
        if not expected:
            # The kernel's ticks cause some of the core's traffic, because the stream evicts their lines.
            own = 64 * core["llc_misses"]["user"] / stream["bytes"]
            text += f", the program's own misses {own:.4f} (1 MiB in the cache)"
            check(own < 0.01 and ratio < 0.05, text)
        check(not expected or is_within(ratio, expected, 0.02), f"{text}, not {expected}")
        out.append(text)
    return out


def contention(results: Results) -> list[str]:
    """One, two and four copiers. Traffic is three times the copied bytes.

    A copier's share is its core's traffic in the ground truth per user cycle. The copied bytes per second are lower by
    the time that the kernel takes from the core, which differs between cores.
    """
    rows = results.json("contention")
    out = []
    for index, group in enumerate((rows[:1], rows[1:3], rows[3:])):
        count, copied = 1 << index, [row["bytes_per_ns"] for row in group]
        cores = results.ground_truth("contention")[2 * index + 1]["cores"]
        given = [traffic(cores[row["cpu"]]) / cores[row["cpu"]]["cycles"]["user"] for row in group]
        share, spread, copies = (
            3 * sum(copied) / M_BYTES_PER_NS,
            max(given) / min(given) - 1,
            max(copied) / min(copied) - 1,
        )
        text = (
            f"{count} copiers: {3 * sum(copied):.4f} bytes/ns = {share:.3f} m, spread {100 * spread:.2f} % "
            f"(of the copied bytes {100 * copies:.2f} %)"
        )
        check(len(copied) == count and (0.65 <= share <= 0.75 if count == 1 else 0.95 <= share <= 1.05), text)
        check(spread <= 0.02, text)
        out.append(text)
    return out


def mba(results: Results) -> list[str]:
    """A copier's bandwidth at each MBA level, and a spinner's speed.

    The spinner's speed is per user cycle of its core: throttling slows the misses of kernel ticks, so they take
    more time.
    """
    rows = results.json("mba")
    copy = [row["bytes_per_ns"] for row in rows if row["op"] == "copy"]
    spin = [row for row in rows if row["op"] == "spin"]
    text = "copied bytes/ns at 10, 30, 60 and 100 %: " + " ".join(f"{c:.4f}" for c in copy)
    check(len(copy) == 4 and all(a <= b for a, b in zip(copy, copy[1:])) and copy[0] < 0.5 * copy[-1], text)
    own = [
        row["bytes"] / line["cores"][1]["cycles"]["user"] for row, line in zip(spin, results.ground_truth("mba")[1::2])
    ]
    wall = [row["bytes_per_ns"] for row in spin]
    spread, of_time = max(own) / min(own) - 1, max(wall) / min(wall) - 1
    spinner = (
        f"spinner: {100 * spread:.2f} % between the slowest and the fastest, {100 * of_time:.2f} % by wall time, "
        "kernel included"
    )
    check(len(own) == 4 and spread <= 0.005, spinner)
    return [text, spinner]


def cat(results: Results) -> list[str]:
    """Hit rates of a 1 MiB working set in half of the cache."""
    lines = results.ground_truth("cat")

    def hits(line: int, core: int) -> float:
        row = lines[line]["cores"][core]
        return 100 - 100 * row["llc_misses"]["user"] / row["llc_references"]["user"]

    alone, pair, apart = hits(1, 1), [hits(3, core) for core in (1, 2)], hits(5, 1)
    unmasked, quarter = hits(7, 1), hits(9, 1)
    out = [
        f"hits in half the cache alone: {alone:.2f} %; two in a half each: {pair[0]:.2f} and {pair[1]:.2f} %",
        f"beside a stream in the other half: {apart:.2f} %; in the same half: {unmasked:.2f} %; in a quarter of the "
        f"cache: {quarter:.2f} %",
    ]
    # The working set fills its ways exactly. Each line of a kernel tick therefore evicts a whole cache set, once.
    check(alone >= 95 and min(*pair, apart) >= 0.95 * alone, "; ".join(out))
    check(max(unmasked, quarter) < 0.8 * alone, "capacity masks have no effect: " + "; ".join(out))
    return out


def scheduler(results: Results) -> list[str]:
    """What scx_drfq charges a task by its perf event, beside the misses of the task's core."""
    *streams, system = results.json("scheduler")
    check(
        len(streams) == 2 and system["pmu_read_errors"] == 0,
        f"expected two streams and no pmu_read_errors, found {streams}, {system}",
    )
    out = []
    line = results.ground_truth("scheduler")[1]
    for row in streams:
        misses = line["cores"][row["cpu"]]["llc_misses"]
        # The two intervals differ slightly, because querying the scheduler takes time. Rates are comparable.
        charged, truth = row["bytes"] / row["ns"], 64 * (misses["user"] + misses["kernel"]) / line["interval_ns"]
        text = (
            f"core {row['cpu']}: charged {charged:.5f} bytes/ns, misses {truth:.5f}: "
            f"{100 * (charged / truth - 1):+.2f} % of {row['bytes']} bytes"
        )
        check(is_within(charged, truth, 0.01), text)
        out.append(text)
    return out


def registers(results: Results) -> list[str]:
    """The controller's registers and the effect of virtual times."""
    notes = results.notes("registers")
    for key, value in (
        ("id", "0x434d2d5146524400"),
        ("version", "0x1"),
        ("pids", "0x2000"),
        ("cores", "0x4"),
        ("read_only", "0x434d2d5146524400 0"),
    ):
        check(notes[key] == [value], f"{key}: {notes[key]}, not {value}")
    peek, first, again = (int(word, 0) for word in notes["cleared"][0].split())
    truth = sum(traffic(row) for row in results.ground_truth("registers")[1]["pids"] if row["pid"] == 7)
    # Traffic of the core's last accesses may be charged between the reads.
    check(
        first >= peek >= truth > 0 and again == 0,
        f"traffic: {peek} peeked, {first} read, {again} read again, ground truth {truth} for a part of that time",
    )
    out = [f"traffic of a process: {first} bytes, then {again}; ground truth while it was timed: {truth}"]
    for key, ahead in (("first", 1), ("second", 2)):
        rate = {row["cpu"]: row["bytes_per_ns"] for row in map(json.loads, notes[key])}
        text = (
            f"virtual time of core {ahead} lower: " + ", ".join(f"core {c} {rate[c]:.4f}" for c in (1, 2)) + " bytes/ns"
        )
        check(rate[ahead] > 1.5 * rate[3 - ahead], text)
        out.append(text)
    return out


SECTIONS: dict[str, Callable[[Results], list[str]]] = {
    f.__name__: f for f in (resctrl, mbm, counters, stat, multiplex, ratios, contention, mba, cat, scheduler, registers)
}
