# SPDX-License-Identifier: GPL-2.0-only
"""Two mbw with each pair of weights, under an agent that uses the controller's mailbox and under one that does not.

As root in the modelled machine, from the repository, with its guest programs in the PATH: mbw.py SCX_DRFQ [OPTION ...].
Each window is one line of ground truth. tests/vm/mbw_shares.py reads them in this order.
"""

import signal
import subprocess
import sys

from scheduler import PATIENCE_S, report_windows, start, stats, wait

SCX_DRFQ, *OPTIONS = sys.argv[1:]
# By equation 4.9 the weight is 1 + nice: 1:1, 1:2, 2:3, 3:4.
NICES = ((0, 0), (0, 1), (1, 2), (2, 3))
MIB = "4"
# A register's quantum is 4.2 ms of virtual time, in which the order of two streams does not change. It must be a small
# part of a window.
WINDOW_S = 4
# Without CAP_SYS_ADMIN the agent cannot learn where the labels are.
UNPRIVILEGED = ("setpriv", "--bounding-set=-sys_admin")


def main():
    options = ["--weights", "thesis", "--memory-bandwidth", "266M", "--controller", "mmio:auto", *OPTIONS]
    for mailbox, words in ((1, ()), (0, UNPRIVILEGED)):
        agent = start([*words, SCX_DRFQ], *options, event="auto")
        for nices in NICES:
            load = [
                subprocess.Popen(
                    ["taskset", "-c", str(cpu), "nice", "-n", str(nice), "mbw", "-q", "-t0", "-n", "100000", MIB],
                    stdout=subprocess.DEVNULL,
                )
                for cpu, nice in zip((1, 2), nices)
            ]
            wait("both run", lambda: sum(task["comm"] == "mbw" for task in stats()["tasks"]) == 2)
            report_windows(WINDOW_S)
            for process in load:
                process.kill()
                process.wait()
        controller = stats()["system"]["controller"]
        print({key: controller[key] for key in ("mailbox", "copy_interval_ns", "polls")}, flush=True)
        assert controller["mailbox"] == mailbox, controller
        agent.send_signal(signal.SIGINT)
        assert agent.wait(timeout=PATIENCE_S) == 0


main()
