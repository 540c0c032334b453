# SPDX-License-Identifier: GPL-2.0-only
"""Takes the modelled disk from the kernel's driver, misuses it, and gives it back.

As root in a modelled machine with a disk: bad_driver.py. A program that maps the registers is the driver for a while.
Then the kernel's driver must find a working disk. Prints what fio moved after that as a line of JSON.
"""

import ctypes
import json
import mmap
import os
import struct
import subprocess
import sys
import time
from pathlib import Path

DRIVER = Path("/sys/bus/pci/drivers/nvme")
DISK = Path("/dev/nvme0n1")
PAGE = 4096
PATIENCE_S = 20
# Registers, and bits of CSTS (NVMe 1.4, 3.1).
CC, CSTS, AQA, ASQ, ACQ, DOORBELLS, END = 0x14, 0x1C, 0x24, 0x28, 0x30, 0x1000, 0x2000
READY, FATAL, ENABLE = 1, 2, 6 << 16 | 4 << 20 | 1
# Admin and I/O commands, and status codes.
DELETE_SQ, CREATE_SQ, DELETE_CQ, CREATE_CQ, IDENTIFY, READ = 0, 1, 4, 5, 6, 2
OK, TRANSFER_ERROR, BAD_OFFSET, BAD_SIZE, IN_USE = 0, 0x004, 0x013, 0x102, 0x10C
OUTSIDE = 1 << 44
ENTRIES = 8


def wait(what, holds):
    end = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > end:
            sys.exit(f"FAILED: no {what} after {PATIENCE_S} s")
        time.sleep(0.01)


class Pages:
    """Memory of this program, a page each, at known physical addresses."""

    def __init__(self, count):
        self.memory = mmap.mmap(-1, count * PAGE, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE)
        view = (ctypes.c_char * len(self.memory)).from_buffer(self.memory)
        if ctypes.CDLL(None).mlock(view, ctypes.c_size_t(len(self.memory))) != 0:
            sys.exit("FAILED: mlock")
        first = ctypes.addressof(view) // PAGE
        with open("/proc/self/pagemap", "rb") as pagemap:
            pagemap.seek(8 * first)
            entries = struct.unpack(f"<{count}Q", pagemap.read(8 * count))
        self.addresses = [(entry & (1 << 55) - 1) * PAGE for entry in entries]
        assert all(self.addresses), "the kernel does not tell addresses"


