# SPDX-License-Identifier: GPL-2.0-only
"""The agent gets its budget beside hogs of nice -20, and the kernel has nothing to complain about.

Three hogs run on two CPUs. By its weight, nice 19, the agent would get 0.01 % of a CPU. The client is a real-time
task, so only the agent can be late. Real-time tasks also take CPUs from sched_ext tasks, which queue elsewhere. How
long an answer takes depends on the host. So the test compares the agent's wait with its CPU time. The kernel counts
both.
As root in the VM: agent-answers.py SCX_DRFQ
"""

import os
import subprocess
import sys
import time

from scheduler import spin, start, stats

REQUESTS = 4
PAUSE_S = 3.0
# The agent has a budget of 5 % of a CPU. If it wants more, it waits 19 times as long as it runs.
BUDGET_WAIT = 19
# A run begins after the packet that its CPU serves. The slice of that packet may have begun anew.
PACKETS_BEFORE = 2


def schedstat(pids):
    """The CPU time of processes, their waits for CPUs (s) and the number of their runs, as the kernel counts them."""
    sums = [0, 0, 0]
    for pid in pids:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as file:
                sums = [a + int(b) for a, b in zip(sums, file.read().split(), strict=True)]
    return sums[0] / 1e9, sums[1] / 1e9, sums[2]


agent = start(["nice", "-n", "19", sys.argv[1]])
hogs = spin(3, "nice", "-n", "-20", "sh", "-c", "while :; do :; done")
time.sleep(PAUSE_S)
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
answers = []
before = schedstat([agent.pid])
for _ in range(REQUESTS):
    begin = time.monotonic()
    stats()
    answers.append(time.monotonic() - begin)
    time.sleep(PAUSE_S)
cpu, waited, runs = (now - then for now, then in zip(schedstat([agent.pid]), before, strict=True))
hog_cpu, _, hog_runs = schedstat([hog.pid for hog in hogs])
packet = hog_cpu / hog_runs
most = BUDGET_WAIT * cpu + PACKETS_BEFORE * packet * runs
system = stats()["system"]
for hog in hogs:
    hog.kill()
agent.terminate()
assert agent.wait(30) == 0, agent.returncode
answers.sort()
print(f"{REQUESTS} answers: median {answers[REQUESTS // 2] * 1000:.0f} ms, slowest {answers[-1] * 1000:.0f} ms")
print(f"the agent: {runs} runs, {cpu:.2f} s, waited for {waited:.2f} s of at most {most:.2f} s")
print(f"a run of a hog: {packet * 1000:.1f} ms")
for name in ("agent_ahead", "reenqueued", "late"):
    print(name, system[name])
log = subprocess.run(["dmesg"], capture_output=True, text=True, check=True).stdout
complaints = [line for line in log.splitlines() if "deprecated" in line and "ops->" in line]
assert not complaints, complaints
assert system["agent_ahead"] > 0 and system["reenqueued"] > 0, system
assert waited < most, answers
