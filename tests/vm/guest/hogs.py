# SPDX-License-Identifier: GPL-2.0-only
"""Hogs, their fair shares, and what the kernel counts for them."""

import os
import pathlib
import subprocess
import time

CGROUPS = pathlib.Path("/sys/fs/cgroup")
# The kernel's sched_prio_to_weight[], of some nice values.
WEIGHT = {-5: 3121, -3: 1991, 0: 1024, 3: 526, 5: 335}
SCHED_EXT = 7
CPUCLOCK_SCHED = 2


def cpu_ns(pid):
    """The CPU time of a process up to now, as the kernel counts it."""
    return time.clock_gettime_ns((~pid << 3) | CPUCLOCK_SCHED)


def idle_s():
    """The time that all CPUs have idled."""
    with open("/proc/stat", encoding="ascii") as file:
        fields = file.readline().split()
    return (int(fields[4]) + int(fields[5])) / os.sysconf("SC_CLK_TCK")


def group(path, weight=100):
    """Makes a cgroup below those that exist."""
    made = CGROUPS / path
    made.parent.joinpath("cgroup.subtree_control").write_text("+cpu +cpuset", encoding="ascii")
    made.mkdir()
    made.joinpath("cpu.weight").write_text(str(weight), encoding="ascii")
    return made


def used_s(path):
    """The CPU time of a cgroup, as the kernel counts it."""
    first = path.joinpath("cpu.stat").read_text(encoding="ascii").splitlines()[0]
    assert first.startswith("usage_usec "), first
    return int(first.split()[1]) / 1e6


def fair(weights, cpus):
    """The CPUs that each of some hogs gets by weighted max-min fairness; none runs on two at once."""
    shares, left = [None] * len(weights), float(cpus)
    while None in shares:
        waiting = [i for i, share in enumerate(shares) if share is None]
        level = left / sum(weights[i] for i in waiting)
        full = [i for i in waiting if weights[i] * level > 1]
        for i in full or waiting:
            shares[i] = 1.0 if full else weights[i] * level
        left -= len(full)
    return shares


class Hogs:
    """Processes that always want a CPU. They end with this program at the latest."""

    def __init__(self, load):
        self._load = load
        self._all = []

    def start(self, count=1, nice=0, cpus=None, cgroup=None, policy=None):
        """Starts hogs and returns their process ids."""
        words = [self._load, f"--nice={nice}", *([f"--cpus={cpus}"] if cpus else []), "hog"]

        def prepare():
            if cgroup:
                cgroup.joinpath("cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
            if policy is not None:
                os.sched_setscheduler(0, policy, os.sched_param(0))

        # This program has no threads.
        started = [
            subprocess.Popen(words, stdout=subprocess.DEVNULL, preexec_fn=prepare)  # noqa: PLW1509
            for _ in range(count)
        ]
        self._all += started
        return [process.pid for process in started]

    def end(self):
        """Ends them all."""
        for process in self._all:
            process.kill()
        for process in self._all:
            process.wait()
        self._all = []


def others_ns(pids):
    """The CPU time of each task of other processes up to now, as the kernel counts it. The caller is left out."""
    ours, used = {*pids, os.getpid()}, {}
    for path in pathlib.Path("/proc").glob("[0-9]*/task/*/schedstat"):
        try:
            if int(path.parts[2]) not in ours:
                used[path] = int(path.read_text(encoding="ascii").split()[0])
        except OSError:
            pass  # The task has ended.
    return used


def shares(pids, seconds, warmup=1.0):
    """The CPUs that each process gets."""
    time.sleep(warmup)
    begin, before = time.monotonic_ns(), [cpu_ns(pid) for pid in pids]
    time.sleep(seconds)
    end, after = time.monotonic_ns(), [cpu_ns(pid) for pid in pids]
    return [(now - then) / (end - begin) for now, then in zip(after, before, strict=True)]


def shares_and_others(pids, seconds):
    """The CPUs that each process gets, and an upper bound of those that all other tasks use together meanwhile.

    What they use is counted from before the warm-up on: to read it takes a CPU from a hog, which makes up for it.
    """
    before = others_ns(pids)
    got = shares(pids, seconds)
    return got, sum(used_since(before, pids).values()) / 1e9 / seconds


def used_since(before, pids):
    """What each task of other processes used since `others_ns` gave `before`, in ns."""
    return {path: now - before.get(path, 0) for path, now in others_ns(pids).items()}


def settle(pids, part=0.02, limit_s=30.0):
    """Waits until all other tasks together use at most a part of a CPU for a second."""
    begin = time.monotonic()
    while True:
        then, before = time.monotonic_ns(), others_ns(pids)
        time.sleep(1)
        used = used_since(before, pids)
        if sum(used.values()) <= part * (time.monotonic_ns() - then):
            return
        if time.monotonic() - begin > limit_s:
            busy = sorted(used, key=used.get)[-3:]
            names = [f"{path.with_name('comm').read_text().strip()} {used[path] / 1e6:.0f} ms" for path in busy]
            raise AssertionError(f"other tasks still run: {', '.join(names)} in a second")


def compare(what, got, want, within_pct):
    """Prints shares beside those that are expected, and fails beyond a deviation."""
    worst = max(abs(a / b - 1) for a, b in zip(got, want, strict=True)) * 100
    numbers = " ".join(f"{a:.4f}/{b:.4f}" for a, b in zip(got, want, strict=True))
    print(f"{what}: {numbers} CPUs of expected ones, worst deviation {worst:.2f} %", flush=True)
    assert worst <= within_pct, f"{what}: {worst:.2f} % instead of at most {within_pct} %"


def compare_alone(what, got, others, within_pct):
    """Fails if a process alone on a CPU lost more of it than all other tasks of the machine used."""
    print(f"{what}: {got:.4f} CPUs; all other tasks used {others:.4f} on all CPUs", flush=True)
    assert others <= 0.1, f"{what}: other tasks used {others:.4f} CPUs, so the share says little"
    assert 1 - others - within_pct / 100 <= got <= 1.001, f"{what}: {got:.4f} CPUs"
