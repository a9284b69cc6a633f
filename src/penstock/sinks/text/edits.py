"""Edits for people: the counts of a change, and its diff with line numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from penstock.events import Change, ChangeKind
from penstock.sinks.sanitize import clean_line
from penstock.sinks.text.styles import Piece, Style, shortened

if TYPE_CHECKING:
    from penstock.sinks.text.changed_words import Part

MAX_SHORT_DIFF_LINES = 12
"""Maximum lines of a diff below `verbose`: enough for most edits, and short compared with the text around them."""
MAX_ASKED_DIFF_LINES = 60
"""Maximum lines of a diff in a question: the user needs them to decide, but the options should stay on the same
screen."""
MAX_DIFF_LINE_CHARS = 400
"""Maximum characters of one line of a diff: minified files have lines of a megabyte."""

DONE: dict[ChangeKind, str] = {"add": "added", "update": "updated", "delete": "deleted", "move": "moved"}
_NOTES: dict[ChangeKind, str] = {"add": " (new)", "delete": " (deleted)"}
_HEADER = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_STYLES: dict[str, tuple[Style, Style]] = {"+": ("added", "added word"), "-": ("removed", "removed word")}
"""Styles of a line and of its changed words, by its sign."""


class Paths:
    """Paths as they are shown: relative to the working directory of the run."""

    def __init__(self, cwd: str | None = None) -> None:
        self.given = cwd
        self._heads: list[str] = []
        self.reset()

    def reset(self) -> None:
        """Forget the directories that a run reported."""
        self._heads = []
        self.add(self.given)

    def add(self, cwd: str | None) -> None:
        """Add a name of the working directory."""
        if cwd is not None and (head := cwd.rstrip("/")).startswith("/") and f"{head}/" not in self._heads:
            self._heads.append(f"{head}/")

    def short(self, path: str) -> str:
        """Return a path relative to the working directory, or unchanged if it is outside."""
        for head in self._heads:
            if path.startswith(head) and len(path) > len(head):
                return path[len(head) :]
        return path

    def may_shorten(self, start: str) -> bool:
        """Return whether a path that begins like this may still turn out to be in the working directory."""
        return any(head.startswith(start) for head in self._heads)


def counts(changes: Iterable[Change]) -> list[Piece]:
    """Return the total numbers of added and removed lines, each after a space, as far as they are known."""
    changes = list(changes)
    added, removed = (sum(getattr(change, side) or 0 for change in changes) for side in ("added", "removed"))
    pieces: list[Piece] = [("added", f" +{added:,}")] if added else []
    return [*pieces, ("removed", f" −{removed:,}")] if removed else pieces


def summary(change: Change, paths: Paths) -> list[Piece]:
    """Return the path of a change, its counts, and whether the file is new, moved or deleted."""
    pieces: list[Piece] = [("name", clean_line(paths.short(change.path)))]
    if change.to is not None:
        pieces.append(("name", f" → {clean_line(paths.short(change.to))}"))
    pieces += counts([change])
    return [*pieces, ("dim", _NOTES[change.kind])] if change.kind in _NOTES else pieces


def note(changes: Sequence[Change]) -> list[Piece]:
    """Return words for whether the only file is new or deleted."""
    return [("dim", _NOTES[changes[0].kind])] if len(changes) == 1 and changes[0].kind in _NOTES else []


def diffs(changes: Sequence[Change], paths: Paths, limit: int | None, *, named: bool = False) -> list[Piece]:
    """Return the diffs as lines that hang under another, at most `limit` in total; None for all.

    Each has the name of its file above it if there are several, or if `named`.
    """
    rows: list[list[Piece]] = []
    for change in changes:
        if named or len(changes) > 1:
            rows.append(summary(change, paths))
        rows += _rows(change)
    left_out = len(rows) - limit if limit is not None and len(rows) > limit + 1 else 0
    pieces: list[Piece] = []
    for row in rows[: len(rows) - left_out]:
        (style, text), *rest = row
        pieces += [(style, f"\n{text}"), *rest]
    if left_out or any(change.truncated for change in changes):
        more = "more than " * any(change.truncated for change in changes)
        pieces.append(("dim", f"\n… {more}{left_out:,} more lines" if left_out else "\n… more lines"))
    return pieces


def changed_lines(changes: Iterable[Change]) -> list[str]:
    """Return the lines that are added and removed, by which two diffs are compared."""
    return [line for change in changes for line in (change.diff or "").split("\n") if line[:1] in _STYLES]


def _rows(change: Change) -> Iterator[list[Piece]]:
    from penstock.sinks.text.changed_words import changed_words  # slow to import, and only a diff needs it

    lines = (change.diff or "").removesuffix("\n").split("\n") if change.diff else []
    numbers = [int(number or 1) for line in lines if (found := _HEADER.match(line)) for number in found.groups()]
    last = max((start + count for start, count in zip(numbers[::2], numbers[1::2], strict=True)), default=0)
    gutter = len(str(last)) if numbers else 0
    old = new = 0
    lines = [shortened(clean_line(line.removesuffix("\r")), MAX_DIFF_LINE_CHARS + 1) for line in lines]
    words = changed_words(lines)
    for index, line in enumerate(lines):
        if line.startswith("@@"):
            if found := _HEADER.match(line):
                old, new = int(found[1]), int(found[3])
            if index:
                yield [("dim", "⋮".rjust(gutter or 1))]
            continue
        sign = line[:1]
        number = "" if sign == "\\" or not gutter else str(old if sign == "-" else new)
        old += sign in ("-", " ")
        new += sign in ("+", " ")
        yield marked_line(line, words.get(index), f"{number.rjust(gutter)} " if gutter else "")


def marked_line(line: str, words: Sequence[Part] | None, number: str = "", other: Style = "dim") -> list[Piece]:
    """Return a line of a diff behind its number, with its changed words marked; `other` is the style of context."""
    usual, marked = _STYLES.get(line[:1], (other, other))
    if words is None:
        return [(usual, number + line)]
    return [(usual, number + line[:1]), *((marked if changed else usual, text) for changed, text in words)]
