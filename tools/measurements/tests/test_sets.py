# SPDX-License-Identifier: GPL-2.0-only
"""The sets of the thesis: their descriptions, and how figures are judged."""

import importlib.machinery
import importlib.util
import tomllib
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
loader = importlib.machinery.SourceFileLoader("set_command", str(ROOT / "tools/set"))
command = importlib.util.module_from_spec(importlib.util.spec_from_loader("set_command", loader))
loader.exec_module(command)
SETS = tomllib.loads((ROOT / "tools/sets.toml").read_text(encoding="utf-8"))


class Descriptions(unittest.TestCase):
    def test_each_set_runs_somewhere_or_says_why_not(self):
        for name, description in SETS.items():
            for where in ("model", "machine"):
                reasons = {f"no_{where}"} & set(description)
                self.assertNotEqual(bool(reasons), where in description, f"set {name} on {where}")

    def test_experiments_and_tests_exist_and_print_the_columns(self):
        for name, description in SETS.items():
            if "machine" in description:
                self.assertTrue((ROOT / f"tests/vm/long/{description['machine']}.sh").exists(), name)
            if "model" in description:
                path = ROOT / f"gem5-backend/experiments/{description['model']}.toml"
                columns = tomllib.loads(path.read_text(encoding="utf-8"))["report"]["columns"]
                for figure in description["figure"]:
                    self.assertIn(figure["column"], columns)
                    self.assertEqual(len(figure["thesis"]), len(description["rows"]))


TABLE = "# Title\n\n| s | e@min | e |\n|---|---:|---:|\n| 1 | 2.000 | -0.900 |\n| 2 | 1.000 | 0.500 |\n"
SET = {
    "rows": ["1:1", "1:2"],
    "figure": [
        {"column": "e@min", "judged": "least", "thesis": [1.5, 1.5]},
        {"column": "e", "judged": "error", "thesis": [0.96, 0.48]},
    ],
}


class Verdicts(unittest.TestCase):
    def test_a_figure_below_the_least_or_farther_from_zero_is_missed(self):
        verdicts = [one[-1] for one in command.judge(SET, command.table(TABLE))]
        self.assertEqual(verdicts, ["held", "missed", "held", "missed"])

    def test_rows_that_do_not_match_are_an_error(self):
        with self.assertRaises(ValueError):
            list(command.judge(SET, command.table(TABLE)[:1]))


if __name__ == "__main__":
    unittest.main()
