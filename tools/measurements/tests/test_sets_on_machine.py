# SPDX-License-Identifier: GPL-2.0-only
"""How the sets of the thesis are judged that run on the modelled machine."""

import importlib.util
import sys
import tomllib
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/vm"))
spec = importlib.util.spec_from_file_location("sets_on_machine", ROOT / "tests/vm/sets.py")
sets = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sets)

SETS = tomllib.loads((ROOT / "tools/sets.toml").read_text(encoding="utf-8"))


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


if __name__ == "__main__":
    unittest.main()
