# SPDX-License-Identifier: GPL-2.0-only
"""The marks of pages between which tools write: a comment that begins a part, and one that ends it."""

import re

from measurements.rows import Invalid

CODE = re.compile(r"`[^`\n]*`")


def refuse_unpaired(text, page, begin, end):
    """Raises Invalid unless each mark that begins with `begin` is a comment that ends its line and has its own `end`.

    Marks in code spans are text.
    """
    plain = CODE.sub(lambda match: " " * len(match[0]), text)
    opened = None
    for mark in re.finditer(rf"{re.escape(begin)}(?P<rest>(?:(?!-->).)* -->\n)?|{re.escape(end)}", plain, re.DOTALL):
        place = f"{page}, line {plain.count(chr(10), 0, mark.start()) + 1}"
        if mark[0] == end:
            if not opened:
                raise Invalid(f"{place}: {end} ends no part")
            opened = None
            continue
        if opened:
            break
        if not mark["rest"]:
            raise Invalid(f"{place}: the mark {begin.strip()} does not end its line with ' -->'")
        opened = place
    if opened:
        raise Invalid(f"{opened}: the part that begins here does not end with {end}")
