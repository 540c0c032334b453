# SPDX-License-Identifier: GPL-2.0-only
"""How a run of a VM ended."""

import contextlib
import io
import unittest

from harness import run


class EndStatus(unittest.TestCase):
    def test_an_unknown_breakpoint_is_the_emulations_fault(self):
        console = "[ 1978.5] Oops: int3: 0000 [#1] SMP NOPTI\n[ 1978.6] Kernel panic - not syncing: Fatal exception\n"
        self.assertEqual(run.end_status(console, emulated=True), run.EMULATION_STATUS)
        self.assertEqual(run.end_status(console, emulated=False), run.VM_FAILED_STATUS)

    def test_any_other_end_is_the_guests(self):
        for console in ("", "[ 29.2]  ? asm_exc_int3+0x39/0x40\n", "[ 1.0] Oops: general protection fault\n"):
            self.assertEqual(run.end_status(console, emulated=True), run.VM_FAILED_STATUS)


class UntilStarted(unittest.TestCase):
    def boots(self, *outcomes):
        """The final status, and how many boots it took."""
        left = list(outcomes)
        with contextlib.redirect_stderr(io.StringIO()):
            status = run.until_started(lambda: left.pop(0))
        return status, len(outcomes) - len(left)

    def test_a_failed_emulation_boots_again_only_before_the_command(self):
        failed = run.EMULATION_STATUS
        self.assertEqual(self.boots((7, True), (0, True)), (7, 1))
        self.assertEqual(self.boots((failed, False), (0, True)), (0, 2))
        self.assertEqual(self.boots((failed, True), (0, True)), (failed, 1))
        self.assertEqual(self.boots((run.VM_FAILED_STATUS, False), (0, True)), (run.VM_FAILED_STATUS, 1))

    def test_not_for_ever(self):
        self.assertEqual(self.boots(*[(run.EMULATION_STATUS, False)] * 4), (run.EMULATION_STATUS, 3))
