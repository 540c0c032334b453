# SPDX-License-Identifier: GPL-2.0-only
"""Traffic of network devices under the scheduler, and what it charges for it. Two network cards on one cable, each in a
network namespace of its own; the cards' own counters are the truth. As root in a VM with two cards:

network.py SCX_DRFQ                   all cases; a line of JSON for each
network.py send|receive|fork WAY ADDRESS BYTES
                                      a process that uses one socket, and stays until its standard input ends
"""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from scheduler import PATIENCE_S, start, stats, wait

MIB = 1 << 20
PORT = 5000
CARDS = ("left", "right")
# A VLAN on the cable. Its packets reach their sockets by way of a device above the card.
VLAN = 100
WAYS = {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}
BLOCK = b"\x5a" * 65536
DATAGRAM = b"\x5a" * 1400
COUNTERS = ("net_bytes", "net_charged_bytes")
# How long iperf3 is watched, and how long it runs before.
WATCHED_S = 2
WARM_S = 1
# iperf3's own, and the state of a socket that listens, as in the kernel's net/tcp_states.h.
IPERF_PORT = 5201
LISTEN = "0A"
# A process in the namespace of each card.
RESIDENTS = {}


def address(card, vlan=0):
    return f"10.0.{vlan}.{CARDS.index(card) + 1}"


def run(*words):
    return subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout


def set_up():
    """Gives each card a network namespace of its own."""
    run("modprobe", "-a", "virtio_net", "8021q")
    names = sorted(path.name for path in Path("/sys/class/net").iterdir() if (path / "device").exists())
    assert len(names) == len(CARDS), names
    for card, name in zip(CARDS, names, strict=True):
        run("ip", "netns", "add", card)
        run("ip", "link", "set", name, "netns", card, "name", card)
        vlan = f"{card}.{VLAN}"
        run("ip", "-n", card, "link", "add", "link", card, "name", vlan, "type", "vlan", "id", str(VLAN))
        run("ip", "-n", card, "address", "add", f"{address(card)}/24", "dev", card)
        run("ip", "-n", card, "address", "add", f"{address(card, VLAN)}/24", "dev", vlan)
        for device in (card, vlan, "lo"):
            run("ip", "-n", card, "link", "set", device, "up")
        RESIDENTS[card] = start_in(card, "sleep", "infinity")


def card_bytes():
    """The time (ns), and what each card has sent and received, by its own counters."""
    found = {}
    for card, process in RESIDENTS.items():
        # Bytes received and seven other counts come before the bytes sent.
        lines = Path(f"/proc/{process.pid}/net/dev").read_text(encoding="ascii").splitlines()
        counts = next(line for line in lines if line.strip().startswith(f"{card}:")).split(":")[1].split()
        found[card] = int(counts[0]) + int(counts[8])
    return time.monotonic_ns(), found


def books():
    """The scheduler's statistics, and what the cards had moved when they were made."""
    (first_ns, first), shown, (last_ns, last) = card_bytes(), stats(), card_bytes()
    part = (shown["system"]["at_ns"] - first_ns) / (last_ns - first_ns)
    assert 0 <= part <= 1, part
    return shown, {card: first[card] + part * (last[card] - first[card]) for card in CARDS}


def start_in(card, *words, **keywords):
    """Starts a program in the namespace of a card; `ip` becomes that program."""
    return subprocess.Popen(["ip", "netns", "exec", card, *words], **keywords)


