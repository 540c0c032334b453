# SPDX-License-Identifier: GPL-2.0-only
"""Buffered writes of the modelled disk under the scheduler, and what it charges for them; see storage.py.

buffered.py write PATH BYTES [fsync|thread]
                            writes a file and stays until it is killed; a thread does it and ends
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from scheduler import stats, wait

MIB = 1 << 20
BLOCK = b"\x5a" * 65536
MOUNT = Path("/run/drfq-disk")
CRYPT = Path("/dev/dm-0")
# How often the flusher thread looks, and how old it lets dirty pages become (1/100 s). Each writer is done before.
FLUSHER = {"dirty_writeback_centisecs": 50, "dirty_expire_centisecs": 400}
# The journal commits each second; what follows the flusher comes within this.
JOURNAL_S = 2.5
RUNS = 3
EVENTS = ("dma_unattributed", "dma_unattributed_bytes", "dma_written_back_bytes", "dma_ended_bytes")
# Name, then file, MiB and manner of each writer. A writer without a manner leaves its pages to the flusher.
FILES = (
    ("file, fsync", (("a", 8, "fsync"),)),
    ("file, flusher", (("b", 8, ""),)),
    ("two files at once, flusher", (("c", 8, ""), ("d", 4, ""))),
    ("file of a thread that ended, flusher", (("e", 8, "thread"),)),
)


def write(path, bytes_, manner):
    def job():
        fd = os.open(path, os.O_WRONLY | os.O_CREAT)
        for _ in range(0, bytes_, len(BLOCK)):
            os.write(fd, BLOCK)
        if manner == "fsync":
            os.fsync(fd)

    if manner == "thread":
        thread = threading.Thread(target=job)
        thread.start()
        thread.join()
    else:
        job()
    print("written", flush=True)
    # A task is charged when it wakes.
    while True:
        time.sleep(0.05)


def clean():
    """Whether no page waits to be written out."""
    with open("/proc/vmstat", encoding="ascii") as file:
        pages = dict(line.split() for line in file)
    return pages["nr_dirty"] == pages["nr_writeback"] == "0"


def modelled_disk():
    """The machine reports what its disk has moved, in a file of the host."""
    subprocess.run(["report_ground_truth"], check=True)
    return 0


@contextlib.contextmanager
def measured(row, disk_bytes=modelled_disk):
    """Fills `row` with what the scheduler and the disk counted meanwhile and prints it.

    The caller names the writers in row["writers"], process to bytes, and lets those live that shall be charged.
    """
    wait("clean pages", clean)
    time.sleep(JOURNAL_S)
    first = stats()
    before_bytes = disk_bytes()
    yield
    wait("the flusher", clean)
    time.sleep(JOURNAL_S)
    last = stats()
    row["disk"] = disk_bytes() - before_bytes
    before = {task["pid"]: task["dma_bytes"] for task in first["tasks"]}
    writers, others = row["writers"], 0
    charged = dict.fromkeys(writers, 0)
    for task in last["tasks"]:
        moved = task["dma_bytes"] - before.get(task["pid"], 0)
        if task["tgid"] in charged:
            charged[task["tgid"]] += moved
        else:
            others += moved
    row |= {"writers": list(writers.values()), "charged": list(charged.values()), "others": others}
    row |= {event: last["system"][event] - first["system"][event] for event in EVENTS}
    print(json.dumps(row), flush=True)


def by_writers(name, jobs, copies=1, disk_bytes=modelled_disk):
    """Measures writers that write at the same time: path, bytes and manner of each. So many disks get each byte."""
    row, processes = {"path": name, "writers": {}, "ended": 0}, []
    with measured(row, disk_bytes):
        for path, bytes_, manner in jobs:
            command = [sys.executable, "-B", __file__, "write", str(path), str(bytes_), manner]
            processes.append(subprocess.Popen(command, stdout=subprocess.PIPE))
        for process, (_, bytes_, _) in zip(processes, jobs):
            assert process.stdout.readline() == b"written\n"
            row["writers"][process.pid] = copies * bytes_
    for process in processes:
        process.kill()
        process.wait()


def by_dd(path):
    """A writer that ends at once."""
    row = {"path": "writer that ended, flusher", "writers": {}, "ended": 8 * MIB}
    with measured(row):
        subprocess.run(["dd", "if=/dev/zero", f"of={path}", "bs=64k", "count=128", "status=none"], check=True)


def through_crypt(disk):
    """Writes a device that encrypts what it passes on to the disk from threads of the kernel."""
    sectors = int(Path("/sys/class/block", Path(disk).name, "size").read_text(encoding="ascii"))
    table = f"0 {sectors} crypt aes-xts-plain64 {'11' * 16}{'22' * 16} 0 {disk} 0"
    subprocess.run(["modprobe", "-a", "dm-crypt", "xts"], check=True)
    subprocess.run(["dmsetup", "create", "--noudevrules", "--noudevsync", "crypt", "--table", table], check=True)
    assert CRYPT.exists()
    for _ in range(RUNS):
        by_writers("dm-crypt, flusher", [(CRYPT, 2 * MIB, "")])
        by_writers("dm-crypt, fsync", [(CRYPT, 2 * MIB, "fsync")])
    subprocess.run(["dmsetup", "remove", "--noudevrules", "--noudevsync", "crypt"], check=True)


def charge(disk):
    """Writes the disk itself, through dm-crypt, and files on it, RUNS times. The disk's contents are lost."""
    for name, value in FLUSHER.items():
        Path("/proc/sys/vm", name).write_text(str(value), encoding="ascii")
    for _ in range(RUNS):
        by_writers("the disk itself, flusher", [(disk, 8 * MIB, "")])
    through_crypt(disk)
    subprocess.run(["modprobe", "ext4"], check=True)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", disk], check=True)
    MOUNT.mkdir()
    subprocess.run(["mount", "-o", "commit=1", disk, str(MOUNT)], check=True)
    for _ in range(RUNS):
        for name, jobs in FILES:
            by_writers(name, [(MOUNT / file, mib * MIB, manner) for file, mib, manner in jobs])
            for file, _, _ in jobs:
                (MOUNT / file).unlink()
        by_dd(MOUNT / "f")
        (MOUNT / "f").unlink()
    subprocess.run(["umount", str(MOUNT)], check=True)


if __name__ == "__main__":
    mode, where, size, how = [*sys.argv[1:], ""][:4]
    assert mode == "write"
    write(where, int(size), how)
