"""Unified diffs with line numbers, applied to a text and taken back from it. Pure.

Nothing is searched for: a hunk fits at its own lines, with exactly its text, or not at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

_HEADER = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_NO_NEWLINE = "\\"


class PatchMismatch(ValueError):
    """A diff does not fit a text, or is not a diff with line numbers."""


class _Hunk(msgspec.Struct):
    old: list[str]
    new: list[str]
    start: int
    """Index of the first line of `new` in the text after it."""


def is_positioned(diff: str) -> bool:
    """Return whether all hunks of a diff have line numbers."""
    return all(_HEADER.match(line) for line in diff.split("\n") if line.startswith("@@"))


def applied(diff: str, before: str) -> str:
    """Return the text after the hunks of a diff, each made in the text that the hunk before it leaves.

    Raises:
        PatchMismatch: a hunk does not fit.
    """
    return _replaced(before, ((hunk.start, hunk.old, hunk.new) for hunk in _hunks(diff)))


def taken_back(diff: str, after: str) -> str:
    """Return the text before the hunks of a diff, the last of which left the text `after`.

    Raises:
        PatchMismatch: a hunk does not fit.
    """
    return _replaced(after, ((hunk.start, hunk.new, hunk.old) for hunk in reversed(_hunks(diff))))


def _replaced(text: str, steps: Iterable[tuple[int, Sequence[str], Sequence[str]]]) -> str:
    lines = _lines(text)
    for start, old, new in steps:
        end = start + len(old)
        if start < 0 or lines[start:end] != old or start > len(lines):
            raise PatchMismatch("a hunk has other lines than the text")
        lines[start:end] = new
        if any(not line.endswith("\n") for line in (*new[:-1], *lines[max(0, start - 1) : start])):
            raise PatchMismatch("a line without an end is not the last one")
        if new and not new[-1].endswith("\n") and start + len(new) != len(lines):
            raise PatchMismatch("a line without an end is not the last one")
    return "".join(lines)


def _lines(text: str) -> list[str]:
    """Split at line feeds alone; each line keeps its own."""
    lines = [f"{line}\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def _hunks(diff: str) -> list[_Hunk]:
    """Return the hunks of a diff, in their order.

    Raises:
        PatchMismatch: it is not such a diff.
    """
    return list(_read(diff.removesuffix("\n").split("\n"))) if diff else []


def _read(lines: Sequence[str]) -> Iterator[_Hunk]:
    place = 0
    while place < len(lines):
        found = _HEADER.match(lines[place])
        if found is None:
            raise PatchMismatch("a hunk has no line numbers")
        old_count, start, new_count = (1 if part is None else int(part) for part in found.groups()[1:])
        hunk = _Hunk([], [], start - 1 if new_count else start)
        place += 1
        while place < len(lines) and not lines[place].startswith("@@"):
            _add(hunk, lines[place], lines[place - 1])
            place += 1
        if (len(hunk.old), len(hunk.new)) != (old_count, new_count):
            raise PatchMismatch("a hunk has more or fewer lines than it says")
        yield hunk


def _add(hunk: _Hunk, line: str, before: str) -> None:
    sign, text = line[:1], line[1:] + "\n"
    if sign == _NO_NEWLINE:
        for marks, side in (("-", hunk.old), ("+", hunk.new)):
            if before[:1] in (" ", marks) and side:
                side[-1] = side[-1].removesuffix("\n")
    elif sign not in (" ", "-", "+"):
        raise PatchMismatch("a line of a hunk has no sign")
    else:
        if sign != "+":
            hunk.old.append(text)
        if sign != "-":
            hunk.new.append(text)
