# SPDX-License-Identifier: GPL-2.0-only
"""Every way of fio to read and write a disk, and stress-ng's file stressors on another one, under the scheduler. At the
end its count of bytes must be the kernel's of each disk. As root in a VM with two disks, which lose their contents:

    io_stress.py SCX_DRFQ SECONDS
"""

import signal
import subprocess
import sys
from pathlib import Path

from buffered import clean
from scheduler import PATIENCE_S, programs, start, state, stats, wait

RAW, FILES = "vda", "vdb"
MOUNT = Path("/run/drfq-files")
SECTOR = 512
# A direct write to a page that is dirty makes the kernel report an error to the next fsync.
CACHED = "--offset=32m"
# Name of each job of fio, and its options.
JOBS = {
    "psync": "--ioengine=psync --direct=1 --rw=randrw --bsrange=512-64k",
    "pvsync2": "--ioengine=pvsync2 --direct=1 --rw=rw --bs=16k",
    "libaio": "--ioengine=libaio --direct=1 --rw=randrw --bs=4k --iodepth=16",
    "posixaio": "--ioengine=posixaio --direct=1 --rw=randread --bs=8k --iodepth=4",
    "io_uring": "--ioengine=io_uring --direct=1 --rw=randrw --bs=4k --iodepth=32",
    "workers": "--ioengine=io_uring --force_async=1 --direct=1 --rw=randread --bs=16k --iodepth=4",
    "sqpoll": "--ioengine=io_uring --sqthread_poll=1 --direct=1 --rw=randread --bs=4k --iodepth=8",
    "buffered": f"--ioengine=psync --rw=randrw --bs=4k --fsync=64 --invalidate=1 {CACHED}",
    "mmap": f"--ioengine=mmap --rw=randread --bs=4k --invalidate=1 {CACHED}",
}
# Of what the disks moved, the most by which the scheduler's count may differ. A request is missed where the kernel
# preempts both programs of a pair.
DIFFER_PCT = 0.1


def moved():
    """Bytes that the disks have read and written, by the kernel's count of completed requests."""
    total = 0
    for disk in (RAW, FILES):
        words = Path("/sys/class/block", disk, "stat").read_text(encoding="ascii").split()
        total += SECTOR * (int(words[2]) + int(words[6]))
    return total


def skipped(agent):
    """How often the kernel skipped a program of the agent because another call of it had not ended, by number. The
    programs are numbered in the order of the source."""
    misses = {int(fields["prog_id"]): int(fields["recursion_misses"]) for fields in programs(agent)}
    return {number: many for number, many in sorted(misses.items()) if many}


def fio(seconds):
    command = ["fio", f"--filename=/dev/{RAW}", "--size=24m", "--time_based", f"--runtime={seconds}", "--minimal"]
    for name, options in JOBS.items():
        command += [f"--name={name}", *options.split()]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def stress(seconds):
    words = f"--timeout {seconds} --temp-path {MOUNT} --hdd 2 --hdd-bytes 8M --iomix 1 --iomix-bytes 8M --aio 1 --quiet"
    return subprocess.Popen(["stress-ng", *words.split()])


def main(scx_drfq, seconds):
    subprocess.run(["modprobe", "ext4"], check=True)
    # What the kernel zeroes by itself later would move no data, but counts as written.
    lazy = "lazy_itable_init=0,lazy_journal_init=0"
    subprocess.run(["mkfs.ext4", "-q", "-F", "-E", lazy, f"/dev/{FILES}"], check=True)
    MOUNT.mkdir()
    subprocess.run(["mount", f"/dev/{FILES}", str(MOUNT)], check=True)
    subprocess.run(["sync"], check=True)
    wait("clean pages", clean)
    agent = start(scx_drfq, "--memory-bandwidth", "4G")
    before, first = moved(), stats()["system"]
    for load in (fio(seconds), stress(seconds)):
        assert load.wait(timeout=seconds + PATIENCE_S) == 0, load.args[0]
    subprocess.run(["umount", str(MOUNT)], check=True)
    subprocess.run(["sync"], check=True)
    wait("clean pages", clean)
    after, last = moved(), stats()["system"]
    counts = {name: last[name] - first[name] for name in last if name.startswith("dma_") or name in ("held", "late")}
    difference = counts["dma_bytes"] - (after - before)
    print(f"disks {after - before}, counted {difference:+d}; {counts}; skipped {skipped(agent)}", flush=True)
    assert state() == "enabled"
    agent.send_signal(signal.SIGINT)
    assert agent.wait(timeout=PATIENCE_S) == 0
    assert after > before
    assert abs(difference) <= DIFFER_PCT / 100 * (after - before), "the scheduler's count is not the kernel's"


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
