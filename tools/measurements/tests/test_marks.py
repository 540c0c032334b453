# SPDX-License-Identifier: GPL-2.0-only
"""Tests of the marks between which tools write."""

import importlib.machinery
import importlib.util
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from measurements import pages, rows

ROOT = Path(__file__).resolve().parents[3]
loader = importlib.machinery.SourceFileLoader("reference_command", str(ROOT / "tools/reference"))
reference = importlib.util.module_from_spec(importlib.util.spec_from_loader("reference_command", loader))
loader.exec_module(reference)

WRONG = (
    ("{begin} -->\nprose\n", "line 3: the part that begins here does not end with"),
    ("{begin} -->\nprose\n{begin} -->\n{end}\n", "line 3: the part that begins here does not end with"),
    ("{begin} --> \n{end}\n", "line 3: the mark .* does not end its line"),
    ("{begin}-->\nprose -->\n{end}\n", "line 3: the mark .* does not end its line"),
    ("{begin} -->\n{end}\n{end}\n", "line 5: .* ends no part"),
)


class MarkTests(unittest.TestCase):
    def refused(self, render, begin, end):
        """Renders pages of wrong marks."""
        for form, why in WRONG:
            text = "# Title\n\n" + form.format(begin=begin, end=end)
            with self.subTest(text), self.assertRaisesRegex(rows.Invalid, f"p.md, {why}"):
                render(text)

    def test_tables_want_pairs_of_marks(self):
        series = {"s": rows.Series("s", "run it", "VM", ())}
        found = [rows.median_row([1], series="s", what="share", unit="%", commit="0123456", date="2026-01-02")]

        class Judge:
            def changed(self, _commit, _code):
                return []

        self.refused(
            lambda text: pages.render(text, "p.md", series, found, Judge()),
            "<!-- results: list s",
            "<!-- end of results -->",
        )

    def test_generated_parts_want_pairs_of_marks(self):
        self.refused(lambda text: reference.render(text, "p.md"), "<!-- generated: registers", "<!-- end -->")

    def test_marks_in_code_spans_are_text(self):
        text = "Write `<!-- generated: registers -->`, and `<!-- end -->` below.\n"
        self.assertEqual(reference.render(text, "p.md"), text)
        text = "Write `<!-- results: list s -->`.\n"
        self.assertEqual(pages.render(text, "p.md", {}, [], None), text)

    def test_a_generated_part_is_written(self):
        text = "<!-- generated: registers -->\nformer\n<!-- end -->\nrest\n"
        new = reference.render(text, "p.md")
        self.assertNotIn("former", new)
        self.assertIn("| offset | register |", new)
        self.assertTrue(new.endswith("<!-- end -->\nrest\n"))


if __name__ == "__main__":
    unittest.main()
