# SPDX-License-Identifier: GPL-2.0-only
"""Prints what the scheduler charges for memory traffic, for a comparison with the modelled machine's own count.

traffic.py SCX_DRFQ EVENTS SECONDS STREAMS|mbw|sjeng ..., as root in the modelled machine, its guest programs in PATH.
EVENTS is a value of --perf-event. With `mbm` it is auto, and scx_drfq monitors the tasks itself and charges what only
MBM counts. STREAMS are words of `stream` such as read@0,copy@1; each stream has a monitoring group, whose id names it
in the ground truth. Streams of the same CPU take turns of 1 ms, so all words then name that CPU.
`mbw` is one mbw beside four spinners, `sjeng` one beside four sjeng that
analyse the opening position, with m of the machine thesis.
Each window is one line of ground truth, and one line of JSON here.
"""

import json
import os
import signal
import subprocess
import sys
import time

import sjeng
from monitoring import RESCTRL, id_of, join, monitoring_group, mount
from scheduler import PATIENCE_S, children, spin, start, stats, wait

# khugepaged holds the lock of mbw's memory while it waits for a CPU at nice 19, for up to seconds beside spinners.
HUGE_PAGES = "/sys/kernel/mm/transparent_hugepage/enabled"
OTHERS = 4
TURN_US = 1000
M_BYTES_PER_S = 266_666_667
# What runs beside mbw, by load.
BESIDE = {"mbw": "spinner", "sjeng": "sjeng"}


def cpu_ns(pid):
    """CPU time as the kernel counts it."""
    with open(f"/proc/{pid}/schedstat", encoding="ascii") as file:
        return int(file.read().split()[0])


def switches(pid):
    """How often it has left its CPU: to wait, or because the one that it woke went first."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        lines = [line.split() for line in file if "voluntary_ctxt_switches:" in line]
    return sum(int(number) for _, number in lines)


def look(pids):
    """What each task was charged so far, its CPU time, and the time."""
    subprocess.run(["report_ground_truth"], check=True)
    answer = stats()
    charged = {task["pid"]: task["bytes"] for task in answer["tasks"] if task["pid"] in pids}
    return charged, {pid: cpu_ns(pid) for pid in pids}, answer["system"]["uptime_ns"]


def window(names, seconds):
    """Prints what the tasks `names` (by pid) did in some seconds."""
    charged, cpu, began_ns = look(names)
    time.sleep(seconds)
    charged_then, cpu_then, ended_ns = look(names)
    row = {
        name: {"charged_bytes": charged_then[pid] - charged[pid], "cpu_ns": cpu_then[pid] - cpu[pid]}
        for pid, name in names.items()
    }
    return {"ns": ended_ns - began_ns, "tasks": row}


def streams(words, seconds, *, by_us):
    ids = {word: monitoring_group(word) if by_us else None for word in words}
    places = [f"{word}@{RESCTRL}/mon_groups/{word}" if ids[word] is not None else word for word in words]
    cpus = [int(word.split("@")[1]) for word in words]
    turns = ["-a", str(TURN_US)] if len(set(cpus)) < len(cpus) else []
    command = ["stream", "-r", "-s", "1000", *turns, *places]
    load = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)

    def found():
        """The streams are pinned, and started in the order of their words; their parent is not pinned."""
        pids = [pid for pid in sorted(children(load.pid)) if len(os.sched_getaffinity(pid)) == 1]
        return dict(zip(pids, words)) if len(pids) == len(words) else None

    names = wait("the streams run", found)
    # The shared cache must be full of what they write.
    wait("all have run", lambda: all(cpu_ns(pid) > 1_500_000_000 for pid in names))
    if not by_us:
        wait("scx_drfq monitors them", lambda: all(id_of(pid) is not None for pid in names))
        # Half a second passes until it charges what it counts.
        time.sleep(2)
        ids = {name: id_of(pid) for pid, name in names.items()}
    before = {name: switches(pid) for pid, name in names.items()}
    row = window(names, seconds) | {"rmids": ids}
    if turns:
        row["turns"] = {name: switches(pid) - before[name] for pid, name in names.items()}
    os.killpg(load.pid, signal.SIGKILL)
    load.wait()
    return row


def analyse(count):
    """Starts sjeng, which thinks until it is killed."""
    sjeng.prepare()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL}
    players = [subprocess.Popen(sjeng.COMMAND, text=True, **pipes) for _ in range(count)]
    for player in players:
        sjeng.think(player)
    return players


def mbw(seconds, kind):
    others = spin(OTHERS) if kind == "spinner" else analyse(OTHERS)
    copier = subprocess.Popen(["mbw", "-q", "-t0", "-n", "100000", "4"], stdout=subprocess.DEVNULL)
    names = {copier.pid: "mbw"} | {process.pid: f"{kind} {i}" for i, process in enumerate(others)}
    ids = {name: monitoring_group(name.replace(" ", "-")) for name in names.values()}
    for pid, name in names.items():
        join(name.replace(" ", "-"), pid)
    wait("mbw copies", lambda: cpu_ns(copier.pid) > 1_000_000_000)
    row = window(names, seconds) | {"rmids": ids}
    for process in (copier, *others):
        process.kill()
        process.wait()
    return row


def main():
    scx_drfq, events, seconds, *loads = sys.argv[1:]
    mount()
    with open(HUGE_PAGES, "w", encoding="ascii") as file:
        file.write("never")
    by_us = events != "mbm"
    mba = [] if by_us else ["--mba", "auto", "--charge-mbm"]
    agent = start(scx_drfq, "--memory-bandwidth", str(M_BYTES_PER_S), *mba, event=events if by_us else "auto")
    for load in loads:
        beside = BESIDE.get(load)
        row = mbw(float(seconds), beside) if beside else streams(load.split(","), float(seconds), by_us=by_us)
        print(json.dumps({"load": load, **row}), flush=True)
    system = stats()["system"]
    print(json.dumps({key: system[key] for key in ("mem_source", "pmu_read_errors", "pmu_multiplexed")}), flush=True)
    agent.send_signal(signal.SIGINT)
    assert agent.wait(timeout=PATIENCE_S) == 0


main()
