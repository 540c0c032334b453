# SPDX-License-Identifier: GPL-2.0-only
"""Reads and writes of md devices (software RAID) under the scheduler, and what it charges for them. The kernel's count
of what the disks below have moved is the truth. As root in a VM with four disks, which lose their contents:

    raid.py SCX_DRFQ [ARRAY ...]    a line of JSON for each array and way, RUNS times
"""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from buffered import FLUSHER, MIB, RUNS, by_writers, measured
from scheduler import PATIENCE_S, start, wait

ARRAY = "/dev/md0"
DISKS = ("vda", "vdb", "vdc", "vdd")
MODULES = ("raid0", "raid1", "raid10", "raid456")
SECTOR = 512
BYTES = 4 * MIB
DONE = Path("/run/drfq-done")
# Each array's disks, how many of them get each byte that is written (0: that depends), and mdadm's options. The last
# disk may be slow ("write-mostly"): then writes to it are copied, and done later.
ARRAYS = {
    "raid0": (2, 1, "--level=raid0 --chunk=64"),
    "raid1": (2, 2, "--level=raid1 --assume-clean --bitmap=none"),
    "raid1, bitmap": (2, 2, "--level=raid1 --assume-clean --bitmap=internal"),
    "raid1, write-behind": (2, 2, "--level=raid1 --assume-clean --bitmap=internal --write-behind=256"),
    "raid10": (4, 2, "--level=raid10 --assume-clean --bitmap=none --chunk=64"),
    "raid5": (3, 0, "--level=raid5 --assume-clean --bitmap=none --chunk=64"),
}
# Name of each way to read or write, and fio's options. A request has several chunks.
WAYS = {
    "direct read": "--ioengine=psync --direct=1 --rw=read",
    "direct write": "--ioengine=psync --direct=1 --rw=write",
    "libaio read, depth 8": "--ioengine=libaio --direct=1 --iodepth=8 --rw=read",
    "libaio write, depth 8": "--ioengine=libaio --direct=1 --iodepth=8 --rw=write",
    "io_uring read, depth 8": "--ioengine=io_uring --direct=1 --iodepth=8 --rw=read",
    "io_uring write, depth 8": "--ioengine=io_uring --direct=1 --iodepth=8 --rw=write",
    "buffered read": "--ioengine=psync --direct=0 --invalidate=1 --rw=read",
}
BLOCK = "256k"


def disk_bytes():
    """What the disks have read and written, by the kernel's count of completed requests."""
    total = 0
    for disk in DISKS:
        words = Path("/sys/class/block", disk, "stat").read_text(encoding="ascii").split()
        total += SECTOR * (int(words[2]) + int(words[6]))
    return total


def mdadm(*words):
    # There is no udev to wait for.
    subprocess.run(["mdadm", *words], check=True, env=os.environ | {"MDADM_NO_UDEV": "1"}, stdout=sys.stderr)


@contextlib.contextmanager
def array(name):
    count, _, options = ARRAYS[name]
    members = [f"/dev/{disk}" for disk in DISKS[:count]]
    slow = ["--write-mostly"] if "--write-behind" in options else []
    words = [f"--raid-devices={count}", *options.split(), *members[:-1], *slow, members[-1]]
    mdadm("--create", ARRAY, "--run", *words)
    yield
    mdadm("--stop", ARRAY)
    mdadm("--zero-superblock", *members)


def by_fio(name, options, copies):
    """Measures fio, which stays until its charges are read."""
    row = {"path": name, "writers": {}, "ended": 0}
    command = ["fio", "--name=raid", f"--filename={ARRAY}", f"--size={BYTES}", f"--bs={BLOCK}", "--thread", *options]
    command.append(f"--exec_postrun=touch {DONE}; while [ -e {DONE} ]; do sleep 0.1; done")
    with measured(row, disk_bytes):
        worker = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=DONE.parent)
        wait(f"fio, {name}", DONE.exists)
        row["writers"][worker.pid] = copies * BYTES
    DONE.unlink()
    assert worker.wait() == 0, name


def by_every_way(name):
    _, copies, _ = ARRAYS[name]
    with array(name):
        for _ in range(RUNS):
            for way, options in WAYS.items():
                by_fio(f"{name}/{way}", options.split(), copies if "write" in way else 0)
            for manner in ("fsync", "flusher"):
                jobs = [(ARRAY, BYTES, manner)]
                by_writers(f"{name}/buffered write, {manner}", jobs, copies, disk_bytes)


def main(scx_drfq, *arrays):
    for name, value in FLUSHER.items():
        Path("/proc/sys/vm", name).write_text(str(value), encoding="ascii")
    subprocess.run(["modprobe", "-a", *MODULES], check=True)
    agent = start(scx_drfq, "--memory-bandwidth", "4G")
    for name in arrays or ARRAYS:
        by_every_way(name)
    agent.send_signal(signal.SIGINT)
    assert agent.wait(timeout=PATIENCE_S) == 0


if __name__ == "__main__":
    main(*sys.argv[1:])
