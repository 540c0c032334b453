# SPDX-License-Identifier: GPL-2.0-only
"""What the sections of guest.sh must have seen. A judge returns lines that say what was seen, or raises Wrong."""

import json
import pathlib
from typing import Callable, Dict, List

# Bytes per ns that the thesis calls the memory's bandwidth, 4 at its 3 GHz, at the 15th part of the speed.
M = 4 / 15
# Lines of truth that a section asks for, after the one that guest.sh has written before it.
LINES = {"mbm": 2, "counters": 6 * 4 * 3, "stat": 8 * 2, "ratios": 4 * 2, "contention": 3 * 2, "mba": 10 * 2,
         "cat": 5 * 2, "scheduler": 2, "registers": 2}


class Wrong(Exception):
    """Something is not as it must be."""


def must(holds: bool, what: str) -> None:
    if not holds:
        raise Wrong(what)


def near(seen: float, wanted: float, tolerance: float) -> bool:
    return abs(seen - wanted) <= tolerance * wanted


class Results:
    """The files that one boot left, which ran these sections."""

    def __init__(self, directory: pathlib.Path, sections: List[str]) -> None:
        self.directory = directory
        self._sections = sections

    def text(self, name: str) -> str:
        return (self.directory / name).read_text(encoding="utf-8")

    def json(self, name: str) -> List[dict]:
        return [json.loads(line) for line in self.text(name).splitlines()]

    def notes(self, name: str) -> Dict[str, List[str]]:
        """Lines NAME TAB VALUE ... of a section, values that belong to one name together."""
        found: Dict[str, List[str]] = {}
        for line in self.text(name).splitlines():
            key, value = line.split("\t", 1)
            found.setdefault(key, []).append(value.strip())
        return found

    def truth(self, section: str) -> List[dict]:
        """The lines that a section asked for. Each tells what happened since the one before it."""
        start = 0
        for name in self._sections[:self._sections.index(section)]:
            start += 1 + LINES.get(name, 0)
        lines = self.json("truth")[start + 1:start + 1 + LINES[section]]
        must(len(lines) == LINES[section], "lines of truth are missing")
        return lines


def traffic(row: dict) -> int:
    """Bytes that a core or group moved."""
    return row["read_bytes"] + row["write_bytes"]


def resctrl(results: Results) -> List[str]:
    """Every file of info, and what can be done with groups."""
    seen = {key: values[0] for key, values in results.notes("resctrl").items()}
    wanted = {
        "mkdir": "ok", "rmdir": "ok", "tasks": "ok",
        "info/L3/bit_usage": "0=SSSSSSSS", "info/L3/cbm_mask": "ff", "info/L3/min_cbm_bits": "1",
        "info/L3/num_closids": "8", "info/L3/shareable_bits": "0", "info/L3/sparse_masks": "0",
        # A line of each of the 64 RMIDs' share of 2 MiB, in the hardware's units.
        "info/L3_MON/max_threshold_occupancy": "32768",
        "info/L3_MON/mon_features": "llc_occupancy mbm_total_bytes mbm_local_bytes", "info/L3_MON/num_rmids": "64",
        "info/MB/bandwidth_gran": "10", "info/MB/delay_linear": "1", "info/MB/min_bandwidth": "10",
        "info/MB/num_closids": "8",
        "schemata.default": "MB:0=100 L3:0=ff", "schemata.written": "MB:0=30 L3:0=f",
        "schemata.MB:0=200": "refused", "schemata.L3:0=5": "refused", "schemata.L3:0=1ff": "refused",
        "schemata.L3:0=0": "refused", "schemata.nonsense": "refused",
    }
    for key, value in wanted.items():
        must(seen.get(key) == value, f"{key} is {seen.get(key)!r}, not {value!r}")
    occupancy, total = int(seen["mon.llc_occupancy"]), int(seen["mon.mbm_total_bytes"])
    must(0 < occupancy <= 1 << 20, f"{occupancy} bytes of cache in a group of half of it")
    must(total > 0 and int(seen["mon.mbm_local_bytes"]) >= total, "no memory traffic in a group that has some")
    return [f"{len(wanted)} files and writes as they must be; occupancy {occupancy}, traffic {total} bytes"]


