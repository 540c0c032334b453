#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""What of gem5/ needs no gem5: the version guard and the command's arguments. usage: gem5_test.py"""

import os
import subprocess
import sys
import tempfile
import unittest

GEM5 = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "gem5")
sys.path.insert(0, GEM5)
import supported  # noqa: E402


class Version(unittest.TestCase):
    def test_the_version_is_read_from_gem5s_source(self):
        self.assertEqual(supported.version_of('const char *gem5Version = "24.0.0.1";'), "24.0.0.1")
        self.assertIsNone(supported.version_of("int x;"))

    def test_every_release_of_the_series_is_taken(self):
        for version in ("24.0", "24.0.0.0", "24.0.0.1"):
            self.assertIsNone(supported.problem(version, {}))

    def test_another_version_is_refused_with_what_to_do(self):
        for version in ("23.1.0.0", "24.1.0.0", "24.01", "[DEVELOP-FOR-24.1]", None):
            message = supported.problem(version, {})
            self.assertIn("gem5 v24.0.0.1", message)
            self.assertIn("DRFQ_GEM5_ANY_VERSION=1", message)

    def test_the_variable_lets_any_version_pass(self):
        self.assertIsNone(supported.problem("25.0", {"DRFQ_GEM5_ANY_VERSION": "1"}))


class Arguments(unittest.TestCase):
    def refused(self, *args):
        """The message of gem5/run, which ends before it needs a gem5 or a build."""
        environment = {k: v for k, v in os.environ.items() if k != "DRFQ_GEM5"}
        run = subprocess.run(
            [os.path.join(GEM5, "run"), "none", *args],
            env=environment, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        self.assertEqual(run.returncode, 2, run.stderr)
        return run.stderr

    def test_a_checkpoint_needs_a_time_and_a_directory(self):
        self.assertIn("needs a time and a directory", self.refused("--checkpoint-at", "5000"))
        self.assertIn("takes a time in ns above 0", self.refused("--checkpoint-at", "5ms", "d", "weighted"))

    def test_a_restore_needs_a_directory_that_exists(self):
        self.assertIn("there is no directory", self.refused("--restore", "/nonexistent", "weighted"))

    def test_a_checkpoint_takes_no_caches_no_server_and_no_log(self):
        with tempfile.TemporaryDirectory() as d:
            at = ("--checkpoint-at", "1000000", d)
            self.assertIn("takes no --caches", self.refused(*at, "--caches", "plain", "weighted"))
            self.assertIn("not for --serve", self.refused(*at, "--serve", "s"))
            self.assertIn("takes no --log", self.refused(*at, "--log", "l", "weighted"))
            self.assertIn("takes no --log", self.refused("--restore", d, "--log", "l", "weighted"))

    def test_without_gem5_the_variable_is_named(self):
        self.assertIn("DRFQ_GEM5 is not set", self.refused("weighted"))


if __name__ == "__main__":
    unittest.main()
