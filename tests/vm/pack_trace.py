# SPDX-License-Identifier: GPL-2.0-only
"""Makes the recordings of tests/vm/guest/record.py small, for tests/sim/traces.

Usage: pack_trace.py DIR CASE ...

A line of the result is one event: a letter and numbers, which tests/sim/src/replay/event.rs names. Times are ns since
the first event.
"""

import pathlib
import re
import subprocess
import sys

# Points that callbacks come to: a letter, and what the trace tells.
POINTS = {
    "look": "l",
    "peek": "l",
    "iterate": "l",
    "take": "k",
    "move_first": "k",
    "choose": "o",
    "wake": "o",
    "draw": "r",
}
OUT = pathlib.Path(__file__).resolve().parents[1] / "sim/traces"
LINE = re.compile(r"-(\d+)\s+\[(\d+)\].*?([\d.]+): (\w+): (.*)")
FIELD = re.compile(r"(\w+)=(\{?\w[\w,]*\}?|-\d+)")

HEADER = ("agent", "agent_stats", "cpus", "kernel", "cgroup", "llcs", "v")


class Packer:
    """The state of one trace."""

    def __init__(self):
        self.lines = []
        self.first = None
        self.now = 0
        self.ahead = None
        self.stamp = 0
        self.known = {}
        self.parents = {}

    def clock(self, f):
        """Takes over the run queue's clock; returns the time and what interrupts took."""
        if self.first is None:
            self.first = int(f["c"])
        self.now = int(f["c"]) - self.first
        # A run queue's clock was read before the ring's, so the closest pair tells how far they are apart.
        ahead = self.now - self.stamp
        self.ahead = ahead if self.ahead is None else max(self.ahead, ahead)
        return self.now, int(f["c"]) - int(f["k"])

    def time(self):
        """The time of an event without a run queue's clock."""
        return self.now if self.ahead is None else max(0, self.stamp + self.ahead)

    def identity(self, f, pid):
        mask = int(f["m"].strip("{}").split(",")[0], 16) & 0xFF
        now = (f["g"], f["n"], f["o"], int(f["l"], 16), mask, f["w"], f["z"])
        if self.known.get(pid) != now:
            self.known[pid] = now
            self.add("i", pid, *now)

    def add(self, kind, *numbers):
        self.lines.append(" ".join([kind, *(str(number) for number in numbers)]))

    def event(self, current, cpu, stamp, name, f):
        self.stamp = stamp
        pid = f.get("p")
        if name in POINTS:
            self.add(POINTS[name], cpu, f["v"])
        elif name in ("enqueued", "selected"):
            self.add(name[0].upper(), cpu)
        elif name in ("taking", "moving_first"):
            self.add("K", cpu)
        elif name == "kicks":
            self.add("j", cpu)
        elif name == "put":
            self.add("q", cpu, *self.clock(f), pid, f["h"])
        elif name == "now" and self.first is not None:
            self.add("v", cpu, int(f["v"]) - self.first)
        elif name == "idle" and (f["f"] != "0" or pid == "0"):
            # Without a notification, the kernel sets the bit of a CPU that already idles.
            self.add("u", cpu, int(f["v"] != "0"))
        else:
            self.scheduling_class(current, cpu, name, f, pid)

    def scheduling_class(self, current, cpu, name, f, pid):
        if name == "enqueue":
            self.identity(f, pid)
            self.add("e", cpu, *self.clock(f), pid, f["q"], int(f["f"], 16), f["y"])
        elif name == "dequeue":
            self.add("d", cpu, *self.clock(f), pid, f["q"], int(f["f"], 16), f["e"])
        elif name == "next":
            self.add("n", cpu, *self.clock(f), pid, f["q"], f["f"], f["s"])
        elif name == "tick":
            self.add("t", cpu, *self.clock(f), pid)
        elif name == "select":
            self.identity(f, pid)
            self.add("s", cpu, self.time(), pid, int(f["f"], 16), f["r"])
        elif name in ("pick", "yield"):
            self.add(name[0], cpu, *self.clock(f))
        elif name == "fork":
            self.known.pop(pid, None)
            self.add("f", cpu, self.time(), current, pid)
        elif name == "free":
            self.add("x", cpu, self.time(), pid)
        elif name == "allowed":
            self.add("a", cpu, self.time(), pid, int(f["m"].strip("{}").split(",")[0], 16) & 0xFF)
        elif name == "weight":
            self.add("w", cpu, self.time(), pid, f["n"])
        elif name == "move":
            self.add("m", cpu, self.time(), pid, f["w"])
        elif name == "sched_switch":
            prio = int(f["next_prio"])
            kind = 0 if f["next_pid"] == "0" else 1 if prio >= 100 else 2
            self.add("c", cpu, self.time(), f["prev_pid"], f["next_pid"], kind)


def pack(path):
    packer = Packer()
    header = []
    for line in path.read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("# ") and line.split()[1] in HEADER:
            header.append(line)
            continue
        found = LINE.search(line)
        if not found or line.startswith("#"):
            continue
        current, cpu, stamp, name, rest = found.groups()
        fields = dict(FIELD.findall(rest))
        packer.event(current, int(cpu), int(stamp.replace(".", "")) * 1000, name, fields)
    text = "\n".join([*header, *packer.lines]) + "\n"
    target = OUT / f"{path.stem}.zst"
    subprocess.run(["zstd", "-q", "-f", "--ultra", "-22", "-o", target], input=text.encode(), check=True)
    print(f"{target.name}: {len(packer.lines)} events, {target.stat().st_size} bytes")


def main():
    directory, *names = sys.argv[1:]
    OUT.mkdir(exist_ok=True)
    for name in names:
        pack(pathlib.Path(directory) / f"{name}.trace")


if __name__ == "__main__":
    main()
