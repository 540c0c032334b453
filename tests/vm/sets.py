# SPDX-License-Identifier: GPL-2.0-only
"""Judges what tests/vm/guest/sets.py measured, by the modelled machine's own account.

sets.py limits SETS DIR BOOT                prints SET=RATE for each set whose foreground process has a fixed amount of
                                            work: what fio may read if memory is shared fairly (bytes/s)
sets.py report SETS DIR ROWS COMMIT DATE BOOT=SET,SET ...
                                            prints the figures, and writes rows of docs/results. These sets must be in
                                            these boots.

The report fails if scx_drfq by its own rules misses a bound: an error of the thesis, or ALLOWED times the slowdown of a
fair share. MISSED has the bounds of what docs/results reports as missed.

SETS is tools/sets.toml. DIR has NAME.json and NAME.truth of each boot NAME.
"""

import statistics
import sys
import tomllib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import resctrl
from max_min import fill
from measurements.json_lines import json_lines
from measurements.rows import median_row, write_rows

# m of the machine `disk` (bytes/ns), and its CPUs.
M, CPUS = 4 / 15, 4
# The boots, and what their variants are called.
BOOTS = {
    "eevdf": "EEVDF, FR-FCFS",
    "eevdf-1": "EEVDF, FR-FCFS, drain_min_reads 1",
    "limited": "EEVDF, FR-FCFS, fio limited to its fair share",
    "controller": "scx_drfq, controller",
    "share": "scx_drfq, controller with shares, prepare, fill and batch",
    "commodity": "scx_drfq, FR-FCFS",
}
RULES = {
    "default": "",
    "process": ", --entity process",
    "hold": ", --throttle hold",
    "thesis": ", thesis' rules",
    "thesis-4.5.2": ", thesis' rules with credit",
    "": "",
    # The kernel's own, in a boot of scx_drfq: before all rules, and after them.
    "~": "",
}
# Of them, those of the kernel's scheduler.
KERNELS = {"": ", before it", "~": ", after it"}
# Foreground processes whose amount of work is fixed.
TIMED = ("lbm", "fdtd", "mcf")
# What a slowdown at weight 1 may be beyond what a fair share allows.
ALLOWED = 1.03
# An interval that gives rates is less than this times the work that it covers. None is much shorter.
LONGEST_INTERVAL = 1.05
SHORTEST_INTERVAL = 0.95
# Rules that are judged. The thesis' own ones are compared with.
JUDGED = ("default", "process", "hold")
# What mbw takes of m by itself. Beyond 2:1 that is less than its part, and fio gets the rest: at most the error of this
# ratio of the two. A controller that divides what both want at a moment comes closer to it than to the weights.
MBW_ALONE = 0.64
SATISFIED = MBW_ALONE / (1 - MBW_ALONE)
BEYOND = {
    "2": {f"{weight}:1": 100 * (1 - SATISFIED / weight) for weight in (3, 4, 5)},
    "3": {f"1:{weight}": 100 * (weight / SATISFIED - 1) for weight in (3, 4, 5)},
}
# Largest errors of shares that are known to be larger than the thesis' (%): boot, rule, set, and ratio of weights.
MISSED = {
    # Nothing slows fio down. It has 1.27 and 1.30 times as much as mbw, and may have 4/3 times as much.
    ("commodity", "default", "2"): {"1:1": 100 * (1 - 3 / 4)},
    ("commodity", "default", "3"): {"1:1": 100 * (4 / 3 - 1)},
    # The medians, 2.20 and 1.73 %, and the thesis' own error.
    ("commodity", "default", "5"): {"1:1": 3.1},
    ("commodity", "hold", "5"): {"1:1": 2.6},
} | {(boot, "default", number): BEYOND[number] for boot in ("controller", "share") for number in BEYOND}


def moved(truth):
    """(bytes by the CPUs, bytes by the disk) since the line before."""
    cores = sum(core["read_bytes"] + core["write_bytes"] for core in truth["cores"])
    return cores, truth["device"]["to_memory_bytes"] - truth["device"]["cached_bytes"]


