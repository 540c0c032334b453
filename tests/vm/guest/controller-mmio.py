# SPDX-License-Identifier: GPL-2.0-only
"""The agent finds the memory controller on the PCI bus, and charges tasks the bytes that it counted for them.

The controller does not answer at its addresses at first, as on a machine without firmware.

As root in the modelled machine, from the repository: controller-mmio.py SCX_DRFQ
"""

import pathlib
import signal
import sys

from scheduler import PATIENCE_S, each, show, spin, start, stats, tasks, wait

SCX_DRFQ = sys.argv[1]
# The command register of a PCI function, and its bit for memory (PCI Local Bus 3.0, 6.2.2).
COMMAND, COMMAND_MEMORY = 4, 2


def controller():
    """The configuration space of the function that holds the controller's registers."""
    for device in pathlib.Path("/sys/bus/pci/devices").iterdir():
        ids = [device.joinpath(name).read_text(encoding="ascii").strip() for name in ("vendor", "device")]
        if ids == ["0x1af4", "0x1110"]:
            return device / "config"
    raise AssertionError("no such function")


def answers(config):
    return config.read_bytes()[COMMAND] & COMMAND_MEMORY != 0


def silence(config):
    """Makes the function answer at its addresses no more, and the kernel take it for disabled."""
    control = config.with_name("enable")
    while control.read_text(encoding="ascii").strip() != "0":
        control.write_text("0", encoding="ascii")
    with config.open("r+b", buffering=0) as file:
        file.seek(COMMAND)
        file.write(bytes([config.read_bytes()[COMMAND] & ~COMMAND_MEMORY]))


def main():
    config = controller()
    silence(config)
    assert not answers(config)
    # The machine simulates an idle CPU in no time, so the load comes last.
    agent = start(SCX_DRFQ, "--memory-bandwidth", "266M", "--controller", "mmio:auto")
    copiers = spin(2, "dd", "if=/dev/zero", "of=/dev/null", "bs=4M")
    spinner = spin(1)
    pids = [process.pid for process in copiers + spinner]
    assert answers(config)
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
