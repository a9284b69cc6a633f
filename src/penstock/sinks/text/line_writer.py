"""Writers of one line at a time: a line, and a block whose text fills lines piece by piece."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Protocol

from penstock import events as ev
from penstock.sinks.sanitize import CommandFilter, Sanitizer
from penstock.sinks.text.styles import UNWRAPPED, Palette, Piece, SpanStyle, Style, codes, painted
from penstock.sinks.text.wrapping import Margin, Wrapper, columns

StreamedKind = Literal["text", "thinking", "result"]
Holds = dict[int, float]
_KINDS: dict[ev.Kind, StreamedKind] = {"thinking": "thinking", "tool_output": "result"}
_STYLES: dict[StreamedKind, Style] = {"text": "text", "thinking": "dim", "result": "output"}

PARTS = 256
"""Maximum number of separate pieces of a block's text; more are joined, to keep memory near the size of the text."""


class LineWriter:
    """Writer of one line and of the indented lines under it. The bytes do not depend on how the text was cut.

    Line breaks at the beginning and the end leave no blank lines. Nothing is written until there is text to show.
    A part of `head` that ends with a line break is written above the line.
    `space_before`: a blank line precedes it. Lines are wrapped if the margin has a width.
    """

    __slots__ = (
        "_above", "_blank", "_filter", "_fresh", "_head", "_indent", "_out", "_palette", "_space_before",
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
        self._above, _, head = head.rpartition("\n")
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
            self._begin()
        if self._wrapper is None:
            self._put(text, style)
        elif not isinstance(style, SpanStyle):
            self._put(self._wrapper.feed(text, breaks=style not in UNWRAPPED), style)
        else:
            self._put(self._wrapper.feed(text, breaks=style.is_wrapped), style)
            if style.hang is not None:
                self._wrapper.hang(style.hang)

    def columns_left(self) -> int | None:
        """Return the columns that are left in the row; None if no line breaks are inserted."""
        return None if self._wrapper is None else self._wrapper.columns_left()

    def row(self) -> int | None:
        """Return the columns of a row beside the indent; None if no line breaks are inserted."""
        return None if self._wrapper is None else self._wrapper.row()

    def put_word(self, pieces: Iterable[Piece], size: int) -> None:
        """Write a complete word of `size` columns, in one style or several. A break is inserted only before it."""
        if self._wrapper is not None and (before := self._wrapper.before_word(size)):
            self._put(before, "text")
        for style, text in pieces:
            if not self.begun:
                self._begin()
            self._put(text if self._wrapper is None else self._wrapper.feed(text, breaks=False), style)

    def _begin(self) -> None:
        self.begun = True
        if self._space_before:
            self._out.append("\n")
        if self._above:
            self._out.append(painted(self._palette, "head", self._above) + "\n")
        if self._head:
            self._out.append(painted(self._palette, "head", self._head))

    def _put(self, text: str, style: Style) -> None:
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


class Markdown(Protocol):
    """State of the Markdown of one text, which decides how the text is written."""

    @property
    def holds(self) -> Holds:
        """Held text: a number for each, which no other one of this text has, and the seconds that it may be held."""
        ...

    def write(self, text: str, line: LineWriter) -> None:
        """Write sanitized text, but for an end that may be a marker."""
        ...

    def release(self, line: LineWriter) -> None:
        """Write all held text as it came, because it was held for too long."""
        ...

    def end(self, line: LineWriter) -> None:
        """Write all held text as the end of a line. More text may follow, on a new one."""
        ...


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
        self.markdown: Markdown | None = None  # of text, if styles can be seen
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
            self.markdown.write(text, self.line)

    def _catch_up(self) -> None:
        self.compact(1)
        waiting = self.parts[self.start :]
        del self.parts[self.start :]
        for text in waiting:  # one by one: each step copies its text, and the whole may be large
            self.grow(text)

    def end_line(self) -> None:
        """Write the text that was only collected or is held, and end the line."""
        self._catch_up()
        if self.line is not None:
            if self.markdown is not None:
                self.markdown.end(self.line)
            self.line.end()

    def flush_held(self) -> None:
        """Write the text that its Markdown holds back."""
        if self.markdown is not None and self.line is not None:
            self.markdown.release(self.line)

    def finish(self, words: str) -> None:
        """Write the text that is still held back, then `words`, which say how the block ended."""
        self._catch_up()
        self._put(self.sanitizer.flush())
        if self.line is not None:
            if self.markdown is not None:
                self.markdown.end(self.line)
            if words:
                self.line.put(f" {words}" if self.line.begun else words, "dim")