def runs(directory, boot):
    """What ran in a boot, and of each run of it the looks, each with its line of ground truth."""
    files = directory / f"{boot}.json", directory / f"{boot}.truth"
    looks, truth = (json_lines(path) if path.exists() else [] for path in files)
    assert len(truth) >= len(looks), f"{boot}: {len(looks)} looks, {len(truth)} lines of ground truth"
    found = {}
    for look, line in zip(looks, truth):
        key = (look["set"], look["rule"], tuple(look["weights"]))
        found.setdefault(key, {}).setdefault(look["turn"], []).append((look, line))
    return [(key, list(turns.values())) for key, turns in found.items()]


def lacking(directory, wanted):
    """What of `wanted` (BOOT=SET,SET ...) was not measured."""
    out = []
    for word in wanted:
        boot, _, numbers = word.partition("=")
        own = "scx_drfq" in BOOTS[boot]
        found = {number for (number, rule, _), _ in runs(directory, boot) if not own or rule not in KERNELS}
        out += [f"set {number}, {BOOTS[boot]}: not measured" for number in numbers.split(",") if number not in found]
    return out


def timed(turns):
    """Times of a fixed amount of work (ns), and bytes/ns of the CPUs and of the disk meanwhile; each a list.

    The looks take time themselves, so an interval is longer than the work. Where it is much longer, it gives no rates.
    """
    times, cores, disk = [], [], []
    for (_, _), (end, truth) in turns:
        times.append(end["measured_ns"])
        longer = truth["interval_ns"] / end["measured_ns"]
        assert longer > SHORTEST_INTERVAL, f"set {end['set']}: the interval is shorter than what it covers"
        if longer < LONGEST_INTERVAL:
            for values, moved_bytes in zip((cores, disk), moved(truth)):
                values.append(moved_bytes / truth["interval_ns"])
    assert cores, f"set {end['set']}: each interval is much longer than what it covers"
    return times, cores, disk


def dominant(load, rule, cpu_share, truth):
    """The dominant share of a process: the larger one. Devices count no ids, so fio has their traffic.

    By the thesis' rules fio's is the sum, because each packet is charged what it uses most of, and fio uses CPU time in
    some packets and memory in others.
    """
    name = load["name"]
    memory = resctrl.traffic(truth, load["rmid"]) + (moved(truth)[1] if name == "fio" else 0)
    memory_share = memory / truth["interval_ns"] / M
    if name == "fio" and rule.startswith("thesis"):
        return cpu_share + memory_share
    return max(cpu_share, memory_share)


def windows(turns):
    """(look at its begin, look at its end, ground truth) of each window."""
    return [(before, look, truth) for looks in turns for (before, _), (look, truth) in zip(looks, looks[1:])]


def alone(rule, turns):
    """The dominant share of the only process, in each window."""
    out = []
    for before, look, truth in windows(turns):
        (now,), (then,) = look["loads"], before["loads"]
        cpu_share = (now["cpu_ns"] - then["cpu_ns"]) / (look["ns"] - before["ns"]) / CPUS
        out.append(dominant(now, rule, cpu_share, truth))
    return out


def errors(rule, weights, turns):
    """Error of the ratio of dominant shares, foreground to background, in each window (%)."""
    out = []
    for before, look, truth in windows(turns):
        ns = look["ns"] - before["ns"]
        shares = [
            dominant(now, rule, (now["cpu_ns"] - then["cpu_ns"]) / ns / CPUS, truth)
            for now, then in zip(look["loads"], before["loads"])
        ]
        ratio = shares[0] / statistics.mean(shares[1:])
        out.append((100 * (ratio * weights[1] / weights[0] - 1), shares[0], statistics.mean(shares[1:])))
    return out


