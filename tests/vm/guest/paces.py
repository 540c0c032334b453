# SPDX-License-Identifier: GPL-2.0-only
"""Loads that keep to their parts of the memory by themselves, for bandwidth_shares.py in the guest.

Nothing throttles them, and no agent runs. So their total is what exact shares leave at best: the heaviest load per
weight takes all that it can, and each other one what this allows it.
"""

import subprocess
import time

from monitoring import RESCTRL
from scheduler import children, wait

# Each try starts the loads anew, waits, and reads what they moved.
TRIES = 8
WARM_UP_S = 0.5
LOOK_S = 1.0
# A copy counts its bytes once, and reads the source, reads the destination and writes it back.
TRAFFIC_PER_BYTE = {"copy": 3, "read": 1, "write": 2}


def start(command, ops, paces):
    """Starts `command OP@CPU`, a process for each load. paces: of its traffic in bytes/s; none where it has none."""
    loads = []
    for number, (op, pace) in enumerate(zip(ops, paces)):
        limit = ["-m", f"{pace / TRAFFIC_PER_BYTE[op] / 1e6:.3f}"] if pace else []
        loads.append(subprocess.Popen([*command, *limit, f"{op}@{number}"], stdout=subprocess.DEVNULL))
    wait("the loads run", lambda: all(len(children(load.pid)) == 1 for load in loads))
    return loads


def stop(loads):
    # A stream ends with its parent.
    for load in loads:
        load.kill()
        load.wait()


def join(names, loads):
    for name, load in zip(names, loads):
        for pid in children(load.pid):
            with open(f"{RESCTRL}/mon_groups/{name}/tasks", "w", encoding="ascii") as file:
                file.write(f"{pid}\n")


def counts(names):
    found = []
    for name in names:
        with open(f"{RESCTRL}/mon_groups/{name}/mon_data/mon_L3_00/mbm_total_bytes", encoding="ascii") as file:
            found.append(int(file.read()))
    return found


def rates(names):
    before, began = counts(names), time.monotonic()
    time.sleep(LOOK_S)
    after, took = counts(names), time.monotonic() - began
    return [(new - old) / took for old, new in zip(before, after)]


def search(command, ops, weights, names):
    """Starts loads whose traffic follows their weights, in the monitoring groups `names`. Returns the processes."""
    heaviest = max(range(len(weights)), key=lambda number: weights[number])
    paces = [None] * len(ops)
    for number in range(TRIES):
        loads = start(command, ops, paces)
        join(names, loads)
        time.sleep(WARM_UP_S)
        if number == TRIES - 1:
            break
        moved = rates(names)
        level = moved[heaviest] / weights[heaviest]
        print("parts", *(f"{rate / weight / level:.4f}" for rate, weight in zip(moved, weights)), flush=True)
        # The heaviest load gains what the others lose. Half a step keeps that from overshooting.
        paces = [(pace or rate) * (level * weight / rate) ** 0.5 for pace, rate, weight in zip(paces, moved, weights)]
        paces[heaviest] = None
        stop(loads)
    return loads
