"""Diffs of pi's tool `edit`: lines with their numbers, and `...` between two hunks.

    - 3 old line
    + 3 new line
      4 line of the context
        ...

A removed line and one of the context have their number in the file before, an added one that in the file after. Whether
the last line of the file has an end is not shown.
"""

from __future__ import annotations

import re

from penstock.core.diffs import Hunk

_LINE = re.compile(r"([ +-]) *(\d{1,9}) (.*)")
_SKIPPED = re.compile(r" +\.\.\.")


def hunks(diff: str) -> list[Hunk] | None:
    """Return the hunks of a diff; None if it has another form."""
    found: list[Hunk] = []
    begun = False
    shift = 0  # lines that the hunks so far have added, without those that they have removed
    for line in diff.split("\n"):
        parts = _LINE.fullmatch(line)
        if parts is None:
            if not _SKIPPED.fullmatch(line):
                return None
            begun = False
            continue
        sign, number = parts[1], int(parts[2])
        if not begun:
            old = number - shift if sign == "+" else number
            found.append(Hunk(old, 0, old + shift, 0, []))
            begun = True
        hunk = found[-1]
        found[-1] = Hunk(
            hunk.old_start,
            hunk.old_lines + (sign != "+"),
            hunk.new_start,
            hunk.new_lines + (sign != "-"),
            hunk.lines,
        )
        hunk.lines.append(sign + parts[3])
        shift += (sign == "+") - (sign == "-")
    return found or None
