# SPDX-License-Identifier: GPL-2.0-only
"""Streams that share CPUs, under an agent that uses the controller's mailbox, under none, and under one that does not.

As root in the modelled machine, from the repository, with its guest programs in the PATH:
controller-mailbox.py SCX_DRFQ. tests/vm/labels.py checks the ground truth of the three intervals on the host.
"""

import os
import signal
import subprocess
import sys
import time

from scheduler import PATIENCE_S, start, state, stats, tasks, wait

SCX_DRFQ = sys.argv[1]
SECONDS = 0.5
STREAMS = ("copy@1", "copy@1", "read@2", "copy@2")
OPTIONS = ("--memory-bandwidth", "266M", "--controller", "mmio:auto")
# Without CAP_SYS_ADMIN the agent cannot learn where the labels are.
UNPRIVILEGED = ("setpriv", "--bounding-set=-sys_admin")


def streams():
    """The thread ids of the streams, without that of their parent."""
    listed = [task["pid"] for task in stats()["tasks"] if task["comm"] == "stream"]
    return [pid for pid in listed if len(os.sched_getaffinity(pid)) == 1]


def each_has_an_id():
    """Whether traffic of every stream is counted for it alone."""
    pids = streams()
    counted = [task["controller_bytes"] for task in tasks(pids)]
    return len(pids) == len(STREAMS) and all(bytes > 1_000_000 for bytes in counted)


def report_interval():
    """Writes a line of ground truth that covers SECONDS."""
    subprocess.run(["report_ground_truth"], check=True)
    time.sleep(SECONDS)
    subprocess.run(["report_ground_truth"], check=True)


def register(offset):
    words = subprocess.run(["controller_registers", "read", hex(offset)], check=True, capture_output=True, text=True)
    return int(words.stdout, 16)


def start_streams():
    """Starts them beside a ready agent, because programs start slowly where memory is full."""
    return subprocess.Popen(["stream", "-r", "-s", "1000", *STREAMS], stdout=subprocess.DEVNULL, start_new_session=True)


def measure(mailbox):
    wait("each stream has an id", each_has_an_id)
    report_interval()
    controller = stats()["system"]["controller"]
    print({key: controller[key] for key in ("mailbox", "copy_interval_ns", "polls", "writes", "ids", "cpu_ns")})
    assert controller["mailbox"] == mailbox, controller
    assert (controller["copy_interval_ns"] == 0) == bool(mailbox), controller


def main():
    print("labels at each switch, then a killed agent")
    agent = start([SCX_DRFQ], *OPTIONS)
    load = start_streams()
    try:
        measure(mailbox=1)
        agent.send_signal(signal.SIGKILL)
        agent.wait()
        wait("the kernel's own scheduler", lambda: state() == "disabled")
        report_interval()
    finally:
        os.killpg(load.pid, signal.SIGKILL)

    print("an agent that ends")
    agent = start([SCX_DRFQ], *OPTIONS)
    assert register(0x50000) != 0, "the page's address"
    agent.send_signal(signal.SIGINT)
    assert agent.wait(timeout=PATIENCE_S) == 0
    assert [register(offset) for offset in (0x50000, 0x48008, 0x48010)] == [0, 0, 0], "registers after the agent"

    print("labels that the agent copies")
    agent = start([*UNPRIVILEGED, SCX_DRFQ], *OPTIONS)
    assert register(0x50000) == 0, "the page's address"
    load = start_streams()
    try:
        measure(mailbox=0)
    finally:
        os.killpg(load.pid, signal.SIGKILL)
    agent.send_signal(signal.SIGINT)
    assert agent.wait(timeout=PATIENCE_S) == 0


main()
