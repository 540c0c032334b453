# SPDX-License-Identifier: GPL-2.0-only
"""Rules of a configuration file give weights, and SIGHUP changes them. Bad output does not end the scheduler.

Members of a group read statistics, and others do not. The process that serves them has no privilege. It ends with the
agent, and the scheduler does not end with it.
The statistics tell the effective weights, which are counts, not times. As root in the VM: rules.py SCX_DRFQ
"""

import atexit
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys

from scheduler import STATS, children, ended, spin, start, state, stats, tasks, wait

CONFIG = pathlib.Path("/tmp/drfq.toml")
LOG = pathlib.Path("/tmp/drfq.log")
GROUP = pathlib.Path("/sys/fs/cgroup/ruled")
# No user or group of the host has these numbers.
OUTSIDER, MEMBERS = 54321, 54322
NOBODY = "\t".join(["65534"] * 4)
# What the kernel tells of each thread that serves statistics, beside five empty sets of capabilities.
CONFINED = {"Uid": NOBODY, "Gid": NOBODY, "Groups": " ", "NoNewPrivs": "1", "Seccomp": "2", "Seccomp_filters": "2"}


# What the agent keeps of root's capabilities: CAP_BPF and CAP_PERFMON (linux/capability.h).
AGENT_CAPABILITIES = 1 << 39 | 1 << 38


def configure(*rules, slice_us=2000):
    text = f"slice-us = {slice_us}\n"
    for key, pattern, weight in rules:
        text += f"[[rule]]\n{key} = '{pattern}'\nweight = {weight}\n"
    CONFIG.write_text(text, encoding="ascii")


def weight_is(pid, expected):
    """Waits until the scheduler gives a task this effective weight."""

    def true():
        found = tasks([pid])
        return found and abs(found[0]["weight"] - expected) < 0.01

    wait(f"weight {expected} of task {pid}, now {tasks([pid])}", true)


def said(text):
    wait(f"the message {text!r}", lambda: text in LOG.read_text(encoding="utf-8"))


def die_in_the_middle():
    """Clients that leave without reading their answers, or ask nonsense."""
    for request in (b'{"req": "stats", "args": {"target": "tasks"}}\n', b"nonsense\n", b"\xff\x00", b"{" * 10000):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(STATS)
            connection.sendall(request)


def status_of(thread):
    """What the kernel tells of a thread, given its directory in /proc."""
    text = (thread / "status").read_text(encoding="utf-8")
    return dict(line.split(":\t", 1) for line in text.splitlines())


def kept(agent):
    """Checks that no thread of the agent has a privilege that it does not need, or can gain one."""
    threads = list(pathlib.Path(f"/proc/{agent}/task").iterdir())
    for thread in threads:
        status = status_of(thread)
        sets = {key: int(value, 16) for key, value in status.items() if key.startswith("Cap")}
        assert set(sets.values()) == {0, AGENT_CAPABILITIES}, sets
        assert sets["CapEff"] == sets["CapBnd"] == AGENT_CAPABILITIES, sets
        assert status["NoNewPrivs"] == "1", status
    print(f"{len(threads)} threads of the agent have two capabilities", flush=True)


