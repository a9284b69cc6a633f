"""Writers of one line at a time: a line, and a block whose text fills lines piece by piece."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from penstock import events as ev
from penstock.sinks.sanitize import CommandFilter, Sanitizer
from penstock.sinks.text.markdown import MarkdownStyles
from penstock.sinks.text.styles import UNWRAPPED, Palette, Piece, Style, codes, painted
from penstock.sinks.text.wrapping import Margin, Wrapper, columns

StreamedKind = Literal["text", "thinking", "result"]
_KINDS: dict[ev.Kind, StreamedKind] = {"thinking": "thinking", "tool_output": "result"}
_STYLES: dict[StreamedKind, Style] = {"text": "text", "thinking": "dim", "result": "output"}

PARTS = 256
"""Maximum number of separate pieces of a block's text; more are joined, to keep memory near the size of the text."""


class LineWriter:
    """Writer of one line and of the indented lines under it. The bytes do not depend on how the text was cut.

    Line breaks at the beginning and the end leave no blank lines. Nothing is written until there is text to show.
    `space_before`: a blank line precedes it. Lines are wrapped if the margin has a width.
    """

    __slots__ = (
        "_blank", "_filter", "_fresh", "_head", "_indent", "_out", "_palette", "_space_before",
        "_wrapper", "begun",
    )  # fmt: skip

    def __init__(
        self,
        out: list[str],
        palette: Palette,
        head: str,
        *,
        margin: Margin | None = None,
        space_before: bool = False,
    ) -> None:
        self._out = out
        self._palette = palette
        self._head = head
        self._indent = " " * len(head)
        self._filter = CommandFilter(at_start=not head)
        self._blank = 0  # line breaks that are written only if something follows them
        self._fresh = False  # at the start of a line
        self._space_before = space_before
        self._wrapper: Wrapper | None = None
        if margin is not None and margin.width is not None:
            self._wrapper = Wrapper(margin, columns(head))
        self.begun: bool = False

    def put(self, text: str, style: Style = "text") -> None:
        """Write text that is already sanitized."""
        if not self.begun:
            text = text.lstrip("\n")
            if not text:
                return
            self.begun = True
            if self._space_before:
                self._out.append("\n")
            if self._head:
                self._out.append(painted(self._palette, "head", self._head))
        if self._wrapper is not None:
            text = self._wrapper.feed(text, breaks=style not in UNWRAPPED)
        text = self._filter.feed(text)
        if not self._fresh and "\n" not in text:
            self._out.append(painted(self._palette, style, text))
            return
        line, broken, more = text.partition("\n")
        if line:
            self._write(line, style)
        lines = more.rstrip("\n")
        if lines:
            self._hang(lines, style)
        for _ in range(len(more) - len(lines) + bool(broken and not lines)):
            self._break()

    def put_all(self, pieces: Iterable[Piece]) -> None:
        """Write pieces, each in its own style."""
        for style, text in pieces:
            self.put(text, style)

    def _hang(self, lines: str, style: Style) -> None:
        """Write indented lines under the current one; the last line is not blank."""
        self._break()
        on, off = codes(self._palette, style)
        lines = lines.lstrip("\n") if (leading := len(lines) - len(lines.lstrip("\n"))) else lines
        start = self._indent + on
        self._out.append("\n" * (self._blank + leading) + start)
        if start or off:
            blank = f"\n{start}{off}\n"
            lines = lines.replace("\n", f"{off}\n{start}")
            while blank in lines:  # overlapping ones need another pass
                lines = lines.replace(blank, "\n\n")
        self._out.append(lines + off)
        self._blank = 0
        self._fresh = False

    def _break(self) -> None:
        if self._fresh:
            self._blank += 1
        else:
            self._out.append("\n")
            self._fresh = True

    def _write(self, line: str, style: Style) -> None:
        if self._fresh:
            self._out.append("\n" * self._blank + self._indent)
            self._blank = 0
            self._fresh = False
        self._out.append(painted(self._palette, style, line))

    def end(self) -> None:
        """End the line."""
        if self.begun and not self._fresh:
            self._out.append("\n")
            self._fresh = True


class StreamedBlock:
    """Block of text or thinking of the main agent, or output of its call, written as it streams."""

    __slots__ = (
        "_joined", "_style", "agent", "call_id", "kind", "line", "markdown", "message", "number", "parts", "sanitizer",
        "start",
    )  # fmt: skip

    def __init__(self, event: ev.BlockStarted | ev.Delta | ev.BlockRevised, message: int | None) -> None:
        self.number: int = event.block
        self.kind: StreamedKind = _KINDS.get(event.kind, "text")
        self.call_id: str | None = event.call_id if isinstance(event, ev.BlockStarted) else None
        self.agent: str = event.agent
        self.message: int | None = message
        self.parts: list[str] = []  # the text so far, raw
        self.start: int = 0  # the first part that is not written
        self._joined = 0  # the first part that was not joined from smaller ones
        self.sanitizer: Sanitizer = Sanitizer()
        self.line: LineWriter | None = None  # the last one
        self.markdown: MarkdownStyles | None = None  # of text, if styles can be seen
        self._style: Style = _STYLES[self.kind]

    def grow(self, text: str) -> None:
        """Append text and write it."""
        self.parts.append(text)
        self.start += 1
        self._put(self.sanitizer.feed(text))

    def compact(self, most: int = PARTS) -> None:
        """Join the newest parts if there are many, to keep the memory near the size of the text."""
        live = self.start == len(self.parts)
        first = max(self._joined, 0 if live else self.start)
        if len(self.parts) - first > most:
            self.parts[first:] = ["".join(self.parts[first:])]
            self._joined = first + 1
            if live:
                self.start = len(self.parts)

    def _put(self, text: str) -> None:
        if not text or self.line is None:
            return
        if self.markdown is None:
            self.line.put(text, self._style)
        else:
            self.line.put_all(self.markdown.feed(text))

    def _catch_up(self) -> None:
        self.compact(1)
        waiting = self.parts[self.start :]
        del self.parts[self.start :]
        for text in waiting:  # one by one: each step copies its text, and the whole may be large
            self.grow(text)

    def end_line(self) -> None:
        """Write the text that was only collected, and end the line."""
        self._catch_up()
        if self.line is not None:
            self.line.end()

    def finish(self, words: str) -> None:
        """Write the text that is still held back, then `words`, which say how the block ended."""
        self._catch_up()
        self._put(self.sanitizer.flush())
        if words and self.line is not None:
            self.line.put(f" {words}" if self.line.begun else words, "dim")
