# SPDX-License-Identifier: GPL-2.0-only
"""The rows of docs/results/data: reading, checking, merging."""

import csv
import datetime
import math
import re
import statistics
import sys
import tomllib
from dataclasses import astuple, dataclass, fields
from functools import cache
from pathlib import Path

from measurements import staleness

ROOT = Path(__file__).resolve().parents[2]
# float() also takes nan, inf, 1_000 and spaces.
NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?")
STATISTICS = ("median", "mean", "worst", "best", "single", "count", "")


class Invalid(Exception):
    """A data file or a page breaks the format; the message names the place."""


@dataclass(frozen=True)
class Series:
    """What rows have in common; a table of series.toml."""

    name: str
    command: str
    machine: str
    code: tuple


@dataclass(frozen=True)
class Row:
    """One measurement. Fields are text as measured; an empty one was not recorded or does not apply."""

    series: str
    case: str
    what: str
    variant: str
    unit: str
    value: str
    statistic: str
    spread: str
    spread_kind: str
    least: str
    greatest: str
    n: str
    expected: str
    at_most: str
    error_median_pct: str
    error_worst_pct: str
    verdict: str
    commit: str
    date: str

    @property
    def id(self):
        """What stays the same when it is measured again."""
        return (self.series, self.case, self.what, self.variant)


COLUMNS = [field.name for field in fields(Row)]


def median_row(values, digits=2, **columns):
    """The row of some values: their median, least, greatest and number. columns: the others that are not empty."""
    row = dict.fromkeys(COLUMNS, "") | columns
    row |= {"value": f"{statistics.median(values):.{digits}f}", "statistic": "median", "n": str(len(values))}
    return Row(**row | {"least": f"{min(values):.{digits}f}", "greatest": f"{max(values):.{digits}f}"})


NUMBERS = (
    "value",
    "spread",
    "least",
    "greatest",
    "n",
    "expected",
    "at_most",
    "error_median_pct",
    "error_worst_pct",
)


def read_series(path, root):
    """Every series of series.toml, by name."""
    with path.open("rb") as file:
        tables = tomllib.load(file)
    series = {}
    for name, table in tables.items():
        try:
            one = Series(name, table["command"], table["machine"], tuple(table["code"]))
        except KeyError as missing:
            raise Invalid(f"{path}: series {name} has no {missing}") from None
        for code in one.code:
            if not (root / code.removeprefix("!")).exists():
                raise Invalid(f"{path}: series {name}: there is no {code}; give its new place")
        series[name] = one
    return series


def check_numbers(row, place):
    """Raises Invalid unless the numbers of the row are numbers."""
    for name in NUMBERS:
        text = getattr(row, name)
        if text and not (NUMBER.fullmatch(text) and math.isfinite(float(text))):
            raise Invalid(f"{place}: {name} {text!r} is not a number")
    if row.n and not re.fullmatch("[1-9][0-9]*", row.n):
        raise Invalid(f"{place}: n {row.n!r} is no number of runs")


def check_range(row, place):
    """Raises Invalid unless the value, if there is one, lies in the range."""
    if row.least and not row.greatest:
        raise Invalid(f"{place}: least without greatest")
    ends = [text for text in (row.least, row.value, row.greatest) if text]
    if sorted(ends, key=float) != ends:
        raise Invalid(f"{place}: least, value and greatest are not in order: {', '.join(ends)}")


