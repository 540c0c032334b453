#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Checkpoints of gem5: usage: gem5_checkpoint.py DRFQ_MC. Skipped (status 77) while DRFQ_GEM5 is not set."""

import os
import shlex
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
seeds = [3]
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
columns = [{columns}]
"""
COLUMNS = ["total.bytes_per_ns", "row_hit_percent", "turnarounds_per_us", "read_wait_max_ns", "share_stdev_percent"]
COLUMNS += [f"{agent}.{figure}" for agent in ("copy", "chase", "stream", "dma") for figure in ("bytes_per_ns",)]
COLUMNS += [f"{agent}.latency_{p}_ns" for agent in ("copy", "chase", "stream") for p in ("p50", "p99", "max")]
CASES = [("lvtf", "thesis", "multi"), ("lvtf", "share", "multi"), ("frfcfs", "thesis", "single")]


class Checkpoint(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)

    def run_on_gem5(self, case, *options):
        path = os.path.join(self.dir.name, "checkpoint.toml")
        text = LOOP.format(
            policy=case[0], admission=case[1], ports=case[2], columns=", ".join(f'"{c}"' for c in COLUMNS)
        )  # fmt: skip
        with open(path, "w", encoding="ascii") as f:
            f.write(text)
        simulator = shlex.join([GEM5, "-d", os.path.join(self.dir.name, "out"), EXPERIMENT, *options])
        command = [sys.argv[1], "run", "--simulator", simulator, path]
        return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)

    def test_a_restored_run_has_the_figures_of_the_run_that_went_on(self):
        for number, case in enumerate(CASES):
            for at in (200000, 1000000):
                with self.subTest(case=case, at=at):
                    checkpoints = os.path.join(self.dir.name, f"{number}-{at}")
                    went_on = self.run_on_gem5(case, "--checkpoint-at", str(at), checkpoints)
                    self.assertEqual(went_on.returncode, 0, went_on.stderr)
                    restored = self.run_on_gem5(case, "--restore", checkpoints)
                    self.assertEqual(restored.returncode, 0, restored.stderr)
                    self.assertEqual(restored.stdout, went_on.stdout)
                    self.assertIn("checkpoint", went_on.stdout)

    def test_a_checkpoint_of_another_experiment_is_refused(self):
        checkpoints = os.path.join(self.dir.name, "c")
        self.assertEqual(self.run_on_gem5(CASES[0], "--checkpoint-at", "100000", checkpoints).returncode, 0)
        other = self.run_on_gem5(CASES[1], "--restore", checkpoints)
        self.assertNotEqual(other.returncode, 0)
        self.assertIn("admission", other.stderr)

    def test_a_checkpoint_after_the_end_is_an_error(self):
        late = self.run_on_gem5(CASES[0], "--checkpoint-at", "9000000", os.path.join(self.dir.name, "c"))
        self.assertNotEqual(late.returncode, 0)
        self.assertIn("the run is over before the checkpoint", late.stderr)


if __name__ == "__main__":
    if not GEM5:
        print("skipped: DRFQ_GEM5 is not set (gem5-backend/gem5/README.md)")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