def limits(sets, directory, boot):
    """What fio's fair part of the memory is beside each foreground process: the rest, or half of what both moved."""
    by_set = {
        key[0]: [statistics.median(values) for values in timed(turns)]
        for key, turns in runs(directory, boot)
        if sets[key[0]]["foreground"] in TIMED
    }
    for number, (_, cores, disk) in by_set.items():
        alone = sets[number].get("alone")
        if alone:
            demand, total = by_set[alone][1], cores + disk
            print(f"{number}={1e9 * max(total / 2, total - demand):.0f}")


def kernels_times(sets, directory, boot):
    """What each set takes under the kernel's scheduler in this boot (ns), the median."""
    times = {}
    for (number, rule, _), turns in runs(directory, boot):
        if rule in KERNELS and sets[number]["foreground"] in TIMED:
            times.setdefault(number, []).extend(timed(turns)[0])
    return {number: statistics.median(values) for number, values in times.items()}


def timed_rows(sets, directory, provenance, missed):
    base, allowed, out = {}, {}, []
    for boot, title in BOOTS.items():
        of_boot = kernels_times(sets, directory, boot)
        for (number, rule, weights), turns in runs(directory, boot):
            if sets[number]["foreground"] not in TIMED:
                continue
            times, cores, disk = timed(turns)
            # Each controller's FR-FCFS has its own figures alone; all others are held against the first.
            own = boot if boot == "eevdf-1" else ""
            if boot in ("eevdf", "eevdf-1"):
                base[own, number] = statistics.median(times)
            of_set = sets[number].get("alone", number)
            alone = base[own, of_set]
            slowdowns = [ns / alone for ns in times]
            slowdown = statistics.median(slowdowns)
            if boot == "limited":
                allowed[number] = slowdown
            name = f"{title}{RULES[rule]}, weight {weights[0]}"
            if "scx_drfq" in title and rule in KERNELS:
                name = title.replace("scx_drfq", "EEVDF in the boot of scx_drfq") + KERNELS[rule]
            verdict = ""
            judged = name.startswith("scx_drfq") and weights[0] == 1 and "alone" in sets[number]
            if judged and number in allowed:
                verdict = "held" if slowdown <= ALLOWED * allowed[number] else "missed"
                if verdict == "missed" and rule in JUDGED:
                    missed.append(f"set {number}, {name}: {slowdown:.3f}, not {ALLOWED * allowed[number]:.3f}")
            elif judged and rule in JUDGED:
                missed.append(f"set {number}, {name}: not judged, for lack of an fio that is limited to its fair share")
            rates = f"CPUs {statistics.median(cores):.4f}, disk {statistics.median(disk):.4f} bytes/ns"
            spread = f"(n = {len(slowdowns)}, {min(slowdowns):.3f} to {max(slowdowns):.3f})"
            print(f"set {number}, {name}: {slowdown:.3f} x alone {spread}; {rates} {verdict}")
            about = {"case": f"{number}: {sets[number]['title']}", "variant": name, **provenance}
            limit = f"{ALLOWED * allowed[number]:.3f}" if verdict else ""
            time = "slowdown" if "alone" in sets[number] else "time alone"
            out.append(median_row(slowdowns, 3, **about, what=time, unit="x", at_most=limit, verdict=verdict))
            if name.startswith("scx_drfq") and of_set in of_boot:
                slowdowns = [ns / of_boot[of_set] for ns in times]
                print(f"  {statistics.median(slowdowns):.3f} x alone under EEVDF in this boot")
                out.append(median_row(slowdowns, 3, **about, what=f"{time}, by this boot's", unit="x"))
            out += [
                median_row(values, 4, **about, what=what, unit="bytes/ns")
                for what, values in (("disk", disk), ("CPUs", cores))
            ]
    return out


