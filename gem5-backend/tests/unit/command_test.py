#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""The command line of drfq-mc: usage: command_test.py DRFQ_MC EXPERIMENTS_DIR"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

MC, EXPERIMENTS = sys.argv[1], sys.argv[2]

SHORT = """
[run]
warmup_ms = 1
duration_ms = 2
[[agent]]
name = "a"
[report]
columns = ["a.bytes_per_ns"]
[[expect]]
column = "a.bytes_per_ns"
least = {least}
"""


def run(*args):
    return subprocess.run([MC, *args], capture_output=True, text=True, timeout=120, check=False)


class Command(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)

    def file(self, name, text=None):
        path = os.path.join(self.dir.name, name)
        if text is not None:
            with open(path, "w", encoding="ascii") as f:
                f.write(text)
        return path

    def test_each_command_has_help_and_no_command_is_wrong_use(self):
        self.assertEqual(run().returncode, 2)
        self.assertEqual(run("--help").returncode, 0)
        for command in ("run", "serve", "record", "replay", "bench", "memory"):
            done = run(command, "--help")
            self.assertEqual(done.returncode, 0)
            self.assertIn("Usage: drfq-mc " + command, done.stdout)

    def test_wrong_use_ends_with_2_and_names_the_mistake(self):
        for args in (
            ["fly"],
            ["run"],
            ["run", "--fast", "x"],
            ["serve"],
            ["serve", "--rate", "0", "--socket", "x"],
            ["serve", "--rate", "2", "--socket", "x"],
            ["replay"],
            ["record", "x"],
            ["bench", "0"],
            ["run", "a", "b"],
        ):
            done = run(*args)
            self.assertEqual(done.returncode, 2, args)
            self.assertTrue(done.stderr.startswith("drfq-mc: "), done.stderr)

    def test_a_number_out_of_range_is_refused_with_its_range(self):
        for text in ("0", "-1", "1001", "nan", "fast", "1x"):
            done = run("serve", "--rate", text, "--socket", "x")
            self.assertEqual(
                done.stderr.splitlines()[0], f"drfq-mc: --rate: {text} is no number above 0 and at most 1000"
            )
        self.assertIn("MS: 0.5 is no number from 1 to 1e+06\n", run("bench", "0.5").stderr)

    def test_a_bad_file_ends_with_1_and_one_line(self):
        for args in (
            ["run", self.file("none")],
            ["run", self.dir.name],
            ["run", self.file("bad", "a = \n")],
            ["replay", self.file("t", "x\n")],
            ["replay", "--log", "/nonexistent/x", self.file("u", "drfq-trace 1\n")],
            ["replay", self.file("big", "drfq-trace 1\nP 0 R 0 60000 0 -\n")],
            ["memory", self.file("typo", "[memo]\n")],
            ["memory", self.file("two", "[[memory]]\n[[memory]]\n")],
            ["serve", "--socket", self.file("s"), "--memory", self.file("typo")],
            ["serve", "--socket", self.file("plain", "x")],
            ["serve", "--socket", "x" * 200],
        ):
            done = run(*args)
            self.assertEqual(done.returncode, 1, args)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_check_ends_with_3_when_an_expectation_is_missed(self):
        self.assertEqual(run("run", "--check", self.file("good.toml", SHORT.format(least=0.1))).returncode, 0)
        missed = run("run", "--check", self.file("miss.toml", SHORT.format(least=100)))
        self.assertEqual(missed.returncode, 3)
        self.assertIn("MISS", missed.stdout)
        self.assertEqual(run("run", self.file("miss.toml")).returncode, 0)

    def test_svg_writes_a_plot(self):
        plot = self.file("plot.svg")
        self.assertEqual(run("run", "--svg", plot, self.file("e.toml", SHORT.format(least=1))).returncode, 0)
        with open(plot, encoding="ascii") as f:
            self.assertTrue(f.read().startswith("<svg"))

    def test_figures_come_from_the_simulator_command(self):
        """A script in the place of a simulator records its arguments and prints figures."""
        experiment = self.file("e.toml", SHORT.format(least=2))
        arguments = self.file("arguments")
        script = self.file(
            "simulator.sh", f'printf "%s\\n" "$@" > {arguments}\necho noise\necho figure a.bytes_per_ns 2.5\n'
        )
        done = run("run", "--check", "--simulator", f"sh {script}", experiment)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("2.500", done.stdout)
        with open(arguments, encoding="ascii") as f:
            told = f.read().splitlines()
        self.assertEqual(told[:5], ["experiment", experiment, "0", "1", "1"])
        self.assertEqual(json.loads(told[5])["tRCD_ps"], 15000)
        for wrong, reason in (("exit 7", "status 7"), ("echo figure", "no figure")):
            done = run("run", "--simulator", f"{wrong} #", experiment)
            self.assertEqual(done.returncode, 1)
            self.assertIn(reason, done.stderr)

    def test_a_recorded_trace_can_be_replayed(self):
        trace = self.file("trace")
        self.assertEqual(run("record", "--out", trace, self.file("e.toml", SHORT.format(least=1))).returncode, 0)
        done = run("replay", trace)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("row hits", done.stdout)

    def test_a_replay_with_too_few_cores_counts_the_writes_that_fail(self):
        wide = "[memory]\ncores = 8\n[run]\nwarmup_ms = 1\nduration_ms = 2\n[loop]\nenabled = false\n"
        agent = '[[agent]]\nname = "a"\ncore = 7\n[report]\ncolumns = ["a.bytes_per_ns"]\n'
        experiment, trace = self.file("wide.toml", wide + agent), self.file("trace")
        self.assertEqual(run("record", "--out", trace, experiment).returncode, 0)
        # Its pid_core and vtime_core; the virtual time of its devices is that of a pid.
        self.assertIn(", 2 writes of registers failed", run("replay", trace).stdout)
        self.assertNotIn("failed", run("replay", "--memory", experiment, trace).stdout)

    def test_every_combination_of_each_shipped_experiment_runs(self):
        """For 1 ms with one seed each; the times of the files take minutes."""
        for name in sorted(os.listdir(EXPERIMENTS)):
            if not name.endswith(".toml"):
                continue
            with open(os.path.join(EXPERIMENTS, name), encoding="ascii") as f:
                lines = f.read().splitlines()
            short = [
                (
                    "duration_ms = 1"
                    if x.startswith("duration_ms")
                    else "warmup_ms = 1"
                    if x.startswith("warmup_ms")
                    else "window_ms = 1"
                    if x.startswith("window_ms")
                    else "seeds = [1]"
                    if x.startswith("seeds")
                    else x
                )
                for x in lines
            ]
            done = run("run", self.file(name, "\n".join(short) + "\n"))
            self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
