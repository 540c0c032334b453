# SPDX-License-Identifier: GPL-2.0-only
"""Runs the thesis' sets of benchmarks (Table 5.2) with real programs and tells what happened, a line of JSON each time.

sets.py SETS PLAN SCX_DRFQ DRFQ_LOAD SET[=RATE] ..., as root in a modelled machine with a disk, its guest programs in
the PATH. SETS is tools/sets.toml. PLAN is what schedules:

    eevdf       the kernel's own scheduler
    limited     the same, and fio reads at most RATE bytes/s
    commodity   scx_drfq, without a controller that it could drive
    controller  scx_drfq, which drives the machine's memory controller

Each line of JSON belongs to a line of the machine's ground truth, which tells what moved since the line before. A set
whose foreground process runs for a fixed amount of work has two lines, one at the begin of the measured part and one
at its end. The others have one for each end of a window.

Of the environment: DRFQ_RULES has the rules of scx_drfq that are run (default: all); EEVDF runs in any case.
DRFQ_WEIGHTS has the weights of foreground processes that are run (default: all). DRFQ_RUNS says how often all that is
run (default: once). A process whose weight is 0 does not run.
"""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import sjeng
from monitoring import join, monitoring_group, mount, remove
from scheduler import PATIENCE_S, start, wait

DISK = "/dev/nvme0n1"
# How much of a program is in huge pages differs from run to run, and with it what the LLC keeps of it.
HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
MIB = 1 << 20
WINDOWS, WINDOW_S = 5, 2
# Of the machine `disk`.
M_BYTES_PER_S = 266_666_667
# Options of scx_drfq by rule.
RULES = {
    "default": (),
    "process": ("--entity", "process"),
    "hold": ("--throttle", "hold", "--entity", "process"),
    # The thesis' own, without and with the credit of idle CPU time that it suggests (4.5.2).
    "thesis": ("--variant", "memoryless"),
    "thesis-4.5.2": ("--variant", "memoryless", "--charge", "busy-cpus"),
}
# The kernel's scheduler, after all rules.
AFTER = "~"
THESIS = [rule for rule in RULES if rule.startswith("thesis")]
# What runs for a fixed amount of work after its initialisation, and tells both.
FIXED_WORK = {
    "lbm": ["drfq-load", "--json", "-", "lbm", "--steps", "6"],
    "fdtd": ["drfq-load", "--json", "-", "fdtd", "--steps", "8"],
    "mcf": ["network_simplex"],
}
FIO = [
    *("fio", "--eta=never", "--name=reader", f"--filename={DISK}", "--size=32M", "--direct=1", "--ioengine=libaio"),
    *("--time_based", "--runtime=100000", "--thread"),
]
# What runs until it is killed.
ENDLESS = {
    "mbw": ["mbw", "-q", "-t0", "-n", "100000", "4"],
    "sjeng": sjeng.COMMAND,
    "spinner": ["sh", "-c", "while :; do :; done"],
    # Like the thesis', but on the disk itself: no file system is on it. Threads, so that one process has all its time.
    # Its main thread would use CPU time for an estimate each second, which counts as its share, too.
    "fio": [*FIO, "--rw=read", "--bs=1M", "--iodepth=2"],
    "fio-random": [*FIO, "--rw=randread", "--bs=4k", "--iodepth=32"],
}
# These processes stay on one CPU where no other wants it: a migration would add to their traffic.
CPUS = {"mbw": "1", "fio": "2"}
# Of the monitoring groups.
NUMBERS = itertools.count()


def cpu_ns(pid):
    """The CPU time of all threads of a process."""
    return int(time.clock_gettime(~pid << 3 | 2) * 1e9)


def read_bytes(pid):
    text = Path(f"/proc/{pid}/io").read_text(encoding="ascii")
    return int(text.split("read_bytes: ")[1].split()[0])


class Load:
    """A process of a set."""

    def __init__(self, name, weight, *, pinned, options=()):
        self.name = name
        if name == "sjeng":
            sjeng.prepare()
        command = [*(FIXED_WORK | ENDLESS)[name], *options]
        if pinned and name in CPUS:
            command = ["taskset", "-c", CPUS[name], *command]
        # Equation 4.9: the weight is 1 + nice. EEVDF has nice 0 alone.
        command = ["nice", "-n", str(weight - 1), *command]
        self.group = f"{name}-{next(NUMBERS)}"
        self.rmid = monitoring_group(self.group)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE if name in FIXED_WORK else subprocess.DEVNULL}
        self.process = subprocess.Popen(command, text=True, **pipes)
        join(self.group, self.process.pid)
        if name == "sjeng":
            sjeng.think(self.process)

    def runs(self):
        """Whether its initialisation is over."""
        if self.process.poll() is not None:
            sys.exit(f"FAILED: {self.name} ended with status {self.process.returncode}")
        if self.name.startswith("fio"):
            return read_bytes(self.process.pid) > 4 * MIB
        return cpu_ns(self.process.pid) > 1_000_000_000

    def read(self):
        """The next line that it prints."""
        line = self.process.stdout.readline()
        assert line, f"{self.name} ended with status {self.process.wait()}"
        return json.loads(line)

    def end(self):
        self.process.kill()
        self.process.wait()
        remove(self.group)


