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


def counted(pids):
    """What each process was charged so far, and what the controller counted for it (bytes), in one answer."""
    tasks = {task["pid"]: task for task in stats()["tasks"]}
    found = [tasks.get(pid, {"bytes": 0, "controller_bytes": 0}) for pid in pids]
    return [[task[name] for task in found] for name in ("bytes", "controller_bytes")]


def record():
    subprocess.run(["report_ground_truth"], check=True)


def measure(windows, pids):
    """Returns what each process was charged in all windows, and what the controller counted."""
    # The same order at both ends, for an answer takes time.
    record()
    before = counted(pids)
    for _ in range(windows):
        time.sleep(WINDOW_S)
        record()
    after = counted(pids)
    return [[now - then for then, now in zip(*both)] for both in zip(before, after)]


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
    wait("all mbw copy", lambda: all(map(all, counted(pids))))
    time.sleep(WARM_UP_S)
    charged, controller = measure(windows, pids)
    for process in (*load, *noise):
        assert process.poll() is None, f"{case}: {process.args} ended with {process.returncode}"
    result = {"case": case, "weights": weights, "rmids": rmids, "windows": windows}
    print(json.dumps(result | {"charged": charged, "controller": controller}), flush=True)
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
