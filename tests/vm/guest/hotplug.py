# SPDX-License-Identifier: GPL-2.0-only
"""When CPU 1 goes offline and online, the scheduler loads again, and what a task owes is not forgiven.

One of two hogs on CPU 0 is charged for so much traffic that it must wait for a minute. By the clocks of the kernel it
does, over two rounds of hotplug, and then no longer. A new agent knows nothing of such a debt. As root in the VM:
hotplug.py SCX_DRFQ DRFQ-LOAD
"""

import pathlib
import signal
import subprocess
import sys
import time

from hogs import Hogs, cpu_ns
from scheduler import PATIENCE_S, observe, start, state

ROOT = pathlib.Path("/sys/kernel/sched_ext")
ONLINE = pathlib.Path("/sys/devices/system/cpu/cpu1/online")
M_BYTES_PER_S = 1_000_000_000
DEBT = 30_000_000_000
# With two CPUs, the other hog runs for twice as many seconds as the whole memory needs for the debt, until both are
# level. With one CPU, it runs for as many.
PAID_S = 2 * DEBT / M_BYTES_PER_S
WINDOW_S = 4
# A task that starves is rescued, which takes at most 5 % of a CPU; and a packet may end in the window.
OWES = 0.15


def part(debtor, other):
    """The debtor's part of what both get of CPU 0 in a window."""
    before = cpu_ns(debtor), cpu_ns(other)
    time.sleep(WINDOW_S)
    got = cpu_ns(debtor) - before[0], cpu_ns(other) - before[1]
    print(f"of {sum(got) / 1e9:.2f} s the debtor got {got[0] / sum(got):.3f}", flush=True)
    return got[0] / sum(got)


def loads():
    return int((ROOT / "enable_seq").read_text(encoding="ascii"))


def toggle(online):
    before = loads()
    ONLINE.write_text(str(online), encoding="ascii")
    # This program is a real-time task on the CPU that the agent needs, so it looks seldom.
    end = time.monotonic() + PATIENCE_S
    while loads() == before or state() != "enabled":
        assert time.monotonic() < end, f"not loaded again within {PATIENCE_S} s"
        time.sleep(0.5)
    print(f"CPU 1 online={online}: loaded again", flush=True)


def charge(scx_drfq, pid):
    subprocess.run([scx_drfq, "charge-traffic", "--pid", str(pid), "--bytes", str(DEBT)], check=True)


def ahead_s(debtor, other):
    """How much more CPU time the other hog has had."""
    return (cpu_ns(other) - cpu_ns(debtor)) / 1e9


def main():
    scx_drfq, load = sys.argv[1:]
    observe()
    options = ("--memory-bandwidth", str(M_BYTES_PER_S))
    agent = start(scx_drfq, *options)
    debtor, other = Hogs(load).start(2, cpus="0")
    time.sleep(WINDOW_S)
    assert part(debtor, other) > 0.4, "two equal hogs do not share CPU 0 equally"
    charge(scx_drfq, debtor)
    before = ahead_s(debtor, other)
    assert part(debtor, other) < OWES, "the traffic was not charged"
    alone = 0
    for _ in range(2):
        for online in (0, 1):
            toggle(online)
            alone += (1 if online else -1) * ahead_s(debtor, other)
            assert part(debtor, other) < OWES, "a load of the scheduler forgave a debt"
    end = time.monotonic() + 2 * PAID_S
    while part(debtor, other) < 0.4:
        assert time.monotonic() < end, f"the debt is not paid after {2 * PAID_S:.0f} s"
    paid = ahead_s(debtor, other) - before + alone
    print(f"the debtor waited for {paid:.1f} s of the other's time, expected {PAID_S:.0f} s", flush=True)
    assert abs(paid / PAID_S - 1) < 0.1, paid
    charge(scx_drfq, debtor)
    assert part(debtor, other) < OWES, "the traffic was not charged"
    agent.send_signal(signal.SIGTERM)
    assert agent.wait(timeout=PATIENCE_S) == 0
    start(scx_drfq, *options)
    assert part(debtor, other) > 0.4, "the debt lasts although nobody kept the accounts"


main()
