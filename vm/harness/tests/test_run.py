# SPDX-License-Identifier: GPL-2.0-only
"""What the harness takes from a VM that may leave anything in the directory that both share."""

import contextlib
import io
import os
import pathlib
import tempfile
import unittest
from unittest import mock

from harness import model, run
from harness import shape as vm_shape


class Status(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.file = pathlib.Path(temporary.name) / "status"
        self.messages = io.StringIO()
        self.enterContext(contextlib.redirect_stderr(self.messages))

    def test_a_number_is_the_status(self):
        self.assertIsNone(run.read_status(self.file))
        self.file.write_text("7\n", encoding="ascii")
        self.assertEqual((run.read_status(self.file), self.messages.getvalue()), (7, ""))

    def test_other_text_is_a_failure_of_the_vm(self):
        for text in ("", "seven\n", "-1\n", "256\n", "1 2\n", "1" * 5000):
            with self.subTest(text=text):
                self.file.write_text(text, encoding="ascii")
                self.assertEqual(run.read_status(self.file), 125)
                self.assertIn("the VM left no exit status", self.messages.getvalue())

    def test_what_is_no_file_is_a_failure_of_the_vm(self):
        other = self.file.with_name("other")
        other.write_text("0\n", encoding="ascii")
        for make in (lambda: os.mkfifo(self.file), lambda: self.file.symlink_to(other), self.file.mkdir):
            make()
            self.assertEqual(run.read_status(self.file), 125)
            if self.file.is_dir():
                self.file.rmdir()
            else:
                self.file.unlink()


class Directories(unittest.TestCase):
    def test_the_guest_shares_none_of_the_files_that_the_host_trusts(self):
        modelled = run.ModelledHardware(model.read("disk"))
        one = run.Run(vm_shape.Shape("k", modelled=True, disks=("1M",)), "r", None, False, modelled)
        self.addCleanup(one.close)
        with mock.patch.object(run, "_Follower"):
            one.prepare(["true"], None, [])
        shared = {path.name for path in one.control.iterdir()}
        self.assertEqual(shared & {"controller", "memory-device", "disk0.img", "console.log", "initramfs"}, set())
        self.assertEqual({path.name for path in one.private.iterdir()}, {"controller", "memory-device", "disk0.img"})
        self.assertTrue(all(str(one.private) not in share.directory for share in one._shares()))
        one.close()
        self.assertFalse(one.control.exists() or one.private.exists())


if __name__ == "__main__":
    unittest.main()
