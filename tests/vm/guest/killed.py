# SPDX-License-Identifier: GPL-2.0-only
"""SIGKILL at random moments ends agents that throttle four hogs, every second time their cleaners too.

As root in the VM: killed.py SCX_DRFQ COUNT SEED. Other programs' groups never change, the directories get their modes
back, and no group of ours outlives its cleaner or, without one, the next agent.
"""

import os
import pathlib
import random
import subprocess
import sys
import time

import bandwidth_shares as shares
from scheduler import children, spin, start, state, stats, wait

ROOT = pathlib.Path(shares.RESCTRL)
LOADS, WEIGHTS = ["copy"] * 4, (300, 400, 500, 600)
MONITORING_GROUPS = 9


def make_theirs():
    """A class with a task and monitoring groups."""
    subprocess.run(["mount", "-t", "resctrl", "resctrl", shares.RESCTRL], check=True)
    ROOT.chmod(0o755)
    group = ROOT / "theirs"
    group.mkdir()
    (group / "schemata").write_text("MB:0=50\n", encoding="ascii")
    (group / "tasks").write_text(f"{spin(1, 'sleep', '100000')[0].pid}\n", encoding="ascii")
    (group / "mon_groups").chmod(0o755)
    for number in range(MONITORING_GROUPS):
        (group / "mon_groups" / f"m{number}").mkdir()
    ROOT.chmod(0o555)


def theirs():
    """Modes and texts of what is not ours, without counters and the list of all other tasks."""
    paths = [ROOT, ROOT / "mon_groups", ROOT / "schemata", *sorted((ROOT / "theirs").rglob("*"))]
    return {
        str(path): (oct(path.stat().st_mode), path.read_bytes() if path.is_file() else b"")
        for path in paths
        if "mon_data" not in path.parts
    }


def cleaners(agent):
    """The cleaner of an agent, if it has one yet."""
    found = []
    for pid in children(agent.pid):
        if pathlib.Path(f"/proc/{pid}/comm").read_text(encoding="ascii").strip() == "drfq-cleaner":
            found.append(pid)
    return found


def throttles_hogs():
    return any(group.name.startswith("drfq_c") for group in ROOT.iterdir())


def end(agent, with_cleaner):
    """Returns whether no cleaner is left to clean up after the agent."""
    killed = cleaners(agent) if with_cleaner else []
    for pid in (*killed, agent.pid):
        os.kill(pid, 9)
    agent.wait()
    return bool(killed)


def main():
    scx_drfq, count, seed = sys.argv[1:]
    choose = random.Random(int(seed))
    os.nice(-20)
    shares.write(f"{shares.CGROUPS}/cgroup.subtree_control", "+cpu")
    shares.make_cgroups(WEIGHTS)
    make_theirs()
    before = theirs()
    load = shares.start_hogs(LOADS)
    began = time.monotonic()
    agent = start([*shares.AT_NICE_0, scx_drfq], "--mba", "on", event="auto")
    wait("a throttled hog", throttles_hogs)
    longest = 1.5 * (time.monotonic() - began)
    dirty = left = throttled = unloaded = 0
    for number in range(int(count)):
        throttled += throttles_hogs()
        unloaded += state() != "enabled"
        left += dirty
        dirty = end(agent, with_cleaner=number % 2)
        if not dirty:
            wait("the cleaner has cleaned", lambda: not shares.leftovers() and theirs() == before)
        assert {path: text for path, (_, text) in theirs().items()} == {
            path: text for path, (_, text) in before.items()
        }
        wait("no scheduler", lambda: state() == "disabled")
        words = [*shares.AT_NICE_0, scx_drfq, "--mba", "on", "--perf-event", "auto"]
        agent = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(choose.uniform(0, longest))
        assert agent.poll() is None, f"the agent ended with {agent.returncode} after kill {number}"
    wait("the last agent acts", lambda: stats()["system"]["mba"]["acting"] > 0)
    print("the last agent:", stats()["system"]["mba"]["state"], flush=True)
    shares.stop_hogs(load)
    assert shares.stop(agent, 2) == 0
    assert not shares.leftovers(), shares.leftovers()
    assert theirs() == before, (theirs(), before)
    print(
        f"ok: {count} agents killed in their first {longest:.1f} s: {throttled} throttled, {unloaded} were not loaded"
    )
    print(f"{left} left their groups to the next one", flush=True)


main()
