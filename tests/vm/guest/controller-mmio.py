# SPDX-License-Identifier: GPL-2.0-only
"""The agent finds the memory controller on the PCI bus, and charges tasks the bytes that it counted for them.

As root in the modelled machine, from the repository: controller-mmio.py SCX_DRFQ
"""

import signal
import sys

from scheduler import PATIENCE_S, each, show, spin, start, stats, tasks, wait

SCX_DRFQ = sys.argv[1]


def main():
    # The machine simulates an idle CPU in no time, so the load comes last.
    agent = start(SCX_DRFQ, "--memory-bandwidth", "266M", "--controller", "mmio:auto")
    copiers = spin(2, "dd", "if=/dev/zero", "of=/dev/null", "bs=4M")
    spinner = spin(1)
    pids = [process.pid for process in copiers + spinner]
    wait("the copiers' traffic is counted", lambda: each(pids[:2], "controller_bytes"))
    wait("the copiers are charged for it", lambda: each(pids[:2], "bytes"))
    wait("some traffic", lambda: sum(task["controller_bytes"] for task in tasks(pids[:2])) > 20_000_000)
    show(pids, "bytes", "controller_bytes", "controller_bytes_per_s", "cpu_pct", "dominant_pct")
    for task in tasks(pids[:2]):
        # The controller is the only source of traffic here, and counts before the agent charges.
        later = {late["pid"]: late for late in tasks(pids)}[task["pid"]]
        assert task["bytes"] <= later["controller_bytes"], (task, later)
    counted = {task["pid"]: task["controller_bytes"] for task in tasks(pids[:2])}
    wait("all is charged", lambda: all(task["bytes"] >= counted[task["pid"]] for task in tasks(pids[:2])))
    moved = {task["pid"]: task["controller_bytes"] for task in tasks(pids)}
    print(stats()["system"]["controller"])
    assert moved.get(pids[2], 0) < min(moved[pids[0]], moved[pids[1]]), "the spinner moves less than a copier"
    agent.send_signal(signal.SIGINT)
    assert agent.wait(timeout=PATIENCE_S) == 0
    for process in copiers + spinner:
        process.kill()


main()