def confined(server):
    """Checks all threads of the process that serves statistics, of which each client has one."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(STATS)
        threads = list(pathlib.Path(f"/proc/{server}/task").iterdir())
        for thread in threads:
            status = status_of(thread)
            found = {key: status[key] for key in CONFINED}
            assert found == CONFINED, found
            sets = [value for key, value in status.items() if key.startswith("Cap")]
            assert sets == ["0" * 16] * 5, sets
        print(f"{len(threads)} threads of {status['Name']} have no privilege", flush=True)
        # The main one, the one that accepts clients, and that of this client.
        assert len(threads) >= 3
    # The descriptors 0 to 2, its connection to the agent twice, and the socket.
    wait("six descriptors", lambda: len(os.listdir(f"/proc/{server}/fd")) == 6)


def runs(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def connects():
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(STATS) == 0


def killed_agent(scx_drfq):
    """Scheduling goes on without a reader of --stats. The process that serves statistics ends with its agent."""
    reads, writes = os.pipe()
    with LOG.open("w") as log:
        agent = start(scx_drfq, "--stats", "0.1", stdout=writes, stderr=log)
    os.close(writes)
    assert os.read(reads, 1)
    os.close(reads)
    said("no more are printed, scheduling goes on")
    assert agent.poll() is None and state() == "enabled"
    (server,) = children(agent.pid)
    agent.kill()
    agent.wait()
    wait("the end of drfq-stats", lambda: not runs(server))
    wait("no loaded scheduler", lambda: state() == "disabled")
    # Its other threads may end after its first one.
    wait("a socket without listener", lambda: not connects())


spinner = spin(1, "python3", "-c", "while True: pass")[0]
shell = spin(1)[0]
grouped = spin(2)
mounted = GROUP.parent.joinpath("cgroup.controllers").exists()
if not mounted:
    subprocess.run(["mount", "-t", "cgroup2", "none", str(GROUP.parent)], check=True)
GROUP.parent.joinpath("cgroup.subtree_control").write_text("+cpu", encoding="ascii")
GROUP.mkdir()
for process in grouped:
    GROUP.joinpath("cgroup.procs").write_text(str(process.pid), encoding="ascii")

configure(("command", "python*", 3), ("cgroup", "/ruled", 4))
with LOG.open("w") as log, open("/dev/full", "w", encoding="ascii") as full:
    agent = subprocess.Popen(
        [
            *[sys.argv[1], "--config", str(CONFIG), "--perf-event", "none", "--stats", "0.1", "--json"],
            *["--run-id", "7", "--stats-group", str(MEMBERS)],
        ],
        stdout=full,
        stderr=log,
    )
atexit.register(lambda: print(LOG.read_text(encoding="utf-8"), flush=True))
wait("the scheduler", lambda: stats() and agent.poll() is None)
said("no more are printed, scheduling goes on")
assert stats()["system"]["run_id"] == 7
weight_is(spinner.pid, 3)
weight_is(shell.pid, 1)
weight_is(grouped[0].pid, 2)

configure(("command", "sh", 0.5), slice_us=2000)
agent.send_signal(signal.SIGHUP)
said("read the configuration again: 1 rule")
weight_is(spinner.pid, 1)
weight_is(shell.pid, 0.5)
# The group of two has its cpu.weight again: 100.
weight_is(grouped[0].pid, 0.5)

configure(("command", "sh", 2), slice_us=3000)
agent.send_signal(signal.SIGHUP)
said("slice-us cannot change while the scheduler is loaded")
weight_is(shell.pid, 0.5)

# The directories above the program may be closed to others, so root opens it for them.
with open(sys.argv[1], "rb") as program:
    monitor = [f"/proc/self/fd/{program.fileno()}", "--monitor", "0.1"]
    other = {"user": OUTSIDER, "extra_groups": [], "pass_fds": [program.fileno()]}
    outsider = subprocess.run(monitor, **other, group=OUTSIDER, capture_output=True, check=False)
    assert outsider.returncode == 1 and b"not permitted" in outsider.stderr, outsider
    member = subprocess.Popen(monitor, **other, group=MEMBERS, stdout=subprocess.PIPE)
    assert member.stdout.readline()
    member.stdout.close()
    ended(member)
die_in_the_middle()
subprocess.run([sys.argv[1], "top", "--plain", "--duration", "1"], stdout=subprocess.DEVNULL, check=True)
line = subprocess.Popen([sys.argv[1], "--monitor", "0.1", "--json"], stdout=subprocess.PIPE)
answer = json.loads(line.stdout.readline())
line.stdout.close()
assert answer["schema"] == 1 and answer["system"]["run_id"] == 7, answer
# Its reader has gone, which is no error.
ended(line)
assert agent.poll() is None and state() == "enabled"
(server,) = children(agent.pid)
kept(agent.pid)
confined(server)
os.kill(server, signal.SIGKILL)
said("the statistics' process ended (signal 9); scheduling goes on; restart scx_drfq to have statistics again\n")
assert not pathlib.Path(STATS).exists()
configure(("command", "sh", 2))
agent.send_signal(signal.SIGHUP)
wait("the reload", lambda: LOG.read_text(encoding="utf-8").count("read the configuration again: 1 rule") == 2)
assert agent.poll() is None and state() == "enabled"
agent.terminate()
ended(agent)
for process in (spinner, shell, *grouped):
    process.kill()
    os.waitpid(process.pid, 0)
killed_agent(sys.argv[1])
print("ok: rules, reload, bad output, statistics without privileges")
