# SPDX-License-Identifier: GPL-2.0-only
"""How victims beside memory hogs are judged."""

import contextlib
import importlib.util
import io
import json
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
spec = importlib.util.spec_from_file_location("victims", ROOT / "tests/vm/victims.py")
victims = importlib.util.module_from_spec(spec)
spec.loader.exec_module(victims)

# 1 s, in ns.
SECOND = 1_000_000_000


def write(directory, boot, runs):
    """A boot of these runs: hogs, the hogs' limit (bytes/s), time (s), and what the victim and each hog move in it."""
    looks, truth = [], []
    for hogs, rate, seconds, victim_bytes, hog_bytes in runs:
        row = {"plan": boot, "victim": "lbm", "hogs": hogs, "rate": rate}
        looks += [row, row | {"measured_ns": seconds * SECOND}]
        cores = [{"read_bytes": bytes_, "write_bytes": 0} for bytes_ in (victim_bytes, *[hog_bytes] * hogs)]
        truth += [{"interval_ns": SECOND, "cores": cores}, {"interval_ns": seconds * SECOND, "cores": cores}]
    for name, lines in (("json", looks), ("truth", truth)):
        directory.joinpath(f"{boot}.{name}").write_text("".join(json.dumps(line) + "\n" for line in lines))


class Victims(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.directory = Path(temporary.name)
        write(self.directory, "eevdf", [(0, 0, 1, 4e8, 0), (1, 0, 3, 4e8, 20e8), (2, 0, 4, 4e8, 14e8)])

    def report(self):
        with contextlib.redirect_stdout(io.StringIO()):
            return victims.report(self.directory, {"commit": "1", "date": "2026-01-01"})

    def test_a_victim_that_wants_little_leaves_the_rest_and_one_that_wants_more_shares_alike(self):
        self.assertAlmostEqual(victims.fair_part(8, 2, 2), 3)
        self.assertAlmostEqual(victims.fair_part(8, 2, 1), 6)
        self.assertAlmostEqual(victims.fair_part(8, 6, 1), 4)

    def test_limits_are_the_fair_parts_of_what_all_moved_under_eevdf(self):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            victims.limits(self.directory, "eevdf")
        self.assertEqual(output.getvalue().split(), ["lbm:1:400000000", "lbm:2:266666667"])

    def test_a_slowdown_beyond_1_03_times_the_reference_fails(self):
        write(self.directory, "limited", [(1, 4e8, 2, 4e8, 8e8), (2, 266666667, 3, 4e8, 8e8)])
        write(self.directory, "mba", [(1, 0, 2.05, 4e8, 8e8), (2, 0, 3.12, 4e8, 8e8)])
        out = self.report()
        self.assertEqual(out.missed, ["lbm beside 2 hogs"])
        verdicts = {(row.case, row.verdict): float(row.value) for row in out.rows if row.verdict}
        self.assertEqual(verdicts, {("lbm beside 1 hog", "ok"): 2.05, ("lbm beside 2 hogs", "failed"): 3.12})

    def test_without_a_reference_nothing_is_judged(self):
        write(self.directory, "mba", [(1, 0, 2.05, 4e8, 8e8)])
        self.assertEqual(self.report().missed, [])


if __name__ == "__main__":
    unittest.main()