def rated_rows(sets, directory, provenance, missed):
    """What readers of the disk keep of their rate alone under EEVDF."""
    alone, out = {}, []
    for boot, title in BOOTS.items():
        for (number, rule, weights), turns in runs(directory, boot):
            description = sets[number]
            if "least_pct" not in description:
                continue
            rates = [1e3 * moved(truth)[1] / truth["interval_ns"] for _, _, truth in windows(turns)]
            name = f"{title}{RULES[rule]}" + ("" if weights[1] else ", alone")
            if boot == "eevdf" and not weights[1]:
                alone[number] = statistics.median(rates)
            kept = [100 * rate / alone[number] for rate in rates]
            verdict = "held" if statistics.median(kept) >= description["least_pct"] else "missed"
            about = {"case": f"{number}: {description['title']}", "variant": name, **provenance}
            print(
                f"set {number}, {name}: {statistics.median(rates):.2f} MB/s, {statistics.median(kept):.2f} % {verdict}"
            )
            out.append(median_row(rates, **about, what="rate", unit="MB/s"))
            what = "rate against alone under EEVDF"
            out.append(median_row(kept, **about, what=what, unit="%", expected="100", verdict=verdict))
            if verdict == "missed" and rule in JUDGED:
                missed.append(f"set {number}, {name}: less than {description['least_pct']} %")
    return out


def judge_error(key, weights, error, description):
    """What an error of shares misses, in a list."""
    boot, rule, number = key
    ratio = f"{weights[0]}:{weights[1]}"
    if rule not in JUDGED:
        return []
    thesis = abs(description["thesis_error_pct"][description["weights"].index(list(weights))])
    bound = MISSED.get(key, {}).get(ratio, thesis)
    return [f"set {number}, {boot}, {rule}, {ratio}: {error:+.2f} %, not {bound:.1f} %"] if abs(error) > bound else []


def share_rows(sets, directory, provenance, missed):
    out, demands = [], {}
    for boot, title in BOOTS.items():
        for (number, rule, weights), turns in runs(directory, boot):
            description = sets[number]
            if description["foreground"] in TIMED or "least_pct" in description:
                continue
            about = {"case": f"{number}: {description['title']}", "variant": f"{title}{RULES[rule]}", **provenance}
            if 0 in weights:
                name = turns[0][0][0]["loads"][0]["name"]
                share = alone(rule, turns)
                demands[boot, number, weights[1]] = statistics.median(share)
                print(f"set {number}, {about['variant']}: {name} alone takes {statistics.median(share):.3f} of m")
                percent = [100 * one for one in share]
                out.append(median_row(percent, **about, what=f"{name} alone", unit="% of m"))
                continue
            found = errors(rule, weights, turns)
            error = [one[0] for one in found]
            shares = [statistics.median(one[i] for one in found) for i in (1, 2)]
            name = f"{title}{RULES[rule]}"
            print(
                f"set {number}, {name}, {weights[0]}:{weights[1]}: error {statistics.median(error):+.2f} % "
                f"(n = {len(error)}, {min(error):+.2f} to {max(error):+.2f}), dominant shares {shares[0]:.3f}, "
                f"{shares[1]:.3f}"
            )
            missed += judge_error((boot, rule, number), weights, statistics.median(error), description)
            what = f"error at {weights[0]}:{weights[1]}"
            out.append(median_row(error, **about, what=what, unit="%", expected="0"))
            wanted = [demands.get((boot, number, i)) for i in (0, 1)]
            if None not in wanted:
                # As if neither slowed the other down.
                fair = fill(list(weights), list(wanted), 1)
                print(
                    f"  by weights {weights[0] / weights[1]:.2f}, by max-min of what each takes alone "
                    f"{fair[0] / fair[1]:.2f} ({fair[0]:.3f}, {fair[1]:.3f}), measured {shares[0] / shares[1]:.2f}"
                )
    return out


def main():
    mode, sets_file, directory, *words = sys.argv[1:]
    sets = tomllib.loads(Path(sets_file).read_text(encoding="utf-8"))
    directory = Path(directory)
    if mode == "limits":
        limits(sets, directory, *words)
        return 0
    rows_file, commit, date, *wanted = words
    provenance = {"series": "sets", "commit": commit, "date": date}
    missed = lacking(directory, wanted)
    rows = []
    for find in (share_rows, timed_rows, rated_rows):
        rows += find(sets, directory, provenance, missed)
    write_rows(Path(rows_file), rows)
    for one in missed:
        print(f"FAILED: {one}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
