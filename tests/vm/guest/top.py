# SPDX-License-Identifier: GPL-2.0-only
"""Every view and key of `scx_drfq top` on a pseudo-terminal, and `scx_drfq explain`, beside the running scheduler.

As root in the VM: top.py SCX_DRFQ
"""

import os
import pathlib
import subprocess
import sys
import tempfile

from scheduler import ended, spin, start
from screen import Terminal

COLOURS = {str(number) for number in (*range(30, 38), *range(90, 98), *range(40, 48), 38, 48)}
CGROUPS = pathlib.Path("/sys/fs/cgroup")
program = sys.argv[1]
settings = tempfile.mkdtemp()


def tenant(name, weight, count):
    """Busy processes in a cgroup with a weight."""
    path = CGROUPS / name
    path.mkdir()
    (path / "cpu.weight").write_text(str(weight))
    return spin(count, "sh", "-c", f"echo $$ > {path}/cgroup.procs; while :; do :; done")


def views(top):
    """Each view by its key, and what it shows."""
    top.until(r"^ +PID USER .*CPU%.*NAME")
    top.press("1", r"^ +\d+ root .*(running|queued)")
    top.press("2", r"^ +PID USER +TASKS")
    top.press("3", r"^ *TASKS +WEIGHT.*NAME")
    top.until(r" 300 .* service.slice$")
    top.press("4", r"CPU +LLC +BUSY")
    top.until(r"^ +0 +0 +\[[#.]{15}\]")
    top.press("5", r"No group of tasks is monitored")
    top.until(r"--mba on")
    top.press("6", r"No memory controller is connected")
    top.press("\t", r"^ +PID USER .*CPU%")
    top.press("\x1b[Z", r"No memory controller is connected")


def choices(top):
    """Order, columns, search, filter, folding, following."""
    top.press("1", r"SHARE%↓|SHAR.?↓|↓")
    top.press("P", r"CPU%↓")
    top.press("I", r"CPU%↑")
    top.press("N", r"PID↓")
    top.press("\x1bOQ", r"Columns: Space shows")
    top.press("\x1b[B\x1b[B ", r"\[ \] (WEIGHT|USER)")
    top.press("\x1b[A\x1b[B\x1b", r"Columns: Space", absent=True)
    top.press("\x1b[17~", r"Order: Enter chooses")
    top.press("\r", r"Order: Enter", absent=True)
    top.press("\x1bOSpid:x\r", r"pid needs a number")
    top.press("\x1b", r"Filter: ", absent=True)
    top.press("\\cgroup:service weight>0.1\r", r"filter: cgroup:service")
    assert all("batch" not in line for line in top.screen.lines())
    top.press("\x1b", r"filter: ", absent=True)
    top.press("ucron\r", r"No row matches the filter: user:cron")
    top.press("\x1b", r"No row matches", absent=True)
    top.press("/nothing-like-it\r", r"no row matches nothing-like-it")
    top.press("f", r"the cursor follows task \d+")
    top.press("f", r"the cursor stays")
    top.press("t", r"^ *TASKS +WEIGHT.*NAME")
    top.press("/batch\r", r"cgroup /batch.slice over time")
    top.press("\x1b[H-", r"\+ /$")
    top.press("*", r"- /$")
    top.press("W", r"saved in .*top.toml")


def history(top):
    """Freezing, time, the help and the explanation."""
    top.press(" ", r"FROZEN, \d")
    top.press("\x1b[D", r"FROZEN, (?!0\.0 s)\d")
    top.press("\x1b[C", r"FROZEN")
    top.press(" ", r"FROZEN", absent=True)
    top.press("?", r"Keys; any other key closes")
    top.press("x", r"Keys; any other key", absent=True)
    top.press("\x1b[Fe", r"Explain; any other key closes")
    top.until(r"asked for")
    top.press("x", r"Explain; any", absent=True)


def mouse(top):
    """Clicks on a tab, a row and a heading."""
    tabs = next(y for y, line in enumerate(top.screen.lines()) if line.startswith("1 Tasks"))
    top.press(f"\x1b[<0;2;{tabs + 1}M", r"^ +PID[↑↓]? +USER")
    heading = top.screen.lines()[tabs + 1]
    top.press(f"\x1b[<0;{heading.index('CPU%') + 2};{tabs + 2}M", r"CPU%[↑↓]")
    top.press(f"\x1b[<0;4;{tabs + 5}M", r"task \d+ over time")


def explanations(processes):
    """What `explain` prints of a process, a cgroup, and of what does not exist."""

    def explain(what):
        return subprocess.run([program, "explain", what], capture_output=True, text=True, check=False)

    text = explain(str(processes[0].pid)).stdout
    assert "asked for" in text and "renice" in text, text
    assert "The queue for CPUs holds it back" in text, text
    text = explain("batch.slice").stdout
    assert "(/batch.slice)" in text and "CPUWeight=200" in text, text
    wrong = explain("no-such.service")
    assert wrong.returncode == 1 and "no-such.service" in wrong.stderr, wrong


(CGROUPS / "cgroup.subtree_control").write_text("+cpu")
agent = start([program])
hogs = tenant("batch.slice", 100, 3) + tenant("service.slice", 300, 1)
terminal = Terminal([program, "top", "--interval", "0.5"], 150, 40, XDG_CONFIG_HOME=settings)
views(terminal)
choices(terminal)
history(terminal)
mouse(terminal)
for size in ((80, 24), (300, 100), (20, 4), (150, 40)):
    terminal.resize(*size)
    terminal.until("scx_drfq")
os.write(terminal.file, b"q")
assert terminal.wait() == 0
assert terminal.screen.modes["1049"] is False, "the terminal was not restored"
assert terminal.screen.styles & COLOURS, terminal.screen.styles

terminal = Terminal([program, "top"], 100, 30, XDG_CONFIG_HOME=settings, NO_COLOR="1")
terminal.until(r"PID")
os.write(terminal.file, b"\x03")
assert terminal.wait() == 0
assert not terminal.screen.styles & COLOURS, terminal.screen.styles
explanations(hogs)
for hog in hogs:
    hog.kill()
agent.terminate()
ended(agent)
print("every view and key of top, and explain: as expected")
