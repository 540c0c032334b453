# SPDX-License-Identifier: GPL-2.0-only
"""Single figures in the sentences of a page, from rows.

A sentence marks a figure's place, and a comment of the page defines it:

    A round trip is <!--trip-->27<!--/--> % shorter.

    <!-- figures
    trip: one less bench what="sched pipe, one round trip" variant=scx_drfq|EEVDF
    -->

NAME: FORM [COMPARISON] SERIES [field=FIELD|FIELD] [what=A|B] ... [scale=X] [digits=N]

The numbers are the named fields of the chosen rows; `field` is `value` without it, or both ends of a range. A
comparison makes one number of each two: rows that differ in a field with several values, or two fields of a row. An
indented line continues the one above.
"""

import math
import re
from dataclasses import dataclass

from measurements.marks import CODE
from measurements.rows import NUMBERS, Invalid
from measurements.selection import COMPARED, Selection, options_of, words_of

BLOCK = re.compile(r"^<!-- figures\n(.*?)\n-->", re.DOTALL | re.MULTILINE)
PLACE = re.compile(r"<!--([a-z][a-z0-9-]*)-->(?:([^<]*)<!--/-->)?")
FIRST = re.compile(r"^[ \t]*<!--([a-z][a-z0-9-]*)-->", re.MULTILINE)
END = "<!--/-->"
COMPARISONS = {
    "ratio": lambda a, b: a / b,
    "difference": lambda a, b: a - b,
    "more": lambda a, b: 100 * (a / b - 1),
    "less": lambda a, b: 100 * (1 - a / b),
}
# Sentences say "more" or "less": the opposite sign would make them false.
SIGNED = ("more", "less", "difference")


def one(numbers, digits, place):
    """The only number."""
    if len(numbers) != 1:
        raise Invalid(f"{place}: {len(numbers)} numbers, where form one needs a single number")
    return f"{numbers[0]:.{digits}f}"


def span(numbers, digits, _place):
    """From the least to the greatest."""
    return f"{min(numbers):.{digits}f} to {max(numbers):.{digits}f}"


def within(numbers, digits, _place):
    """The largest absolute value, rounded up: "within" stays true."""
    unit = 10**digits
    # What is a multiple already must not grow by an error of binary fractions.
    return f"{math.ceil(round(max(map(abs, numbers)) * unit, 6)) / unit:.{digits}f}"


FORMS = {"one": one, "range": span, "within": within}


def numbers_of(row, fields, place):
    """The fields as numbers; a range has two where a value is asked for."""
    if fields == ["value"] and not row.value:
        fields = ["least", "greatest"]
    if missing := [name for name in fields if not getattr(row, name)]:
        raise Invalid(f"{place}: row {' / '.join(row.id)} has no {missing[0]}")
    numbers = [float(getattr(row, name)) for name in fields]
    for name, number in zip(fields, numbers, strict=True):
        if not math.isfinite(number):
            raise Invalid(f"{place}: row {' / '.join(row.id)}: {name} {number} is not finite")
    return numbers


@dataclass
class Figure:
    """A definition."""

    form: str
    comparison: str
    selection: Selection
    fields: list
    scale: float
    digits: int

    @classmethod
    def parse(cls, text, place):
        """Reads what follows the name."""
        form, *words = words_of(text, place)
        if form not in FORMS:
            raise Invalid(f"{place}: {form!r} is none of {', '.join(FORMS)}")
        comparison = words.pop(0) if words and words[0] in COMPARISONS else ""
        if not words:
            raise Invalid(f"{place}: no series")
        options = options_of(words[1:], (*COMPARED, "without", "field", "scale", "digits"), place)
        selection = Selection.parse(words[0], options)
        fields = options.get("field", "value").split("|")
        if wrong := [name for name in fields if name not in NUMBERS]:
            raise Invalid(f"{place}: field {wrong[0]!r} is none of {', '.join(NUMBERS)}")
        try:
            scale, digits = float(options.get("scale", 1)), int(options.get("digits", 0))
        except ValueError as error:
            raise Invalid(f"{place}: {error}") from None
        if digits < 0:
            raise Invalid(f"{place}: digits {digits} is negative")
        return cls(form, comparison, selection, fields, scale, digits)

    def text(self, series, found, place):
        """The figure as the sentence shows it."""
        rows = self.selection.side_by_side(self.selection.rows(series, found, place))
        numbers = [number for row in rows for number in numbers_of(row, self.fields, place)]
        if self.comparison:
            numbers = self.compared(numbers, place)
        numbers = [number * self.scale for number in numbers]
        if not all(map(math.isfinite, numbers)):
            raise Invalid(f"{place}: a number is not finite when it is compared and scaled")
        return FORMS[self.form](numbers, self.digits, place)

    def compared(self, numbers, place):
        """One number of each two."""
        if len(numbers) % 2:
            raise Invalid(f"{place}: {len(numbers)} numbers cannot be compared two by two")
        compare = COMPARISONS[self.comparison]
        try:
            compared = [compare(a, b) for a, b in zip(numbers[::2], numbers[1::2], strict=True)]
        except ZeroDivisionError:
            raise Invalid(f"{place}: {self.comparison} than 0 is not defined") from None
        if self.form != "within" and self.comparison in SIGNED and min(compared) < 0:
            raise Invalid(f"{place}: {min(compared):g} is negative: the sentence is no longer true")
        return compared


def definitions(text, page):
    """Every figure that the page defines, by name."""
    figures = {}
    for block in BLOCK.finditer(text):
        for line in re.sub(r"\n\s+", " ", block[1]).split("\n"):
            name, colon, rest = line.partition(":")
            if not colon or not rest.strip() or name in figures:
                raise Invalid(f"{page}: figure {line!r}: no definition NAME: FORM SERIES, or a second one")
            figures[name] = Figure.parse(rest, f"{page}: figure {name}")
    return figures


def render(text, page, series, found):
    """The page with its figures written anew."""
    figures = definitions(text, page)
    used = set()

    def figure(match):
        name, written = match[1], match[2]
        if name not in figures:
            raise Invalid(f"{page}: figure {name} is not defined")
        if written is None:
            raise Invalid(f"{page}: figure {name}: its mark does not end with {END}")
        used.add(name)
        return f"<!--{name}-->{figures[name].text(series, found, f'{page}: figure {name}')}{END}"

    new = PLACE.sub(figure, text)
    if unused := figures.keys() - used:
        raise Invalid(f"{page}: no sentence has figure {', '.join(sorted(unused))}")
    if CODE.sub("", new).count(END) != len(PLACE.findall(new)):
        raise Invalid(f"{page}: a mark {END} ends no figure")
    if begins := FIRST.search(new):
        raise Invalid(
            f"{page}: figure {begins[1]} begins a line, which Markdown then takes for HTML; move a word there"
        )
    return new
