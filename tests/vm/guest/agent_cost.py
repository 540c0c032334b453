# SPDX-License-Identifier: GPL-2.0-only
"""Counts the instructions of an agent that shares memory among many groups, by the CPU's own counter.

agent_cost.py SCX_DRFQ, as root in a modelled machine with RDT, with its guest programs in the PATH. As many readers as
there are monitoring ids keep all CPUs busy, and threads that mostly sleep make it 1,000 tasks. Prints lines of JSON:
the instructions of the agent's process in each 100 ms, for each mode of --mba and each window, and how long one read of
a group's counter of traffic takes beside the readers.
"""

import json
import os
import signal
import subprocess
import sys
import time

from scheduler import PATIENCE_S, children, cpu_s, spin, start, stats, wait

RESCTRL = "/sys/fs/resctrl"
TASKS = 1000
WINDOWS, WINDOW_S = 3, 4
READS = 1000
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


def number(path):
    with open(path, encoding="ascii") as file:
        return int(file.read())


def instructions(pid):
    """What the process executes in WINDOW_S, by user and kernel."""
    command = [
        "perf",
        "stat",
        "-x,",
        "-e",
        "instructions:u,instructions:k",
        "-p",
        str(pid),
        "--",
        "sleep",
        str(WINDOW_S),
    ]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    return [int(line.split(",")[0]) for line in text.splitlines() if "instructions" in line]


def read_times_us():
    """Reads a group's counter again and again, as the agent does."""
    groups = [name for name in os.listdir(f"{RESCTRL}/mon_groups") if name.startswith("scx_drfq")]
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


def measure(mode, scx_drfq):
    agent = start(scx_drfq, "--mba", mode, "--entity", "task", event="auto")
    # It chooses what to monitor from its second look on.
    time.sleep(3)
    for window in range(WINDOWS):
        cpu_before_s = cpu_s(agent.pid)
        user, kernel = instructions(agent.pid)
        found = stats()
        print(
            json.dumps(
                {
                    "mba": mode,
                    "window": window,
                    "tasks": len(found["tasks"]),
                    "groups": len(found["mba"]["groups"]),
                    "user_per_100ms": round(user / WINDOW_S / 10),
                    "kernel_per_100ms": round(kernel / WINDOW_S / 10),
                    "cpu_percent": round(100 * (cpu_s(agent.pid) - cpu_before_s) / WINDOW_S, 2),
                }
            ),
            flush=True,
        )
    if mode == "on":
        groups, times = read_times_us()
        centiles = {f"p{p}": round(times[len(times) * p // 100], 1) for p in (50, 99)}
        print(json.dumps({"reads_us": centiles, "groups": groups, "reads": len(times)}), flush=True)
    agent.send_signal(signal.SIGINT)
    assert agent.wait(timeout=PATIENCE_S) == 0


def main():
    ids = number(f"{RESCTRL}/info/L3_MON/num_rmids") if os.path.isdir(f"{RESCTRL}/info") else 79
    cpus = os.cpu_count()
    streams = [f"read@{turn % cpus}" for turn in range(ids)]
    (load,) = spin(1, "stream", "-r", "-k", "4096", "-s", "100000", *streams)
    wait("the readers run", lambda: len(children(load.pid)) == ids)
    (sleepers,) = spin(1, sys.executable, "-c", SLEEPERS, str(TASKS - ids))
    wait("the sleepers run", lambda: len(os.listdir(f"/proc/{sleepers.pid}/task")) == TASKS - ids)
    for mode in ("off", "on"):
        measure(mode, sys.argv[1])
    for pid in (*children(load.pid), load.pid, sleepers.pid):
        os.kill(pid, signal.SIGKILL)


main()
