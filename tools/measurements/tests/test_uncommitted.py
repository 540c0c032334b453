# SPDX-License-Identifier: GPL-2.0-only
"""Tests of the warning that rows name a commit that was not measured."""

import contextlib
import io
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from measurements import rows

SERIES = '[s]\ncommand = "run it"\nmachine = "VM"\ncode = ["bpf"]\n'


class UncommittedTests(unittest.TestCase):
    def setUp(self):
        rows.warn.cache_clear()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name)
        for path, text in (("bpf/main.c", "int f;\n"), ("README", "x\n"), ("docs/results/data/series.toml", SERIES)):
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(text)
        self.git("init", "-q")
        self.git("add", "-A")
        self.git("commit", "-qm", "x")
        self.commit = self.git("rev-parse", "--short", "HEAD")

    def git(self, *args):
        """Runs git under a name made up for the test."""
        author = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
        command = ["git", "-C", str(self.root), *author, *args]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def warnings(self, act, *commits):
        """What `act` prints about rows of these commits."""
        about = {"series": "s", "what": "share", "unit": "%", "date": "2026-01-02"}
        found = [rows.median_row([1], case=str(i), commit=commit, **about) for i, commit in enumerate(commits)]
        stderr = io.StringIO()
        with mock.patch.object(rows, "ROOT", self.root), contextlib.redirect_stderr(stderr):
            act(found)
        return stderr.getvalue()

    def write(self, found):
        """As a program that measures writes its rows."""
        rows.write_rows(self.root / "new.csv", found)

    def test_changed_code_of_the_series_is_told_once(self):
        (self.root / "bpf/main.c").write_text("int g;\n")
        told = self.warnings(self.write, self.commit, self.commit)
        self.assertRegex(told, "^results: warning: the tree has uncommitted changes .bpf/main.c.: rows of s name a ")
        self.assertEqual(told.count("\n"), 1)

    def test_other_changes_and_older_commits_are_not_told(self):
        (self.root / "README").write_text("y\n")
        (self.root / "bpf/main.c").write_text("int f; // a comment\n")
        self.assertEqual(self.warnings(self.write, self.commit), "")
        (self.root / "bpf/main.c").write_text("int g;\n")
        self.assertEqual(self.warnings(self.write, "0123456"), "")

    def test_rows_that_are_added_are_told_too(self):
        self.warnings(self.write, self.commit)
        (self.root / "bpf/main.c").write_text("int g;\n")
        data = self.root / "docs/results/data"
        told = self.warnings(lambda _: rows.add(data, self.root / "new.csv"), self.commit)
        self.assertEqual(told.count("warning"), 1)
        self.assertEqual(len(rows.read_rows(data / "s.csv")), 1)

    def test_rows_are_written_where_git_cannot_tell(self):
        (self.root / ".git").rename(self.root / "git")
        self.assertEqual(self.warnings(self.write, self.commit), "")
        self.assertEqual(len(rows.read_rows(self.root / "new.csv")), 1)


if __name__ == "__main__":
    unittest.main()
