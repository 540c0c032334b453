# SPDX-License-Identifier: GPL-2.0-only
"""cpu.max and cpu.idle hold where the kernel reports them; elsewhere `doctor` says that they have no effect.

By the kernel's own cpu.stat. As root in the VM: limits.py SCX_DRFQ DRFQ_LOAD [long]
`long` adds a short period and cpu.idle.
"""

import contextlib
import os
import platform
import subprocess
import sys
import time

from hogs import CGROUPS, Hogs, compare, cpu_ns, group, used_s
from scheduler import ended, observe, start, stats

SECONDS = 4.0
# A period may end with one tick of each of its CPUs in excess, which the next one gets less. Periods have 100 ms.
WITHIN_PCT = 3.0


def ungrouped_s():
    """The CPU time of each process of the root group, such as the agent and this one."""
    used = {}
    for pid in CGROUPS.joinpath("cgroup.procs").read_text(encoding="ascii").split():
        with contextlib.suppress(OSError):
            used[pid] = cpu_ns(int(pid)) / 1e9
    return used


def counts(paths):
    """The time, the CPU time of groups, and that of processes of the root group."""
    return time.monotonic(), [used_s(path) for path in paths], ungrouped_s()


def cpus(*paths):
    """The CPUs that groups get, and those that the processes of the root group leave to them."""
    # What reads the counts is in memory then: hogs run while a page comes from a busy host.
    counts(paths)
    time.sleep(1)
    begin, before, others = counts(paths)
    time.sleep(SECONDS)
    end, after, now = counts(paths)
    spent = end - begin
    got = [(then - used) / spent for then, used in zip(after, before, strict=True)]
    return got, os.cpu_count() - sum(now[pid] - others.get(pid, 0) for pid in now) / spent


def halves(what, capped, free):
    """Both groups get the same, and all that there is."""
    got, left = cpus(capped, free)
    compare(what, got, [left / 2] * 2, WITHIN_PCT)


def quota(made, text):
    made.joinpath("cpu.max").write_text(text, encoding="ascii")


def doctor(scx_drfq):
    """What it says of cgroups."""
    said = subprocess.run([scx_drfq, "doctor"], capture_output=True, text=True, check=False).stdout
    return next(line for line in said.splitlines() if " cgroups: " in line)


def keeps(hogs, capped, free):
    """A kernel that reports both limits."""
    got, left = cpus(capped, free)
    compare("cpu.max of half a CPU, set before loading", got, [0.5, left - 0.5], WITHIN_PCT)
    inner = group("capped/inner")
    hogs.start(2, cgroup=inner)
    quota(inner, "20000 100000")
    quota(capped, "80000 100000")
    compare("0.2 CPUs within 0.8", cpus(inner, capped)[0], [0.2, 0.8], WITHIN_PCT)
    quota(inner, "max")
    assert stats()["system"]["throttled"] > 0
    if "long" in sys.argv:
        keeps_longer(capped, free)
    quota(capped, "max")
    halves("without cpu.max", capped, free)
    hogs.end()
    inner.rmdir()


def keeps_longer(capped, free):
    """A short period, and cpu.idle."""
    quota(capped, "2000 10000")
    compare("a period of 10 ms", cpus(capped)[0], [0.2], WITHIN_PCT)
    quota(capped, "max")
    capped.joinpath("cpu.idle").write_text("1", encoding="ascii")
    got, _ = cpus(capped, free)
    share = got[0] / sum(got)
    print(f"cpu.idle: {share:.4f} of the hogs' time, expected {3 / 1027:.4f}", flush=True)
    # Some ten packets in this time, of two hogs.
    assert 0 < share < 0.01, got
    capped.joinpath("cpu.idle").write_text("0", encoding="ascii")
    # A packet of up to two ticks, at a quarter of that weight, was charged as up to 5.5 s of both CPUs.
    time.sleep(6)
    halves("without cpu.idle", capped, free)


def main():
    scx_drfq, load = sys.argv[1:3]
    observe()
    hogs = Hogs(load)
    capped, free = group("capped"), group("free")
    # A group of processes has no groups below it.
    leaf = group("capped/leaf")
    quota(capped, "50000 100000")
    said = doctor(scx_drfq)
    print(said, flush=True)
    # The first kernel that reports them is 6.17.
    release = tuple(int(part) for part in platform.release().split(".")[:2])
    assert ("no effect" in said) == (release < (6, 17)), (release, said)
    agent = start(scx_drfq)
    hogs.start(2, cgroup=leaf)
    hogs.start(2, cgroup=free)
    if "no effect" in said:
        assert said.startswith("[warn]") and "cpu.max of 1 groups" in said, said
        halves("cpu.max has no effect", capped, free)
        hogs.end()
    else:
        assert said.startswith("[ok]") and "cpu.max and cpu.idle are kept" in said, said
        keeps(hogs, capped, free)
    agent.terminate()
    ended(agent)
    for made in (leaf, capped, free):
        made.rmdir()
    print("ok: limits of cgroups")


if __name__ == "__main__":
    main()
