#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""The parts that need CPUs, on gem5: usage: gem5_board.py INTERFACE_HEADERS

Skipped (status 77) while DRFQ_GEM5 is not set or has no x86.
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM, BOARD = (os.path.join(HERE, "..", "gem5", name) for name in ("bare_metal.cc", "bare_metal.py"))
GEM5 = os.environ.get("DRFQ_GEM5")
FREESTANDING = [
    "-std=c++17", "-O1", "-ffreestanding", "-fno-exceptions", "-fno-rtti", "-fno-pic", "-no-pie", "-mno-red-zone",
    "-mgeneral-regs-only", "-fno-stack-protector", "-nostdlib", "-static", "-Wl,-Ttext=0x200000,--build-id=none",
]  # fmt: skip
LINE, MIB = 64, 1 << 20


class BareMetal(unittest.TestCase):
    """One run, of which each test looks at a part."""

    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as d:
            program, disk, out = (os.path.join(d, name) for name in ("program", "disk", "out"))
            subprocess.run(["c++", *FREESTANDING, "-I", sys.argv[1], PROGRAM, "-o", program], check=True)
            with open(disk, "wb") as f:
                f.truncate(MIB)
            run = subprocess.run(
                [GEM5, "-d", out, BOARD, program, disk], capture_output=True, text=True, timeout=900, check=False
            )
            if run.returncode != 0 or "m5_exit" not in run.stdout:
                raise AssertionError(f"gem5 failed: {run.stdout[-2000:]}\n{run.stderr[-2000:]}")
            with open(os.path.join(out, "board.pc.com_1.device"), encoding="ascii") as f:
                cls.printed = {
                    (kind, name): int(value) for kind, name, value in re.findall(r"(\w+) (\w+) (\d+)", f.read())
                }
            with open(os.path.join(out, "stats.txt"), encoding="ascii") as f:
                # What the program dumps; gem5 dumps again when it ends.
                first = f.read().split("End Simulation Statistics")[0]
            cls.statistics = dict(re.findall(r"^(\S+) +(\d+)\b", first, re.MULTILINE))

    def moved(self, sender):
        """Bytes between the controller and what gem5 calls the sender, by gem5's own account."""
        return sum(
            int(count)
            for name, count in self.statistics.items()
            if re.search(rf"mem_ctrl\S*\.requestor(Read|Write)Bytes::{sender}", name)
        )

    def test_the_registers_are_the_pci_function_that_the_agent_looks_for(self):
        self.assertEqual(self.printed["function", "slot"], 5)
        self.assertEqual(self.printed["function", "bytes"], 0x80000)
        self.assertEqual(self.printed["function", "id"].to_bytes(8, "little"), b"\0DRFQ-MC")

    def test_page_walks_are_charged_to_their_core(self):
        self.assertGreater(self.moved(r"\S*walker"), 100 * LINE)
        self.assertEqual(self.printed["walks", "none"], 0)

    def test_software_prefetches_are_charged_to_their_core(self):
        self.assertEqual(self.printed["prefetches", "none"], 0)
        self.assertGreaterEqual(self.printed["prefetches", "core"], 4 * MIB)

    def test_lines_that_are_replaced_are_charged_to_who_replaces_them(self):
        self.assertEqual(self.printed["replacements", "none"], 0)
        self.assertGreater(self.printed["replacements", "core"], 12 * MIB)

    def test_what_a_disk_moves_is_charged_to_the_owner_in_its_register(self):
        sectors = 64 * 512
        self.assertEqual(self.printed["transfers", "none"], 0)
        # The I/O cache of 1 KiB keeps the last lines.
        self.assertAlmostEqual(self.printed["transfers", "disk"], sectors, delta=1024)

    def test_the_charges_are_what_gem5_counts(self):
        charged = sum(value for (kind, name), value in self.printed.items() if kind not in ("function", "before"))
        # Some lines of the program itself are on their way while it reads the registers.
        self.assertAlmostEqual(charged, self.moved(""), delta=10 * LINE)


def has_x86():
    # Not --build-info, which fails in gem5 24.0.0.1.
    asks = "from m5.defines import buildEnv; print('x86:', buildEnv.get('USE_X86_ISA'))"
    with tempfile.TemporaryDirectory() as out:
        run = subprocess.run([GEM5, "-d", out, "-c", asks], capture_output=True, text=True, timeout=60, check=False)
    return "x86: True" in run.stdout


if __name__ == "__main__":
    if not GEM5 or not has_x86():
        print("skipped: DRFQ_GEM5 is not set, or its gem5 has no x86 (gem5-backend/gem5/README.md)")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
