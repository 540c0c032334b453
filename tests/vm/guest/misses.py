# SPDX-License-Identifier: GPL-2.0-only
"""Compares the bytes that the scheduler charges with the modelled machine's own count.

misses.py SCX_DRFQ, as root in the modelled machine, with its guest programs in the PATH. It runs memory streams on two
CPUs. It prints lines of JSON, with what the scheduler charges each stream between two lines of ground truth.
"""

import json
import os
import signal
import subprocess
import sys
import time

from scheduler import PATIENCE_S, start, stats, wait

SECONDS = 5
STREAMS = ("copy@1", "read@2")


def streams():
    """The system, and what each stream was charged since the scheduler was loaded (bytes), by its CPU.

    Their parent runs on any CPU.
    """
    answer, found = stats(), {}
    for task in answer["tasks"]:
        if task["comm"] == "stream" and len(cpus := os.sched_getaffinity(task["pid"])) == 1:
            found[cpus.pop()] = task["bytes"]
    return answer["system"], found


def account():
    """The same, after a record of ground truth."""
    subprocess.run(["report_ground_truth"], check=True)
    return streams()


def main():
    agent = start(sys.argv[1], "--memory-bandwidth", "266M", event="cache-misses")
    load = subprocess.Popen(["stream", "-r", "-s", "1000", *STREAMS], stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        wait("the streams run", lambda: len(streams()[1]) == len(STREAMS))
        first, before = account()
        time.sleep(SECONDS)
        system, after = account()
    finally:
        os.killpg(load.pid, signal.SIGKILL)
    for cpu, moved in before.items():
        print(json.dumps({"cpu": cpu, "bytes": after[cpu] - moved, "ns": system["uptime_ns"] - first["uptime_ns"]}))
    print(json.dumps({"pmu_read_errors": system["pmu_read_errors"]}))
    agent.send_signal(signal.SIGINT)
    assert agent.wait(timeout=PATIENCE_S) == 0


main()
