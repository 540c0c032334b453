# SPDX-License-Identifier: GPL-2.0-only
"""Tests of tools/results: rows, staleness and tables of pages."""

import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from measurements import pages, rows, staleness

HEADER = ",".join(rows.COLUMNS)
OLD = "0123456789"
SERIES = '[s]\ncommand = "run it"\nmachine = "VM"\ncode = ["bpf", "!bpf/sizes"]\n'
SERIES += SERIES.replace("[s]", "[u]")


def line(what="share", variant="drfq", value="50.0", **others):
    """One line of a data file."""
    fields = dict.fromkeys(rows.COLUMNS, "")
    fields.update(series="s", case="c", what=what, variant=variant, unit="%", value=value)
    fields.update(statistic="median", n="3", commit="abcdef0", date="2026-01-02")
    fields.update(others)
    return ",".join(fields[name] for name in rows.COLUMNS)


class WithData(unittest.TestCase):
    """A directory with one series."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name)
        self.data = self.root / "data"
        self.data.mkdir()
        (self.root / "bpf").mkdir()
        (self.root / "bpf/sizes").touch()
        (self.data / "series.toml").write_text(SERIES)

    def write(self, name, *lines):
        """Writes a data file."""
        path = self.data / name
        path.write_text("\n".join([HEADER, *lines]) + "\n")
        return path


class RowTests(WithData):
    def test_a_row_of_all_columns_is_read(self):
        self.write("s.csv", line())
        series, found = rows.read_all(self.data, self.root)
        self.assertEqual(series["s"].command, "run it")
        self.assertEqual([row.value for row in found], ["50.0"])

    def test_small_and_large_numbers_may_have_an_exponent(self):
        self.write("s.csv", line(value="-7.11e-15", at_most="1e+03"))
        self.assertEqual(rows.read_all(self.data, self.root)[1][0].value, "-7.11e-15")

    def test_a_value_may_lie_at_an_end_of_its_range_and_the_least_may_be_missing(self):
        self.write("s.csv", line(value="1", least="1.0", greatest="2"), line("b", value="2", greatest="2"))
        self.assertEqual(len(rows.read_all(self.data, self.root)[1]), 2)

    def test_a_broken_row_is_refused_with_its_line(self):
        for broken, why in (
            (line(value="a lot"), "not a number"),
            (line(value="nan"), "value 'nan' is not a number"),
            (line(greatest="inf", least="1"), "greatest 'inf' is not a number"),
            (line(at_most="1_000"), "at_most '1_000' is not a number"),
            (line(value=" 5"), "value ' 5' is not a number"),
            (line(expected="1e999"), "expected '1e999' is not a number"),
            (line(n="2.5"), "n '2.5' is no number of runs"),
            (line(n="0"), "n '0' is no number of runs"),
            (line(value=""), "neither a value"),
            (line(value="", greatest="2"), "neither a value"),
            (line(value="5", least="1"), "least without greatest"),
            (line(value="9", least="10", greatest="11"), "not in order: 10, 9, 11"),
            (line(value="12", greatest="11"), "not in order: 12, 11"),
            (line(value="", least="2", greatest="1"), "not in order: 2, 1"),
            (line(statistic="guess"), "none of"),
            (line(spread="1"), "go together"),
            (line(commit=""), "commit is empty"),
            (line(commit="HEAD"), "commit 'HEAD' is no hash"),
            (line(commit="main"), "commit 'main' is no hash"),
            (line(commit="abcdef"), "commit 'abcdef' is no hash"),
            (line(date="2026-1-2"), "date '2026-1-2' is not"),
            (line(date="20260102"), "date '20260102' is not"),
            (line(date="2026-02-30"), "date '2026-02-30' is not"),
            (line() + ",more", "19 fields"),
        ):
            self.write("s.csv", line(what="good"), broken)
            with self.assertRaisesRegex(rows.Invalid, f"line 3: .*{why}"):
                rows.read_all(self.data, self.root)

    def test_two_rows_of_one_id_are_refused(self):
        self.write("a.csv", line())
        self.write("b.csv", line(value="1"))
        with self.assertRaisesRegex(rows.Invalid, "two rows"):
            rows.read_all(self.data, self.root)

    def test_a_series_whose_code_moved_is_refused(self):
        (self.root / "bpf/sizes").unlink()
        with self.assertRaisesRegex(rows.Invalid, "there is no !bpf/sizes"):
            rows.read_all(self.data, self.root)

    def test_added_rows_replace_those_of_the_same_id(self):
        home = self.write("topic.csv", line(), line(what="other"))
        source = self.root / "new.csv"
        source.write_text("\n".join([HEADER, line(value="51"), line(what="third")]) + "\n")
        self.assertEqual(rows.add(self.data, source), "1 rows replaced, 1 added")
        self.assertEqual([row.value for row in rows.read_rows(home)], ["51", "50.0", "50.0"])

    def test_two_added_rows_of_one_id_are_refused(self):
        home = self.write("topic.csv", line())
        source = self.root / "new.csv"
        source.write_text("\n".join([HEADER, line(value="51"), line(value="52")]) + "\n")
        with self.assertRaisesRegex(rows.Invalid, "new.csv: two rows are s / c / share / drfq"):
            rows.add(self.data, source)
        self.assertEqual([row.value for row in rows.read_rows(home)], ["50.0"])


class StalenessTests(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name)
        self.git("init", "-q")
        self.write("bpf/main.c", "int f(void)\n{\n\treturn 1; /* why */\n}\n" * 5)
        self.commit = self.commit_all()

    def git(self, *args):
        """Runs git under a name made up for the test."""
        author = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
        command = ["git", "-C", str(self.root), *author, *args]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def write(self, path, text):
        """Writes a file, with its directories."""
        (self.root / path).parent.mkdir(exist_ok=True)
        (self.root / path).write_text(text)

    def commit_all(self):
        """Commits everything; the commit."""
        self.git("add", "-A")
        self.git("commit", "-qm", "x")
        return self.git("rev-parse", "--short", "HEAD")

    def changed(self, *code):
        """Files that changed since the first commit."""
        return staleness.Judge(self.root).changed(self.commit, code or ("bpf",))

    def test_unchanged_code_is_current(self):
        self.assertEqual(self.changed(), [])

    def test_changed_code_is_stale_before_it_is_committed(self):
        self.write("bpf/main.c", "int f(void) { return 2; }\n")
        self.assertEqual(self.changed(), ["bpf/main.c"])

    def test_a_comment_or_blank_space_is_no_change(self):
        text = (self.root / "bpf/main.c").read_text()
        self.write("bpf/main.c", "// new\n" + text.replace("/* why */", "/* because */").replace("\t", "  "))
        self.assertEqual(self.changed(), [])

    def test_a_docstring_is_no_change_unless_the_program_prints_it(self):
        same = 'def f(x):\n    """New."""\n    return "#x"  # y\n', 'def f(x):\n    return "#x"\n'
        self.assertEqual(*(staleness.without_comments("a.py", text) for text in same))
        printed = [f'"""{word}"""\nprint(__doc__)\n' for word in ("Old", "New")]
        self.assertNotEqual(*(staleness.without_comments("a.py", text) for text in printed))
        self.assertEqual(staleness.without_comments("a.py", "def (\n"), "def (\n")

    def test_a_rename_is_no_change(self):
        (self.root / "bpf/main.c").rename(self.root / "bpf/other.c")
        self.commit_all()
        self.assertEqual(self.changed(), [])

    def test_a_new_file_in_the_code_is_a_change(self):
        self.write("bpf/new.c", "int g;\n")
        self.commit_all()
        self.assertEqual(self.changed(), ["bpf/new.c"])
        self.assertEqual(self.changed("bpf", "!bpf/new.c"), [])
        self.assertEqual(self.changed("bp"), [])

    def test_an_unknown_commit_tells_how_to_get_it(self):
        with self.assertRaisesRegex(staleness.NoGit, "unshallow"):
            staleness.Judge(self.root).changed("deadbeef", ("bpf",))

    def test_an_amended_commit_is_refused(self):
        self.git("commit", "-q", "--amend", "-m", "amended")
        with self.assertRaisesRegex(staleness.NoGit, "history of HEAD"):
            self.changed()

    def test_comment_signs_in_strings_stay(self):
        self.assertEqual(staleness.without_comments("a.rs", 'f("//x") // y'), 'f("//x")')

    def test_unit_tests_at_the_end_of_a_rust_file_do_not_count(self):
        tests = "#[cfg(test)]\nmod tests {\n    use super::*;\n\n    fn f() {}\n}\n"
        self.assertEqual(staleness.without_comments("a.rs", "fn a() {}\n" + tests), "fn a() {}")
        between = "fn a() {}\n" + tests + "fn b() {}\n"
        self.assertEqual(staleness.without_comments("a.rs", between), " ".join(between.split()))


class Current:
    """A judge that finds one commit stale."""

    def changed(self, commit, _code):
        """Only rows of commit OLD are stale."""
        return ["bpf/main.c"] if commit == OLD else []


class PageTests(WithData):
    def render(self, mark, *lines):
        """The page of one mark."""
        self.write("s.csv", *lines)
        text = f"# T\n\n<!-- results: {mark} -->\nformer\n<!-- end of results -->\nrest\n"
        return pages.render(text, "p.md", *rows.read_all(self.data, self.root), Current())

    def test_a_grid_has_a_column_for_each_variant(self):
        page = self.render("grid s", line(), line(variant="eevdf", value="49"), line(what="idle", value="1"))
        self.assertIn("| case | what | unit | drfq | eevdf |\n", page)
        self.assertIn("| c | share | % | 50.0 | 49 |\n| c | idle | % | 1 |  |\n", page)
        self.assertNotIn("former", page)
        self.assertTrue(page.endswith("<!-- end of results -->\nrest\n"))

    def test_a_page_that_is_written_stays_as_it_is(self):
        page = self.render("grid s", line())
        found = rows.read_all(self.data, self.root)
        self.assertEqual(pages.render(page, "p.md", *found, Current()), page)

    def test_only_rows_of_changed_code_are_marked_stale(self):
        page = self.render("list s", line(), line(what="old one", commit=OLD))
        self.assertIn("- commit `abcdef0`, 2026-01-02 (1 of 2 rows)\n", page)
        self.assertIn(f"- commit `{OLD}`, 2026-01-02 (1 of 2 rows), **stale**\n", page)

    def test_what_was_not_recorded_is_named(self):
        page = self.render("list s", line(value="", least="1", greatest="2", n="", statistic=""))
        self.assertIn("| c | share | drfq | % | range | 1 | 2 | not recorded |", page)

    def test_filters_choose_the_rows_of_a_table(self):
        lines = line(), line(what="idle", value="7"), line(case="d d", value="9")
        self.assertNotIn("| 7 |", self.render("grid s without=idle", *lines))
        self.assertIn("| 9 |", self.render('grid s case="d d"', *lines))
        self.assertNotIn("50.0", self.render('grid s case="d d"', *lines))

    def test_two_rows_for_one_cell_are_refused(self):
        with self.assertRaisesRegex(rows.Invalid, "mark 'grid s,u': two rows for the cell c / share / % / drfq"):
            self.render("grid s,u", line(), line(series="u"))
        self.assertIn("| 51 |", self.render("grid s,u", line(), line(series="u", unit="ms", value="51")))

    def test_a_wrong_mark_is_refused(self):
        for mark, why in (
            ("grid t", "series t is not in"),
            ("pie s", "neither grid nor list"),
            ("grid s colour=red", "'colour' is none of"),
            ("grid s what=nothing", "no row matches"),
            ("grid s,u", "no row matches series u"),
            ("grid s case=c|d", "no row matches case=d"),
            ("grid s without=idle", "without=idle leaves out no row"),
            ("grid s variant=drfq without=other/share", "without=other/share leaves out no row"),
            ('grid s what="share', "No closing quotation"),
        ):
            with self.assertRaisesRegex(rows.Invalid, f"p.md: mark '{re.escape(mark)}': .*{why}"):
                self.render(mark, line())


if __name__ == "__main__":
    unittest.main()
