"""Markers at the start of a line of Markdown: headings, quotes, lists, rules, blocks of code, rows of tables."""

from __future__ import annotations

import re

MAX_MARKER_CHARS = 16
"""Characters of the longest marker that is held back; a longer one is text."""

# Each alternative ends where its marker is certain. The longest one has 12 spaces and "1. ".
START = re.compile(
    r"(?P<blank>[ \t]*\n)"
    r"|(?P<rule> {0,3}(?:-{3,13}|\*{3,13}|_{3,13})\n)"
    r"|(?P<heading> {0,3}(?P<level>\#{1,6})[ ])"
    r"|(?P<quote> {0,3}>(?:[ ]|(?=\n)))"
    r"|(?P<bullet> {0,12}[-*+][ ])"
    r"|(?P<number> {0,12}\d{1,2}[.)][ ])"
    r"|(?P<fence> {0,10}(?P<fence_mark>`{3,6}(?=[^`])|~{3,6}(?=[^~])))"
    r"|(?P<row> {0,3}\|)"
)
_BEGUN = re.compile(r" {0,12}(?:\#{1,6}|>|[-*+]|-+|\*+|_+|`+|~+|\d{1,2}[.)]?)?\Z")
_ROWS = re.compile(r"(?: {0,3}\|[^\n]*\n)*")
_MAY_BE_ROW = re.compile(r" {0,3}(?:\||\Z)")


def may_begin_marker(text: str, at: int) -> bool:
    """Return whether `text` from `at` on is the beginning of a marker that is not complete yet."""
    return len(text) - at <= MAX_MARKER_CHARS and _BEGUN.match(text, at) is not None


class Fence:
    """Marks that opened a block of code, and what closes it."""

    def __init__(self, mark: str) -> None:
        char = re.escape(mark[0])
        self.mark: str = mark
        self._end = re.compile(rf" {{0,10}}{char}{{{len(mark)},6}} *\n")
        self._begun = re.compile(rf" {{0,10}}{char}{{0,6}} *\Z")

    def end(self, text: str, at: int) -> int:
        """Return the length of the line at `at`, with its line break, if it closes the block; otherwise 0."""
        found = self._end.match(text, at)
        return found.end() - at if found is not None and found.end() - at <= MAX_MARKER_CHARS + 1 else 0

    def may_end(self, text: str, at: int) -> bool:
        """Return whether the text at `at` is the beginning of a line that may close the block."""
        return len(text) - at <= MAX_MARKER_CHARS and self._begun.match(text, at) is not None


def rows(text: str, at: int) -> tuple[int, bool]:
    """Return the length of the complete rows of a table at `at`, and whether another row may follow."""
    end = _ROWS.match(text, at).end()  # type: ignore[union-attr]  # it matches no rows too
    return end - at, _MAY_BE_ROW.match(text, end) is not None
