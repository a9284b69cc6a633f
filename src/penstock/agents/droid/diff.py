"""Diffs in the results of droid's editing tools: lines with their numbers and some context (droid 0.225.2)."""

from __future__ import annotations

from typing import Any

from penstock.agents._json import as_dict, as_int, as_list
from penstock.core import diffs
from penstock.core.diffs import Hunk
from penstock.events import Change

_SIGNS = {"unchanged": " ", "removed": "-", "added": "+"}


def change_of(result: Any) -> Change | None:
    """Return the change that the result of an edit shows; None if it shows none."""
    fields = as_dict(result)
    path, lines = fields.get("file_path"), as_list(fields.get("diffLines"))
    found = _hunks(lines)
    return diffs.from_hunks(path, found) if isinstance(path, str) and path and found else None


def _hunks(lines: list[Any]) -> list[Hunk] | None:
    """Return the hunks of lines; None if one is of another form. Where the numbers jump, another hunk begins."""
    found: list[Hunk] = []
    old = new = 0  # the numbers of the next line
    for line in lines:
        fields, numbers = as_dict(line), as_dict(as_dict(line).get("lineNumber"))
        sign, text = _SIGNS.get(str(fields.get("type"))), fields.get("content")
        at_old, at_new = as_int(numbers.get("old")), as_int(numbers.get("new"))
        if (
            sign is None
            or not isinstance(text, str)
            or (at_old is None) != (sign == "+")
            or (at_new is None) != (sign == "-")
        ):
            return None
        if not found or at_old not in (None, old) or at_new not in (None, new):
            shift = new - old
            old = at_old if at_old is not None else (at_new or 0) - shift
            new = at_new if at_new is not None else (at_old or 0) + shift
            found.append(Hunk(old, 0, new, 0, []))
        hunk = found[-1]
        found[-1] = Hunk(
            hunk.old_start, hunk.old_lines + (sign != "+"), hunk.new_start, hunk.new_lines + (sign != "-"), hunk.lines
        )
        hunk.lines.append(sign + text)
        old, new = old + (sign != "+"), new + (sign != "-")
    return found or None
