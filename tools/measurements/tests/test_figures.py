# SPDX-License-Identifier: GPL-2.0-only
"""Tests of the figures in the sentences of pages."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from measurements import figures, rows

SERIES = {"s": rows.Series("s", "run it", "VM", ("bpf",))}


def row(what="share", variant="drfq", value="50.0", **others):
    """A row of series s."""
    fields = dict.fromkeys(rows.COLUMNS, "")
    fields.update(series="s", case="c", what=what, variant=variant, unit="%", value=value, **others)
    return rows.Row(**fields)


class FigureTests(unittest.TestCase):
    def written(self, definition, *found):
        """What the sentence shows."""
        page = f"A share of <!--one-->former<!--/--> %.\n\n<!-- figures\none: {definition}\n-->\n"
        new = figures.render(page, "p.md", SERIES, found)
        start, end = "A share of <!--one-->", f"<!--/--> %.\n\n<!-- figures\none: {definition}\n-->\n"
        self.assertTrue(new.startswith(start) and new.endswith(end), new)
        self.assertEqual(figures.render(new, "p.md", SERIES, found), new, "a second time changes nothing")
        return new[len(start) : -len(end)]

    def test_a_changed_row_changes_the_sentence(self):
        self.assertEqual(self.written("one s", row(value="50.4")), "50")
        self.assertEqual(self.written("one s", row(value="51.4")), "51")

    def test_a_figure_has_the_digits_the_scale_and_the_field_that_are_asked_for(self):
        self.assertEqual(self.written("one s digits=1 scale=0.001", row(value="2398")), "2.4")
        self.assertEqual(self.written("one s field=expected", row(expected="49")), "49")

    def test_filters_choose_the_row(self):
        found = row(), row(what="idle time", value="1"), row(variant="eevdf", value="2")
        self.assertEqual(self.written('one s what="idle time"', *found), "1")
        self.assertEqual(self.written("one s variant=drfq without=share", *found), "1")
        self.assertEqual(self.written('range s without="c/idle time"', *found), "2 to 50")
        self.assertEqual(self.written('range s what=share variant="drfq|\n  eevdf"', *found), "2 to 50")

    def test_within_rounds_the_largest_absolute_value_up(self):
        self.assertEqual(self.written("within s digits=1", row(value="0.39"), row("b", value="-0.51")), "0.6")
        self.assertEqual(self.written("within s digits=2", row(value="0.29")), "0.29")

    def test_a_recorded_range_counts_with_both_its_ends(self):
        ranged = row(value="", least="-1.01", greatest="0.5")
        self.assertEqual(self.written("within s digits=2", ranged), "1.01")
        self.assertEqual(self.written("range s digits=1", ranged, row("b", value="3")), "-1.0 to 3.0")

    def test_a_comparison_follows_the_order_of_the_filter_whatever_the_order_of_the_rows(self):
        found = row(variant="eevdf", value="80"), row(value="60")
        for rows_in_file in (found, found[::-1]):
            self.assertEqual(self.written("one less s variant=drfq|eevdf", *rows_in_file), "25")
            self.assertEqual(self.written("one more s variant=eevdf|drfq", *rows_in_file), "33")
            self.assertEqual(self.written("one ratio s variant=drfq|eevdf digits=2", *rows_in_file), "0.75")
            self.assertEqual(self.written("one difference s variant=eevdf|drfq", *rows_in_file), "20")

    def test_each_pair_of_rows_is_compared(self):
        found = row(value="4"), row("b", value="9"), row(variant="eevdf", value="2"), row("b", "eevdf", value="3")
        self.assertEqual(self.written("range ratio s variant=drfq|eevdf", *found), "2 to 3")

    def test_two_fields_of_a_row_are_compared(self):
        found = row(value="1.56", expected="1.54"), row("b", value="1.2", expected="1.15")
        self.assertEqual(self.written("range more s field=value|expected", *found), "1 to 4")

    def test_a_sentence_that_the_rows_contradict_is_refused(self):
        with self.assertRaisesRegex(rows.Invalid, "p.md: figure one: -20 is negative"):
            self.written("one less s variant=drfq|eevdf", row(value="60"), row(variant="eevdf", value="50"))

    def test_within_compares_without_regard_to_the_sign(self):
        found = row(value="60"), row(variant="eevdf", value="50")
        self.assertEqual(self.written("within less s variant=drfq|eevdf", *found), "20")

    def test_a_wrong_definition_is_refused_with_its_name(self):
        for definition, why in (
            ("mean s", "'mean' is none of one, range, within"),
            ("one", "no series"),
            ("one t", "series t is not in"),
            ("one s what=nothing", "no row matches"),
            ("range s what=share|nothing", "no row matches what=nothing"),
            ("range s what=share|zero without=b", "without=b leaves out no row"),
            ("one s colour=red", "'colour' is none of"),
            ("one s field=unit", "field 'unit' is none of"),
            ("one s digits=few", "few"),
            ("one s digits=-1", "digits -1 is negative"),
            ("one s what='share", "No closing quotation"),
            ("one s field=at_most", "c / share / drfq has no at_most"),
            ("one ratio s", "3 numbers cannot be compared"),
            ("one ratio s what=share|zero", "ratio than 0 is not defined"),
            ("one s ", "3 numbers, where"),
        ):
            with self.subTest(definition), self.assertRaisesRegex(rows.Invalid, f"p.md: figure one: .*{why}"):
                self.written(definition, row(), row("b"), row("zero", value="0"))

    def test_a_number_that_is_not_finite_is_refused_with_its_row_or_figure(self):
        for definition, why in (
            ("within s what=none", "row s / c / none / drfq: value nan is not finite"),
            ("within s scale=nan what=big", "a number is not finite"),
            ("within s scale=10 what=big", "a number is not finite"),
            ("one ratio s field=value|expected what=big", "a number is not finite"),
        ):
            found = row("none", value="nan"), row("big", value="1e308", expected="1e-308")
            with self.subTest(definition), self.assertRaisesRegex(rows.Invalid, f"p.md: figure one: {why}"):
                self.written(definition, *found)

    def test_a_mark_in_the_wrong_place_or_without_its_other_half_is_refused(self):
        block = "<!-- figures\none: one s\n-->\n"
        for page, why in (
            ("A <!--two-->5<!--/-->", "figure two is not defined"),
            ("A <!--one-->5", "does not end with"),
            ("A <!--one-->5<!--/--> <!--/-->", "ends no figure"),
            ("Some\n  <!--one-->5<!--/-->", "figure one begins a line"),
            ("no mark", "no sentence has figure one"),
        ):
            with self.assertRaisesRegex(rows.Invalid, why):
                figures.render(f"{page}\n\n{block}", "p.md", SERIES, [row()])

    def test_marks_in_code_spans_are_text(self):
        page = "Write `<!--NAME-->1<!--/-->`.\n"
        self.assertEqual(figures.render(page, "p.md", SERIES, [row()]), page)

    def test_two_definitions_of_a_name_are_refused(self):
        with self.assertRaisesRegex(rows.Invalid, "second one"):
            figures.render("<!-- figures\none: one s\none: one s\n-->\n", "p.md", SERIES, [row()])


if __name__ == "__main__":
    unittest.main()
