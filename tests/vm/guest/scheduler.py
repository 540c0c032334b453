# SPDX-License-Identifier: GPL-2.0-only
"""The loaded scheduler, for the test scripts in the guest."""

import ctypes
import glob
import json
import os
import socket
import subprocess
import sys
import time

STATS = "/var/run/scx/root/stats"
# A machine that takes 16 ns for an instruction loads an unoptimised scheduler in more than a minute.
PATIENCE_S = 300
PR_SET_THP_DISABLE = 41


def observe():
    """Makes the caller a real-time task. Its children are ordinary tasks.

    khugepaged has nice 19, and holds the lock of a process's memory while it joins pages. Beside hogs, a page fault
    of the process waits for up to 2 s. So the caller and its children have no huge pages.
    """
    os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    if ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0:
        raise OSError("prctl(PR_SET_THP_DISABLE) failed")


def stuck(pid):
    """What the kernel says of a process that does not do what it should."""
    lines = []
    for name in ("wchan", "syscall", "stack", "status", "sched"):
        try:
            with open(f"/proc/{pid}/{name}", encoding="ascii") as file:
                lines.append(f"{name} of {pid}: {file.read()}")
        except OSError as error:
            lines.append(f"{name} of {pid}: {error}")
    return "\n".join(lines)


def wait(what, true, pid=None):
    """Waits until `true` returns something, and returns that; ends the test after PATIENCE_S.

    Then it tells what the kernel says of the process `pid`.
    """
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        try:
            value = true()
            if value:
                return value
        except (OSError, EOFError, AssertionError, ValueError):
            pass
        time.sleep(0.02)
    sys.exit(f"FAILED: waited {PATIENCE_S} s in vain for: {what}" + (f"\n{stuck(pid)}" if pid else ""))


def ended(process):
    """Waits until a child process ends without an error. To detach BPF programs takes seconds beside hogs."""
    wait(f"the end of {process.args}", lambda: process.poll() is not None, process.pid)
    assert process.returncode == 0, f"{process.args} ended with {process.returncode}"


def connect(timeout_s=10):
    """A connection to the agent's statistics, which a thread of it serves."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(timeout_s)
    connection.connect(STATS)
    return connection


def ask(connection, target="tasks"):
    """The system and its tasks since the connection's last request; the target `top` has the system alone."""
    connection.sendall(json.dumps({"req": "stats", "args": {"target": target}}).encode() + b"\n")
    answer = json.loads(connection.makefile().readline())
    assert answer["errno"] == 0, answer
    return answer["args"]["resp"]


def stats(timeout_s=10, target="tasks"):
    """The same since the scheduler was loaded."""
    with connect(timeout_s) as connection:
        return ask(connection, target)


def tasks(pids):
    found = {task["pid"]: task for task in stats()["tasks"]}
    return [found[pid] for pid in pids if pid in found]


def each(pids, field):
    listed = tasks(pids)
    return len(listed) == len(pids) and all(task[field] > 0 for task in listed)


def ever(pids, field):
    """A condition for `wait`: `field` of each task has been above 0 at some time, not necessarily at the same."""
    missing = set(pids)

    def look():
        missing.difference_update(task["pid"] for task in tasks(pids) if task[field] > 0)
        return not missing

    return look


def state():
    with open("/sys/kernel/sched_ext/state", encoding="ascii") as file:
        return file.read().strip()


def start(scx_drfq, *options, event="none", **process):
    """Starts the agent and returns it once it serves statistics; `event` counts its memory traffic.

    `scx_drfq` is its path, or the words of a command that ends with it. `process` is for subprocess.Popen(). Without
    --mba the agent leaves resctrl alone.
    """
    # An earlier agent must have ended, or it would answer.
    wait("no loaded scheduler", lambda: state() == "disabled")
    command = [scx_drfq] if isinstance(scx_drfq, str) else scx_drfq
    mba = [] if {"--mba", "--throttle"} & {*options} else ["--mba", "off"]
    agent = subprocess.Popen([*command, "--perf-event", event, *mba, *options], **process)
    wait("the scheduler", lambda: stats() and agent.poll() is None)
    return agent


def programs(agent):
    """What /proc tells of each BPF program that the agent has open (fields of fdinfo, as text)."""
    for path in glob.glob(f"/proc/{agent.pid}/fdinfo/*"):
        try:
            with open(path, encoding="ascii") as file:
                fields = dict(line.split(":\t", 1) for line in file.read().splitlines() if ":\t" in line)
        except FileNotFoundError:
            continue  # a connection that has ended
        # A link names its program, too.
        if "run_time_ns" in fields:
            yield fields


def children(pid):
    """The processes that a process has started: of an agent drfq-stats, and with --mba drfq-cleaner before it."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(child) for child in file.read().split()]


def cpu_s(pid):
    """The CPU time (s) of a process and its children, with that of their threads that have ended."""
    # The number of the clock that counts the CPU time of a process (clock_getcpuclockid).
    return sum(time.clock_gettime(~process << 3 | 2) for process in (pid, *children(pid)))


def spin(count, *command):
    """Starts `count` processes that run until they are killed."""
    command = command or ("sh", "-c", "while :; do :; done")
    return [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(count)]


def show(pids, *fields):
    """Prints these statistics of the tasks."""
    for task in tasks(pids):
        print({field: task[field] for field in ("pid", "comm", *fields)}, flush=True)


def report_windows(seconds=0.4):
    """After a warm-up, has the machine report its ground truth at the ends of 5 windows, a line each."""
    time.sleep(0.6)
    for _ in range(5 + 1):
        subprocess.run(["report_ground_truth"], check=True)
        time.sleep(seconds)