class User:
    """A process that uses a socket in the namespace of a card."""

    def __init__(self, card, *words):
        command = [sys.executable, "-B", __file__, *words]
        self.process = start_in(card, *command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.pids, self.idle = [self.process.pid], []
        assert self._line() == "ready"

    def _line(self):
        return self.process.stdout.readline().decode().strip()

    def done(self):
        """Waits until it has moved everything, and learns whether a child did."""
        children = [int(word) for word in self._line().split()]
        if children:
            self.pids, self.idle = children, self.pids

    def end(self):
        self.process.stdin.close()
        assert self.process.wait() == 0


def say(text):
    print(text, flush=True)


def stay(*children):
    """Names the children that used the socket instead, and lives on. It wakes often, to be charged."""
    say(" ".join(map(str, children)))
    while not select.select([0], [], [], 0.05)[0]:
        pass


def send(way, to, bytes_):
    say("ready")
    with socket.socket(socket.AF_INET, WAYS[way]) as one:
        one.connect((to, PORT))
        block = BLOCK if way == "tcp" else DATAGRAM
        for _ in range(0, bytes_, len(block)):
            one.sendall(block)
        if way == "tcp":
            one.shutdown(socket.SHUT_WR)
            assert one.recv(1) == b""
        stay()


def read_all(one):
    # The end of a stream, or two seconds without a datagram.
    with contextlib.suppress(TimeoutError):
        while one.recv(len(BLOCK)):
            pass


def receive(way, at, forks):
    with socket.socket(socket.AF_INET, WAYS[way]) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind((at, PORT))
        if way == "udp":
            say("ready")
            one.recv(len(BLOCK))
            one.settimeout(2)
            read_all(one)
            return stay()
        one.listen()
        say("ready")
        stream, _ = one.accept()
        server = os.getpid()
        child = os.fork() if forks else 0
        if child:
            stream.close()
            return stay(child)
        read_all(stream)
        stream.close()
        # The child wakes often, too.
        while forks and os.getppid() == server:
            time.sleep(0.05)
        return None if forks else stay()


def charged(tasks, before, pids):
    """What devices moved for these processes meanwhile, by the scheduler's books."""
    first = {task["pid"]: task["dma_bytes"] for task in before["tasks"]}
    return sum(task["dma_bytes"] - first.get(task["pid"], 0) for task in tasks if task["tgid"] in pids)


@contextlib.contextmanager
def measured(name, pids):
    """Prints what the cards moved meanwhile, and what processes were charged: by card, and those that did nothing."""
    before, cards = books()
    yield
    after, moved = books()
    row = {
        "case": name,
        "cards": {card: round(moved[card] - cards[card]) for card in CARDS},
        "charged": {card: charged(after["tasks"], before, pids[card]) for card in CARDS},
        "idle": charged(after["tasks"], before, pids.get("idle", ())),
    }
    row |= {name: after["system"][name] - before["system"][name] for name in COUNTERS}
    say(json.dumps(row))


def transfer(name, way, bytes_, receiver="receive", vlan=0):
    """The right card's process sends so much to that of the left one."""
    pids, users = {}, {}
    with measured(name, pids):
        users["left"] = User("left", receiver, way, address("left", vlan), "0")
        users["right"] = User("right", "send", way, address("left", vlan), str(bytes_))
        for card, user in users.items():
            user.done()
            pids[card] = user.pids
        pids["idle"] = users["left"].idle
        time.sleep(0.5)
    for user in users.values():
        user.end()


def over_loopback(bytes_):
    """A pair of processes whose packets cross no card."""
    users = [User("left", "receive", "tcp", "127.0.0.1", "0"), User("left", "send", "tcp", "127.0.0.1", str(bytes_))]
    for user in users:
        user.done()
    return users


def listens(pid, port):
    """Whether a socket of the network that a process sees listens on a port."""
    sockets = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/{pid}/net/{name}").open()]
    return any(words[1].endswith(f":{port:04X}") and words[3] == LISTEN for words in sockets)


def iperf(name, *options):
    """Watches iperf3 for some seconds of a longer run."""
    server = start_in("left", "iperf3", "--server", "--one-off", stdout=subprocess.DEVNULL)
    # A guest's second may be far less than one of the host, which reads the program.
    wait("iperf3's server", lambda: listens(server.pid, IPERF_PORT))
    seconds = str(2 * WARM_S + WATCHED_S + 3)
    client = start_in(
        "right", "iperf3", "--client", address("left"), "--time", seconds, *options, stdout=subprocess.DEVNULL
    )
    time.sleep(WARM_S)
    with measured(name, {"left": [server.pid], "right": [client.pid]}):
        time.sleep(WATCHED_S)
    for process in (client, server):
        assert process.wait() == 0


def main(scx_drfq):
    set_up()
    agent = start(scx_drfq, "--memory-bandwidth", "4G")
    transfer("a stream of 16 MiB", "tcp", 16 * MIB)
    transfer("a stream of 1 MiB", "tcp", MIB)
    transfer("a stream to a child of the server", "tcp", 8 * MIB, receiver="fork")
    transfer("a stream over a VLAN", "tcp", 8 * MIB, vlan=VLAN)
    transfer("datagrams, 4 MiB", "udp", 4 * MIB)
    iperf("iperf3, 1 stream")
    iperf("iperf3, 4 streams, both ways", "--parallel", "4", "--bidir")
    iperf("iperf3, datagrams", "--udp", "--bitrate", "20M")
    pids = {card: [] for card in CARDS}
    with measured("loopback", pids):
        users = over_loopback(8 * MIB)
        pids["left"] = [pid for user in users for pid in user.pids]
        time.sleep(0.5)
    for user in users:
        user.end()
    for process in RESIDENTS.values():
        process.kill()
    agent.send_signal(signal.SIGINT)
    assert agent.wait(timeout=PATIENCE_S) == 0


if __name__ == "__main__":
    if len(sys.argv) == 2:
        main(sys.argv[1])
    else:
        mode, way_, where, size = sys.argv[1:]
        if mode == "send":
            send(way_, where, int(size))
        else:
            receive(way_, where, forks=mode == "fork")
