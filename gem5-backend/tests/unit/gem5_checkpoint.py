#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Checkpoints of gem5: usage: gem5_checkpoint.py DRFQ_MC. Skipped (status 77) while DRFQ_GEM5 is not set."""

import os
import subprocess
import sys
import tempfile
import unittest

EXPERIMENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "gem5", "configs", "experiment.py")
GEM5 = os.environ.get("DRFQ_GEM5")

# The loop writes the registers every 50 us. Each rule has its state in the core, each kind in its generator.
LOOP = """
title = "checkpoint"
[memory]
policy = "{policy}"
admission = "{admission}"
ports = "{ports}"
[loop]
update_us = 50
shift = 15
[run]
warmup_ms = 0.5
duration_ms = 1.5
window_ms = 0.5
[[agent]]
name = "copy"
kind = "copy"
outstanding_lines = 16
[[agent]]
name = "chase"
kind = "chase"
weight = 2
write_percent = 20
base_mib = 64
[[agent]]
name = "stream"
kind = "stream"
write_percent = 30
base_mib = 128
[[agent]]
name = "dma"
kind = "dma"
outstanding_lines = 32
base_mib = 256
[report]
columns = ["total.bytes_per_ns"]
"""
SEED, AGENTS = 3, 4
# In the warm-up, between two windows, within one.
TIMES_NS = [200000, 1000000, 1350000]
CASES = [("lvtf", "thesis", "multi"), ("lvtf", "share", "multi"), ("frfcfs", "thesis", "single")]


class Checkpoint(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)

    def run_on_gem5(self, case, *options):
        """The run, and its figures with all their digits."""
        path = os.path.join(self.dir.name, "checkpoint.toml")
        with open(path, "w", encoding="ascii") as f:
            f.write(LOOP.format(policy=case[0], admission=case[1], ports=case[2]))
        memory = subprocess.run([sys.argv[1], "memory", path], capture_output=True, text=True, check=True).stdout
        out = os.path.join(self.dir.name, "out")
        run = subprocess.run(
            [GEM5, "-d", out, EXPERIMENT, *options, "experiment", path, "0", str(SEED), str(AGENTS), memory.strip()],
            capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
        return run, [line for line in run.stdout.splitlines() if line.startswith("figure ")]

    def test_a_restored_run_has_the_figures_of_the_run_that_went_on(self):
        for number, case in enumerate(CASES):
            for at in TIMES_NS:
                with self.subTest(case=case, at=at):
                    checkpoints = os.path.join(self.dir.name, f"{number}-{at}")
                    run, went_on = self.run_on_gem5(case, "--checkpoint-at", str(at), checkpoints)
                    self.assertEqual(run.returncode, 0, run.stderr)
                    self.assertGreater(len(went_on), 20)
                    run, restored = self.run_on_gem5(case, "--restore", checkpoints)
                    self.assertEqual(run.returncode, 0, run.stderr)
                    self.assertEqual(restored, went_on)

    def test_a_checkpoint_of_another_controller_is_refused(self):
        checkpoints = os.path.join(self.dir.name, "c")
        self.assertEqual(self.run_on_gem5(CASES[0], "--checkpoint-at", "100000", checkpoints)[0].returncode, 0)
        other = self.run_on_gem5(CASES[1], "--restore", checkpoints)[0]
        self.assertNotEqual(other.returncode, 0)
        self.assertIn("admission", other.stderr)

    def test_a_checkpoint_after_the_end_is_an_error(self):
        late = self.run_on_gem5(CASES[0], "--checkpoint-at", "9000000", os.path.join(self.dir.name, "c"))[0]
        self.assertEqual(late.returncode, 1)
        self.assertIn("the run is over before the checkpoint", late.stderr)


if __name__ == "__main__":
    if not GEM5:
        print("skipped: DRFQ_GEM5 is not set (gem5-backend/gem5/README.md)")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
