# SPDX-License-Identifier: GPL-2.0-only
"""What scx_drfq's throttling is compared with, for bandwidth_shares.py in the guest.

Each load has a class of service, or a layer. All of these are told the weights and what full memory moves; they know no
demand.

  static     levels by coordinate search, which then stay
  mba_MBps   the kernel's own loop, to which each load's part is a limit in MiB/s
  kp         proportional control of the level, kp = 0.1 of the full scale per target, each 100 ms
  layered    scx_layered with a layer for each load, to which its part is membw_gb; it gives and takes whole CPUs
"""

import json
import os
import signal
import subprocess
import tempfile
import time

RESCTRL = "/sys/fs/resctrl"
LEVELS = range(10, 101, 10)
PERIOD_S = 0.1
# A search measures SETTLE_S after a change, for LOOK_S, at most TRIES times.
SETTLE_S = 0.1
LOOK_S = 0.4
TRIES = 30
# The total counts as much as this part of the spread.
TOTAL = 0.25
MIB = 1 << 20
GIB = 1 << 30


def write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(f"{text}\n")


class Groups:
    """A group of resctrl for each load. directory: where they are made."""

    def __init__(self, pids, weights, directory=RESCTRL, option=None):
        options = ["-o", option] if option else []
        subprocess.run(["mount", "-t", "resctrl", *options, "resctrl", RESCTRL], check=True)
        self.weights = [float(weight) for weight in weights]
        self.paths = [f"{directory}/load{number}" for number in range(len(pids))]
        for path, pid in zip(self.paths, pids):
            os.mkdir(path)
            write(f"{path}/tasks", pid)

    def close(self):
        for path in self.paths:
            os.rmdir(path)
        subprocess.run(["umount", RESCTRL], check=True)

    def bytes(self):
        counts = []
        for path in self.paths:
            with open(f"{path}/mon_data/mon_L3_00/mbm_total_bytes", encoding="ascii") as file:
                counts.append(int(file.read()))
        return counts

    def rates(self, seconds):
        """Bytes per second of each load in the next seconds."""
        before, began = self.bytes(), time.monotonic()
        time.sleep(seconds)
        after, took = self.bytes(), time.monotonic() - began
        return [(new - old) / took for old, new in zip(before, after)]

    def parts(self, total):
        """Each load's part of `total` by weight."""
        return [total * weight / sum(self.weights) for weight in self.weights]


class Classes(Groups):
    """The loads' classes of service."""

    def __init__(self, pids, weights, option=None):
        super().__init__(pids, weights, option=option)
        self.levels = [100] * len(pids)

    def limit(self, number, value):
        write(f"{self.paths[number]}/schemata", f"MB:0={value}")

    def set(self, levels):
        for number, (old, new) in enumerate(zip(self.levels, levels)):
            if old != new:
                self.limit(number, new)
        self.levels = list(levels)


class Layers(Groups):
    """scx_layered. It chooses CPUs, so the loads may run on all. Its groups only monitor."""

    def __init__(self, pids, weights, command):
        super().__init__(pids, weights, f"{RESCTRL}/mon_groups")
        cpus = range(os.cpu_count())
        time.sleep(SETTLE_S)
        layers = [
            {
                "name": f"load{number}",
                "matches": [[{"CgroupPrefix": f"hog{number}"}]],
                "kind": {"Confined": {"util_range": [0.8, 0.9], "cpus_range": [0, 1], "membw_gb": part / GIB}},
            }
            for number, part in enumerate(self.parts(sum(self.rates(LOOK_S))))
        ]
        layers.append({"name": "rest", "matches": [[]], "kind": {"Open": {}}})
        with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as file:
            json.dump(layers, file)
        self.process = subprocess.Popen([*command, "scx_layered", f"f:{file.name}"])
        for pid in pids:
            os.sched_setaffinity(pid, cpus)

    def close(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(timeout=300)
        super().close()


def judge(classes, levels, full):
    """How bad levels are, and the loads' traffic per weight."""
    classes.set(levels)
    time.sleep(SETTLE_S)
    rates = classes.rates(LOOK_S)
    per_weight = [rate / weight for rate, weight in zip(rates, classes.weights)]
    spread = max(per_weight) / min(per_weight) - 1
    return spread + TOTAL * (1 - sum(rates) / full), per_weight


def search(classes):
    """Finds levels: the richest load steps down or the poorest up, and what helps stays."""
    full = sum(classes.rates(LOOK_S))
    best = list(classes.levels)
    cost, per_weight = judge(classes, best, full)
    tried = {tuple(best)}
    step = 30
    while len(tried) < TRIES:
        order = sorted(range(len(best)), key=lambda number: -per_weight[number])
        moves = [(number, -step) for number in order] + [(number, step) for number in reversed(order)]
        for number, change in moves:
            levels = list(best)
            levels[number] = min(max(levels[number] + change, LEVELS[0]), LEVELS[-1])
            if tuple(levels) in tried:
                continue
            tried.add(tuple(levels))
            new_cost, new_per_weight = judge(classes, levels, full)
            if new_cost < cost:
                best, cost, per_weight = levels, new_cost, new_per_weight
                break
            if len(tried) >= TRIES:
                break
        else:
            if step == LEVELS.step:
                break
            step //= 3
            step -= step % LEVELS.step
            step = max(step, LEVELS.step)
    classes.set(best)
    print("levels", *best, f"after {len(tried)} tries", flush=True)


def limit_by_kernel(classes, full):
    for number, part in enumerate(classes.parts(full)):
        classes.limit(number, max(round(part / MIB), 1))


def control(classes, full, until):
    """Moves the levels until the time `until` returns something."""
    wanted, parts = [100.0] * len(classes.levels), classes.parts(full)
    while not until():
        for number, rate in enumerate(classes.rates(PERIOD_S)):
            wanted[number] += 10 * (parts[number] - rate) / parts[number]
            wanted[number] = min(max(wanted[number], LEVELS[0]), LEVELS[-1])
        classes.set([round(level / LEVELS.step) * LEVELS.step for level in wanted])
