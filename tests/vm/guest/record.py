# SPDX-License-Identifier: GPL-2.0-only
"""Records what the kernel tells the loaded scheduler, and what runs then, for the simulator's replay.

Usage: record.py SCX_DRFQ DRFQ_LOAD OUT CASE ...

Probes of the scheduling class write to the kernel's trace ring. OUT/CASE.trace has the ring's text, after lines that
begin with # and tell what the ring does not: the agent, the cgroups, the CPUs.
"""

import os
import pathlib
import subprocess
import sys
import time

import scheduler

TRACING = pathlib.Path("/sys/kernel/tracing")
CGROUPS = pathlib.Path("/sys/fs/cgroup")
SECONDS = 1.0

_RQ = "c=rq->clock:u64 k=rq->clock_task:u64 q=rq->cpu:s32"
_TASK = "p=p->pid:s32 s=p->scx.dsq_vtime:u64"
_WHO = (
    "g=p->tgid:s32 n=p->static_prio:s32 o=p->policy:u32 l=p->flags:x32 m=p->cpus_ptr->bits:x64"
    " y=p->scx.sticky_cpu:s32 w=p->cgroups->dfl_cgrp->kn->id:u64 z=p->real_parent->pid:s32"
)
# Kind of probe (p: entry, r: return), name, function, what is recorded. tests/vm/pack_trace.py has a letter for each.
PROBES = (
    ("p", "enqueue", "enqueue_task_scx", f"{_RQ} {_TASK} {_WHO} f=$arg3:x32"),
    ("r", "enqueued", "enqueue_task_scx", ""),
    ("p", "dequeue", "dequeue_task_scx", f"{_RQ} {_TASK} f=$arg3:x32 e=p->__state:u32"),
    ("p", "next", "set_next_task_scx", f"{_RQ} {_TASK} f=$arg3:u8"),
    ("r", "put", "put_prev_task_scx", f"{_RQ} p=p->pid:s32 h=p->migration_disabled:u16"),
    ("p", "tick", "task_tick_scx", "c=rq->clock:u64 k=rq->clock_task:u64 q=rq->cpu:s32 p=curr->pid:s32"),
    ("p", "select", "select_task_rq_scx", "p=p->pid:s32 s=p->scx.dsq_vtime:u64 r=$arg2:s32 f=$arg3:x32 " + _WHO),
    ("r", "selected", "select_task_rq_scx", "v=$retval:s32"),
    ("p", "yield", "yield_task_scx", _RQ),
    ("p", "fork", "scx_fork", "p=p->pid:s32"),
    ("p", "allowed", "set_cpus_allowed_scx", "p=p->pid:s32 m=ac->new_mask->bits:x64"),
    ("p", "weight", "reweight_task_scx", "p=p->pid:s32 n=p->static_prio:s32"),
    ("p", "move", "scx_cgroup_move_task", "p=p->pid:s32 w=p->cgroups->dfl_cgrp->kn->id:u64"),
    ("p", "idle", "__scx_update_idle", "q=rq->cpu:s32 v=idle:u8 f=do_notify:u8 p=rq->curr->pid:s32"),
    ("p", "kicks", "kick_cpus_irq_workfn", ""),
    ("p", "iterate", "bpf_iter_scx_dsq_new", "v=dsq_id:u64"),
    ("p", "taking", "scx_bpf_dsq_move", ""),
    ("r", "take", "scx_bpf_dsq_move", "v=$retval:u8"),
    ("r", "now", "scx_bpf_now", "v=$retval:u64"),
    ("r", "choose", "scx_bpf_select_cpu_dfl", "v=$retval:s32"),
    ("r", "draw", "bpf_user_rnd_u32", "v=$retval:u32"),
)
# What some kernels do elsewhere, or under another name: the first of each that there is.
EITHER = (
    (("p", "pick", "balance_scx", _RQ), ("p", "pick", "pick_task_scx", _RQ)),
    (("p", "free", "sched_ext_dead", "p=p->pid:s32"), ("p", "free", "sched_ext_free", "p=p->pid:s32")),
    (
        ("r", "wake", "scx_bpf_pick_idle_cpu_impl", "v=$retval:s32"),
        ("r", "wake", "scx_bpf_pick_idle_cpu", "v=$retval:s32"),
    ),
    (
        ("p", "moving_first", "scx_bpf_dsq_move_to_local___v2_impl", ""),
        ("p", "moving_first", "scx_bpf_dsq_move_to_local___v2", ""),
        ("p", "moving_first", "scx_bpf_dsq_move_to_local", ""),
    ),
    (
        ("r", "move_first", "scx_bpf_dsq_move_to_local___v2_impl", "v=$retval:u8"),
        ("r", "move_first", "scx_bpf_dsq_move_to_local___v2", "v=$retval:u8"),
        ("r", "move_first", "scx_bpf_dsq_move_to_local", "v=$retval:u8"),
    ),
)
# Kernels without it look at the head of a queue by iteration.
OPTIONAL = (("p", "peek", "scx_bpf_dsq_peek_impl", "v=dsq_id:u64"), ("p", "peek", "scx_bpf_dsq_peek", "v=dsq_id:u64"))


def write(name, text, extra=os.O_TRUNC):
    """Writes a file of tracefs; open() would seek to the end to append, which these files refuse."""
    file = os.open(TRACING / name, os.O_WRONLY | extra)
    try:
        os.write(file, f"{text}\n".encode())
    finally:
        os.close(file)


