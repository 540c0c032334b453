# SPDX-License-Identifier: GPL-2.0-only
"""Other programs act on resctrl while `--mba on` shares the memory of four hogs.

As root in the VM: hostile.py SCX_DRFQ SECONDS LOADS. It writes the log that tests/vm/bandwidth_shares judges:
after each act the hogs share by weight again. The other programs' files never change. While they have classes, nothing
is throttled.
"""

import os
import pathlib
import signal
import subprocess
import sys
import time

import bandwidth_shares as shares
from scheduler import spin, state, stats, wait

ROOT = pathlib.Path(shares.RESCTRL)
# The loop looks for other programs' changes every 2 s, and settles within 5 s.
RECOVERY_S = 7
RMIDS = 79
UNTHROTTLED = "MB:0=100\n"


def ours():
    """Our classes and the directories of our monitoring groups."""
    classes = sorted(ROOT.glob("drfq_c*"))
    return classes, [mon for parent in (ROOT, *classes) for mon in (parent / "mon_groups").glob("drfq_*")]


def theirs():
    """Paths, modes and texts of the other program's files, counters excepted."""
    found = {}
    for group in (*sorted(ROOT.glob("theirs*")), *sorted((ROOT / "mon_groups").glob("theirs*"))):
        for path in sorted(group.rglob("*")):
            if "mon_data" not in path.parts:
                found[str(path)] = (path.stat().st_mode, path.read_bytes() if path.is_file() else b"")
    return found


def take_classes():
    """Another program takes all classes that are left, and gives them back."""
    ROOT.chmod(0o755)
    taken = []
    while True:
        group = ROOT / f"theirs{len(taken)}"
        try:
            group.mkdir()
        except OSError:
            break
        taken.append(group)
    assert taken, "no class was left"
    (taken[0] / "schemata").write_text("MB:0=50\n", encoding="ascii")
    idle = spin(1, "sleep", "100000")[0]
    (taken[0] / "tasks").write_text(f"{idle.pid}\n", encoding="ascii")
    before = theirs()
    wait("the loop gives its classes back", lambda: not ours()[0])
    time.sleep(RECOVERY_S)
    said = stats()["system"]["mba"]["state"]
    assert said.startswith("observe: another program has classes"), said
    assert theirs() == before and not ours()[0], "other programs' files have changed"
    idle.kill()
    idle.wait()
    for group in taken:
        group.rmdir()
    print(f"another program had {len(taken)} classes; {said}", flush=True)


def take_ids():
    """Another program takes all but a tenth of the monitoring ids."""
    groups = 1 + sum(len(found) for found in ours())
    parent = ROOT / "mon_groups"
    for number in range(int(0.9 * RMIDS) - groups):
        (parent / f"theirs{number}").mkdir()
    print(f"{int(0.9 * RMIDS)} of {RMIDS} monitoring ids are taken", flush=True)


def edit_levels():
    """Another program writes to our classes, for 3 s."""
    end = time.monotonic() + 3
    while time.monotonic() < end:
        for group in ours()[0]:
            (group / "schemata").write_text(UNTHROTTLED, encoding="ascii")
        time.sleep(0.1)


def reset():
    """What `pqos -R` does: no class throttles, and all tasks are in the default group."""
    for group in ours()[0]:
        (group / "schemata").write_text(UNTHROTTLED, encoding="ascii")
    for group in [path for found in ours() for path in found]:
        for tid in (group / "tasks").read_text(encoding="ascii").split():
            (ROOT / "tasks").write_text(f"{tid}\n", encoding="ascii")


def remove():
    """Another program removes our groups."""
    classes, monitoring = ours()
    for group in (*monitoring, *classes):
        group.rmdir()


def fork_storm():
    """Four shells fork without pause, for 2 s."""
    storm = spin(4, "sh", "-c", "while :; do /bin/true; done")
    time.sleep(2)
    for shell in storm:
        shell.kill()
        shell.wait()


def unmount(agent):
    """resctrl goes away, and comes back. Until then the scheduler goes on, and says what is missing."""
    subprocess.run(["umount", shares.RESCTRL], check=True)
    wait("the loop says that resctrl was unmounted", lambda: "mount it again" in stats()["system"]["mba"]["state"])
    assert state() == "enabled" and agent.poll() is None
    print(stats()["system"]["mba"]["state"], flush=True)
    subprocess.run(["mount", "-t", "resctrl", "resctrl", shares.RESCTRL], check=True)


def main():
    scx_drfq, seconds, loads = sys.argv[1:]
    shares.write(f"{shares.CGROUPS}/cgroup.subtree_control", "+cpu")
    os.nice(-20)
    ops, weights = zip(*(load.split(":") for load in loads.split(",")))
    shares.make_cgroups(weights)
    trace = f"{os.environ['DRFQ_VM_OUT']}/trace.jsonl"
    agent = shares.start_agent(scx_drfq, "on", "--mba-trace", trace)
    load = shares.start_hogs(ops)
    time.sleep(RECOVERY_S)
    mark, before = 0, None
    acts = [take_classes, take_ids, edit_levels, reset, remove, fork_storm, lambda: unmount(agent)]
    for number, act in enumerate([lambda: None, *acts]):
        act()
        time.sleep(RECOVERY_S if number else 0)
        print("act", number, getattr(act, "__doc__", None), flush=True)
        print("on", mark, loads, flush=True)
        mark += shares.measure_agent(agent, mark, int(seconds))
        if act is take_ids:
            before = theirs()
        # Unmounting removes all groups.
        assert not before or act is acts[-1] or theirs() == before, "other programs' files have changed"
        assert state() == "enabled" and agent.poll() is None
    shares.stop_hogs(load)
    agent.send_signal(signal.SIGINT)
    assert agent.wait(timeout=shares.PATIENCE_S) == 0
    assert not shares.leftovers(), shares.leftovers()
    print("done", mark, flush=True)


main()