def is_date(text):
    """Whether the text is a day in the form YYYY-MM-DD."""
    try:
        return datetime.date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def check(row, place):
    """Raises Invalid unless the row keeps the format."""
    check_numbers(row, place)
    check_range(row, place)
    if not row.value and not (row.least and row.greatest):
        raise Invalid(f"{place}: neither a value nor least and greatest")
    if row.statistic not in STATISTICS:
        raise Invalid(f"{place}: statistic {row.statistic!r} is none of {', '.join(STATISTICS[:-1])}")
    if bool(row.spread) != bool(row.spread_kind):
        raise Invalid(f"{place}: spread and spread_kind go together")
    for name in ("series", "what", "unit", "commit", "date"):
        if not getattr(row, name):
            raise Invalid(f"{place}: {name} is empty")
    # HEAD and branches move: their rows would never be stale.
    if not re.fullmatch("[0-9a-f]{7,40}", row.commit):
        raise Invalid(f"{place}: commit {row.commit!r} is no hash of 7 to 40 digits")
    if not is_date(row.date):
        raise Invalid(f"{place}: date {row.date!r} is not YYYY-MM-DD")


def read_rows(path):
    """The rows of one CSV file."""
    found = []
    with path.open(newline="") as file:
        reader = csv.DictReader(file)
        if reader.fieldnames != COLUMNS:
            raise Invalid(f"{path}: the first line must be {','.join(COLUMNS)}")
        for fields_of_line in reader:
            place = f"{path}, line {reader.line_num}"
            if None in fields_of_line or None in fields_of_line.values():
                raise Invalid(f"{place}: a row has {len(COLUMNS)} fields")
            row = Row(**fields_of_line)
            check(row, place)
            found.append(row)
    return found


@cache
def warn(text):
    """Prints a warning, once."""
    print(f"results: warning: {text}", file=sys.stderr)


def warn_of_uncommitted(rows):
    """Tells which rows name HEAD although their series' code differs from it."""
    judge = staleness.Judge(ROOT)
    try:
        head = judge.git("rev-parse", "HEAD")
        series = read_series(ROOT / "docs/results/data/series.toml", ROOT)
        for name in dict.fromkeys(row.series for row in rows if row.commit and head.startswith(row.commit)):
            if name in series and (changed := judge.changed("HEAD", series[name].code)):
                what = f"the tree has uncommitted changes ({changed[0]})"
                warn(f"{what}: rows of {name} name a commit that was not measured")
    except (OSError, Invalid, tomllib.TOMLDecodeError, staleness.NoGit):
        # Rows that took hours are written all the same.
        pass


def write_rows(path, rows):
    """Writes the rows that were measured as a CSV file."""
    write_file(path, rows)
    warn_of_uncommitted(rows)


def write_file(path, rows):
    """Writes one CSV file."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(astuple(row) for row in rows)


def refuse_second(row, seen, path):
    """Raises Invalid if the row's id is among those seen, to which it is added."""
    if row.id in seen:
        raise Invalid(f"{path}: two rows are {' / '.join(row.id)}")
    seen.add(row.id)


def read_all(data, root):
    """The series by name, and the rows of every CSV file."""
    series = read_series(data / "series.toml", root)
    found, seen = [], set()
    for path in sorted(data.glob("*.csv")):
        for row in read_rows(path):
            if row.series not in series:
                raise Invalid(f"{path}: series {row.series} is not in series.toml")
            refuse_second(row, seen, path)
            found.append(row)
    return series, found


def add(data, source):
    """Takes over the rows of `source`: those of the same id are replaced, others appended. Says what it did.

    Rows go to the file that has their series, else to the file that is named after it.
    """
    homes, contents = {}, {}
    for path in sorted(data.glob("*.csv")):
        contents[path] = read_rows(path)
        for row in contents[path]:
            homes[row.series] = path
    replaced, appended, seen = 0, 0, set()
    added = read_rows(source)
    for row in added:
        refuse_second(row, seen, source)
        home = homes.setdefault(row.series, data / f"{row.series}.csv")
        rows = contents.setdefault(home, [])
        for index, old in enumerate(rows):
            if old.id == row.id:
                rows[index] = row
                replaced += 1
                break
        else:
            rows.append(row)
            appended += 1
    for path, rows in contents.items():
        write_file(path, rows)
    warn_of_uncommitted(added)
    return f"{replaced} rows replaced, {appended} added"
