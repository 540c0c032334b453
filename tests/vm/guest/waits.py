# SPDX-License-Identifier: GPL-2.0-only
"""How long threads have waited for a CPU at most, by the kernel's own account, as root.

Source: Documentation/accounting/taskstats.rst.
"""

import contextlib
import os
import pathlib
import socket
import struct
import time

# include/uapi/linux/netlink.h, genetlink.h and taskstats.h.
NETLINK_GENERIC = 16
NLM_F_REQUEST = 1
NLMSG_ERROR = 2
GENL_ID_CTRL, CTRL_CMD_GETFAMILY = 16, 3
CTRL_ATTR_FAMILY_ID, CTRL_ATTR_FAMILY_NAME = 1, 2
TASKSTATS_CMD_GET, TASKSTATS_CMD_ATTR_PID = 1, 1
TASKSTATS_TYPE_STATS, TASKSTATS_TYPE_AGGR_PID = 3, 4
HEADER = struct.Struct("=IHHII")
# The first version of struct taskstats with cpu_delay_max, and its place there. It is in bytes, as of Linux 6.16.
LEAST_VERSION, CPU_DELAY_MAX = 16, 432
# Between two requests. The caller may be a real-time task, and should not keep a CPU from others for long.
PAUSE_S = 0.004
# So many threads of a process are asked for. A thousand take minutes on a busy host.
SAMPLE = 64


def attributes(data):
    """The attributes of a netlink message, by type."""
    found, at = {}, 0
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, at)
        found[kind & 0x3FFF] = data[at + 4 : at + length]
        at += (length + 3) & ~3
    return found


class TaskStats:
    """A connection to the kernel's task statistics."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_GENERIC)
        name = self.ask(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_NAME, b"TASKSTATS\0")
        self.family = struct.unpack("=H", name[CTRL_ATTR_FAMILY_ID][:2])[0]

    def ask(self, family, command, attribute, value):
        """Sends a request with one attribute. Returns the attributes of the answer."""
        body = struct.pack("=BBHHH", command, 1, 0, 4 + len(value), attribute) + value
        body += bytes(-len(body) % 4)
        self.socket.send(HEADER.pack(HEADER.size + len(body), family, NLM_F_REQUEST, 1, 0) + body)
        answer = self.socket.recv(65536)
        if HEADER.unpack_from(answer)[1] == NLMSG_ERROR:
            error = -struct.unpack_from("=i", answer, HEADER.size)[0]
            raise OSError(error, os.strerror(error))
        return attributes(answer[HEADER.size + 4 :])

    def longest_wait_s(self, tid):
        """How long a thread has waited for a CPU at most since its fork (s)."""
        answer = self.ask(self.family, TASKSTATS_CMD_GET, TASKSTATS_CMD_ATTR_PID, struct.pack("=I", tid))
        found = attributes(answer[TASKSTATS_TYPE_AGGR_PID])[TASKSTATS_TYPE_STATS]
        version = struct.unpack_from("=H", found)[0]
        assert version >= LEAST_VERSION, f"struct taskstats of version {version} has no longest wait"
        return struct.unpack_from("=Q", found, CPU_DELAY_MAX)[0] / 1e9

    def longest_waits_s(self):
        """How long threads have waited at most since their forks (s): all, or a sample of a process with many."""
        return of_each(threads(), self.longest_wait_s)


def some_threads(process):
    """Of the threads of a process of /proc, at most SAMPLE, spread evenly, and the same each time."""
    try:
        tids = sorted(int(name) for name in os.listdir(process / "task"))
    except OSError:
        return []
    return tids[:: len(tids) // SAMPLE + 1]


def threads():
    """The threads of each process, or a sample of them."""
    return [tid for process in pathlib.Path("/proc").glob("[0-9]*") for tid in some_threads(process)]


def of_each(tids, ask):
    """What `ask` tells of each thread that lives, by thread."""
    found = {}
    for tid in tids:
        # It may end meanwhile.
        with contextlib.suppress(OSError):
            found[tid] = ask(tid)
        time.sleep(PAUSE_S)
    return found


def activity(tid):
    """The state of a thread, its CPU time and its runs. None of them changes while it waits for a CPU."""
    process = pathlib.Path(f"/proc/{tid}")
    state = process.joinpath("stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0]
    cpu_ns, _, runs = process.joinpath("schedstat").read_text(encoding="ascii").split()
    return state, int(cpu_ns), int(runs)


def seen(tid):
    """What activity() tells of a thread, and when."""
    return time.monotonic(), activity(tid)


def unended_waits_s(most_s):
    """Threads that wait for a CPU now and get none within `most_s`, and how long they were seen to wait (s).

    The kernel counts a wait when it ends. All others that go on now have ended when this returns. A look at all threads
    takes seconds in a crowd, so each wait counts from the first look at its own thread.
    """
    first = {tid: look for tid, look in of_each(threads(), seen).items() if look[1][0] == "R"}
    waits = dict.fromkeys(first, 0.0)
    while min(waits.values(), default=most_s) < most_s:
        time.sleep(1)
        looks = of_each(waits, seen)
        waits = {tid: at - first[tid][0] for tid, (at, one) in looks.items() if one == first[tid][1]}
    return waits


def longer(before, after):
    """Of longest waits at two times, those of threads that waited longer between than ever before."""
    return {tid: wait for tid, wait in after.items() if wait > before.get(tid, 0.0)}
