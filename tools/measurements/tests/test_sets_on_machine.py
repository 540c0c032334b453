# SPDX-License-Identifier: GPL-2.0-only
"""How the sets of the thesis are judged that run on the modelled machine."""

import contextlib
import importlib.util
import io
import json
import sys
import tempfile
import tomllib
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/vm"))
spec = importlib.util.spec_from_file_location("sets_on_machine", ROOT / "tests/vm/sets.py")
sets = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sets)

SETS = tomllib.loads((ROOT / "tools/sets.toml").read_text(encoding="utf-8"))
# 1 s, in ns.
SECOND = 1_000_000_000


def missed(key, weights, error):
    return len(sets.judge_error(key, weights, error, SETS[key[2]]))


class Errors(unittest.TestCase):
    def test_an_error_beyond_the_thesis_is_missed(self):
        self.assertEqual(missed(("controller", "default", "2"), (1, 1), -3.2), 0)
        self.assertEqual(missed(("controller", "default", "2"), (1, 1), -3.3), 1)
        self.assertEqual(missed(("controller", "thesis", "2"), (1, 1), -90), 0)

    def test_a_known_error_has_a_bound(self):
        self.assertEqual(missed(("commodity", "default", "2"), (1, 1), -20.98), 0)
        self.assertEqual(missed(("commodity", "default", "2"), (1, 1), -26), 1)

    def test_beyond_2_to_1_the_bound_is_all_that_mbw_can_take(self):
        for boot in ("controller", "share"):
            self.assertEqual(missed((boot, "default", "2"), (5, 1), -56.17), 0)
            self.assertEqual(missed((boot, "default", "2"), (5, 1), -65), 1)
            self.assertEqual(missed((boot, "default", "3"), (1, 5), 146.81), 0)
            self.assertEqual(missed((boot, "default", "3"), (1, 5), 182), 1)

    def test_each_known_error_is_larger_than_the_thesis(self):
        for (_, _, number), bounds in sets.MISSED.items():
            description = SETS[number]
            thesis = zip(description["weights"], description["thesis_error_pct"])
            errors = {f"{a}:{b}": abs(error) for (a, b), error in thesis}
            for ratio, bound in bounds.items():
                self.assertGreater(bound, errors[ratio], f"set {number}, {ratio}")


class Boots(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.directory = Path(temporary.name)
        self.write("eevdf", "", {"6": [1], "7": [2]})
        self.write("limited", "", {"7": [1.5]})

    def write(self, boot, rule, runs=None):
        """A boot of sets with these times (s) of each run, of one rule or by rule."""
        rules = rule if isinstance(rule, dict) else {rule: runs}
        looks, truth = [], []
        for name, number, times in ((name, *run) for name, of_rule in rules.items() for run in of_rule.items()):
            for turn, seconds in enumerate(times):
                look = {"set": number, "rule": name, "weights": [1, 1], "turn": turn}
                looks += [look, look | {"measured_ns": seconds * SECOND}]
                line = {"cores": [], "device": {"to_memory_bytes": 0, "cached_bytes": 0}}
                truth += [line | {"interval_ns": SECOND}, line | {"interval_ns": seconds * SECOND}]
        for name, lines in (("json", looks), ("truth", truth)):
            self.directory.joinpath(f"{boot}.{name}").write_text("".join(json.dumps(line) + "\n" for line in lines))

    def rows(self):
        found = []
        with contextlib.redirect_stdout(io.StringIO()):
            about = {"series": "sets", "commit": "1", "date": "2026-01-01"}
            return sets.timed_rows(SETS, self.directory, about, found), found

    def missed(self):
        return self.rows()[1]

    def test_a_boot_has_its_own_time_alone(self):
        self.write("share", {"": {"6": [1.1]}, "default": {"7": [1.54]}, "~": {"6": [1.3]}})
        rows, missed = self.rows()
        by_boot = [row.value for row in rows if row.what == "slowdown, by this boot's"]
        self.assertEqual([round(float(value), 2) for value in by_boot], [1.28])
        self.assertEqual(missed, [])
        self.assertEqual(len(sets.lacking(self.directory, ["share=6,7"])), 1)

    def test_a_set_that_was_not_measured_is_named(self):
        self.assertEqual(sets.lacking(self.directory, ["eevdf=6,7", "limited=7"]), [])
        self.assertEqual(len(sets.lacking(self.directory, ["eevdf=6,8", "commodity=2,3"])), 3)

    def test_a_slowdown_beyond_1_03_times_that_of_a_fair_share_is_missed(self):
        self.write("controller", "default", {"7": [1.54]})
        self.assertEqual(self.missed(), [])
        self.write("controller", "default", {"7": [1.55]})
        self.assertEqual(len(self.missed()), 1)

    def test_the_median_of_runs_is_judged(self):
        self.write("controller", "default", {"7": [1.54, 1.7, 1.5]})
        self.assertEqual(self.missed(), [])
        self.write("controller", "default", {"7": [1.54, 1.7, 1.6]})
        self.assertEqual(len(self.missed()), 1)

    def test_a_slowdown_that_nothing_is_held_against_is_missed(self):
        self.write("controller", "default", {"7": [1.1]})
        self.write("limited", "", {})
        self.assertIn("not judged", self.missed()[0])


if __name__ == "__main__":
    unittest.main()
