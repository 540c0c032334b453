# SPDX-License-Identifier: GPL-2.0-only
"""A counter that never counts is reported in one line: silent_counter.py SCX_DRFQ, in the modelled machine."""

import signal
import subprocess
import sys
import tempfile

from scheduler import PATIENCE_S, spin, stats, wait

# The modelled PMU knows no such event.
EVENT = "raw:0x1234"
LINE = f"{EVENT} is never counted on CPUs "


def main():
    with tempfile.NamedTemporaryFile() as log:
        agent = subprocess.Popen([sys.argv[1], "--perf-event", EVENT], stderr=log)
        wait("the scheduler", lambda: stats() and agent.poll() is None)
        # Many short packets.
        load = spin(2, "sh", "-c", "while :; do sleep 0; done")

        def told():
            with open(log.name, encoding="utf-8") as file:
                return file.read().count(LINE)

        wait("the report", told)
        packets = stats()["system"]["switches"]
        wait("more packets", lambda: stats()["system"]["switches"] > 2 * packets)
        # One line for some CPUs, and none again.
        assert told() == 1, told()
        for process in load:
            process.kill()
            process.wait()
        agent.send_signal(signal.SIGINT)
        assert agent.wait(timeout=PATIENCE_S) == 0


main()
