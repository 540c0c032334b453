# SPDX-License-Identifier: GPL-2.0-only
"""Thousands of runnable threads under many loads at once, under scx_drfq or under the kernel's own scheduler.

As root in the VM: crowd.py SCX_DRFQ|none SECONDS [--bounds]
Prints what the kernel's log has of stalls and of the watchdog, how long threads waited by the kernel's account, and
what rescues took by our own count. Fails if the scheduler ended or the kernel complained, and with --bounds if a thread
waited for too long or rescues took too much; under the kernel's own scheduler it only tells.
"""

import contextlib
import os
import pathlib
import statistics
import subprocess
import sys
import threading
import time

from scheduler import children, cpu_s, observe, spin, start, state, stats
from waits import TaskStats, longer, unended_waits_s

CGROUPS = pathlib.Path("/sys/fs/cgroup")
# The crowd: so many processes, each with so many threads that sleep and wake up.
SLEEPERS, SLEEPER_THREADS = 4, 1024
CROWD = f"--sleep {SLEEPERS} --sleep-max {SLEEPER_THREADS}"
STRESS = (
    "--cpu 2 --fork 2 --pipe 2 --switch 2 --affinity 2 --timer 1 --vm 1 --vm-bytes 32M --futex 2 --yield 1 --cyclic 1 "
    "--nice 2"
)
# So long the crowd may take to start. The other loads start then, because beside them it would start too slowly.
START_S = 300
# A part of the crowd may lack after that time, but no more.
THREADS_LEAST = SLEEPERS * SLEEPER_THREADS * 3 // 4
# A real-time task that takes a CPU for 0.3 s of 1.3 s.
RT = """
import time
while True:
    end = time.monotonic() + 0.3
    while time.monotonic() < end:
        pass
    time.sleep(1)
"""
TROUBLE = (
    "detected stalls",
    "self-detected stall",
    "runnable task stall",
    "watchdog",
    "soft lockup",
    "WARNING:",
    "BUG:",
)
# So many lines of the kernel's log are shown from each such line on.
EXPLAINED = 12
# A flag of /proc/PID/stat (linux/sched.h).
PF_KTHREAD = 0x200000
# With --bounds, so long any thread and a kernel thread may wait, and so much of each CPU rescues may take. Where a host
# stops virtual CPUs, some packets last far longer, and the first two do not hold.
WAIT_MOST_S = 10.0
KERNELS_WAIT_MOST_S = 1.0
RESCUED_MOST = 0.05
# So long the agent may take to tell of the system, and of more than a thousand tasks as well.
ANSWER_S = {"top": 30, "tasks": 180}


def churn(ended):
    """Makes cgroups, moves a task through them, changes their weights and removes them."""
    CGROUPS.joinpath("cgroup.subtree_control").write_text("+cpu", encoding="ascii")
    sleeper = subprocess.Popen(["sleep", "1000000"])
    count = 0
    while not ended.is_set():
        count += 1
        made = CGROUPS / f"churn{count % 7}"
        made.mkdir()
        made.joinpath("cpu.weight").write_text(str(1 + count * 37 % 10000), encoding="ascii")
        made.joinpath("cgroup.procs").write_text(str(sleeper.pid), encoding="ascii")
        ended.wait(0.05)
        CGROUPS.joinpath("cgroup.procs").write_text(str(sleeper.pid), encoding="ascii")
        made.rmdir()
    sleeper.kill()
    sleeper.wait()
    print(f"{count} cgroups made and removed", flush=True)


class KernelLog:
    """What the kernel logs from now on. No program reads it, because that would wait for a CPU in the crowd."""

    def __init__(self):
        self.file = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self.file, 0, os.SEEK_END)
        self.lines = []

    def read(self):
        """Reads what is new. A record is what a read returns (Documentation/ABI/testing/dev-kmsg)."""
        while True:
            try:
                record = os.read(self.file, 8192).decode(errors="replace")
            except BlockingIOError:
                return
            except BrokenPipeError:
                self.lines.append("WARNING: the kernel has overwritten lines of its log")
                continue
            fields, text = record.split("\n", 1)[0].split(";", 1)
            seconds = int(fields.split(",")[2]) / 1e6
            self.lines.append(f"[{seconds:.6f}] {text}")

    def trouble(self):
        """The lines that tell of trouble, each with the lines that explain it."""
        self.read()
        begins = [i for i, line in enumerate(self.lines) if any(word in line for word in TROUBLE)]
        return ["\n".join(self.lines[i : i + EXPLAINED]) for i in begins]


