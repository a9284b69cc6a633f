"""Saves of the user that another save replaced: their lines are put into the newer text. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from penstock.doc.lines import compare, split_lines


def merge_saves(base: str, older: str, newer: str) -> str:
    """Return `newer` with the missing lines of `older`, those not in `base`, at their places.

    A line that `older` changed counts as added, and what it removed is not removed: no line of a save is lost, though
    one may be there in two versions.
    """
    lines, lines_of_newer = split_lines(older), split_lines(newer)
    lacking = Counter(line.strip() for line in lines) - Counter(line.strip() for line in lines_of_newer)
    del lacking[""]
    if not lacking:
        return newer
    added = _changed(split_lines(base), lines)
    result: list[str] = []
    for change in compare(lines, lines_of_newer):
        if not change.equal:
            for index in range(change.a_start, change.a_end):
                key = lines[index].strip()
                if index in added and lacking[key] > 0:
                    lacking[key] -= 1
                    _append_line(result, lines[index])
        result += lines_of_newer[change.b_start : change.b_end]
    return "".join(result)


def _changed(base: Sequence[str], lines: Sequence[str]) -> set[int]:
    """Return the indexes of the lines missing from the base."""
    changes = compare(base, lines)
    return {index for change in changes if not change.equal for index in range(change.b_start, change.b_end)}


def _append_line(result: list[str], line: str) -> None:
    if result and not result[-1].endswith("\n"):
        result[-1] += "\n"
    result.append(line if line.endswith("\n") else line + "\n")
