# SPDX-License-Identifier: GPL-2.0-only
"""How shares of the memory bandwidth are judged."""

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/vm"))
loader = importlib.machinery.SourceFileLoader("bandwidth_shares", str(ROOT / "tests/vm/bandwidth_shares"))
shares = importlib.util.module_from_spec(importlib.util.spec_from_loader("bandwidth_shares", loader))
loader.exec_module(shares)

# 1 s, in ns.
SECOND = 1_000_000_000
LOADS = "copy:100,copy:200"


def judge(*windows, unfair=1, options=("--spread", "3")):
    """Judges a run of mode `on`: the length of each window (s). The loads move what their weights ask for."""
    lines = []
    for seconds in (1, *windows):
        moved = [100 * seconds, 200 * unfair * seconds]
        cores = [{"read_bytes": bytes_, "write_bytes": 0} for bytes_ in moved]
        lines.append({"interval_ns": seconds * SECOND, "cores": cores, "rmids": []})
    with tempfile.TemporaryDirectory() as directory:
        log, truth = Path(directory, "log"), Path(directory, "truth")
        log.write_text(f"on 0 {LOADS}\ndone {len(lines)}\n", encoding="utf-8")
        truth.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        output = io.StringIO()
        words = ["bandwidth_shares", str(log), str(truth), *options]
        with mock.patch.object(sys, "argv", words), contextlib.redirect_stdout(output):
            return shares.main(), output.getvalue()


class Windows(unittest.TestCase):
    def test_fair_shares_hold_and_unfair_ones_fail(self):
        self.assertEqual(judge(1, 1, 1, 1, 1)[0], 0)
        status, text = judge(1, 1, 1, 1, 1, unfair=1.1)
        self.assertEqual(status, 1)
        self.assertIn("the median spread is 10.0 %", text)

    def test_one_late_window_of_five_is_told_and_two_fail(self):
        status, text = judge(1, 1, 1, 1, 2)
        self.assertEqual(status, 0)
        self.assertIn("1 of 5 windows are longer", text)
        status, text = judge(1, 1, 1, 2, 2)
        self.assertEqual(status, 1)
        self.assertIn("FAILED: on copy:100,copy:200: 2 of 5 windows are late", text)

    def test_a_run_of_late_windows_alone_fails(self):
        self.assertEqual(judge(2, 2)[0], 1)


if __name__ == "__main__":
    unittest.main()
