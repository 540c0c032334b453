# SPDX-License-Identifier: GPL-2.0-only
"""Which rows a mark in a page asks for: SERIES[,SERIES] [what=A|B] [case=A|B] [variant=A|B] [without=A|B].

without leaves out rows by what, or by CASE/WHAT.
"""

import shlex
from dataclasses import dataclass

from measurements.rows import Invalid

COMPARED = ("case", "what", "variant")


def leaves_out(value, row):
    """Whether a value of `without` names the row."""
    return value in (row.what, f"{row.case}/{row.what}")


@dataclass
class Selection:
    """Series, and the values that fields must have."""

    series: list
    filters: dict

    @classmethod
    def parse(cls, names, options):
        """names: the series, joined by commas. options: FIELD=VALUES; takes out those that choose rows."""
        # Values may stand on several lines.
        chosen = [key for key in (*COMPARED, "without") if key in options]
        filters = {key: [value.strip() for value in options.pop(key).split("|")] for key in chosen}
        return cls(names.split(","), filters)

    def wants(self, row):
        """Whether the row is one of them."""
        return self.has_values(row) and not any(leaves_out(value, row) for value in self.filters.get("without", ()))

    def has_values(self, row):
        """Whether the row is one of them if none is left out."""
        filters = [(key, self.filters[key]) for key in COMPARED if key in self.filters]
        return row.series in self.series and all(getattr(row, key) in values for key, values in filters)

    def rows(self, series, found, place):
        """The rows, at least one. place: the page and the mark, for errors."""
        if unknown := [name for name in self.series if name not in series]:
            raise Invalid(f"{place}: series {', '.join(unknown)} is not in series.toml")
        if not (chosen := [row for row in found if self.wants(row)]):
            raise Invalid(f"{place}: no row matches")
        self.refuse_idle(chosen, [row for row in found if self.has_values(row)], place)
        return chosen

    def refuse_idle(self, chosen, complete, place):
        """Raises Invalid if a series or a value has no row. complete: the rows from which `without` leaves out some."""
        for name in self.series:
            if all(row.series != name for row in chosen):
                raise Invalid(f"{place}: no row matches series {name}")
        for key in COMPARED:
            for value in self.filters.get(key, ()):
                if all(getattr(row, key) != value for row in chosen):
                    raise Invalid(f"{place}: no row matches {key}={value}")
        for value in self.filters.get("without", ()):
            if not any(leaves_out(value, row) for row in complete):
                raise Invalid(f"{place}: without={value} leaves out no row")

    def side_by_side(self, rows):
        """Rows that differ in a field with several wanted values follow each other, in the order of those values."""
        several = [key for key in COMPARED if len(self.filters.get(key, ())) > 1]
        rest = [tuple(getattr(row, key) for key in COMPARED if key not in several) for row in rows]
        first = {key: index for index, key in reversed(list(enumerate(rest)))}
        order = {
            row.id: (first[key], [self.filters[name].index(getattr(row, name)) for name in several])
            for row, key in zip(rows, rest, strict=True)
        }
        return sorted(rows, key=lambda row: order[row.id])


def words_of(text, place):
    """The words of a mark or a definition; quotes keep blanks."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise Invalid(f"{place}: {error}") from None


def options_of(words, allowed, place):
    """FIELD=VALUE words as a dictionary."""
    options = {}
    for word in words:
        key, _, value = word.partition("=")
        if key not in allowed:
            raise Invalid(f"{place}: {key!r} is none of {', '.join(allowed)}")
        options[key] = value
    return options
