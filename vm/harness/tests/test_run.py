# SPDX-License-Identifier: GPL-2.0-only
"""What the harness takes from a VM that may leave anything in the directory that both share."""

import contextlib
import io
import os
import pathlib
import signal
import subprocess
import tempfile
import unittest
from unittest import mock

from harness import cli, model, run
from harness import shape as vm_shape

_NOBODY = 65534


def link(text: str) -> None:
    """Replaces the plugin and the guest's program as a linker does."""
    for file in (model.plugin(), model.guest("go_live")):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        file.write_text(text, encoding="utf-8")
        file.chmod(0o755)


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
        with (
            tempfile.TemporaryDirectory() as text,
            mock.patch.dict(os.environ, DRFQ_CACHE=text),
            mock.patch.object(model, "_run"),
            mock.patch.object(run, "_Follower"),
        ):
            link("built")
            one.prepare(["true"], None, [])
        shared = {path.name for path in one.control.iterdir()}
        self.assertEqual(shared & {"controller", "memory-device", "disk0.img", "console.log", "initramfs"}, set())
        private = {path.name for path in one.private.iterdir()}
        self.assertEqual(private, {"controller", "memory-device", "disk0.img", "failures"})
        self.assertTrue(all(str(one.private) not in share.directory for share in one._shares()))
        one.close()
        self.assertFalse(one.control.exists() or one.private.exists())
        self.assertTrue(one._plugin.closed)

    def prepared(self, out: str | None) -> run.Run:
        """A run whose directories exist."""
        one = run.Run(vm_shape.Shape("k"), "r", None, False)
        self.addCleanup(one.close)
        with mock.patch.object(run, "_Follower"):
            one.prepare(["true"], out, [])
        return one

    def test_a_read_only_working_directory_is_mounted_before_what_lies_in_it(self):
        with (
            tempfile.TemporaryDirectory(dir="/dev/shm") as directory,
            mock.patch.object(tempfile, "tempdir", directory),
            mock.patch.object(run.os, "getcwd", return_value=directory),
        ):
            one = self.prepared(f"{directory}/out")
            shares = [(share.directory, share.writable) for share in one._shares()]
        self.assertEqual(shares[0], (directory, False))
        self.assertCountEqual(shares[1:], [(str(one.control), True), (f"{directory}/out", True)])

    def test_links_in_paths_of_shares_are_followed_on_the_host(self):
        with tempfile.TemporaryDirectory() as text:
            directory = pathlib.Path(text).resolve()
            (directory / "real").mkdir()
            (directory / "link").symlink_to(directory / "real")
            with mock.patch.object(tempfile, "tempdir", str(directory / "link")):
                one = self.prepared(str(directory / "link/out"))
            parents = [pathlib.Path(share.directory).parent for share in one._shares()]
            self.assertEqual(parents, [directory / "real"] * 2)
            self.assertEqual(one.private.parent, directory / "real")
            out = f"DRFQ_VM_OUT={directory}/real/out".encode()
            self.assertIn(out, (one.control / "environment").read_bytes().split(b"\0"))


class Disks(unittest.TestCase):
    def test_a_disk_that_no_file_can_hold_is_refused(self):
        with tempfile.TemporaryDirectory() as directory, self.assertRaisesRegex(run.VmError, "larger than any file"):
            run.with_images(vm_shape.Shape("k", disks=("9999999999999G",)), pathlib.Path(directory))


class Removal(unittest.TestCase):
    def setUp(self):
        self.messages = io.StringIO()
        self.enterContext(contextlib.redirect_stderr(self.messages))
        if os.geteuid() == 0:
            # Permissions do not hold root back.
            os.seteuid(_NOBODY)
            self.addCleanup(os.seteuid, 0)
        self.one = run.Run(vm_shape.Shape("k"), "r", None, False)

    def test_directories_without_permissions_go_and_what_links_lead_to_stays(self):
        with tempfile.TemporaryDirectory() as text:
            other = pathlib.Path(text)
            before = other.stat().st_mode
            closed = self.one.control / "out/a/b/c"
            closed.mkdir(parents=True)
            (closed / "file").touch()
            (closed / "link").symlink_to(other)
            for directory, mode in ((closed, 0o500), (closed.parent, 0o600), (closed.parent.parent, 0o000)):
                directory.chmod(mode)
            self.one.close()
            self.assertEqual(other.stat().st_mode, before)
        self.assertFalse(self.one.control.exists() or self.one.private.exists())
        self.assertEqual(self.messages.getvalue(), "")

    def test_what_stays_is_told(self):
        (self.one.control / "file").touch()
        self.one.control.chmod(0o500)
        with mock.patch.object(os, "chmod"):
            self.one.close()
        self.assertRegex(self.messages.getvalue(), f"{self.one.control} stays: .*Permission denied.*remove it by hand")
        self.one.close()
        self.assertFalse(self.one.control.exists())