def probe(*choices):
    """Makes the first probe of `choices` that the kernel accepts. Returns whether there is one."""
    for kind, name, function, fields in choices:
        try:
            write("kprobe_events", f"{kind}:drfq/{name} {function} {fields}", os.O_APPEND)
        except OSError:
            continue
        print(f"{name}: {function}", flush=True)
        return True
    return False


def clear():
    """Removes our probes. The kernel refuses one that exists, and removes none that is enabled."""
    if (TRACING / "events/drfq").exists():
        write("events/drfq/enable", "0")
        write("kprobe_events", "-:drfq/", os.O_APPEND)
    write("events/sched/sched_switch/enable", "0")


def set_up():
    # A recording that failed has left its own.
    clear()
    write("trace_clock", "mono")
    write("buffer_size_kb", "65536")
    refused = [choices[0][2] for choices in (*((one,) for one in PROBES), *EITHER) if not probe(*choices)]
    if refused:
        sys.exit(f"FAILED: cannot probe {', '.join(refused)}: {(TRACING / 'error_log').read_text()}")
    probe(*OPTIONAL)
    write("events/drfq/enable", "1")
    write("events/sched/sched_switch/enable", "1")


def missed():
    """How many events no probe recorded."""
    lines = (line.split() for line in (TRACING / "kprobe_profile").read_text().splitlines())
    return sum(int(words[2]) for words in lines)


def group(name, weight, parent=CGROUPS):
    """Makes a cgroup and returns its path."""
    (parent / "cgroup.subtree_control").write_text("+cpu")
    path = parent / name
    path.mkdir()
    (path / "cpu.weight").write_text(str(weight))
    return path


def llcs():
    """The number of last-level caches."""
    ids = pathlib.Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cache/index3/id")
    return max(1, len({path.read_text() for path in ids}))


class Case:
    """One workload."""

    def __init__(self, load):
        self.load = load
        self.processes = []
        self.groups = []

    def start(self, *words, nice=0, cpus=None, cgroup=None):
        options = [f"--nice={nice}"] + ([f"--cpus={cpus}"] if cpus else [])
        command = [self.load, *options, *words]
        if cgroup:
            command = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(cgroup / "cgroup.procs"), *command]
        self.processes.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))

    def sleeper(self, run_us, sleep_us, **options):
        self.start("sleeper", f"--run-us={run_us}", f"--sleep-us={sleep_us}", **options)

    def weights(self):
        for nice in (0, 0, 5, -5, 3):
            self.start("hog", nice=nice)

    def sleepers(self):
        for nice in (0, 3):
            self.start("hog", nice=nice)
        for run_us, sleep_us in ((300, 3000), (1000, 7000), (2500, 11000), (500, 20000)):
            self.sleeper(run_us, sleep_us)

    def cgroups(self):
        a, b = group("a", 100), group("b", 300)
        inner = group("inner", 50, b)
        leaf = group("leaf", 100, b)
        self.groups = [a, b, inner, leaf]
        self.start("hog", cgroup=a)
        self.start("hog", cgroup=a, nice=3)
        self.start("hog", cgroup=inner)
        self.start("hog", cgroup=leaf)
        self.sleeper(1000, 9000, cgroup=leaf)

    def pinned(self):
        for nice, cpus in ((0, "0"), (4, "0"), (0, "1"), (0, None), (-3, None)):
            self.start("hog", nice=nice, cpus=cpus)

    def forks(self):
        self.start("forkstorm")
        self.start("hog")
        self.start("hog", nice=3)

    def llcs(self):
        for nice in (0, 0, 3, -3, 5, 0, 1):
            self.start("hog", nice=nice)
        self.sleeper(500, 5000)
        self.sleeper(2000, 9000)

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait()
        time.sleep(0.1)
        for path in reversed(self.groups):
            path.rmdir()


def record(name, load, agent, out):
    write("trace", "")
    case = Case(load)
    # V stands still while nothing but this script runs. The budget of the agent fills up.
    v_ns = scheduler.stats()["system"]["vtime_ns"]
    time.sleep(1.5)
    write("tracing_on", "1")
    getattr(case, name)()
    time.sleep(SECONDS)
    write("tracing_on", "0")
    header = [
        f"# agent {agent.pid}",
        *(f"# agent_stats {pid}" for pid in scheduler.children(agent.pid)),
        f"# cpus {os.cpu_count()}",
        f"# llcs {llcs()}",
        f"# kernel {os.uname().release}",
        f"# v {v_ns}",
    ]
    for path in case.groups:
        parent = path.parent.stat().st_ino if path.parent != CGROUPS else 0
        header.append(f"# cgroup {path.stat().st_ino} {parent} {(path / 'cpu.weight').read_text().strip()}")
    text = (TRACING / "trace").read_text()
    lost = sum("LOST" in line for line in text.splitlines())
    print(f"{name}: {text.count(chr(10))} lines, {lost} gaps, {missed()} missed", flush=True)
    (out / f"{name}.trace").write_text("\n".join(header) + "\n" + text)
    case.stop()


def main():
    scx_drfq, load, out, *names = sys.argv[1:]
    write("tracing_on", "0")
    set_up()
    agent = scheduler.start(scx_drfq)
    for name in names:
        record(name, load, agent, pathlib.Path(out))
    agent.terminate()
    agent.wait()
    clear()


if __name__ == "__main__":
    main()
