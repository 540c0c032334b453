# SPDX-License-Identifier: GPL-2.0-only
"""Traffic of network devices, and what the scheduler charges for it. Two network cards on one cable, each in a network
namespace of its own; the cards' own counters are the truth.

network.py                  runs all cases; prints a line of JSON for each
network.py send|receive ... a process that uses one socket, and stays until its standard input ends
"""

import json
import os
import select
import socket
import subprocess
import sys
import time
from pathlib import Path

from scheduler import stats

MIB = 1 << 20
PORT = 5000
CARDS = ("left", "right")
BLOCK = b"\x5a" * 65536
DATAGRAM = b"\x5a" * 1400
COUNTERS = ("net_bytes", "net_charged_bytes")


def address(card):
    return f"10.0.0.{CARDS.index(card) + 1}"


def run(*words):
    subprocess.run(words, check=True)


def set_up():
    """Gives each card a network namespace of its own."""
    run("modprobe", "virtio_net")
    names = sorted(
        path.name for path in Path("/sys/class/net").iterdir() if (path / "device").exists() and path.name != "lo"
    )
    assert len(names) == len(CARDS), names
    for card, name in zip(CARDS, names):
        run("ip", "netns", "add", card)
        run("ip", "link", "set", name, "netns", card, "name", card)
        run("ip", "-n", card, "address", "add", f"{address(card)}/24", "dev", card)
        for device in (card, "lo"):
            run("ip", "-n", card, "link", "set", device, "up")


def card_bytes():
    """What each card has sent and received, by its own counters."""
    found = {}
    for card in CARDS:
        shown = subprocess.run(
            ("ip", "-n", card, "-s", "-j", "link", "show", card), check=True, capture_output=True
        ).stdout
        counts = json.loads(shown)[0]["stats64"]
        found[card] = counts["rx"]["bytes"] + counts["tx"]["bytes"]
    return found


class User:
    """A process that uses a socket in the namespace of a card."""

    def __init__(self, card, *words):
        command = ["ip", "netns", "exec", card, sys.executable, "-B", __file__, *words]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.pid = int(self.process.stdout.readline())

    def done(self):
        """Waits until it has moved everything."""
        assert self.process.stdout.readline() == b"done\n"

    def end(self):
        self.process.stdin.close()
        assert self.process.wait() == 0


def say(text):
    print(text, flush=True)


def stay():
    """Lives until the standard input ends. A task is charged when it wakes, so it wakes often."""
    say("done")
    while not select.select([0], [], [], 0.05)[0]:
        pass


def send(kind, to, bytes_):
    with socket.socket(socket.AF_INET, kind) as one:
        one.connect((to, PORT))
        block = BLOCK if kind == socket.SOCK_STREAM else DATAGRAM
        for _ in range(0, bytes_, len(block)):
            one.sendall(block)
        if kind == socket.SOCK_STREAM:
            one.shutdown(socket.SHUT_WR)
            assert one.recv(1) == b""
        stay()


def receive(kind, at, bytes_):
    with socket.socket(socket.AF_INET, kind) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind((at, PORT))
        if kind == socket.SOCK_STREAM:
            one.listen()
            say(str(os.getpid()))
            stream, _ = one.accept()
            with stream:
                while stream.recv(len(BLOCK)):
                    pass
        else:
            one.settimeout(2)
            say(str(os.getpid()))
            try:
                while True:
                    one.recv(len(BLOCK))
            except TimeoutError:
                pass
        stay()


def measure(name, kind, bytes_):
    """One case: the right card's process sends to that of the left one."""
    before, cards = stats(), card_bytes()
    receiver = User("left", "receive", kind, address("left"), str(bytes_))
    sender = User("right", "send", kind, address("left"), str(bytes_))
    for user in (sender, receiver):
        user.done()
    time.sleep(0.5)
    after, moved = stats(), card_bytes()
    tasks = {task["pid"]: task["dma_bytes"] for task in after["tasks"]}
    row = {
        "case": name,
        "bytes": bytes_,
        "cards": {card: moved[card] - cards[card] for card in CARDS},
        "charged": {"left": tasks[receiver.pid], "right": tasks[sender.pid]},
    }
    row |= {name: after["system"][name] - before["system"][name] for name in COUNTERS}
    say(json.dumps(row))
    for user in (sender, receiver):
        user.end()


def main():
    set_up()
    measure("TCP", "SOCK_STREAM", 32 * MIB)
    measure("TCP, short", "SOCK_STREAM", MIB)
    measure("UDP", "SOCK_DGRAM", 4 * MIB)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        mode, kind_, where, size = sys.argv[1:]
        if mode == "send":
            say(str(os.getpid()))
        {"send": send, "receive": receive}[mode](getattr(socket, kind_), where, int(size))