class BadDriver:
    """Pages: 0 and 1 admin queues, 2 and 3 I/O queues, 4 a list of pages, 5 data."""

    def __init__(self, resource):
        file = os.open(resource, os.O_RDWR | os.O_SYNC)
        self.bar = mmap.mmap(file, END)
        self.pages = Pages(6)
        self.tail = self.head = 0

    def load(self, offset):
        return ctypes.c_uint32.from_buffer(self.bar, offset).value

    def store(self, offset, value):
        ctypes.c_uint32.from_buffer(self.bar, offset).value = value & 0xFFFFFFFF

    def store64(self, offset, value):
        self.store(offset, value)
        self.store(offset + 4, value >> 32)

    def reset(self):
        self.store(CC, 0)
        wait("reset", lambda: self.load(CSTS) & READY == 0)

    def enable(self):
        self.reset()
        self.pages.memory[: 4 * PAGE] = bytes(4 * PAGE)
        self.store(AQA, (ENTRIES - 1) << 16 | (ENTRIES - 1))
        self.store64(ASQ, self.pages.addresses[0])
        self.store64(ACQ, self.pages.addresses[1])
        self.store(CC, ENABLE)
        wait("ready device", lambda: self.load(CSTS) & READY)
        self.tail = self.head = 0

    def put(self, page, place, opcode, prp=(0, 0), words=(0, 0, 0), nsid=0):
        command = struct.pack("<4I3Q6I", opcode, nsid, 0, 0, 0, *prp, *words, 0, 0, 0)
        at = page * PAGE + 64 * place
        self.pages.memory[at : at + 64] = command

    def admin(self, opcode, *arguments, **keywords):
        """Runs an admin command. Returns its status."""
        self.put(0, self.tail, opcode, *arguments, **keywords)
        self.tail = (self.tail + 1) % ENTRIES
        self.store(DOORBELLS, self.tail)
        at = PAGE + 16 * self.head
        before = self.pages.memory[at + 14] & 1
        wait("completion", lambda: self.pages.memory[at + 14] & 1 != before)
        status = struct.unpack_from("<H", self.pages.memory, at + 14)[0]
        self.head = (self.head + 1) % ENTRIES
        self.store(DOORBELLS + 4, self.head)
        return status >> 1 & 0x7FF

    def create_queues(self, sq):
        """Creates I/O queue 1. Bit 0 of the second word says that its memory is contiguous."""
        for opcode, base, cq in ((CREATE_CQ, self.pages.addresses[3], 0), (CREATE_SQ, sq, 1)):
            status = self.admin(opcode, (base, 0), ((ENTRIES - 1) << 16 | 1, cq << 16 | 1, 0))
            assert status == OK, f"a queue: status {status:#x}"

    def ring_everywhere(self):
        for value in (1, ENTRIES, 0xFFFF, 0xFFFFFFFF):
            for offset in range(DOORBELLS + 8, END, 4):
                self.store(offset, value)

    def bad_doorbells(self):
        self.reset()
        self.ring_everywhere()
        self.enable()
        self.ring_everywhere()
        assert self.load(CSTS) == READY, hex(self.load(CSTS))

    def bad_addresses(self):
        for prp, expected in (((OUTSIDE, 0), TRANSFER_ERROR), ((self.pages.addresses[5] + 1, 0), BAD_OFFSET)):
            status = self.admin(IDENTIFY, prp, (1, 0, 0))
            assert status == expected, f"status {status:#x}, not {expected:#x}"

    def bad_queues(self):
        for opcode in (CREATE_CQ, CREATE_SQ):
            status = self.admin(opcode, (self.pages.addresses[3], 0), (1, 1, 0))
            assert status == BAD_SIZE, f"a queue of one entry: status {status:#x}"
        self.create_queues(OUTSIDE)
        self.store(DOORBELLS + 8, 1)
        wait("fatal status", lambda: self.load(CSTS) & FATAL)
        status = self.admin(DELETE_CQ, (0, 0), (1, 0, 0))
        assert status == IN_USE, f"status {status:#x}"
        for opcode in (DELETE_SQ, DELETE_CQ):
            assert self.admin(opcode, (0, 0), (1, 0, 0)) == OK

    def delete_in_flight(self):
        """Reads by a list that leads to itself; then the queue is deleted while they are under way."""
        self.enable()
        for _ in range(3):
            self.create_queues(self.pages.addresses[2])
            self.read_in_a_loop()
            for opcode in (DELETE_SQ, DELETE_CQ):
                status = self.admin(opcode, (0, 0), (1, 0, 0))
                assert status == OK, f"status {status:#x}"

    def read_in_a_loop(self):
        data, around = self.pages.addresses[5], self.pages.addresses[4]
        self.pages.memory[4 * PAGE : 5 * PAGE] = struct.pack("<512Q", *[data] * 511, around)
        for place in range(ENTRIES - 1):
            self.put(2, place, READ, (data, around + PAGE - 8 * 4), (0, 0, 255), nsid=1)
        self.store(DOORBELLS + 8, ENTRIES - 1)

    def reset_in_flight(self):
        """The kernel's driver then finds the device at work."""
        for _ in range(5):
            self.enable()
            self.create_queues(self.pages.addresses[2])
            self.read_in_a_loop()


def fio():
    command = "fio --name=verify --rw=randwrite --bsrange=512-128k --size=256k --direct=1 --ioengine=libaio --iodepth=8"
    command += f" --filename={DISK} --verify=crc32c --verify_fatal=1 --output-format=json"
    done = subprocess.run(command.split(), check=True, stdout=subprocess.PIPE, encoding="utf-8")
    job = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]
    assert job["error"] == 0, job["error"]
    return {"read": job["read"]["io_bytes"], "written": job["write"]["io_bytes"]}


def main():
    (device,) = DRIVER.glob("0000:*")
    resource = (device / "resource0").resolve()
    (DRIVER / "unbind").write_text(device.name, encoding="ascii")
    (resource.parent / "enable").write_text("1", encoding="ascii")
    driver = BadDriver(resource)
    for act in ("bad_doorbells", "bad_addresses", "bad_queues", "delete_in_flight", "reset_in_flight"):
        getattr(driver, act)()
        print(f"{act}: the device goes on", file=sys.stderr, flush=True)
    (DRIVER / "bind").write_text(device.name, encoding="ascii")
    wait("disk", DISK.exists)
    print(json.dumps(fio()), flush=True)


main()
