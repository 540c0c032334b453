# SPDX-License-Identifier: GPL-2.0-only
"""Counts the instructions that the BPF programs execute per packet, with 0, 1 and 2 events of memory traffic.

switch_cost.py SCX_DRFQ, as root in a VM whose clock counts one instruction per nanosecond. Two processes hand a byte to
each other. The kernel's own statistics of programs give the time. Events are software events, whose reads cost what
those of hardware cost without the instruction that reads the counter. Prints a line of JSON for each run.
"""

import json
import os
import signal
import subprocess
import sys
import time

from scheduler import PATIENCE_S, programs, start, stats

RUNS, SECONDS = 5, 0.5
EVENTS = ("none", "page-faults", "page-faults+minor-faults")
PING = """
import os
(a, b), (c, d) = os.pipe(), os.pipe()
if os.fork():
    while True:
        os.write(b, b"x"); os.read(c, 1)
while True:
    os.read(a, 1); os.write(d, b"x")
"""


def sample(agent):
    # The agent may have a program open more than once.
    found = {fields["prog_id"]: (int(fields["run_time_ns"]), int(fields["run_cnt"])) for fields in programs(agent)}
    system = stats()["system"]
    packets = system["switches"] + system["continued"]
    return sum(time_ns for time_ns, _ in found.values()), sum(runs for _, runs in found.values()), packets


def main():
    with open("/proc/sys/kernel/bpf_stats_enabled", "w", encoding="ascii") as file:
        file.write("1")
    for events in EVENTS:
        more = [] if events == "none" else ["--event-bytes", "4096"]
        agent = start(sys.argv[1], "--memory-bandwidth", "1G", *more, event=events)
        load = subprocess.Popen([sys.executable, "-c", PING], start_new_session=True)
        time.sleep(SECONDS)
        for run in range(RUNS):
            before = sample(agent)
            time.sleep(SECONDS)
            time_ns, runs, packets = (now - then for now, then in zip(sample(agent), before))
            assert time_ns > 0 and packets > 100, f"{packets} packets, {time_ns} ns of programs"
            print(
                json.dumps(
                    {
                        "events": events,
                        "run": run,
                        "packets": packets,
                        "instructions_per_packet": round(time_ns / packets, 1),
                        "programs_per_packet": round(runs / packets, 2),
                    }
                ),
                flush=True,
            )
        os.killpg(load.pid, signal.SIGKILL)
        load.wait()
        agent.send_signal(signal.SIGINT)
        assert agent.wait(timeout=PATIENCE_S) == 0


main()
