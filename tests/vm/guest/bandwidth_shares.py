# SPDX-License-Identifier: GPL-2.0-only
"""Measures how memory loads share memory bandwidth, by the modelled machine's own count.

bandwidth_shares.py SCX_DRFQ SECONDS LOADS MODE[=LOADS] ..., as root in the modelled machine, with its guest programs in
the PATH. LOADS are OP:WEIGHT (copy:100,read:200), one a CPU in turn: what `stream` does, in a cgroup of that
cpu.weight. MODE is one of:

  eevdf              no scx_drfq
  solo               no scx_drfq, and each load runs alone for one second after another
  off, observe, on   values of --mba
  killed             as on, but SIGKILL ends the agent

For each mode it prints "MODE MARK LOADS" with the number of records of ground truth that come before the mode's first
one. SECONDS + 1 records follow, one second apart; for `solo`, one more than there are loads.
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
SETTLE_S = 2


def write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(str(text))


def read(path):
    with open(path, encoding="ascii") as file:
        return file.read()


def make_cgroups(weights):
    for number, weight in enumerate(weights):
        os.makedirs(f"{CGROUPS}/hog{number}", exist_ok=True)
        write(f"{CGROUPS}/hog{number}/cpu.weight", weight)


def children(pid):
    return [int(child) for child in read(f"/proc/{pid}/task/{pid}/children").split()]


def start_hogs(ops):
    cpus = os.cpu_count()
    streams = [f"{op}@{number % cpus}" for number, op in enumerate(ops)]
    (load,) = spin(1, "stream", "-r", "-s", "100000", *streams)
    wait("the hogs run", lambda: len(children(load.pid)) == len(ops))
    for number, pid in enumerate(children(load.pid)):
        write(f"{CGROUPS}/hog{number}/cgroup.procs", pid)
    return load


def stop_hogs(load):
    for pid in (*children(load.pid), load.pid):
        os.kill(pid, signal.SIGKILL)
    load.wait()


def stop(process, number):
    process.send_signal(number)
    return process.wait(timeout=PATIENCE_S)


def leftovers():
    """Our groups in resctrl; an unmounted one has none."""
    if not os.path.isdir(f"{RESCTRL}/info"):
        return []
    found = os.listdir(RESCTRL) + os.listdir(f"{RESCTRL}/mon_groups")
    return [name for name in found if name.startswith("drfq_")]


def record():
    subprocess.run(["report_ground_truth"], check=True)


def measure(seconds):
    for second in range(seconds + 1):
        if second:
            time.sleep(1)
        record()


def measure_alone(pids):
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    record()
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
        time.sleep(1)
        record()
        os.kill(pid, signal.SIGSTOP)


def run(scx_drfq, mode, name, seconds, ops):
    """Returns the number of records."""
    agent = None
    if mode not in ("eevdf", "solo"):
        trace = f"{os.environ['DRFQ_VM_OUT']}/trace-{name}.jsonl"
        mba = "on" if mode == "killed" else mode
        # A busy machine takes long to load it.
        agent = start(scx_drfq, "--mba", mba, "--mba-trace", trace, event="auto")
    load = start_hogs(ops)
    time.sleep(SETTLE_S)
    if mode == "solo":
        pids = children(load.pid)
        measure_alone(pids)
        stop_hogs(load)
        return len(pids) + 1
    measure(seconds)
    if agent:
        print("stats", json.dumps(stats()["system"]["mba"]), flush=True)
        if mode == "killed":
            assert any(name.startswith("drfq_c") for name in leftovers()), "no hog is throttled"
        ended = stop(agent, signal.SIGKILL if mode == "killed" else signal.SIGINT)
        assert mode == "killed" or ended == 0, ended
        # The agent had mounted resctrl.
        wait("no group and no mount is left", lambda: not os.path.isdir(f"{RESCTRL}/info"))
    stop_hogs(load)
    return seconds + 1


def main():
    scx_drfq, seconds, loads, *modes = sys.argv[1:]
    write(f"{CGROUPS}/cgroup.subtree_control", "+cpu")
    mark = 0
    for number, wanted in enumerate(modes):
        mode, _, own = wanted.partition("=")
        loads = own or loads
        print(mode, mark, loads, flush=True)
        ops, weights = zip(*(load.split(":") for load in loads.split(",")))
        make_cgroups(weights)
        mark += run(scx_drfq, mode, f"{number}-{mode}", int(seconds), ops)
    print("done", flush=True)


main()
