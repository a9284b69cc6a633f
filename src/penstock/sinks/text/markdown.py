"""Markdown shown only by colours: bold text, code and headings of a streaming text.

No character is held back, dropped or changed; each piece only gets a style. A mark is plain until its meaning is known.
A style ends with its line at the latest, so a mark that is never closed colours only one line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from penstock.sinks.text.line_writer import Holds, LineWriter
from penstock.sinks.text.styles import Piece, Style

MAX_LINE_START = 80
"""Characters at the start of a line that are kept to recognize a heading or a fence."""

_TOKENS = re.compile(r"\n|`+|\*+|_+|[^\n`*_]+")
_MARKS = re.compile(r"[\n`*_]")
_HEADING = re.compile(r" {0,3}#{1,6} ")
_FENCE = re.compile(r"\s*(`{3,}|~{3,})([^`]*)\Z")


def styled(pieces: Iterable[Piece]) -> list[Piece]:
    """Return the pieces of a complete text with the styles of its Markdown."""
    markdown = MarkdownStyles()
    return [part for style, text in pieces for part in (markdown.feed(text) if style == "text" else [(style, text)])]


class MarkdownStyles:
    """Styles of one text that is fed piece by piece."""

    __slots__ = ("_bold", "_code", "_fence", "_heading", "_last", "_line", "_run")

    def __init__(self) -> None:
        self._fence = ""  # marks that opened a block of code
        self._line = ""  # beginning of the current line
        self._run = ""  # marks at the end of the text, whose meaning the next character decides
        self._last = ""  # the character before them
        self._code = 0  # number of marks that opened code in the line
        self._bold = ""
        self._heading = False

    @property
    def holds(self) -> Holds:
        """Nothing: no text is held back."""
        return {}

    def write(self, text: str, line: LineWriter) -> None:
        """Write text in its styles."""
        line.put_all(self.feed(text))

    def release(self, line: LineWriter) -> None:
        """Write nothing, as nothing is held back."""

    def end(self, line: LineWriter) -> None:
        """Write nothing, as nothing is held back."""

    def feed(self, text: str) -> Iterable[Piece]:
        """Return the text in pieces with their styles."""
        if _MARKS.search(text) or self._run or len(self._line) < MAX_LINE_START:
            return self._pieces(text)
        self._last = text[-1]  # the common case: more of a long line
        return ((self._style, text),)

    def _pieces(self, text: str) -> Iterator[Piece]:
        style, start, end = self._style, 0, 0
        for found in _TOKENS.finditer(text):
            self._read(found[0])
            if self._style != style:
                # Line breaks belong to no style, and marks keep the style before them.
                if start < found.start():
                    yield style, text[start : found.start()]
                style, start = self._style, found.start()
            end = found.end()
        if start < end:
            yield style, text[start:end]

    @property
    def _style(self) -> Style:
        if self._fence:
            return "code block"
        if self._code:
            return "code"
        return "strong" if self._bold or self._heading else "text"

    def _read(self, token: str) -> None:
        if token[0] == self._run[:1]:
            self._run += token
        else:
            self._decide(token[0])
            if token[0] in "`*_":
                self._run = token
            elif token == "\n":
                self._end_line()
                return
            else:
                self._last = token[-1]
        if len(self._line) < MAX_LINE_START:
            self._line += token
            if "#" in self._line[:10]:
                self._heading = not self._fence and bool(_HEADING.match(self._line))

    def _decide(self, following: str) -> None:
        """Apply the marks before the character `following`."""
        run, self._run = self._run, ""
        before, self._last = self._last, run[-1:] or self._last
        if not run or self._fence or before == "\\":
            return
        opens = not following.isspace() and not before.isalnum()
        if run[0] == "`":
            if self._code:
                self._code = 0 if self._code == len(run) else self._code
            elif opens:
                self._code = len(run)
        elif len(run) > 1 and not self._code:
            if self._bold == run[0]:
                self._bold = self._bold if before.isspace() else ""
            elif opens and not self._bold:
                self._bold = run[0]

    def _end_line(self) -> None:
        found = _FENCE.match(self._line)
        if not self._fence:
            self._fence = found[1] if found else ""
        elif found and found[1].startswith(self._fence) and not found[2].strip():
            self._fence = ""
        self._line = self._last = self._bold = ""
        self._code, self._heading = 0, False
