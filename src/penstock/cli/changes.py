"""Changes of files as unified diffs, for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from penstock.events import Change
from penstock.sinks.sanitize import clean_line
from penstock.sinks.text.changed_words import changed_words
from penstock.sinks.text.edits import Paths, marked_line
from penstock.sinks.text.styles import Palette, Style, painted

_OTHER: dict[str, Style] = {"@": "mark", "\\": "dim"}
_NO_FILE = "/dev/null"


def as_diff(changes: Sequence[Change], paths: Paths, colours: Palette, *, without_lines: str) -> str:
    """Return changes as unified diffs. `without_lines` is the note below a file whose change has no lines."""
    return "".join(f"{line}\n" for line in _lines(changes, paths, colours, without_lines))


def _lines(changes: Sequence[Change], paths: Paths, colours: Palette, without_lines: str) -> Iterator[str]:
    for change in changes:
        path = clean_line(paths.short(change.path))
        old = _NO_FILE if change.kind == "add" else path
        new = _NO_FILE if change.kind == "delete" else clean_line(paths.short(change.to or change.path))
        yield painted(colours, "name", f"--- {old}")
        yield painted(colours, "name", f"+++ {new}")
        if change.diff:
            yield from painted_hunks(change.diff.removesuffix("\n").split("\n"), colours)
        if change.diff is None:
            yield painted(colours, "dim", f"… {without_lines}")
        elif change.truncated:
            yield painted(colours, "dim", "… more lines")


def painted_hunks(lines: Iterable[str], colours: Palette) -> Iterator[str]:
    """Yield the lines of the hunks of a unified diff, sanitized and with colours."""
    lines = [clean_line(line) for line in lines]
    words = changed_words(lines) if colours else {}
    for number, line in enumerate(lines):
        pieces = marked_line(line, words.get(number), other=_OTHER.get(line[:1], "text"))
        yield "".join(painted(colours, style, text) for style, text in pieces)
