# SPDX-License-Identifier: GPL-2.0-only
"""Runs a victim for a fixed amount of work beside memory hogs and tells its time, a line of JSON for each run.

victims.py PLAN SCX_DRFQ DRFQ_LOAD CASE ..., as root in a modelled machine, with its guest programs in the PATH. PLAN is
one of:

    eevdf    no scx_drfq
    default  scx_drfq without an option about memory
    mba      scx_drfq --mba on --entity task

A CASE is VICTIM:HOGS, or VICTIM:HOGS:RATE, where each hog moves at most RATE bytes/s. The victim has CPU 0, and each
hog, a copy, one of the others.

Each line of JSON belongs to a line of the machine's ground truth, which tells what moved since the line before. A run
has two lines, one at the begin of the measured part and one at its end.
"""

import json
import os
import signal
import subprocess
import sys
import time

from scheduler import PATIENCE_S, children, observe, start, wait

# What runs for a fixed amount of work after its initialisation, and tells both. The warm-up takes more than a second,
# in which the throttles settle. Neither victim gains much from the LLC, of which hogs leave it little.
VICTIMS = {
    "chase": ["chase", "--kib", "32768", "--spins", "64", "--warmup", "60", "--steps", "60"],
    "lbm": ["lbm", "--side", "120", "--planes", "4", "--warmup", "4", "--steps", "6"],
}
OPTIONS = {"default": ["--mba", "auto"], "mba": ["--mba", "on", "--entity", "task"]}
# A copy counts its bytes once, and reads the source, reads the destination and writes it back.
TRAFFIC_PER_BYTE = 3
# The hogs' initialisation ends, and the loop divides the memory among them.
SETTLE_S = 2


def start_hogs(count, rate):
    """Hogs, on the CPUs from 1 on."""
    pace = ["-m", f"{rate / TRAFFIC_PER_BYTE / 1e6:.3f}"] if rate else []
    places = [f"copy@{number + 1}" for number in range(count)]
    load = subprocess.Popen(["stream", "-r", "-s", "100000", *pace, *places], stdout=subprocess.DEVNULL)
    wait("the hogs run", lambda: len(children(load.pid)) == count, load.pid)
    time.sleep(SETTLE_S)
    return load


def stop_hogs(load):
    for pid in (*children(load.pid), load.pid):
        os.kill(pid, signal.SIGKILL)
    load.wait()


def read(victim):
    """The next line that it prints."""
    line = victim.stdout.readline()
    assert line, f"the victim ended with status {victim.wait()}"
    return json.loads(line)


def look(row):
    # As soon as possible, because the hogs go on.
    subprocess.run(["nice", "-n", "-20", "report_ground_truth"], check=True)
    print(json.dumps(row), flush=True)


def run(drfq_load, row):
    command = [drfq_load, "--json", "-", "--cpus", "0", *VICTIMS[row["victim"]]]
    victim = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert read(victim) == {"ready": True}
    look(row)
    look(row | {"measured_ns": read(victim)["measured_ns"]})
    victim.wait()


def run_all(plan, drfq_load, cases):
    """Cases in a row with the same hogs have them running on."""
    load, beside = None, (0, 0.0)
    for case in cases:
        victim, hogs, rate = (*case.split(":"), "0")[:3]
        wanted = int(hogs), float(rate)
        if load and wanted != beside:
            stop_hogs(load)
            load = None
        if wanted != beside and wanted[0]:
            load = start_hogs(*wanted)
        beside = wanted
        run(drfq_load, {"plan": plan, "victim": victim, "hogs": wanted[0], "rate": wanted[1]})
    if load:
        stop_hogs(load)


def main():
    plan, scx_drfq, drfq_load, *cases = sys.argv[1:]
    observe()
    trace = ["--mba-trace", f"{os.environ['DRFQ_VM_OUT']}/{plan}.trace"] if plan == "mba" else []
    agent = start(scx_drfq, *OPTIONS[plan], *trace, event="auto") if plan in OPTIONS else None
    run_all(plan, drfq_load, cases)
    if agent:
        agent.send_signal(signal.SIGINT)
        assert agent.wait(timeout=PATIENCE_S) == 0


if __name__ == "__main__":
    main()
