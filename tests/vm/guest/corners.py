# SPDX-License-Identifier: GPL-2.0-only
"""Unusual tasks and machines keep their shares, by the kernel's own count.

As root in the VM: corners.py SCX_DRFQ DRFQ_LOAD CASE ...
"""

import os
import signal
import subprocess
import sys
import time

from hogs import (
    SCHED_EXT,
    WEIGHT,
    Hogs,
    compare,
    compare_alone,
    fair,
    group,
    idle_s,
    settle,
    shares,
    shares_and_others,
    used_s,
)
from scheduler import ended, observe, spin, start, state, stats, stuck

# Of the hogs' shares. A run begins and ends within a packet of each hog.
WITHIN_PCT = 2.0
SECONDS = 4.0


def llcs(hogs):
    """Hogs of different weights on the CPUs of several LLCs: none idles, and none of its tasks starves."""
    nices = [-5, -5, -3, 0, 0, 0, 3, 3, 5] * (os.cpu_count() // 2)
    pids = [hogs.start(nice=nice)[0] for nice in nices]
    # The lightest have 52 packets in SECONDS, so a packet would be 2 % of them. They start at the nice value of this
    # program, and take more than their shares until they have what that owes them.
    time.sleep(4)
    seconds = 2 * SECONDS
    idle = idle_s()
    got = shares(pids, seconds, warmup=0)
    idle = idle_s() - idle
    compare("hogs on two LLCs", got, scaled(fair([WEIGHT[nice] for nice in nices], os.cpu_count()), got), WITHIN_PCT)
    assert idle < 0.02 * seconds * os.cpu_count(), f"CPUs idled for {idle} s"


def full_llc(hogs):
    """Six hogs may run in the first LLC only: two others leave it to them, and use the second one."""
    confined = hogs.start(6, cpus="0-1")
    free = hogs.start(2)
    got = shares(confined + free, SECONDS)
    compare("six hogs confined to an LLC, two free", got, [1 / 3] * 6 + [1.0] * 2, WITHIN_PCT)


def crossing(hogs):
    """A set of CPUs that crosses two LLCs keeps its weights beside a crowd pinned elsewhere."""
    others = hogs.start(24, cpus="0")
    nices = [0, 0, -5, -5]
    pids = [hogs.start(nice=nice, cpus="1-2")[0] for nice in nices]
    got = shares(others + pids, SECONDS, warmup=4.0)
    compare("four hogs on CPUs of two LLCs", got[24:], fair([WEIGHT[nice] for nice in nices], 2), WITHIN_PCT)
    compare("the crowd on its CPU", [sum(got[:24])], [1.0], WITHIN_PCT)


def sync_pairs(hogs):
    """A hog has its share of two CPUs beside two pairs of tasks that wake each other, while other CPUs idle."""
    words = ("taskset", "--cpu-list", "0-1", "perf", "bench", "sched", "pipe", "--loop", str(10**9))
    pairs = [subprocess.Popen(words, stdout=subprocess.DEVNULL, start_new_session=True) for _ in range(2)]
    got = shares(hogs.start(cpus="0-1"), SECONDS)[0]
    for pair in pairs:
        assert pair.poll() is None, "a pair has ended"
        os.killpg(pair.pid, signal.SIGKILL)
        pair.wait()
    due = 2 / 5
    print(f"a hog beside two pairs on two CPUs: {got:.4f} CPUs, due {due:.4f}", flush=True)
    assert got >= due * (1 - WITHIN_PCT / 100), f"the hog got {got:.4f} CPUs of {due:.4f}"


def scaled(want, got):
    """Fair shares of what all hogs together got: the rest went to the agent and the kernel."""
    assert sum(got) > 0.97 * sum(want), f"hogs got {sum(got)} of {sum(want)} CPUs"
    return [share * sum(got) / sum(want) for share in want]


def crowd(hogs):
    """Two hogs keep their weights beside 24 tasks that are pinned to the other CPU."""
    others = hogs.start(24, cpus="0")
    pair = hogs.start(cpus="1") + hogs.start(nice=-5, cpus="1")
    # The last ones to start need several turns before they spin.
    got = shares(others + pair, SECONDS, warmup=4.0)
    compare("hogs beside a crowd", got[24:], scaled(fair([WEIGHT[0], WEIGHT[-5]], 1), got[24:]), WITHIN_PCT)
    take_turns(others, got[:24], SECONDS)


def take_turns(pids, got, seconds):
    """Hogs of one CPU and weight have had as many packets each."""
    packets = [share * seconds / 0.004 for share in got]
    print(f"the crowd: {min(packets):.1f} to {max(packets):.1f} slices each", flush=True)
    late = [pid for pid, count in zip(pids, packets, strict=True) if count < max(packets) - 3]
    assert not late, "\n".join([str(packets), *map(stuck, late)])


def pinned(hogs):
    """24 tasks are pinned to each CPU, and those of one have two weights."""
    equal = hogs.start(24, cpus="0")
    light, heavy = hogs.start(12, cpus="1"), hogs.start(12, nice=-5, cpus="1")
    seconds = 3 * SECONDS
    # The last one of 24 to start has its first turns late.
    got = shares(equal + light + heavy, seconds, warmup=8.0)
    for first in (0, 24, 36):
        group = slice(first, first + (24 if first == 0 else 12))
        take_turns((equal + light + heavy)[group], got[group], seconds)
    pair = [sum(got[24:36]), sum(got[36:])]
    compare("12 of nice 0, 12 of nice -5", pair, scaled(fair([WEIGHT[0], WEIGHT[-5]], 1), pair), WITHIN_PCT)
    compare("the CPU of the equal ones", [sum(got[:24])], [1.0], WITHIN_PCT)


def nested(hogs):
    """cpu.weight of three levels, by the kernel's cpu.stat, also after a change."""
    a, b = group("a", 100), group("b", 300)
    b1, b2 = group("b/b1", 100), group("b/b2", 200)
    x, y = group("b/b2/x", 50), group("b/b2/y", 150)
    leaves = [a, b1, x, y]
    for leaf, count in zip(leaves, (2, 1, 2, 1), strict=True):
        hogs.start(count, cgroup=leaf)
    for weights, want in (("50 150", [1 / 4, 1 / 4, 1 / 8, 3 / 8]), ("400 100", [1 / 4, 1 / 4, 2 / 5, 1 / 10])):
        for leaf, weight in zip((x, y), weights.split(), strict=True):
            leaf.joinpath("cpu.weight").write_text(weight, encoding="ascii")
        time.sleep(1)
        before = [used_s(leaf) for leaf in leaves]
        time.sleep(SECONDS)
        got = [used_s(leaf) - used for leaf, used in zip(leaves, before, strict=True)]
        got = [used / sum(got) for used in got]
        compare(f"groups of three levels, the last {weights}", got, want, WITHIN_PCT)
    hogs.end()
    for made in (x, y, b1, b2, a, b):
        made.rmdir()


def changed(hogs):
    """A change of nice value or affinity of a running hog takes effect, and many changes give no advantage."""
    pids = hogs.start(4)
    compare("four hogs", got := shares(pids, SECONDS), scaled([0.5] * 4, got), WITHIN_PCT)
    os.setpriority(os.PRIO_PROCESS, pids[0], -3)
    want = fair([WEIGHT[-3]] + [WEIGHT[0]] * 3, 2)
    compare("one of nice -3", got := shares(pids, SECONDS), scaled(want, got), WITHIN_PCT)
    os.sched_setaffinity(pids[0], {1})
    compare("pinned to a CPU", got := shares(pids, SECONDS), scaled(want, got), WITHIN_PCT)
    for turn in range(200):
        os.sched_setaffinity(pids[0], {turn % 2})
        os.setpriority(os.PRIO_PROCESS, pids[0], (-3, 3, 0)[turn % 3])
        time.sleep(0.003)
    os.sched_setaffinity(pids[0], {0, 1})
    os.setpriority(os.PRIO_PROCESS, pids[0], 0)
    compare("after 200 changes", got := shares(pids, SECONDS), scaled([0.5] * 4, got), WITHIN_PCT)


def policies(hogs):
    """SCHED_IDLE runs, at a weight of 3 of 1024; alone it has its CPU. SCHED_BATCH is as any."""
    idle = hogs.start(cpus="0", policy=os.SCHED_IDLE)
    normal = hogs.start(cpus="0") + hogs.start(cpus="0", policy=os.SCHED_BATCH)
    alone = hogs.start(cpus="1", policy=os.SCHED_IDLE)
    got, others = shares_and_others(idle + normal + alone, 2 * SECONDS)
    slices = got[0] * 2 * SECONDS / 0.004
    print(f"SCHED_IDLE beside two hogs: {slices:.1f} slices of 4 ms, expected {2 * SECONDS / 0.004 * 3 / 2051:.1f}")
    assert 1 <= slices <= 6, got
    compare("SCHED_OTHER and SCHED_BATCH", got[1:3], scaled([0.5, 0.5], got[1:3]), WITHIN_PCT)
    compare_alone("SCHED_IDLE alone", got[3], others, WITHIN_PCT)


# Of 1.3 s.
RT_RUN_S = 0.3
RT = f"""
import time
while True:
    end = time.monotonic() + {RT_RUN_S}
    while time.monotonic() < end:
        pass
    time.sleep(1)
"""


def real_time(hogs):
    """A real-time task takes a CPU now and then; the others share what it leaves by their weights."""
    taker = spin(1, "taskset", "-c", "0", "chrt", "-f", "10", sys.executable, "-c", RT)[0]
    nices = [0, 0, -3, 3]
    pids = [hogs.start(nice=nice)[0] for nice in nices]
    got = shares([taker.pid, *pids], 2 * 1.3 * SECONDS)
    taker.kill()
    taker.wait()
    print(f"the real-time task: {got[0]:.3f} CPUs", flush=True)
    assert got[0] > 0.15, got
    compare("beside it", got[1:], scaled(fair([WEIGHT[nice] for nice in nices], 2 - got[0]), got[1:]), WITHIN_PCT)


# Two processes that wake each other.
PAIR = """
import os
one, other = os.pipe(), os.pipe()
if os.fork():
    one, other = other, one
    os.write(one[1], b"x")
while True:
    os.read(other[0], 1)
    os.write(one[1], b"x")
"""


def real_time_pair(hogs):
    """Two real-time tasks follow each other all the time, while kernel threads of their CPU wait."""
    beside = hogs.start(2)
    pair = subprocess.Popen(["taskset", "-c", "0", "chrt", "-f", "10", sys.executable, "-c", PAIR], process_group=0)
    got = shares(beside, 2 * SECONDS)
    assert pair.poll() is None and sum(got) < 1.5, f"the pair did not run: {got}"
    os.killpg(pair.pid, signal.SIGKILL)
    pair.wait()
    assert state() == "enabled", "the kernel ended the scheduler"
    compare("beside the pair", got, scaled([0.5, 0.5], got), WITHIN_PCT)


def isolated_partition(hogs):
    """An isolated cpuset partition has its CPU; the other tasks share the rest by weight."""
    made = group("isolated")
    made.joinpath("cpuset.cpus").write_text("1", encoding="ascii")
    partition = made / "cpuset.cpus.partition"
    for kind in ("isolated", "root"):
        partition.write_text(kind, encoding="ascii")
        assert partition.read_text(encoding="ascii").strip() == kind
        inside = hogs.start(cgroup=made)
        outside(hogs, inside, f"partition {kind}")
        partition.write_text("member", encoding="ascii")
        hogs.end()
    made.rmdir()


def outside(hogs, inside, what):
    """Hogs beside `inside`, which alone has CPU 1."""
    nices = [0, 0, -3]
    others = [hogs.start(nice=nice)[0] for nice in nices]
    got = shares(inside + others, SECONDS)
    compare(f"in {what}", got[:1], [1.0], WITHIN_PCT)
    compare(f"beside {what}", got[1:], scaled(fair([WEIGHT[n] for n in nices], 1), got[1:]), WITHIN_PCT)


def occupied(_):
    """A second agent and `doctor` say that a scheduler is loaded, and the first one stays."""
    for command in ([], ["doctor"]):
        second = subprocess.run([sys.argv[1], *command], capture_output=True, text=True, check=False)
        said = [line for line in (second.stdout + second.stderr).splitlines() if "already loaded" in line]
        print("\n".join(said), flush=True)
        assert second.returncode == 1 and len(said) == 1 and "stop it first" in said[0], second
    assert state() == "enabled" and stats()["system"]["switches"] > 0


def partial(hogs):
    """With --partial, only tasks of SCHED_EXT are ours. Others are above them, as on any such scheduler."""
    nices = [0, -3]
    ours = [hogs.start(nice=nice, policy=SCHED_EXT, cpus="1")[0] for nice in nices]
    other = hogs.start(cpus="0")
    # The agent has just begun, and runs before ours.
    settle(ours + other)
    got, others = shares_and_others(ours + other, SECONDS)
    compare_alone("SCHED_EXT", sum(got[:2]), others, WITHIN_PCT)
    compare("SCHED_EXT", got[:2], scaled(fair([WEIGHT[n] for n in nices], 1), got[:2]), WITHIN_PCT)
    compare_alone("SCHED_OTHER", got[2], others, WITHIN_PCT)
    for pid, enabled in zip(ours + other, (True, True, False), strict=True):
        with open(f"/proc/{pid}/sched", encoding="ascii") as file:
            found = [line.split()[-1] for line in file if line.startswith("ext.enabled")]
        assert found == [str(int(enabled))], (pid, found)
    # A task of a higher class comes and goes where ours wait.
    visitor = hogs.start(cpus="1")[0]
    time.sleep(0.2)
    os.sched_setaffinity(visitor, {0})
    # The kernel now prefers this CPU for all other tasks, which are above ours.
    got, others = shares_and_others([*ours, *other, visitor], SECONDS)
    compare_alone("after a visit of SCHED_OTHER", sum(got[:2]), others, WITHIN_PCT)
    wanted = [share * sum(got[:2]) for share in fair([WEIGHT[n] for n in nices], 1)]
    compare("after a visit of SCHED_OTHER", got[:2], wanted, WITHIN_PCT)


OPTIONS = {"partial": ["--partial"]}


def stop(agent):
    agent.terminate()
    ended(agent)


def main():
    scx_drfq, load, *names = sys.argv[1:]
    subprocess.run(["dmesg", "--clear"], check=True)
    # The measuring process must not be late.
    observe()
    agent, loaded, failed = None, None, []
    for name in names:
        options = OPTIONS.get(name, [])
        if agent and options != loaded:
            stop(agent)
            agent = None
        agent, loaded = agent or start(scx_drfq, *options), options
        hogs = Hogs(load)
        try:
            globals()[name](hogs)
        except AssertionError as error:
            print(f"FAILED: {name}: {error}", flush=True)
            failed.append(name)
        hogs.end()
        assert agent.poll() is None and state() == "enabled", name
    stop(agent)
    log = subprocess.run(["dmesg"], capture_output=True, text=True, check=True).stdout
    trouble = [line for line in log.splitlines() if "WARNING:" in line or "runtime error" in line or "stall" in line]
    assert not trouble, trouble
    assert not failed, failed
    print("ok:", *names)


if __name__ == "__main__":
    main()
