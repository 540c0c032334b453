# SPDX-License-Identifier: GPL-2.0-only
"""How a run of a VM ended."""

import unittest

from drfqvm import run


class EndStatus(unittest.TestCase):
    def test_an_unknown_breakpoint_is_the_emulations_fault(self):
        console = "[ 1978.5] Oops: int3: 0000 [#1] SMP NOPTI\n[ 1978.6] Kernel panic - not syncing: Fatal exception\n"
        self.assertEqual(run.end_status(console, emulated=True), run.EMULATION_STATUS)
        self.assertEqual(run.end_status(console, emulated=False), run.VM_FAILED_STATUS)

    def test_any_other_end_is_the_guests(self):
        for console in ("", "[ 29.2]  ? asm_exc_int3+0x39/0x40\n", "[ 1.0] Oops: general protection fault\n"):
            self.assertEqual(run.end_status(console, emulated=True), run.VM_FAILED_STATUS)
