# SPDX-License-Identifier: GPL-2.0-only
"""Measures how four memory hogs share memory bandwidth, by the modelled machine's own count.

bandwidth_shares.py SCX_DRFQ SECONDS WEIGHTS MODE ..., as root in the modelled machine, with its guest programs in the
PATH. The hogs are in cgroups of cpu.weight WEIGHTS (100,200,300,400), each on its own CPU. MODE is eevdf (no scx_drfq),
a value of --mba, or killed: as on, but SIGKILL ends the agent. For each mode it prints "MODE MARK": the number of
records of ground truth that come before the mode's first one. SECONDS + 1 records follow, one second apart.
"""

import json
import os
import signal
import subprocess
import sys
import time

from scheduler import PATIENCE_S, spin, start, stats, wait

CGROUPS = "/sys/fs/cgroup"
RESCTRL = "/sys/fs/resctrl"
SETTLE_S = 3


def write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(str(text))


def read(path):
    with open(path, encoding="ascii") as file:
        return file.read()


def make_cgroups(weights):
    write(f"{CGROUPS}/cgroup.subtree_control", "+cpu")
    for cpu, weight in enumerate(weights):
        os.mkdir(f"{CGROUPS}/hog{cpu}")
        write(f"{CGROUPS}/hog{cpu}/cpu.weight", weight)


def children(pid):
    return [int(child) for child in read(f"/proc/{pid}/task/{pid}/children").split()]


def start_hogs(count):
    streams = [f"copy@{cpu}" for cpu in range(count)]
    (load,) = spin(1, "stream", "-r", "-s", "100000", *streams)
    wait("the hogs run", lambda: len(children(load.pid)) == count)
    for cpu, pid in enumerate(children(load.pid)):
        write(f"{CGROUPS}/hog{cpu}/cgroup.procs", pid)
    return load


def stop(process, number):
    process.send_signal(number)
    return process.wait(timeout=PATIENCE_S)


def leftovers():
    """Our groups in resctrl; an unmounted one has none."""
    if not os.path.isdir(f"{RESCTRL}/info"):
        return []
    found = os.listdir(RESCTRL) + os.listdir(f"{RESCTRL}/mon_groups")
    return [name for name in found if name.startswith("drfq_")]


def measure(seconds):
    for second in range(seconds + 1):
        if second:
            time.sleep(1)
        subprocess.run(["report_ground_truth"], check=True)


def run(scx_drfq, mode, seconds, count):
    agent = None
    if mode != "eevdf":
        # A busy machine takes long to load it.
        agent = start(scx_drfq, "--mba", "on" if mode == "killed" else mode, event="auto")
    load = start_hogs(count)
    time.sleep(SETTLE_S)
    measure(seconds)
    if agent:
        print("stats", json.dumps(stats()["system"]["mba"]), flush=True)
        if mode in ("on", "killed"):
            assert any(name.startswith("drfq_c") for name in leftovers()), "no hog is throttled"
        ended = stop(agent, signal.SIGKILL if mode == "killed" else signal.SIGINT)
        assert mode == "killed" or ended == 0, ended
        # The agent had mounted resctrl.
        wait("no group and no mount is left", lambda: not os.path.isdir(f"{RESCTRL}/info"))
    for pid in (*children(load.pid), load.pid):
        os.kill(pid, signal.SIGKILL)
    load.wait()


def main():
    scx_drfq, seconds, weights, *modes = sys.argv[1:]
    weights = weights.split(",")
    make_cgroups(weights)
    for number, mode in enumerate(modes):
        print(mode, number * (int(seconds) + 1), flush=True)
        run(scx_drfq, mode, int(seconds), len(weights))
    print("done", flush=True)


main()
