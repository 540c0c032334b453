# SPDX-License-Identifier: GPL-2.0-only
"""Measures how memory loads share memory bandwidth, by the modelled machine's own count.

bandwidth_shares.py SCX_DRFQ SECONDS LOADS MODE[=LOADS] ..., as root in the modelled machine `xeon`, with its guest
programs in the PATH, for `layered` scx_layered, too. LOADS are OP:WEIGHT (copy:100,read:200), one a CPU in turn: what
`stream` does, in a cgroup of that cpu.weight. MODE is one of:

  eevdf              no scx_drfq
  solo               no scx_drfq, and each load runs alone for one second after another
  off, observe, on   values of --mba
  killed             as on, but SIGKILL ends the agent
  hold               --throttle hold
  phases             as on, but the last load is stopped for 3 s of each 6 s
  next               the agent of the mode before, which goes on, and new loads
  static, mba_MBps, kp, layered  no scx_drfq, but what throttles.py does
  paced  no scx_drfq, and each load keeps to its part by itself, as paces.py says

For each mode it prints "MODE MARK LOADS" with the number of records of ground truth that come before the mode's first
one. SECONDS + 1 records follow, one second apart; for `solo`, one more than there are loads. With an agent, "settle
MARK" names records that come before: of the first six seconds of the loads, half a second apart.
At the end it prints "done" with the number of all records.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import paces
import throttles
from monitoring import RESCTRL, join, monitoring_group, mount, remove, unmount
from scheduler import PATIENCE_S, children, cpu_s, spin, start, stats, wait

CGROUPS = "/sys/fs/cgroup"
SETTLE_S = 6
SETTLE_STEP_S = 0.5
# Loads that no loop throttles.
WARM_UP_S = 2
# scx_layered divides CPUs among its layers each second.
LAYERS_S = 5
# This script is at nice -20, so that it never waits for a CPU and windows last a second. All else is at nice 0.
AT_NICE_0 = ("nice", "-n", "20")
STREAM = (*AT_NICE_0, "stream", "-r", "-s", "100000")
# What was asked of the agent must not delay the first second that is measured.
PAUSE_S = 0.5
AGENT = ("off", "observe", "on", "killed", "hold", "phases", "next")
PHASE_S = 3
PEERS = ("static", "mba_MBps", "kp", "layered")
# What makes no monitoring groups by itself. Without them, a core's count has the lines of others that it evicts.
UNMONITORED = ("eevdf", "off", "hold")


def write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(str(text))


def read(path):
    with open(path, encoding="ascii") as file:
        return file.read()


def make_cgroups(weights):
    for number, weight in enumerate(weights):
        os.makedirs(f"{CGROUPS}/hog{number}", exist_ok=True)
        write(f"{CGROUPS}/hog{number}/cpu.weight", weight)


def start_hogs(ops):
    cpus = os.cpu_count()
    streams = [f"{op}@{number % cpus}" for number, op in enumerate(ops)]
    (load,) = spin(1, *STREAM, *streams)
    wait("the hogs run", lambda: len(children(load.pid)) == len(ops))
    for number, pid in enumerate(children(load.pid)):
        write(f"{CGROUPS}/hog{number}/cgroup.procs", pid)
    return load


def stop_hogs(load):
    for pid in (*children(load.pid), load.pid):
        os.kill(pid, signal.SIGKILL)
    load.wait()


def stop(process, number):
    process.send_signal(number)
    return process.wait(timeout=PATIENCE_S)


def leftovers():
    """Our groups in resctrl; an unmounted one has none."""
    if not os.path.isdir(f"{RESCTRL}/info"):
        return []
    found = os.listdir(RESCTRL) + os.listdir(f"{RESCTRL}/mon_groups")
    return [name for name in found if name.startswith("drfq_")]


def record():
    subprocess.run(["report_ground_truth"], check=True)


def measure(count, step_s=1, stopped=None):
    """Stopped: the process that runs in each other phase alone."""
    record()
    for number in range(count):
        if stopped and number % PHASE_S == 0:
            os.kill(stopped, signal.SIGSTOP if number // PHASE_S % 2 else signal.SIGCONT)
        time.sleep(step_s)
        record()


def settle():
    """Returns the number of records."""
    count = round(SETTLE_S / SETTLE_STEP_S)
    measure(count, SETTLE_STEP_S)
    return count + 1


def measure_alone(pids):
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    record()
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
        time.sleep(1)
        record()
        os.kill(pid, signal.SIGSTOP)


def run_alone(load):
    time.sleep(WARM_UP_S)
    pids = children(load.pid)
    measure_alone(pids)
    return len(pids) + 1


def run_layered(pids, weights, mark, seconds):
    """Returns the number of records."""
    layers = throttles.Layers(pids, weights, AT_NICE_0)
    time.sleep(LAYERS_S)
    before = layers.bytes()
    measure(seconds)
    moved = [after - before for before, after in zip(before, layers.bytes())]
    # As an agent tells it: the ground truth has numbers of groups, and no names.
    groups = [{"name": f"/hog{number}", "bytes_per_s": count} for number, count in enumerate(moved)]
    print(f"wrote {mark} none\nstats", json.dumps({"groups": groups}), flush=True)
    layers.close()
    return seconds + 1


def run_peer(mode, load, weights, mark, seconds):
    if mode == "layered":
        return run_layered(children(load.pid), weights, mark, seconds)
    classes = throttles.Classes(children(load.pid), weights, "mba_MBps" if mode == "mba_MBps" else None)
    time.sleep(0.5)
    full = sum(classes.rates(0.5))
    ended = threading.Event()
    loop = threading.Thread(target=throttles.control, args=(classes, full, ended.is_set))
    if mode == "static":
        throttles.search(classes)
    elif mode == "mba_MBps":
        throttles.limit_by_kernel(classes, full)
    else:
        loop.start()
    # The kernel moves a level a second.
    time.sleep(5 if mode == "mba_MBps" else SETTLE_S)
    measure(seconds)
    if mode == "kp":
        ended.set()
        loop.join()
    classes.close()
    return seconds + 1


def run_paced(ops, weights, mark, seconds):
    """Returns the number of all records."""
    mount()
    names = [f"hog{number}" for number in range(len(ops))]
    for name in names:
        monitoring_group(name)
    loads = paces.search(STREAM, ops, [float(weight) for weight in weights], names)
    print("paced", mark, ",".join(map(":".join, zip(ops, weights))), flush=True)
    measure(seconds)
    paces.stop(loads)
    for name in names:
        remove(name)
    unmount()
    return mark + seconds + 1


def start_agent(scx_drfq, mode, *options):
    """`options` are further ones. A trace would cost the agent a fifth more CPU time, so none is written."""
    shares = ["--throttle", "hold"] if mode == "hold" else ["--mba", mode]
    if mode in ("killed", "phases"):
        shares = ["--mba", "on"]
    # A busy machine takes long to load it.
    return start([*AT_NICE_0, scx_drfq], *shares, *options, event="auto")


def measure_agent(agent, mark, seconds, stopped=None):
    """Returns the number of records."""
    used, wrote = cpu_s(agent.pid), stats()["system"]["mba"]["writes"]
    time.sleep(PAUSE_S)
    began = time.monotonic()
    measure(seconds, stopped=stopped)
    took = time.monotonic() - began + PAUSE_S
    mba = stats()["system"]["mba"]
    used, wrote = cpu_s(agent.pid) - used, mba["writes"] - wrote
    print(f"wrote {mark} {wrote} schemata in {took:.1f} s; agent: {100 * used / took:.0f} % of a CPU", flush=True)
    print("stats", json.dumps(mba), flush=True)
    return seconds + 1


def stop_agent(agent, mode):
    if mode == "killed":
        assert any(name.startswith("drfq_c") for name in leftovers()), "no hog is throttled"
    ended = stop(agent, signal.SIGKILL if mode == "killed" else signal.SIGINT)
    assert mode == "killed" or ended == 0, ended
    # The agent had mounted resctrl.
    wait("no group and no mount is left", lambda: not os.path.isdir(f"{RESCTRL}/info"))


def run(mode, agent, ops, weights, mark, seconds):
    """Starts the loads and measures them. Returns the loads and the number of all records."""
    if agent:
        print("settle", mark, flush=True)
    load = start_hogs(ops)
    names = [f"hog{number}" for number in range(len(ops))] if mode in UNMONITORED else []
    if names:
        mount()
    for name, pid in zip(names, children(load.pid)):
        monitoring_group(name)
        join(name, pid)
    mark += settle() if agent else 0
    print(mode, mark, ",".join(map(":".join, zip(ops, weights))), flush=True)
    if agent:
        mark += measure_agent(agent, mark, seconds, children(load.pid)[-1] if mode == "phases" else None)
    elif mode == "solo":
        mark += run_alone(load)
    elif mode in PEERS:
        mark += run_peer(mode, load, weights, mark, seconds)
    else:
        time.sleep(WARM_UP_S)
        measure(seconds)
        mark += seconds + 1
    for name in names:
        remove(name)
    if names:
        unmount()
    return load, mark


def main():
    scx_drfq, seconds, loads, *modes = sys.argv[1:]
    write(f"{CGROUPS}/cgroup.subtree_control", "+cpu")
    os.nice(-20)
    agent, mark = None, 0
    for number, wanted in enumerate(modes):
        mode, _, own = wanted.partition("=")
        loads = own or loads
        ops, weights = zip(*(load.split(":") for load in loads.split(",")))
        make_cgroups(weights)
        if mode == "paced":
            mark = run_paced(ops, weights, mark, int(seconds))
            continue
        if mode in AGENT and mode != "next":
            agent = start_agent(scx_drfq, mode)
        load, mark = run(mode, agent, ops, weights, mark, int(seconds))
        if agent and not " ".join(modes[number + 1 :]).startswith("next"):
            stop_agent(agent, mode)
            agent = None
        stop_hogs(load)
    print("done", mark, flush=True)


if __name__ == "__main__":
    main()
