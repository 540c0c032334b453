# SPDX-License-Identifier: GPL-2.0-only
"""Tables of the pages, from rows.

A page holds marks, between which a table is written:

    <!-- results: grid SERIES [field=value] [what=A|B] [case=A|B] [variant=A|B] [without=A|B] -->
    <!-- results: list SERIES [...] -->
    <!-- end of results -->

grid: a column for each variant. list: a line for each row, with its spread, n and commit. `field` is the number
that a grid shows. SERIES may be several, joined by commas. figures.py fills the figures of sentences.
"""

import re
from dataclasses import dataclass

from measurements import figures
from measurements.marks import refuse_unpaired
from measurements.rows import Invalid
from measurements.selection import COMPARED, Selection, options_of, words_of

BEGIN, END = "<!-- results: ", "<!-- end of results -->"
BLOCK = re.compile(f"({BEGIN}(.*?) -->\n).*?({END})", re.DOTALL)
NOT_RECORDED = "not recorded"


@dataclass
class Order:
    """What one mark asks for."""

    form: str
    selection: Selection
    field: str

    @classmethod
    def parse(cls, text, place):
        """Reads the words of a mark."""
        form, names, *words = [*words_of(text, place), "", ""]
        options = options_of(filter(None, words), (*COMPARED, "without", "field"), place)
        if form not in ("grid", "list"):
            raise Invalid(f"{place}: {form!r} is neither grid nor list")
        return cls(form, Selection.parse(names, options), options.get("field", "value"))


def table(header, lines, numbers):
    """A Markdown table; columns in which no line has anything are left out."""
    used = [i for i in range(len(header)) if i == 0 or any(line[i] for line in lines)]
    rule = ["---:" if header[i] in numbers else "---" for i in used]
    rows = [[header[i] for i in used], rule, *([line[i] for i in used] for line in lines)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in rows)


def in_order(items):
    """Without repetitions, in the order of the first ones."""
    return list(dict.fromkeys(items))


def cell(row, field):
    """What a grid shows of a row; a range where no single value was recorded."""
    text = getattr(row, field)
    if not text and field == "value":
        return f"{row.least} to {row.greatest}"
    return text


def cells_of(rows, field, place):
    """What a grid shows, by case, what, unit and variant."""
    cells = {}
    for row in rows:
        key = (row.case, row.what, row.unit, row.variant)
        if key in cells:
            raise Invalid(f"{place}: two rows for the cell {' / '.join(key)}")
        cells[key] = cell(row, field)
    return cells


def grid(order, rows, place):
    """A column for each variant."""
    variants = in_order(row.variant for row in rows)
    cells = cells_of(rows, order.field, place)
    keys = in_order((row.case, row.what, row.unit) for row in rows)
    goals = {}
    for row in rows:
        goals.setdefault((row.case, row.what, row.unit), (row.expected, row.at_most))
    same_goal = all((row.expected, row.at_most) == goals[row.case, row.what, row.unit] for row in rows)
    header = ["case", "what", "unit", "expected", "at most", *(variant or "measured" for variant in variants)]
    lines = []
    for key in keys:
        goal = goals[key] if same_goal and order.field == "value" else ("", "")
        unit = "%" if order.field.endswith("_pct") else key[2]
        lines.append([*key[:2], unit, *goal, *(cells.get((*key, variant), "") for variant in variants)])
    if not any(key[0] for key in keys):
        header, lines = header[1:], [line[1:] for line in lines]
    return table(header, lines, {"expected", "at most", *header[-len(variants) :]})


def listing(rows):
    """A line for each row."""
    header = ["case", "what", "variant", "unit", "value", "statistic", "spread", "least", "greatest"]
    header += ["n", "expected", "at most"]
    lines = []
    for row in rows:
        ranged = row.least and not row.value
        statistic = "range" if ranged else row.statistic or NOT_RECORDED
        numbers = [row.value, statistic, row.spread, row.least, row.greatest, row.n or NOT_RECORDED]
        lines.append([row.case, row.what, row.variant, row.unit, *numbers, row.expected, row.at_most])
    if not any(row.case for row in rows):
        header, lines = header[1:], [line[1:] for line in lines]
    return table(header, lines, {"value", "spread", "least", "greatest", "n", "expected", "at most"})


def spread_of(rows):
    """The spread of rows that have the same kind of it, in words."""
    if not rows[0].spread_kind:
        return f"spread {NOT_RECORDED}"
    largest = max(rows, key=lambda row: float(row.spread)).spread
    return f"{rows[0].spread_kind} {largest} at most"


def grouped(rows, key):
    """Lists of rows of the same key, in the order of the first ones."""
    groups = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups.values()


def ways(rows):
    """How the numbers of a grid came about: a line for each way."""
    text = ""
    for members in grouped(rows, lambda row: (row.statistic, row.n, row.spread_kind, bool(row.value))):
        first = members[0]
        statistic = (first.statistic or f"statistic {NOT_RECORDED}") if first.value else "range"
        if (first.n, first.statistic) == ("1", "single"):
            text += "- one run"
        else:
            text += f"- {statistic}, n {first.n or NOT_RECORDED}"
            text += f", {spread_of(members)}" if first.value and first.statistic != "count" else ""
        text += f" ({len(members)} of {len(rows)} rows)\n" if len(members) < len(rows) else "\n"
    return text


def origin(rows, series, stale):
    """When, how and where the rows were measured."""
    text = ""
    for members in grouped(rows, lambda row: (row.commit, row.date, row.id in stale)):
        first = members[0]
        text += f"- commit `{first.commit}`, {first.date}"
        text += f" ({len(members)} of {len(rows)} rows)" if len(members) < len(rows) else ""
        text += ", **stale**\n" if first.id in stale else "\n"
    used = in_order(row.series for row in rows)
    for machine in in_order(series[name].machine for name in used):
        text += f"- {machine}\n"
    for command in in_order(series[name].command for name in used):
        text += f"- again: `{command}`\n"
    return text


def render(text, page, series, rows, judge):
    """The page with its tables and figures written anew."""

    def one(match):
        place = f"{page}: mark {match[2]!r}"
        order = Order.parse(match[2], place)
        chosen = order.selection.rows(series, rows, place)
        stale = {row.id for row in chosen if judge.changed(row.commit, series[row.series].code)}
        if order.form == "grid":
            body = grid(order, chosen, place) + "\n"
            body += ways(chosen) if order.field == "value" else "- over all runs and copies\n"
        else:
            body = listing(chosen) + "\n"
        return f"{match[1]}\n{body}{origin(chosen, series, stale)}\n{match[3]}"

    refuse_unpaired(text, page, BEGIN, END)
    return figures.render(BLOCK.sub(one, text), page, series, rows)
