# SPDX-License-Identifier: GPL-2.0-only
"""Set 1 of the thesis in full: mbw of different cpu.weight under scx_drfq with default options, which drives the
controller of the machine `lvtf`, alone and beside other loads.

set_one.py SCX_DRFQ DRFQ_LOAD LABELS CASE=WINDOWS ..., as root in that machine, its guest programs in the PATH. LABELS
is `switch` or `copied`: an agent without CAP_SYS_ADMIN cannot learn where the labels are in memory, and copies them.
CASE is the weights of the mbw, with what runs beside them: 1:1:3, 1:4+sleeper. Of six mbw, three have each weight of
1:4+crowd. The case `alone` is one mbw, whose demand is that of each.

For each case it prints a line of JSON. Its windows are the next WINDOWS lines of the machine's ground truth after one
that ends the time before.
"""

import json
import os
import signal
import subprocess
import sys
import time

from monitoring import join, monitoring_group, mount
from scheduler import PATIENCE_S, observe, start, stats, wait

# A register's quantum is 4.2 ms of virtual time, in which the order of two streams does not change. It must be a small
# part of a window.
WINDOW_S = 4
WARM_UP_S = 2
M_BYTES_PER_S = 266_666_667
UNPRIVILEGED = ("setpriv", "--bounding-set=-sys_admin")
MBW = ("mbw", "-q", "-t0", "-n", "100000", "4")
CGROUPS = "/sys/fs/cgroup"


def beside(drfq_load):
    """Commands by what runs beside the mbw."""
    spinner = (drfq_load, "hog")
    return {
        "": (),
        "spinner": (spinner,),
        "2 spinners": (spinner, spinner),
        # 2 % of m.
        "light": (("stream", "-r", "-s", "100000", "-m", str(0.02 * M_BYTES_PER_S / 1e6), "read@3"),),
        "sleeper": ((drfq_load, "sleeper", "--run-us", "2000", "--sleep-us", "8000"),),
        "phases": ((drfq_load, "phases", "--cpu-ms", "100", "--fault-ms", "100"),),
        "crowd": (),
    }


def write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(str(text))


def start_in(cgroup, weight, command):
    """Starts a process in a cgroup of its own, with this weight in percent of the usual one."""
    place = f"{CGROUPS}/{cgroup}"
    os.makedirs(place, exist_ok=True)
    write(f"{place}/cpu.weight", weight)
    join_first = ("sh", "-c", 'echo $$ > "$0" && exec "$@"', f"{place}/cgroup.procs")
    return subprocess.Popen((*join_first, *command), stdout=subprocess.DEVNULL)


def charged(pids):
    """What each process was charged so far (bytes)."""
    found = {task["pid"]: task["bytes"] for task in stats()["tasks"]}
    return [found.get(pid, 0) for pid in pids]


def record():
    subprocess.run(["report_ground_truth"], check=True)


def measure(windows, pids):
    """Returns what each process was charged in all windows."""
    # The same order at both ends, for an answer takes time.
    record()
    before = charged(pids)
    for _ in range(windows):
        time.sleep(WINDOW_S)
        record()
    return [after - then for then, after in zip(before, charged(pids))]


def run(case, windows, others):
    weights, _, name = case.partition("+")
    weights = [1] if case == "alone" else [int(weight) for weight in weights.split(":")]
    if name == "crowd":
        weights *= 3
    load = [start_in(f"mbw{i}", 100 * weight, MBW) for i, weight in enumerate(weights)]
    rmids = []
    for i, process in enumerate(load):
        rmids.append(monitoring_group(f"mbw{i}"))
        join(f"mbw{i}", process.pid)
    noise = [subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True) for command in others[name]]
    pids = [process.pid for process in load]
    wait("all mbw copy", lambda: all(charged(pids)))
    time.sleep(WARM_UP_S)
    result = {"case": case, "weights": weights, "rmids": rmids, "windows": windows, "charged": measure(windows, pids)}
    print(json.dumps(result), flush=True)
    for process in noise:
        os.killpg(process.pid, signal.SIGKILL)
    for process in load:
        process.kill()
    for process in (*load, *noise):
        process.wait()


def main():
    scx_drfq, drfq_load, labels, *cases = sys.argv[1:]
    write(f"{CGROUPS}/cgroup.subtree_control", "+cpu")
    mount()
    observe()
    options = ("--memory-bandwidth", str(M_BYTES_PER_S), "--controller", "mmio:auto")
    words = UNPRIVILEGED if labels == "copied" else ()
    agent = start([*words, scx_drfq], *options, event="auto")
    for case in cases:
        name, _, windows = case.partition("=")
        run(name, int(windows), beside(drfq_load))
    mailbox = stats()["system"]["controller"]["mailbox"]
    assert mailbox == (labels == "switch"), mailbox
    agent.send_signal(signal.SIGINT)
    assert agent.wait(timeout=PATIENCE_S) == 0


main()
