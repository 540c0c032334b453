# SPDX-License-Identifier: GPL-2.0-only
"""The initramfs that a VM starts from."""

import pathlib
import subprocess
import tempfile
import unittest

from harness import initramfs


class Archive(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.directory = pathlib.Path(temporary.name)
        self.module = self.directory / "9p.ko"
        self.module.write_bytes(b"odd")
        self.plan = initramfs.Plan(
            (self.module,),
            pathlib.Path("/kernel/7.3"),
            (initramfs.Overlay("/etc", 0o755), initramfs.Overlay("/a b", 0o1777)),
            (initramfs.Share("out", "/with space", True), initramfs.Share("cwd", "/run/x", False)),
            pathlib.Path("/control/guest-init"),
        )

    def test_busybox_unpacks_what_was_packed(self):
        archive = initramfs.build(pathlib.Path("/bin/true"), self.plan)
        subprocess.run(
            ["busybox", "cpio", "-i", "-d", "bin/*", "plan/*", "modules/*", "init"],
            input=archive,
            cwd=self.directory,
            check=True,
            capture_output=True,
        )
        self.assertEqual((self.directory / "modules" / "9p.ko").read_bytes(), b"odd")
        self.assertEqual((self.directory / "bin" / "sh").readlink(), pathlib.Path("busybox"))
        self.assertEqual((self.directory / "bin" / "busybox").read_bytes(), pathlib.Path("/bin/true").read_bytes())
        self.assertTrue((self.directory / "init").read_text().startswith("#!/bin/sh\n"))
        self.assertEqual((self.directory / "plan" / "overlays").read_text(), "755 /etc\n1777 /a b\n")
        self.assertEqual((self.directory / "plan" / "shares").read_text(), "out rw /with space\ncwd ro /run/x\n")
