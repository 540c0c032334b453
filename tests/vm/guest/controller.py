# SPDX-License-Identifier: GPL-2.0-only
"""The agent drives one drfq-mc and asks another, charges the running tasks, and survives the death of either side.

The traffic is synthetic: drfq-mc moves memory for core 0 and core 1 whatever runs there. The registers that the agent
wrote decide which task is charged. As root in the VM, from the repository: controller.py SCX_DRFQ DRFQ_MC
"""

import json
import os
import signal
import subprocess
import sys

sys.path.insert(0, "gem5-backend/tests/conformance")
from conformance import OK, PEEK, PID_CORE, READER, STATS, WRITER, Client
from scheduler import PATIENCE_S, each, ever, show, spin, start, state, stats, tasks, wait

SCX_DRFQ, DRFQ_MC = sys.argv[1:]
DIRECTORY = "/tmp/controller"


def serve(name, *options):
    path = f"{DIRECTORY}/{name}"
    server = subprocess.Popen([DRFQ_MC, "serve", "--socket", path, *options], stdout=subprocess.DEVNULL)
    wait(f"{name} listens", lambda: Client(path).close() or True)
    return path, server


def load(path):
    """Gives both cores traffic, as the writer, and disconnects."""
    writer = wait("a free place as the writer", lambda: Client(path, WRITER))
    for core in (0, 1):
        assert writer.demand(core, 500_000_000).status == OK
    writer.close()


def register(path, offset):
    client = Client(path, READER)
    value = client.call(PEEK, offset).b
    client.close()
    return value


def served(path):
    """Bytes that the controller has counted since its start, by its own statistics."""
    client = Client(path, READER)
    rows = json.loads(client.call(STATS).payload)["pids"]
    client.close()
    return sum(row["read_bytes"] + row["write_bytes"] for row in rows)


def check_counts(path):
    """The first agent has read each byte that the controller has counted, and no more."""
    before = served(path)

    def read_all():
        counted = stats()["system"]["controller"]["bytes"]
        return counted if counted >= before else None

    counted = wait("the agent has read what the controller counted", read_all)
    later = served(path)
    print(f"the controller counted {before} bytes, the agent {counted}, the controller {later}")
    assert counted <= later, (counted, later)


def check_charges(hogs):
    wait("each hog's traffic is counted", lambda: each(hogs, "controller_bytes"))
    wait("each hog is charged for it", lambda: each(hogs, "bytes"))
    # A task that was not charged since the last request wants nothing.
    wait("the model is asked for it", ever(hogs, "shadow_demand_bytes_per_s"))
    wait("the model gives them something", lambda: each(hogs, "shadow_bytes_per_s"))
    show(hogs, "bytes", "controller_bytes", "shadow_demand_bytes_per_s", "shadow_bytes_per_s", "mem_bytes_per_s")
    for task in tasks(hogs):
        # The controller is the only source of traffic here, and counts before the agent charges.
        later = {late["pid"]: late for late in tasks(hogs)}[task["pid"]]
        assert task["bytes"] <= later["controller_bytes"], (task, later)
    counted = {task["pid"]: task["controller_bytes"] for task in tasks(hogs)}
    wait("all that was counted is charged", lambda: all(task["bytes"] >= counted[task["pid"]] for task in tasks(hogs)))


def main():
    os.makedirs(DIRECTORY, mode=0o700, exist_ok=True)
    path, server = serve("controller", "--free-running", "--rate", "0.05")
    shadow, model = serve("shadow")
    load(path)
    hogs = spin(3)
    pids = [hog.pid for hog in hogs]
    options = ["--controller", f"unix:{path}", "--shadow", f"unix:{shadow}", "--memory-bandwidth", "4G"]

    agent = start(SCX_DRFQ, *options)
    check_charges(pids)
    check_counts(path)
    # Two of the three hogs run at any time.
    wait("the cores carry tasks", lambda: register(path, PID_CORE) and register(path, PID_CORE + 8))

    print("the agent is killed")
    agent.send_signal(signal.SIGKILL)
    agent.wait()
    wait("the kernel's own scheduler", lambda: state() == "disabled")
    agent = start(SCX_DRFQ, *options)
    assert stats()["system"]["controller"]["inherited_bytes"] > 0, "the server went on counting"
    check_charges(pids)

    print("the server is killed")
    before = stats()["system"]["controller"]
    server.kill()
    server.wait()
    lost = wait("the loss is noticed", lambda: (s := stats()["system"]["controller"])["connected"] == 0 and s)
    print(lost["state"])
    assert lost["bytes"] >= before["bytes"] and state() == "enabled", "the accounting and the scheduler stay"
    path, server = serve("controller", "--free-running", "--rate", "0.05")
    wait("the agent is connected again", lambda: stats()["system"]["controller"]["connected"] == 1)
    wait("the registers are written again", lambda: register(path, PID_CORE) and register(path, PID_CORE + 8))
    after = stats()["system"]["controller"]
    assert after["bytes"] >= lost["bytes"] and after["losses"] == 1, after
    link = after["cpu_ns"] / max(after["polls"], 1)
    print(f"CPU time of the link: {link / 1000:.1f} us a poll, {after['polls']} polls (in this VM)")

    agent.send_signal(signal.SIGINT)
    assert agent.wait(timeout=PATIENCE_S) == 0
    assert state() == "disabled"
    assert register(path, PID_CORE) == register(path, PID_CORE + 8) == 0, "no label stays behind"
    for process in (*hogs, server, model):
        process.kill()


main()