class Plugin(unittest.TestCase):
    def test_qemu_loads_the_plugin_of_its_own_build_and_the_guest_runs_its_program(self):
        with (
            tempfile.TemporaryDirectory() as text,
            mock.patch.dict(os.environ, DRFQ_CACHE=text),
            mock.patch.object(model, "_run"),
            mock.patch.object(run, "_Follower"),
        ):
            link("first")
            one = run.Run(vm_shape.Shape("k"), "r", None, False, run.ModelledHardware(model.read("thesis")))
            self.addCleanup(one.close)
            one.prepare(["true"], None, [])
            link("second")
            loaded = one._shape.qemu_options[1].split(",")[0]
            with mock.patch.object(one, "_arguments", return_value=["cat", loaded]):
                one._start()
            self.assertEqual((one._process.wait(), one._console.join()), (0, None))
            self.assertEqual(one._console_text(), "first")
            one._process.stdout.close()
            live = pathlib.Path((one.control / "live").read_text(encoding="utf-8").rstrip("\0"))
            self.assertEqual((live.parent, live.read_text(encoding="utf-8")), (one.control, "first"))
            self.assertTrue(os.access(live, os.X_OK))


class Console(unittest.TestCase):
    def test_a_full_disk_does_not_stop_the_reader(self):
        one = run.Run(vm_shape.Shape("k"), "r", None, False)
        self.addCleanup(one.close)
        (one.private / "console.log").symlink_to("/dev/full")
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        os.write(writer, b"text")
        os.close(writer)
        with contextlib.redirect_stderr(io.StringIO()) as messages:
            one._log_console(reader)
        self.assertIn("not whole: No space left on device", messages.getvalue())
        self.assertEqual(os.read(reader, 1), b"")


class Logs(unittest.TestCase):
    def test_a_log_that_is_not_whole_makes_a_success_a_failure(self):
        one = run.Run(vm_shape.Shape("k"), "r", None, False)
        self.addCleanup(one.close)
        self.assertEqual(one.check_logs(0), 0)
        model.qemu_options(model.read("thesis"), 3, 2048, one.private, None, 100)
        with contextlib.redirect_stderr(io.StringIO()) as messages:
            self.assertEqual(one.check_logs(0), 0)
            self.assertEqual(messages.getvalue(), "")
            with open(one.private / "failures", "r+b") as file:
                file.write(b"/x cannot be written, so it is not whole: No space left on device")
            self.assertEqual([one.check_logs(status) for status in (0, 7)], [125, 7])
        self.assertIn("vm: error: /x cannot be written", messages.getvalue())

    def test_a_crash_of_qemu_makes_a_success_a_failure_if_there_are_logs(self):
        crash = "kill -ABRT $$"
        for script, stats, status in (("exit 0", "x", 0), (crash, None, 0), (crash, "x", 125), ("exit 1", "x", 125)):
            with self.subTest(script=script, stats=stats), contextlib.redirect_stderr(io.StringIO()) as messages:
                modelled = run.ModelledHardware(model.read("thesis"), stats=stats)
                one = run.Run(vm_shape.Shape("k"), "r", None, False, modelled)
                self.addCleanup(one.close)
                one._process = subprocess.Popen(["sh", "-c", script], start_new_session=True)
                one._process.wait()
                self.assertEqual(one.check_logs(0), status)
                self.assertEqual("vm: error: QEMU ended with " in messages.getvalue(), status != 0)


class Shell(unittest.TestCase):
    def test_a_signal_leaves_no_files(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self.addCleanup(signal.signal, number, signal.getsignal(number))
        made = []

        def end_with_signal(one):
            made.extend((one.control, one.private))
            os.kill(os.getpid(), signal.SIGHUP)

        with (
            mock.patch.object(run.sys.stdin, "isatty", return_value=True),
            mock.patch.object(run.tools, "ensure"),
            mock.patch.object(run.kernels, "resolve", return_value="r"),
            mock.patch.object(run, "say"),
            mock.patch.object(run, "_Follower"),
            mock.patch.object(run.Run, "run_on_terminal", end_with_signal),
        ):
            self.assertEqual(run.shell(vm_shape.Shape("k")), 143)
        self.assertEqual([path.exists() for path in made], [False, False])


class Failures(unittest.TestCase):
    def test_what_the_host_refuses_is_one_line_and_125(self):
        for error in (OSError(28, "No space left on device"), subprocess.CalledProcessError(2, ["dpkg-deb"])):
            with (
                self.subTest(error=error),
                mock.patch.object(run.tools, "ensure", side_effect=error),
                contextlib.redirect_stderr(io.StringIO()) as messages,
            ):
                self.assertEqual(cli.main(["run", "--", "true"]), 125)
                self.assertEqual(messages.getvalue(), f"vm: error: {error}\n")


if __name__ == "__main__":
    unittest.main()
