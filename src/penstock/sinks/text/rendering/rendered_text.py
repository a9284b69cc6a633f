"""Text whose Markdown is rendered: from sanitized text to a line of the terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from penstock.sinks.text.line_writer import Holds, LineWriter
from penstock.sinks.text.rendering.held_words import HeldWords
from penstock.sinks.text.rendering.scanner import WHOLE_SECONDS, MarkdownScanner
from penstock.sinks.text.styles import Piece


class Rendering(msgspec.Struct, frozen=True):
    """Choice of how Markdown is rendered: `auto` holds back markers only; `has_links`: the terminal has hyperlinks."""

    kind: Literal["auto", "on"]
    has_links: bool = False

    def begin(self) -> RenderedText:
        """Return the state of a new text."""
        return RenderedText(self)

    def pieces(self, pieces: Iterable[Piece], width: int | None) -> list[Piece]:
        """Return the pieces of a complete text, rendered for rows of `width` columns."""
        scanner = MarkdownScanner(is_whole=self.kind == "on", has_links=self.has_links)
        found: list[Piece] = []
        for style, text in pieces:
            found += scanner.feed(text, width) + scanner.end() if style == "text" else [(style, text)]
        return found


class RenderedText:
    """One streaming text. It implements `Markdown`."""

    def __init__(self, rendering: Rendering) -> None:
        is_whole = rendering.kind == "on"
        self._scanner = MarkdownScanner(is_whole=is_whole, has_links=rendering.has_links)
        self._words = HeldWords() if is_whole else None

    @property
    def holds(self) -> Holds:
        """Held text: a marker or a part of a text has an even number, and a word an odd one."""
        found: Holds = {}
        if (held := self._scanner.held) is not None:
            found[2 * held[0]] = held[1]
        if self._words is not None and self._words.is_holding:
            found[2 * self._words.number + 1] = WHOLE_SECONDS
        return found

    def write(self, text: str, line: LineWriter) -> None:
        """Write text, but for what is held back."""
        self._put(self._scanner.feed(text, line.row()), line)

    def release(self, line: LineWriter) -> None:
        """Write all held text as it came."""
        self._put(self._scanner.release(), line)
        if self._words is not None:
            self._words.release(line)

    def end(self, line: LineWriter) -> None:
        """Write all held text as the end of a line."""
        self._put(self._scanner.end(), line)
        if self._words is not None:
            self._words.end(line)

    def _put(self, pieces: list[Piece], line: LineWriter) -> None:
        if self._words is not None:
            self._words.put(pieces, line)
        else:
            line.put_all(pieces)
