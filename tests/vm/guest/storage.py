# SPDX-License-Identifier: GPL-2.0-only
"""Loads for the modelled disk. Each prints lines of JSON; tests/vm/storage.py compares them with the machine's account.

As root in a modelled machine with a disk, with its guest programs in the PATH:

    storage.py verify                         random writes of many sizes, read back with checksums
    storage.py rates                          reads of six kinds, one after another
    storage.py charge SCX_DRFQ                reads and writes of many kinds under the scheduler, and what it charges
    storage.py shares SCX_DRFQ MBW:READER ... mbw beside a reader of these weights, and then alone
"""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import buffered
from scheduler import PATIENCE_S, report_windows, start, stats, wait

DISK = "/dev/nvme0n1"
DONE = Path("/run/drfq-done")
MIB = 1 << 20
# Order, block size and depth of each phase of `rates`.
RATES = (
    ("randread", "4k", 1),
    ("randread", "4k", 32),
    ("randread", "4k", 64),
    ("read", "16k", 1),
    ("read", "16k", 64),
    ("read", "128k", 4),
)
RATES_S = 6
# io_uring first asks for each request without waiting. Where the queue is full it asks again, by a worker.
FULL = "io_uring, full queue"
FULL_MIXED = "io_uring, full queue, mixed"
QUEUE = Path("/sys/block/nvme0n1/queue/nr_requests")
LEAST_REQUESTS = "4"
# Name and fio's options of each way to read or write.
PATHS = (
    ("direct", ("--ioengine=psync", "--direct=1", "--rw=read")),
    ("direct write", ("--ioengine=psync", "--direct=1", "--rw=write")),
    ("libaio, depth 8", ("--ioengine=libaio", "--direct=1", "--iodepth=8", "--rw=read")),
    ("io_uring, depth 8", ("--ioengine=io_uring", "--direct=1", "--iodepth=8", "--rw=read")),
    (FULL, ("--ioengine=io_uring", "--direct=1", "--iodepth=32", "--rw=read")),
    (FULL_MIXED, ("--ioengine=io_uring", "--direct=1", "--iodepth=16", "--bs=4k", "--rw=randrw")),
    ("io_uring, SQPOLL", ("--ioengine=io_uring", "--sqthread_poll=1", "--direct=1", "--iodepth=8", "--rw=read")),
    ("io_uring, workers", ("--ioengine=io_uring", "--force_async=1", "--direct=1", "--iodepth=8", "--rw=read")),
    ("io_uring, passthrough", ("--ioengine=io_uring_cmd", "--filename=/dev/ng0n1", "--iodepth=8", "--rw=read")),
    ("buffered read", ("--ioengine=psync", "--direct=0", "--invalidate=1", "--rw=read")),
    ("mapped read", ("--ioengine=mmap", "--direct=0", "--invalidate=1", "--rw=read")),
    ("buffered write, fsync", ("--ioengine=psync", "--direct=0", "--rw=write", "--end_fsync=1")),
)
CHARGE_BYTES = 4 * MIB


def fio(name, *options, **keywords):
    """Runs fio on the disk and returns its report."""
    command = ["fio", f"--name={name}", f"--filename={DISK}", "--output-format=json", *options]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, encoding="utf-8", **keywords)
    if done.returncode != 0:
        sys.exit(f"FAILED: {' '.join(command)}: status {done.returncode}\n{done.stdout}")
    return json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]


def verify():
    job = fio(
        "verify",
        "--rw=randwrite",
        "--bsrange=512-128k",
        "--size=2M",
        "--direct=1",
        "--ioengine=libaio",
        "--iodepth=8",
        "--verify=crc32c",
        "--verify_fatal=1",
    )
    assert job["error"] == 0, job["error"]
    print(json.dumps({"read": job["read"]["io_bytes"], "written": job["write"]["io_bytes"]}), flush=True)