def look(row, loads):
    subprocess.run(["report_ground_truth"], check=True)
    told = [{"name": load.name, "cpu_ns": cpu_ns(load.process.pid), "rmid": load.rmid} for load in loads]
    print(json.dumps(row | {"ns": time.monotonic_ns(), "loads": told}), flush=True)


def run_set(row, description, weights, fio_options):
    """One run: the background processes first."""
    name, behind = description["foreground"], description.get("background", [])
    pinned = name not in FIXED_WORK and not {"sjeng", "spinner"} & {*behind}
    loads = []
    for other in behind if weights[1] else []:
        options = fio_options if other == "fio" else ()
        loads.append(Load(other, weights[1], pinned=pinned, options=options))
    for load in loads:
        wait(f"{load.name} runs", load.runs, load.process.pid)
    front = Load(name, weights[0], pinned=pinned) if weights[0] else loads.pop()
    loads.insert(0, front)
    if name in FIXED_WORK:
        assert front.read() == {"ready": True}
        look(row, loads)
        done = front.read()
        loads.pop(0)
        look(row | {"measured_ns": done["measured_ns"]}, loads)
    else:
        wait(f"{front.name} runs", front.runs, front.process.pid)
        time.sleep(0.6)
        for _ in range(WINDOWS + 1):
            look(row, loads)
            time.sleep(WINDOW_S)
    for load in loads if front in loads else [front, *loads]:
        load.end()


def runs(plan, description):
    """(rule, weights) of each run."""
    if "least_pct" in description:
        # Against its rate alone under the kernel's scheduler.
        yield from (
            [("", [1, 0]), ("", [1, 1])] if plan == "eevdf" else ((rule, [1, 1]) for rule in ("default", *THESIS))
        )
        return
    own = plan in ("commodity", "controller")
    # Under the kernel's scheduler in the same boot: where in memory a boot puts a program makes some percent.
    if own and description["foreground"] in FIXED_WORK and "alone" not in description:
        yield from (("", [1, 1]), (AFTER, [1, 1]))
    shared = "hold" if plan == "commodity" else "default"
    # What each process moves alone tells what it can take of its part.
    if own and len(description["weights"]) > 1 and description["foreground"] not in FIXED_WORK:
        yield shared, [1, 0]
        yield shared, [0, 1]
    for weights in description["weights"]:
        if own:
            yield shared, weights
            if weights == [1, 1] or description["foreground"] not in FIXED_WORK:
                yield from ((rule, weights) for rule in THESIS)
            if weights == [1, 1] and plan == "commodity":
                yield "default", weights
        # Weights do not change what EEVDF does with one task on a CPU.
        elif weights == [1, 1]:
            yield "", weights


def main():
    sets_file, plan, scx_drfq, drfq_load, *chosen = sys.argv[1:]
    for name in ("lbm", "fdtd"):
        FIXED_WORK[name][0] = drfq_load
    sets = tomllib.loads(Path(sets_file).read_text(encoding="utf-8"))
    HUGE_PAGES.write_text("never", encoding="ascii")
    mount()
    agent, agent_load = None, ("", 0)
    todo, rules = [], os.environ.get("DRFQ_RULES", "").split()
    fronts = [int(weight) for weight in os.environ.get("DRFQ_WEIGHTS", "").split()]
    for turn, word in itertools.product(range(int(os.environ.get("DRFQ_RUNS") or 1)), chosen):
        number, _, rate = word.partition("=")
        found = [run for run in runs(plan, sets[number]) if not rules or run[0] in ("", AFTER, *rules)]
        found = [run for run in found if not fronts or run[1][0] in fronts or run[0] in ("", AFTER)]
        todo += [(rule, number, weights, rate, turn) for rule, weights in found]

    def load_of(run):
        """One load of scx_drfq for all runs of a rule, but one for each run of a rate that is compared with the
        kernel's scheduler: where in memory the kernel puts the programs makes some percent."""
        rule, number, _, _, turn = run
        return rule, turn + 1 if rule and "least_pct" in sets[number] else 0

    for run in sorted(todo, key=load_of):
        rule, number, weights, rate, turn = run
        if load_of(run) != agent_load:
            if agent:
                agent.send_signal(signal.SIGINT)
                assert agent.wait(timeout=PATIENCE_S) == 0
            agent, agent_load = None, load_of(run)
        if not agent and rule not in ("", AFTER):
            options = ["--weights", "thesis", "--memory-bandwidth", str(M_BYTES_PER_S), *RULES[rule]]
            options += ["--controller", "mmio:auto"] if plan == "controller" else []
            agent = start(scx_drfq, *options, event="auto")
        row = {"set": number, "plan": plan, "rule": rule, "weights": weights, "turn": turn}
        run_set(row, sets[number], weights, [f"--rate={rate}"] if rate else [])
    if agent:
        agent.send_signal(signal.SIGINT)
        assert agent.wait(timeout=PATIENCE_S) == 0


if __name__ == "__main__":
    main()