def mbm(results: Results) -> List[str]:
    """The traffic of a group as the kernel reads it."""
    seen = int(results.notes("mbm")["bytes"][0])
    groups = [row for row in results.truth("mbm")[1]["rmids"] if row["rmid"] != 0]
    true = sum(traffic(row) for row in groups)
    must(near(seen, true, 0.01), f"mbm_total_bytes rose by {seen}, the group's traffic was {true}")
    return [f"mbm_total_bytes {seen}, truth {true}: {100 * (seen / true - 1):+.3f} %"]


def counters(results: Results) -> List[str]:
    """Events of perf in user mode, each beside the truth of the same piece of work."""
    runs, lines = results.json("counters"), results.truth("counters")
    must(len(runs) == 6, "a run of counted is missing")

    def true(run: int, event: int, field: str) -> int:
        return lines[run * 12 + 3 * event + 2]["cores"][3][field]["user"]

    out = []
    for index in range(0, 6, 2):
        empty, full, diffs = runs[index], runs[index + 1], {}
        for event, (name, field, slack) in enumerate((
                ("instructions", "instructions", 0), ("cycles", "cycles", 1),
                ("cache_references", "llc_references", 0), ("cache_misses", "llc_misses", 0))):
            # The reading itself costs the same in both.
            counted = full[name] - empty[name]
            really = true(index + 1, event, field) - true(index, event, field)
            diffs[name] = counted - really
            must(abs(counted - really) <= slack, f"{full['op']}: {counted} {name}, in truth {really}")
        out.append(f"{full['op']}: " + ", ".join(f"{full[n]} {n} ({d:+d})" for n, d in diffs.items()))
    return out


def stat(results: Results) -> List[str]:
    """perf stat of a program, beside the truth of the same program."""
    lines = results.truth("stat")[1::2]
    fields = {"instructions": "instructions", "cycles": "cycles", "cache-references": "llc_references",
              "cache-misses": "llc_misses"}
    counts: Dict[str, Dict[str, List[int]]] = {}
    shares = set()
    for run, rows in results.notes("stat").items():
        for event, count, share in (row.split("\t") for row in rows):
            counts.setdefault(run, {}).setdefault(event, []).append(int(count))
            if run == "many":
                shares.add(float(share))
            else:
                must(share == "100.00", f"{run}: {event} was counted {share} % of the time")

    def true(run: int, event: str) -> int:
        return lines[run]["cores"][3][fields[event]]["user"]

    out = []
    for index, op in enumerate(("spin", "read", "write")):
        diffs = {}
        for event in fields:
            # Outside its lines of truth the program does the same every time, and touches no memory.
            idle = counts[f"{op}.0"][event][0] - true(2 * index, event)
            diffs[event] = counts[f"{op}.2"][event][0] - true(2 * index + 1, event) - idle
            must(idle == 0 or not event.startswith("cache"), f"{op}: {idle} {event} outside the program's work")
        out.append(f"{op}: " + ", ".join(f"{counts[f'{op}.2'][n][0]} {n} ({d:+d})" for n, d in diffs.items()))
        # perf counts whole cycles on the CPU where the program began and on the one to which it moved, the truth on the
        # latter: three differences of whole cycles in either run, each less than 1 off.
        must(not any(abs(diffs[event]) > 5 * (event == "cycles") for event in fields), out[-1])
    must(max(shares) < 100, "the kernel did not take turns")
    errors = {event: [100 * (count / true(7, event) - 1) for count in counts["many"][event]] for event in fields}
    text = "12 events at once: errors of " + ", ".join(
        f"{min(e):+.2f} to {max(e):+.2f} % ({event})" for event, e in errors.items())
    must(all(abs(error) <= 2 for e in errors.values() for error in e), text)
    return out + [text]


