"""First line of a run, which grows with the facts that the agent reports until something else is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.sinks.text.line_writer import LineWriter
from penstock.sinks.text.styles import Piece


class FirstLine:
    """The line.

    Args:
        live: write it as it grows; otherwise once it has ended.
    """

    def __init__(self, *, live: bool) -> None:
        self._live = live
        self._line: LineWriter | None = None
        self._pieces: list[Piece] = []  # not written yet

    def add(self, pieces: Sequence[Piece], begin: Callable[[], LineWriter]) -> None:
        """Add facts; `begin` makes the line if there is none."""
        if self._line is None:
            self._line = begin()
        else:
            style, text = pieces[0]
            pieces = [(style, f" {text}"), *pieces[1:]]
        self._pieces += pieces
        if self._live:
            self._write(self._line)

    def end(self) -> bool:
        """End the line if it has begun; return whether it had. It must end before anything else is written."""
        line, self._line = self._line, None
        if line is None:
            return False
        self._write(line)
        line.end()
        return True

    def _write(self, line: LineWriter) -> None:
        line.put_all(self._pieces)
        self._pieces.clear()
