# SPDX-License-Identifier: GPL-2.0-only
"""The agent gets its budget beside hogs of nice -20, and the kernel has nothing to complain about.

Three hogs run on two CPUs. By its weight, nice 19, the agent would get 0.01 % of a CPU. The client is a real-time
task, so only the agent can be late. Real-time tasks also take CPUs from sched_ext tasks, which queue elsewhere. How
long an answer takes depends on the machine. So the test compares it with the agent's CPU time and its runs, as the
kernel counts them: those of both its processes, which have one budget.
As root in the VM: agent-answers.py SCX_DRFQ
"""

import contextlib
import subprocess
import sys
import time
from pathlib import Path

from scheduler import ask, children, connect, cpu_s, ended, observe, spin, start, stats

REQUESTS = 3
PAUSE_S = 1.0
# The agent has a budget of 5 % of a CPU. If it wants more, an answer takes 20 times its CPU time.
BUDGET_TIMES = 20
# A run begins after the packet that its CPU serves. The slice of that packet may have begun anew.
PACKETS_BEFORE = 2
# How often the agent looks for requests, while it has no other work.
POLL_S = 0.25


def hog_packet(hogs):
    """The mean CPU time (s) of a run of these processes, as the kernel counts it."""
    cpu_ns, runs = 0, 0
    for hog in hogs:
        with open(f"/proc/{hog.pid}/schedstat", encoding="ascii") as file:
            fields = file.read().split()
        cpu_ns, runs = cpu_ns + int(fields[0]), runs + int(fields[2])
    return cpu_ns / runs / 1e9


def runs(pid):
    """How often each thread of a process and of its children has run, as the kernel counts it."""
    found = {}
    for process in (pid, *children(pid)):
        for task in Path(f"/proc/{process}/task").iterdir():
            # A thread that serves a connection ends with it.
            with contextlib.suppress(OSError):
                found[task.name] = int((task / "schedstat").read_text(encoding="ascii").split()[2])
    return found


agent = start(["nice", "-n", "19", sys.argv[1]])
hogs = spin(3, "nice", "-n", "-20", "sh", "-c", "while :; do :; done")
time.sleep(PAUSE_S)
observe()
answers = []
# One for all requests: with a thread that ends, the kernel's count of its runs is gone.
connection = connect()
ask(connection)
for _ in range(REQUESTS):
    ran, had = runs(agent.pid), cpu_s(agent.pid)
    begin = time.monotonic()
    ask(connection)
    took, cpu = time.monotonic() - begin, cpu_s(agent.pid) - had
    answers.append((took, cpu, sum(count - ran.get(thread, 0) for thread, count in runs(agent.pid).items())))
    time.sleep(PAUSE_S)
packet = hog_packet(hogs)
connection.close()
system = stats()["system"]
for hog in hogs:
    hog.kill()
agent.terminate()
ended(agent)
late = 0
for took, cpu, count in answers:
    most = BUDGET_TIMES * cpu + PACKETS_BEFORE * packet * count + POLL_S
    late += took > most
    print(f"an answer after {took:.2f} s of at most {most:.2f} s: {count} runs, {cpu:.2f} s of CPU time")
print(f"a run of a hog: {packet * 1000:.1f} ms")
for name in ("agent_ahead", "reenqueued", "late"):
    print(name, system[name])
log = subprocess.run(["dmesg"], capture_output=True, text=True, check=True).stdout
complaints = [line for line in log.splitlines() if "deprecated" in line and "ops->" in line]
assert not complaints, complaints
assert system["agent_ahead"] > 0 and system["reenqueued"] > 0, system
assert not late, answers