def multiplex(results: Results) -> List[str]:
    """More events than counters."""
    notes = results.notes("multiplex")
    one = int(notes["one"][0].split("\t")[0])
    rows = [row.split("\t") for row in notes["many"]]
    must(len(rows) == 8 and all(float(share) < 100 for _, share in rows), "the kernel did not take turns")
    errors = [100 * (int(count) / one - 1) for count, _ in rows]
    must(max(map(abs, errors)) <= 2, f"errors of {min(errors):+.2f} to {max(errors):+.2f} %")
    return [f"{len(rows)} of instructions at once, each {rows[0][1]} % of the time: errors of {min(errors):+.2f} to "
            f"{max(errors):+.2f} %"]


def ratios(results: Results) -> List[str]:
    """What streams make of the memory's traffic."""
    out = []
    for index, (stream, wanted) in enumerate(zip(results.json("ratios"), (3, 1, 2, 0))):
        core = results.truth("ratios")[2 * index + 1]["cores"][1]
        ratio = traffic(core) / stream["bytes"]
        text = f"{stream['op']}: traffic {ratio:.3f} times the bytes"
        if not wanted:
            # Some of the core's traffic is of the kernel, whose ticks find their lines gone.
            own = 64 * core["llc_misses"]["user"] / stream["bytes"]
            text += f", the program's misses {own:.4f} (1 MiB in the cache)"
            must(own < 0.01 and ratio < 0.05, text)
        must(not wanted or near(ratio, wanted, 0.02), f"{text}, not {wanted}")
        out.append(text)
    return out


def contention(results: Results) -> List[str]:
    """Copiers alone and together; traffic is three times what they copy.

    What the memory gives each is the truth's, by the time that its core has for it: what each copies is less by what the
    kernel takes from the core, which is not the same on all.
    """
    rows = results.json("contention")
    out = []
    for index, group in enumerate((rows[:1], rows[1:3], rows[3:])):
        count, copied = 1 << index, [row["bytes_per_ns"] for row in group]
        cores = results.truth("contention")[2 * index + 1]["cores"]
        given = [traffic(cores[row["cpu"]]) / cores[row["cpu"]]["cycles"]["user"] for row in group]
        share, spread, copies = 3 * sum(copied) / M, max(given) / min(given) - 1, max(copied) / min(copied) - 1
        text = (f"{count} copiers: {3 * sum(copied):.4f} bytes/ns = {share:.3f} m, spread {100 * spread:.2f} % "
                f"(of what is copied {100 * copies:.2f} %)")
        must(len(copied) == count and (0.65 <= share <= 0.75 if count == 1 else 0.95 <= share <= 1.05), text)
        must(spread <= 0.02, text)
        out.append(text)
    return out


def mba(results: Results) -> List[str]:
    """A copier's bandwidth by level, and a spinner's speed.

    The spinner's is judged by the cycles that its core had for it: a tick takes more of them where its misses are throttled.
    """
    rows = results.json("mba")
    copy = [row["bytes_per_ns"] for row in rows if row["op"] == "copy"]
    spin = [row for row in rows if row["op"] == "spin"]
    text = "copied bytes/ns at 10 ... 100 %: " + " ".join(f"{c:.4f}" for c in copy)
    must(len(copy) == 10 and all(a <= b for a, b in zip(copy, copy[1:])) and copy[0] < 0.5 * copy[-1], text)
    own = [row["bytes"] / line["cores"][1]["cycles"]["user"] for row, line in zip(spin, results.truth("mba")[1::2])]
    wall = [row["bytes_per_ns"] for row in spin]
    spread, of_time = max(own) / min(own) - 1, max(wall) / min(wall) - 1
    spinner = (f"spinner: {100 * spread:.2f} % between the slowest and the fastest, {100 * of_time:.2f} % with what the "
               "kernel takes")
    must(len(own) == 10 and spread <= 0.005, spinner)
    return [text, spinner]


