# SPDX-License-Identifier: GPL-2.0-only
"""What programs are charged under scx_drfq, which drives the controller of the machine `disk`.

missed.py SCX_DRFQ DRFQ_LOAD, as root in that machine, its guest programs in the PATH. For each case it prints a line of
JSON. Its windows are the next WINDOWS lines of the machine's ground truth after one that ends the time before.
"""

import json
import os
import signal
import sys
import time

import sets
from monitoring import mount
from scheduler import PATIENCE_S, start, stats, wait

# What tells that its initialisation is over, and does not end.
ENDLESS = {"fdtd": ("--steps", "1000000"), "chase": ("--kib", "16384", "--steps", "1000000")}
WINDOWS, WINDOW_S, WARM_UP_S = 5, 1.5, 2
CASES = (("fdtd",), ("fdtd", "fio"), ("mbw", "chase"), ("fdtd", "chase"), ("mbw", "fdtd"))


def charged(load):
    """What the threads of a process were charged so far (bytes)."""
    threads = {int(thread) for thread in os.listdir(f"/proc/{load.process.pid}/task")}
    return sum(task["bytes"] for task in stats()["tasks"] if task["pid"] in threads)


def look(loads):
    sets.look({}, loads)
    return [charged(load) for load in loads]


def run(names):
    loads = [sets.Load(name, 1, pinned=False) for name in names]
    for load in loads:
        if load.name in ENDLESS:
            assert load.read() == {"ready": True}
        wait(f"{load.name} runs", load.runs, load.process.pid)
    time.sleep(WARM_UP_S)
    looks = [look(loads)]
    for _ in range(WINDOWS):
        time.sleep(WINDOW_S)
        looks.append(look(loads))
    found = [[after - before for before, after in zip(*pair)] for pair in zip(looks, looks[1:])]
    print(json.dumps({"case": names, "rmids": [load.rmid for load in loads], "charged": found}), flush=True)
    for load in loads:
        load.end()


def main():
    scx_drfq, drfq_load = sys.argv[1:]
    sets.FIXED_WORK |= {name: [drfq_load, "--json", "-", name, *options] for name, options in ENDLESS.items()}
    mount()
    options = ("--weights", "thesis", "--memory-bandwidth", str(sets.M_BYTES_PER_S), "--controller", "mmio:auto")
    agent = start(scx_drfq, *options, event="auto")
    for names in CASES:
        run(names)
    agent.send_signal(signal.SIGINT)
    assert agent.wait(timeout=PATIENCE_S) == 0


main()
