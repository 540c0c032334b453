# SPDX-License-Identifier: GPL-2.0-only
"""Boots VMs: what `vm/vm run` promises about output, exit status and cleaning up.

Takes some minutes, so it is not among the unit tests. Run it with:
python3 -B -m unittest discover -s vm/harness/tests -t vm -p 'vm_*.py'
"""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

VM = str(pathlib.Path(__file__).resolve().parents[2] / "vm")
LONG_S = "600"
READS_INTO_CODE = "3000"
# How lines begin that the harness may print in any run, and its status for a VM that failed.
USUAL = (b"vm: booting ", b"vm: QEMU ", b"vm: kernel ")
VM_FAILED = 125


class Runs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # A background job of a shell ignores SIGINT, and so would all that it starts.
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def setUp(self):
        # The control directories lie in it, so that the tests find what a run leaves behind.
        self._temporary = tempfile.TemporaryDirectory(prefix="drfq-vm-test.")
        self.directory = pathlib.Path(self._temporary.name)
        self.addCleanup(self._temporary.cleanup)
        self.environment = dict(os.environ, TMPDIR=str(self.directory))
        self.environment.pop("DRFQ_VM_OUT", None)

    def vm(self, *arguments, timeout=LONG_S, **kwargs):
        result = subprocess.run(
            [VM, "run", "--timeout", timeout, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            env=self.environment,
            **kwargs,
        )
        self.nothing_left()
        # The harness may tell of a slow boot, of one that a defect of QEMU ended, and of a kernel that replaces one.
        result.stderr = b"".join(line for line in result.stderr.splitlines(keepends=True) if not line.startswith(USUAL))
        if result.returncode == VM_FAILED:
            # Not every caller expects it.
            sys.stderr.buffer.write(result.stderr)
        return result

    def start(self, *arguments, **kwargs):
        """Starts a VM that a test talks to. Whatever becomes of the test, it ends."""
        process = subprocess.Popen(
            [VM, "run", "--timeout", LONG_S, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env=self.environment,
            **kwargs,
        )
        self.addCleanup(process.kill)
        return process

    def nothing_left(self):
        self.assertEqual(list(self.directory.glob("drfq-vm.*")), [])
        self.assertEqual(self.processes(), [])

    def processes(self):
        """Live processes that mention this test's directory on their command lines."""
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if str(self.directory).encode() in path.read_bytes():
                    found.append(path.parent.name)
            except OSError:
                pass
        return found

    def test_a_command_that_succeeds_in_silence_prints_nothing(self):
        result = self.vm("--", "true")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, b"", b""))

    def test_words_output_and_status_arrive_exactly(self):
        script = (
            'printf "<%s>" "$@"; printf "%0100000d\\n" 7; printf "no newline"; echo "to stderr" >&2; '
            'pwd > "$DRFQ_VM_OUT/where"; exit 7'
        )
        out = self.directory / "with space"
        words = ["a b", "it's", '"q" $HOME', "two\nlines", ""]
        result = self.vm("--out", str(out), "--", "bash", "-c", script, "bash", *words, cwd=str(self.directory))
        expected = "".join(f"<{word}>" for word in words) + "0" * 99999 + "7\nno newline"
        self.assertEqual(result.stdout.decode(), expected)
        self.assertEqual(result.stderr, b"to stderr\n")
        self.assertEqual(result.returncode, 7)
        self.assertEqual((out / "where").read_text(), f"{self.directory}\n")

    def test_code_that_the_guest_reads_into_an_executed_page_is_run(self):
        program = self.directory / "read_into_code"
        source = pathlib.Path(__file__).resolve().parent / "read_into_code.c"
        subprocess.run(["gcc", "-O2", "-Wall", "-Werror", "-o", str(program), str(source)], check=True)
        for kernel in ("newest", "oldest"):
            with self.subTest(kernel=kernel):
                result = self.vm(
                    "--kernel", kernel, "--", "sh", "-c", f'{program} "$DRFQ_VM_OUT/code" {READS_INTO_CODE}'
                )
                self.assertEqual(result.stdout.decode(), f"0 of {READS_INTO_CODE} calls ran old code\n")
                self.assertEqual((result.returncode, result.stderr), (0, b""))

    def test_programs_run_from_pages_that_held_other_code(self):
        # The kernel else zeroes each page that it allocates, and QEMU then drops what it knows of the page.
        program = pathlib.Path(__file__).resolve().parent / "run_from_reused_pages"
        result = self.vm("--memory", "1G", "--kernel-option", "init_on_alloc=0", "--", str(program), "2")
        self.assertEqual((result.stdout, result.returncode), (b"0 of 12 programs were wrong\n", 0))

    def test_the_guest_sees_the_hosts_files_and_may_change_its_copies(self):
        file = self.directory / "file"
        file.write_text("of the host\n", encoding="utf-8")
        result = self.vm("--", "sh", "-c", f"cat {file}; echo changed > {file}; cat {file}; stat -c %a /tmp")
        self.assertEqual(result.stdout, b"of the host\nchanged\n1777\n")
        self.assertEqual(file.read_text(encoding="utf-8"), "of the host\n")

    def test_output_arrives_while_the_command_runs(self):
        script = 'echo "a line" > "$DRFQ_VM_OUT/file"; echo up; sleep 1000'
        process = self.start("--out", str(self.directory / "out"), "--", "sh", "-c", script)
        self.assertEqual(process.stdout.readline(), b"up\n")
        self.assertEqual((self.directory / "out" / "file").read_text(encoding="utf-8"), "a line\n")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(), 130)
        process.stdout.close()
        self.nothing_left()

    def test_a_signal_is_reported_as_shells_do(self):
        self.assertEqual(self.vm("--", "sh", "-c", "kill -9 $$").returncode, 128 + 9)

    def test_a_missing_command_ends_with_127_and_its_name(self):
        result = self.vm("--", "no-such-command-here")
        self.assertEqual(result.returncode, 127)
        self.assertIn(b"no-such-command-here", result.stderr)

    def test_a_kernel_panic_is_an_error_of_the_vm(self):
        result = self.vm("--", "sh", "-c", "echo before; echo c > /proc/sysrq-trigger; sleep 100")
        self.assertEqual(result.returncode, 125)
        self.assertEqual(result.stdout, b"before\n")
        self.assertIn(b"the VM ended before the command did: Kernel panic", result.stderr)

    def aborted(self, *words, times, text, started):
        """The status of a VM whose QEMU says `text` and aborts, so many times, in its boot or once a command runs."""
        process = self.start("--", *words)
        if started:
            self.assertEqual(process.stdout.readline(), b"up\n")
        aborted = set()
        while process.poll() is None and len(aborted) < times:
            for one in set(self.processes()) - aborted:
                pathlib.Path(f"/proc/{one}/fd/1").write_text(text, encoding="ascii")
                os.kill(int(one), signal.SIGABRT)
                aborted.add(one)
            time.sleep(0.05)
        status = process.wait()
        process.stdout.close()
        self.nothing_left()
        return status

    def test_a_lost_race_of_qemu_during_boot_starts_it_once_more(self):
        race = "qemu: iotlb_to_section: Assertion failed\n"
        self.assertEqual(self.aborted("true", times=1, text=race, started=False), 0)
        self.assertEqual(self.aborted("true", times=2, text=race, started=False), 125)
        self.assertEqual(self.aborted("true", times=1, text="another reason\n", started=False), 125)
        command = ("sh", "-c", "echo up; sleep 1000")
        self.assertEqual(self.aborted(*command, times=1, text=race, started=True), 125)

    def test_a_boot_that_a_defect_of_qemu_makes_fail_starts_once_more(self):
        for said, told in (
            ("rcu_preempt kthread timer wakeup didn't happen for 5251 jiffies!", b"QEMU lost a timer interrupt"),
            ("Oops: int3: 0000 [#1] SMP NOPTI", b"QEMU ran half of a replaced instruction"),
        ):
            with self.subTest(said=said):
                process = self.start("--", "echo", "up", stderr=subprocess.PIPE)
                while not (started := self.processes()):
                    time.sleep(0.05)
                pathlib.Path(f"/proc/{started[0]}/fd/1").write_text(f"{said}\n", encoding="ascii")
                output, errors = process.communicate()
                self.assertEqual(process.returncode, 0, errors)
                self.assertEqual(output, b"up\n")
                self.assertIn(told + b" while the VM booted; it boots once more", errors)
                self.nothing_left()

    def test_a_log_on_a_full_disk_is_a_failure(self):
        result = self.vm("--machine", "thesis", "--machine-stats", "/dev/full", "--", "true")
        self.assertEqual(result.returncode, 125)
        self.assertIn(b"/dev/full cannot be written, so it is not whole: No space left on device", result.stderr)

    def test_the_time_limit_ends_the_vm(self):
        result = self.vm("--", "sleep", "1000", timeout="1")
        self.assertEqual(result.returncode, 124)
        self.assertIn(b"timed out after 1 s", result.stderr)

    def test_signals_leave_no_process(self):
        # Ctrl-C is in test_output_arrives_while_the_command_runs.
        for number, status in ((signal.SIGTERM, 143), (signal.SIGKILL, -9)):
            with self.subTest(number=number):
                process = self.start("--", "sh", "-c", "echo up; sleep 1000")
                self.assertEqual(process.stdout.readline(), b"up\n")
                process.send_signal(number)
                self.assertEqual(process.wait(), status)
                process.stdout.close()
                if number == signal.SIGKILL:
                    # Nothing is left that waits for them; they end by themselves.
                    while self.processes():
                        time.sleep(0.1)
                    for path in self.directory.glob("drfq-vm.*"):
                        subprocess.run(["rm", "-r", str(path)], check=True)
                self.nothing_left()

    def test_llcs_icount_disks_and_the_oldest_kernel(self):
        script = (
            "uname -r; cat /sys/devices/system/cpu/cpu*/cache/index3/shared_cpu_list; "
            "cat /sys/block/vda/size; cat /sys/devices/system/clocksource/clocksource0/current_clocksource"
        )
        result = self.vm(
            "--kernel",
            "oldest",
            "--clock",
            "icount",
            "--cpus",
            "2",
            "--llcs",
            "2",
            "--disk",
            "64M",
            "--",
            "sh",
            "-c",
            script,
        )
        lines = result.stdout.decode().splitlines()
        self.assertRegex(lines[0], r"^6\.\d+\.\d+")
        self.assertEqual([line.split() for line in lines[1:]], [["0"], ["1"], ["131072"], ["tsc"]])


class Refusals(unittest.TestCase):
    def refused(self, *arguments):
        result = subprocess.run([VM, "run", *arguments], capture_output=True, check=False)
        return result.returncode, result.stderr.decode().splitlines()[-1]

    def test_bad_input_is_one_clear_line(self):
        for arguments, status, text in (
            ((), 2, "no command given"),
            (("--cpus", "0", "--", "true"), 2, "--cpus"),
            (("--memory", "1T", "--", "true"), 2, "not a memory size"),
            (("--cpus", "3", "--llcs", "2", "--", "true"), 125, "cannot be split"),
            (("--disk", "nothing", "--", "true"), 125, "neither a file nor a size"),
        ):
            with self.subTest(arguments=arguments):
                got, line = self.refused(*arguments)
                self.assertEqual(got, status)
                self.assertIn(text, line)


if __name__ == "__main__":
    unittest.main()