def cat(results: Results) -> List[str]:
    """Hit rates of 1 MiB of working set in half of the cache."""
    lines = results.truth("cat")

    def hits(line: int, core: int) -> float:
        row = lines[line]["cores"][core]
        return 100 - 100 * row["llc_misses"]["user"] / row["llc_references"]["user"]

    alone, pair, apart = hits(1, 1), [hits(3, core) for core in (1, 2)], hits(5, 1)
    unmasked, quarter = hits(7, 1), hits(9, 1)
    out = [f"hits in half the cache alone: {alone:.2f} %; two in a half each: {pair[0]:.2f} and {pair[1]:.2f} %",
           f"beside a stream in the other half: {apart:.2f} %; in the same half: {unmasked:.2f} %; in a quarter of the "
           f"cache: {quarter:.2f} %"]
    # The set fills its ways exactly, so that each line which the kernel's ticks put there costs a whole set, once.
    must(alone >= 95 and min(*pair, apart) >= 0.95 * alone, "; ".join(out))
    must(max(unmasked, quarter) < 0.8 * alone, "masks make no difference: " + "; ".join(out))
    return out


def scheduler(results: Results) -> List[str]:
    """What scx_drfq charges a task by its perf event, beside the misses of the task's core."""
    *streams, system = results.json("scheduler")
    must(len(streams) == 2 and system["pmu_read_errors"] == 0, f"streams or samples are missing: {streams}, {system}")
    out = []
    line = results.truth("scheduler")[1]
    for row in streams:
        misses = line["cores"][row["cpu"]]["llc_misses"]
        # Of the same streams, but not of quite the same time: it takes a while to ask the scheduler.
        charged, true = row["bytes"] / row["ns"], 64 * (misses["user"] + misses["kernel"]) / line["interval_ns"]
        text = (f"core {row['cpu']}: charged {charged:.5f} bytes/ns, misses {true:.5f}: {100 * (charged / true - 1):+.2f} %"
                f" of {row['bytes']} bytes")
        must(near(charged, true, 0.01), text)
        out.append(text)
    return out


def registers(results: Results) -> List[str]:
    """The controller's registers, and what virtual times do."""
    seen = results.notes("registers")
    for key, value in (("id", "0x434d2d5146524400"), ("version", "0x1"), ("pids", "0x2000"), ("cores", "0x4"),
                       ("read_only", "0x434d2d5146524400 0")):
        must(seen[key] == [value], f"{key}: {seen[key]}, not {value}")
    peek, first, again = (int(word, 0) for word in seen["cleared"][0].split())
    true = sum(traffic(row) for row in results.truth("registers")[1]["pids"] if row["pid"] == 7)
    # What the core did just before still comes in between.
    must(first >= peek >= true > 0 and again == 0,
         f"traffic: {peek} peeked, {first} read, {again} read again, {true} in truth in the middle of it")
    out = [f"traffic of a process: {first} bytes, then {again}; {true} of it while it was timed"]
    for key, ahead in (("first", 1), ("second", 2)):
        rate = {row["cpu"]: row["bytes_per_ns"] for row in map(json.loads, seen[key])}
        text = f"virtual time of core {ahead} lower: " + ", ".join(f"core {c} {rate[c]:.4f}" for c in (1, 2)) + " bytes/ns"
        must(rate[ahead] > 1.5 * rate[3 - ahead], text)
        out.append(text)
    return out


SECTIONS: Dict[str, Callable[[Results], List[str]]] = {
    f.__name__: f for f in (resctrl, mbm, counters, stat, multiplex, ratios, contention, mba, cat, scheduler, registers)}