def rates():
    for order, block, depth in RATES:
        options = ("--direct=1", "--ioengine=libaio", f"--iodepth={depth}", f"--bs={block}", "--size=32M")
        fio("rates", f"--rw={order}", "--randrepeat=1", "--time_based", f"--runtime={RATES_S}", *options)


def charged(tasks, before):
    """Device bytes charged since `before`, by whether a process of fio or another one has them."""
    out = {"fio": 0, "others": 0}
    processes = {task["tgid"] for task in tasks if task["comm"].startswith("fio")}
    for task in tasks:
        # io_uring's threads belong to the process, and have other names.
        kind = "fio" if task["tgid"] in processes else "others"
        out[kind] += task["dma_bytes"] - before.get(task["pid"], 0)
    return out


def charge(scx_drfq):
    agent = start(scx_drfq)
    requests = QUEUE.read_text(encoding="ascii")
    for name, options in PATHS:
        QUEUE.write_text(LEAST_REQUESTS if name in (FULL, FULL_MIXED) else requests, encoding="ascii")
        first = stats()
        before = {task["pid"]: task["dma_bytes"] for task in first["tasks"]}
        subprocess.run(["report_ground_truth"], check=True)
        # fio's worker stays until its charges are read. It is a process group of its own, and no signal to fio ends it.
        command = ["fio", "--name=charge", f"--size={CHARGE_BYTES}", "--bs=64k", *options]
        if "passthrough" not in name:
            command.append(f"--filename={DISK}")
        stay = f"--exec_postrun=touch {DONE}; while [ -e {DONE} ]; do sleep 0.1; done"
        worker = subprocess.Popen([*command, stay], stdout=subprocess.DEVNULL, cwd=DONE.parent)
        wait(f"fio, {name}", DONE.exists)
        time.sleep(0.1)
        last = stats()
        subprocess.run(["report_ground_truth"], check=True)
        row = {"path": name, "bytes": CHARGE_BYTES, **charged(last["tasks"], before)}
        row |= {event: last["system"][event] - first["system"][event] for event in buffered.EVENTS}
        print(json.dumps(row), flush=True)
        DONE.unlink()
        assert worker.wait() == 0, name
    buffered.charge(DISK)
    agent.send_signal(signal.SIGINT)
    assert agent.wait(timeout=PATIENCE_S) == 0


def shares(scx_drfq, *ratios):
    agent = start(
        scx_drfq, "--weights", "thesis", "--memory-bandwidth", "266M", "--controller", "mmio:auto", event="auto"
    )
    reader = ["fio", "--name=reader", f"--filename={DISK}", "--rw=read", "--bs=128k", "--direct=1"]
    # At a depth of 8, completions come in batches, between which the disk has nothing to do. It then moves less than
    # three quarters of what both do, whatever its weight.
    reader += ["--ioengine=libaio", "--iodepth=16", "--time_based", "--runtime=1000", "--thread"]
    for ratio in (*ratios, "1:0"):
        # By equation 4.9 the weight is 1 + nice.
        mbw_nice, reader_nice = (int(weight) - 1 for weight in ratio.split(":"))
        mbw = ["taskset", "-c", "1", "nice", "-n", str(mbw_nice), "mbw", "-q", "-t0", "-n", "100000", "4"]
        loads = [subprocess.Popen(mbw, stdout=subprocess.DEVNULL)]
        if reader_nice >= 0:
            words = ["taskset", "-c", "2", "nice", "-n", str(reader_nice), *reader]
            loads.append(subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            wait("the reader", lambda: any(task["dma_bytes"] > MIB for task in stats()["tasks"]))
        # Long against a register's quantum, 4.2 ms of virtual time.
        report_windows(2)
        for process in loads:
            process.kill()
            process.wait()
    agent.send_signal(signal.SIGINT)
    assert agent.wait(timeout=PATIENCE_S) == 0


def main():
    mode, *words = sys.argv[1:]
    {"verify": verify, "rates": rates, "charge": charge, "shares": shares}[mode](*words)


main()