def threads(pid):
    """What each thread of a process does, and the CPU time that it has had."""
    out = []
    for task in sorted(pathlib.Path(f"/proc/{pid}/task").iterdir()):
        words = task.joinpath("stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
        where = task.joinpath("wchan").read_text(encoding="ascii")
        cpu_ns = task.joinpath("schedstat").read_text(encoding="ascii").split()[0]
        out.append(f"{task.joinpath('comm').read_text(encoding='ascii').strip()} {words[0]} {where} {cpu_ns} ns")
    return "; ".join(out)


def waited_ns(agent):
    """How long each thread of the agent, and of what serves its statistics, has waited for a CPU (ns)."""
    found = {}
    for pid in (agent.pid, *children(agent.pid)):
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            # A thread serves one connection.
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                found[task.name] = int(task.joinpath("schedstat").read_text(encoding="ascii").split()[1])
    return found


def ask(agent, target):
    """The agent's counts, and the seconds that its answer took. It may answer late in such a crowd."""
    begin, had_s, had_waited = time.monotonic(), cpu_s(agent.pid), waited_ns(agent)
    try:
        answer = stats(ANSWER_S[target], target)
        events = answer["system"] if target == "tasks" else answer
    except (OSError, ValueError) as error:
        events = {}
        said = threads(agent.pid) if agent.poll() is None else f"it has ended with status {agent.returncode}"
        print(f"no answer ({error}): {said}", flush=True)
    took = time.monotonic() - begin
    if agent.poll() is None:
        ran = cpu_s(agent.pid) - had_s
        waited = {tid: (ns - had_waited.get(tid, 0)) / 1e9 for tid, ns in waited_ns(agent).items()}
        waits = ", ".join(f"{tid} {wait:.1f} s" for tid, wait in waited.items() if wait > 1) or "none"
        print(f"{target}: answer {took:.1f} s: the agent ran {ran:.1f} s; waited above 1 s: {waits}", flush=True)
    return events, took


def tasks():
    """How many tasks are runnable, and how many exist."""
    runnable, exist = pathlib.Path("/proc/loadavg").read_text(encoding="ascii").split()[3].split("/")
    return int(runnable), int(exist)


def load(arguments):
    """Starts stress-ng with these arguments."""
    return subprocess.Popen(["stress-ng", *arguments.split(), "--temp-path", "/tmp", "--no-rand-seed", "--quiet"])


def prefer(pid, nice):
    """Gives the processes that make the crowd a nice value. The threads that they make have nice 0."""
    for maker in children(pid):
        os.sched_setscheduler(maker, os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, os.sched_param(0))
        os.setpriority(os.PRIO_PROCESS, maker, nice)


def gather():
    """Starts the crowd, and waits until all of its threads exist or START_S are over.

    A maker that shared its CPU with the threads that it has made would take hours.
    """
    existed = tasks()[1]
    crowd = load(CROWD)
    begin = time.monotonic()
    threads = 0
    while threads < SLEEPERS * SLEEPER_THREADS and time.monotonic() - begin < START_S:
        prefer(crowd.pid, -20)
        time.sleep(1)
        threads = tasks()[1] - existed
    prefer(crowd.pid, 0)
    print(f"{threads} threads after {time.monotonic() - begin:.0f} s", flush=True)
    return crowd


def described(tid):
    """Name and nice value of a thread, and whether it is the kernel's."""
    try:
        text = pathlib.Path(f"/proc/{tid}/stat").read_text(encoding="ascii")
    except OSError:
        return "one that has ended", False
    fields = text.rsplit(")", 1)[1].split()
    return f"{text[text.index('(') : text.rindex(')') + 1]}, nice {fields[16]}", bool(int(fields[6]) & PF_KTHREAD)


def told_waits(kernel, before):
    """Tells the longest waits of the threads that have waited longer than ever `before`, once most waits have ended.

    Returns the longest of any thread, and of the kernel's threads (s).
    """
    unended = unended_waits_s(WAIT_MOST_S + 1)
    after = kernel.longest_waits_s() | unended
    waits = sorted(longer(before, after).items(), key=lambda item: -item[1])
    assert waits, "no thread's longest wait could be read"
    found = [(wait, *described(tid)) for tid, wait in waits]
    for kernels, whose in ((False, "threads of programs"), (True, "kernel threads")):
        own = [(wait, name) for wait, name, is_kernels in found if is_kernels == kernels]
        all_s = [wait for wait, _ in own] or [0.0]
        late = sum(wait > WAIT_MOST_S for wait in all_s)
        print(
            f"longest waits, {len(own)} {whose}: median {statistics.median(all_s):.2f} s, {late} above {WAIT_MOST_S} s"
        )
        for wait, name in own[:5]:
            print(f"  {name}: {wait:.2f} s")
    return max(wait for wait, *_ in found), max((wait for wait, _, is_kernels in found if is_kernels), default=0.0)


def told_counts(events, answers):
    """Tells the agent's last counts, and how soon it answered. Returns the part of each CPU that rescues took."""
    for target, took in answers.items():
        if took:
            print(f"{len(took)} answers ({target}) took {statistics.median(took):.1f} s, at most {max(took):.1f} s")
    names = ("switches", "rescued", "rescued_ns", "late", "agent_ahead", "agent_ahead_ns", "reenqueued")
    print({name: events.get(name) for name in names})
    return events["rescued_ns"] / events["uptime_ns"] / os.cpu_count() if events else 0.0


def main():
    scx_drfq, seconds = sys.argv[1], float(sys.argv[2])
    log = KernelLog()
    agent = None if scx_drfq == "none" else start(scx_drfq)
    if agent:
        print(f"threads of the agent: {' '.join(waited_ns(agent))}", flush=True)
    # The watcher itself must not be late.
    observe()
    crowd = gather()
    ended = threading.Event()
    churner = threading.Thread(target=churn, args=(ended,))
    churner.start()
    taker = spin(1, "chrt", "-f", "10", sys.executable, "-c", RT)[0]
    stress = load(STRESS)
    kernel = TaskStats()
    waits_before = kernel.longest_waits_s()
    begin, most, threads_most = time.monotonic(), 0, 0
    answers = {"top": [], "tasks": []}
    events = {}
    while time.monotonic() - begin < seconds and (agent is None or agent.poll() is None):
        time.sleep(5)
        runnable, exist = tasks()
        most, threads_most = max(most, runnable), max(threads_most, exist)
        if int(time.monotonic() - begin) % 60 < 5:
            lines = len(log.trouble())
            print(f"{time.monotonic() - begin:.0f} s: at most {most} runnable, trouble: {lines}", flush=True)
            if agent:
                target = "tasks" if sum(map(len, answers.values())) % 10 == 9 else "top"
                answer, took = ask(agent, target)
                events = answer or events
                answers[target].append(took)
    lasted = time.monotonic() - begin
    longest_s, kernels_s = told_waits(kernel, waits_before)
    loaded = agent is not None and agent.poll() is None and state() == "enabled"
    lives = all(process.poll() is None for process in (crowd, stress, taker)) and churner.is_alive()
    crowded = lives and threads_most >= THREADS_LEAST
    events = (ask(agent, "top")[0] if loaded else {}) or events
    ended.set()
    for process in (taker, stress, crowd):
        process.kill()
    if loaded:
        agent.terminate()
        agent.wait(120)
    trouble = log.trouble()
    print("\n".join(trouble))
    rescued = told_counts(events, answers)
    print(f"rescues took {rescued:.4f} of each CPU, the longest wait was {longest_s:.2f} s")
    print(
        f"{lasted:.0f} s, at most {most} runnable of {threads_most} threads, {len(trouble)} lines of trouble",
        flush=True,
    )
    # The kernel's own scheduler may be too slow to start it.
    assert agent is None or crowded, f"the load has ended, or was no crowd: at most {threads_most} threads"
    assert agent is None or (loaded and not trouble and lasted >= seconds), (
        "the scheduler ended, or the kernel complained"
    )
    if "--bounds" in sys.argv:
        assert events, "the agent never answered, so nothing tells what rescues took"
        assert longest_s <= WAIT_MOST_S, f"a thread waited for {longest_s:.1f} s"
        assert kernels_s <= KERNELS_WAIT_MOST_S, f"a kernel thread waited for {kernels_s:.1f} s"
        assert rescued <= RESCUED_MOST, f"rescues took {rescued:.3f} of each CPU"
    os._exit(0)


if __name__ == "__main__":
    main()
