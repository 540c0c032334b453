# SPDX-License-Identifier: GPL-2.0-only
"""Options that contradict each other, or that would have no effect."""

import contextlib
import io
import os
import subprocess
import tempfile
import unittest
from unittest import mock

from harness import cli, lock, model


class Refused(unittest.TestCase):
    """Every error comes before a VM starts."""

    def setUp(self):
        self.starts = self.enterContext(mock.patch.object(cli.run, "run"))
        self.starts.return_value = 0

    def run_words(self, *words: str) -> tuple[int, str]:
        """Status and messages of `vm run`."""
        with contextlib.redirect_stderr(io.StringIO()) as messages:
            return cli.main(["run", *words, "--", "true"]), messages.getvalue()

    def refused(self, words: list[str], reason: str) -> None:
        with self.subTest(words=words):
            status, message = self.run_words(*words)
            self.assertEqual((status, self.starts.called), (125, False))
            self.assertRegex(message, f"vm: error: .*{reason}")

    def test_a_log_of_storage_needs_a_machine_with_storage(self):
        self.refused(["--storage-log", "/dev/null"], "--storage-log needs --machine")
        self.refused(["--machine", "thesis", "--storage-log", "/dev/null"], "has no table .storage.")

    def test_what_a_description_decides_cannot_be_chosen_beside_it(self):
        for words in (["--cpus", "3"], ["--llcs", "2"], ["--smt"], ["--kvm"], ["--clock", "icount"]):
            self.refused(["--machine", "thesis", *words], f"{' '.join(words[:1])}.* contradicts --machine thesis")

    def test_truth_and_logs_need_a_machine(self):
        for option in ("--machine-stats", "--input-log"):
            self.refused([option, "x"], f"{option} needs --machine")

    def test_truth_and_logs_of_a_machine_that_counts_nothing_are_refused(self):
        for option in ("--machine-stats", "--storage-log", "--input-log"):
            words = ["--machine", "disk", "--systemd", option, "x"]
            self.refused(words, f"{option} would stay empty: with --systemd")

    def test_an_interval_needs_the_truth_and_its_range(self):
        self.refused(["--machine-interval", "100"], "--machine-interval needs --machine-stats")
        self.refused(["--machine", "thesis", "--machine-interval", "100"], "--machine-interval needs --machine-stats")
        for value in ("0", "1000000001", str(2**55)):
            with self.subTest(value=value), self.assertRaises(SystemExit):
                self.run_words("--machine", "thesis", "--machine-stats", "x", "--machine-interval", value)
        self.starts.assert_not_called()

    def test_a_shift_needs_counted_time_and_kvm_has_none(self):
        self.refused(["--icount-shift", "0"], "--icount-shift needs --clock icount")
        self.refused(["--kvm", "--clock", "icount"], "--clock icount contradicts --kvm")


class Accepted(unittest.TestCase):
    def test_defaults_hold_where_an_option_is_left_out(self):
        with mock.patch.object(cli.run, "run", return_value=0) as starts:
            cli.main(["run", "--clock", "icount", "--", "true"])
            cli.main(["run", "--clock", "icount", "--icount-shift", "0", "--", "true"])
            cli.main(["run", "--machine", "thesis", "--machine-stats", "x", "--", "true"])
        counted, shifted, modelled = starts.call_args_list
        self.assertEqual([call.args[0].icount_shift for call in (counted, shifted)], [cli.vm_shape.ICOUNT_SHIFT, 0])
        self.assertEqual(modelled.kwargs["modelled"].interval_ms, 100)


class Replay(unittest.TestCase):
    def test_the_program_of_its_own_build_runs(self):
        def link(status: int) -> None:
            """Replaces the program as a linker does."""
            file = model.replay_program()
            file.parent.mkdir(parents=True, exist_ok=True)
            file.unlink(missing_ok=True)
            file.write_text(f'#!/bin/sh\n[ "$*" = "--skip 2 /log /transfers" ] && exit {status}\n', encoding="ascii")
            file.chmod(0o755)

        def link_and_run(*words, real=subprocess.run, **options):
            link(4)
            return real(*words, **options)

        with (
            tempfile.TemporaryDirectory() as text,
            mock.patch.dict(os.environ, DRFQ_CACHE=text),
            mock.patch.object(model, "_run"),
            mock.patch.object(cli.subprocess, "run", link_and_run),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            link(3)
            self.assertEqual(cli.main(["replay", "--skip", "2", "/log", "/transfers"]), 3)


class Lock(unittest.TestCase):
    def test_only_a_version_of_a_known_alias_is_taken(self):
        with mock.patch.object(cli.kernels, "write_lock") as write:
            for word in ("oldst=6.18", "oldest", "oldest=", "oldest=new", "=6.18"):
                with self.subTest(word=word), contextlib.redirect_stderr(io.StringIO()) as messages:
                    self.assertEqual(cli.main(["lock", word]), 125)
                    self.assertIn(f"lock {word}: use ALIAS=VERSION", messages.getvalue())
            write.assert_not_called()
            self.assertEqual(cli.main(["lock", *(f"{alias}=6.18" for alias in lock.ALIASES)]), 0)
            write.assert_called_once_with(dict.fromkeys(lock.ALIASES, "6.18"))


if __name__ == "__main__":
    unittest.main()
