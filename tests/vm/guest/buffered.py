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


@contextlib.contextmanager
def measured(row):
    """Fills `row` with what the scheduler counted meanwhile and prints it, between two lines of ground truth.

    The caller names the writers in row["writers"], pid to bytes, and lets those live that shall be charged.
    """
    wait("clean pages", clean)
    time.sleep(JOURNAL_S)
    first = stats()
    subprocess.run(["report_ground_truth"], check=True)
    yield
    wait("the flusher", clean)
    time.sleep(JOURNAL_S)
    last = stats()
    subprocess.run(["report_ground_truth"], check=True)
    before = {task["pid"]: task["dma_bytes"] for task in first["tasks"]}
    moved = {task["pid"]: task["dma_bytes"] - before.get(task["pid"], 0) for task in last["tasks"]}
    writers = row["writers"]
    row["charged"] = [moved.pop(pid, 0) for pid in writers]
    row["writers"] = list(writers.values())
    row["others"] = sum(moved.values())
    row |= {event: last["system"][event] - first["system"][event] for event in EVENTS}
    print(json.dumps(row), flush=True)


def by_writers(name, jobs):
    """Measures writers that write at the same time: path, bytes and manner of each."""
    row, processes = {"path": name, "writers": {}, "ended": 0}, []
    with measured(row):
        for path, bytes_, manner in jobs:
            command = [sys.executable, "-B", __file__, "write", str(path), str(bytes_), manner]
            processes.append(subprocess.Popen(command, stdout=subprocess.PIPE))
        for process, (_, bytes_, _) in zip(processes, jobs):
            assert process.stdout.readline() == b"written\n"
            row["writers"][process.pid] = bytes_
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
