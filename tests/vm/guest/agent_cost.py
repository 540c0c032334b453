# SPDX-License-Identifier: GPL-2.0-only
"""Counts the instructions of an agent that shares memory among many groups, by the CPU's own counter.

agent_cost.py SCX_DRFQ, as root in a modelled machine with RDT and at least 88 monitoring ids, with its guest programs
in the PATH. Readers keep all CPUs busy, and threads that mostly sleep make it 1,000 tasks. Prints lines of JSON: the
instructions of the agent's process in each 100 ms, and how long one read of a group's counter of traffic takes beside
the readers. Fails if the agent executes more than MOST.
"""

import json
import os
import signal
import subprocess
import sys
import time

from scheduler import PATIENCE_S, children, spin, start, stats, wait

RESCTRL = "/sys/fs/resctrl"
READERS = 79
TASKS = 1000
WINDOWS, WINDOW_S = 3, 2
READS = 400
# An answer with 1,000 tasks takes seconds on this machine.
ANSWER_S = 200
# Instructions in 100 ms: 1 % of a CPU of 3 GHz that executes one in each cycle.
MOST = 3e6
# Each second each thread works a little, so that none is unknown to the scheduler or unchanged since the last look.
SLEEPERS = """
import sys, threading, time
def work():
    while True:
        time.sleep(1)
threading.stack_size(65536)
for _ in range(int(sys.argv[1]) - 1):
    threading.Thread(target=work, daemon=True).start()
work()
"""


def instructions(pid):
    """What the process executes in WINDOW_S, by user and kernel."""
    command = f"perf stat -x, -e instructions:u,instructions:k -p {pid} -- sleep {WINDOW_S}"
    text = subprocess.run(command.split(), check=True, capture_output=True, text=True).stderr
    return [int(line.split(",")[0]) for line in text.splitlines() if "instructions" in line]


def read_times_us():
    """Reads a group's counter again and again, as the agent does."""
    groups = [name for name in os.listdir(f"{RESCTRL}/mon_groups") if name.startswith("drfq_")]
    domain = os.listdir(f"{RESCTRL}/mon_groups/{groups[0]}/mon_data")[0]
    files = [
        os.open(f"{RESCTRL}/mon_groups/{group}/mon_data/{domain}/mbm_total_bytes", os.O_RDONLY) for group in groups
    ]
    times = []
    for turn in range(READS):
        began = time.monotonic_ns()
        os.pread(files[turn % len(files)], 64, 0)
        times.append((time.monotonic_ns() - began) / 1e3)
    for file in files:
        os.close(file)
    return len(groups), sorted(times)


def check(agent):
    """Prints and judges the instructions of each window, in which nobody asks the agent."""
    windows = [[count / WINDOW_S / 10 for count in instructions(agent.pid)] for _ in range(WINDOWS)]
    found = stats(ANSWER_S)
    counts = {"tasks": len(found["tasks"]), "groups": len(found["system"]["mba"]["groups"])}
    for user, kernel in windows:
        told = counts | {"user_per_100ms": round(user), "kernel_per_100ms": round(kernel)}
        print(json.dumps(told), flush=True)
    assert counts["tasks"] >= TASKS and counts["groups"] >= READERS, counts
    assert max(map(sum, windows)) <= MOST, windows


def main():
    # Beside 79 readers it would take long to load.
    agent = start(sys.argv[1], "--mba", "on", "--entity", "task", event="auto")
    (sleepers,) = spin(1, sys.executable, "-c", SLEEPERS, str(TASKS - READERS))
    wait("the sleepers run", lambda: len(os.listdir(f"/proc/{sleepers.pid}/task")) == TASKS - READERS)
    streams = [f"read@{turn % os.cpu_count()}" for turn in range(READERS)]
    (load,) = spin(1, "stream", "-r", "-k", "4096", "-s", "100000", *streams)
    wait("the readers run", lambda: len(children(load.pid)) == READERS)
    print(f"{READERS} readers and {TASKS - READERS} sleepers run", flush=True)
    # It chooses what to monitor from its second look on.
    time.sleep(4)
    groups, times = read_times_us()
    centiles = {f"p{p}": round(times[len(times) * p // 100], 1) for p in (50, 99)}
    print(json.dumps({"reads_us": centiles, "groups": groups, "reads": len(times)}), flush=True)
    check(agent)
    for pid in (*children(load.pid), load.pid, sleepers.pid):
        os.kill(pid, signal.SIGKILL)
    agent.send_signal(signal.SIGINT)
    assert agent.wait(timeout=PATIENCE_S) == 0


main()
