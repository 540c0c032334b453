# SPDX-License-Identifier: GPL-2.0-only
"""SIGKILL at random moments ends agents that share the memory of two hogs, every second time their cleaners too.

As root in the VM: killed.py SCX_DRFQ COUNT SEED. Beside another program's class an agent monitors, and beside its
monitoring groups alone it throttles; half of the agents have each. Other programs' groups never change, the directories
get their modes back, and no group of ours outlives its cleaner or, without one, the next agent, even with --mba off.
"""

import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import bandwidth_shares as shares
from scheduler import children, spin, state, stats, wait

ROOT = pathlib.Path(shares.RESCTRL)
LOADS, WEIGHTS = ["copy"] * 2, (300, 600)
MONITORING_GROUPS = 9


def make_theirs():
    """A class with a task and monitoring groups, and monitoring groups of the default class."""
    subprocess.run(["mount", "-t", "resctrl", "resctrl", shares.RESCTRL], check=True)
    ROOT.chmod(0o755)
    group = ROOT / "theirs"
    group.mkdir()
    (group / "schemata").write_text("MB:0=50\n", encoding="ascii")
    (group / "tasks").write_text(f"{spin(1, 'sleep', '100000')[0].pid}\n", encoding="ascii")
    for directory in (ROOT / "mon_groups", group / "mon_groups"):
        directory.chmod(0o755)
        for number in range(MONITORING_GROUPS):
            (directory / f"theirs{number}").mkdir()
        directory.chmod(0o555)
    ROOT.chmod(0o555)


def remove_their_class():
    ROOT.chmod(0o755)
    (ROOT / "theirs").rmdir()
    ROOT.chmod(0o555)


def theirs():
    """Modes and texts of what is not ours, without counters and the list of all other tasks."""
    paths = [ROOT, ROOT / "mon_groups", ROOT / "schemata"]
    for group in (ROOT / "theirs", *sorted((ROOT / "mon_groups").glob("theirs*"))):
        paths += sorted(group.rglob("*"))
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


def classes():
    """Our classes of service."""
    return [group for group in ROOT.iterdir() if group.name.startswith("drfq_c")]


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
    load = shares.start_hogs(LOADS)
    agent = kill_agents(scx_drfq, load, int(count) // 2, choose, shares.leftovers)
    assert shares.stop(agent, 2) == 0
    assert not shares.leftovers(), shares.leftovers()
    remove_their_class()
    agent = kill_agents(scx_drfq, load, int(count) // 2, choose, classes)
    wait("the last agent acts", lambda: stats()["system"]["mba"]["acting"] > 0)
    before = theirs()
    assert shares.stop(agent, 2) == 0
    clean_with_mba_off(scx_drfq, load)
    shares.stop_hogs(load)
    assert not shares.leftovers(), shares.leftovers()
    assert texts(theirs()) == texts(before)
    print("ok", flush=True)


def clean_with_mba_off(scx_drfq, load):
    """An agent that does not use resctrl removes what an agent and its cleaner have left."""
    agent, _ = begin(scx_drfq, load)
    go_on(load)
    wait("groups", shares.leftovers)
    assert end(agent, with_cleaner=True) and shares.leftovers()
    agent = shares.start([*shares.AT_NICE_0, scx_drfq])
    assert not shares.leftovers(), shares.leftovers()
    assert shares.stop(agent, 2) == 0


def texts(files):
    return {path: text for path, (_, text) in files.items()}


def kill_agents(scx_drfq, load, count, choose, active):
    """Kills agents one after the other, every third while it loads, the others until 2 s after the hogs go on.

    Returns one more, which is `active`.
    """
    before = theirs()
    agent, load_s = begin(scx_drfq, load)
    go_on(load)
    wait("an active agent", active)
    dirty = left = acted = unloaded = 0
    for number in range(count):
        acted += bool(active())
        unloaded += state() != "enabled"
        left += dirty
        dirty = end(agent, with_cleaner=number % 2)
        pause(load)
        if not dirty:
            wait("the cleaner has cleaned", lambda: not shares.leftovers() and theirs() == before)
        assert texts(theirs()) == texts(before)
        wait("no scheduler", lambda: state() == "disabled")
        if number % 3 == 0 and number < count - 1:
            agent = spawn(scx_drfq, load)
            time.sleep(choose.uniform(0, load_s))
        else:
            agent, _ = begin(scx_drfq, load)
            go_on(load)
            time.sleep(choose.uniform(0, 2))
        assert agent.poll() is None, f"the agent ended with {agent.returncode} after kill {number}"
        print("kill", number, flush=True)
    wait("the last agent", active)
    print(f"{count} agents killed: {acted} were active, {unloaded} not loaded,", end=" ")
    print(f"{left} left their groups to the next one; {stats()['system']['mba']['state']}", flush=True)
    return agent


def spawn(scx_drfq, load):
    """Starts an agent."""
    pause(load)
    words = [*shares.AT_NICE_0, scx_drfq, "--mba", "on", "--perf-event", "auto"]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def begin(scx_drfq, load):
    """Starts an agent, and returns it when it is loaded, and after how many seconds."""
    began = time.monotonic()
    agent = spawn(scx_drfq, load)
    wait("the scheduler", lambda: state() == "enabled")
    return agent, time.monotonic() - began


def pause(load):
    """Stops the hogs, which slow down the modelled machine."""
    for pid in children(load.pid):
        os.kill(pid, signal.SIGSTOP)


def go_on(load):
    for pid in children(load.pid):
        os.kill(pid, signal.SIGCONT)


main()
