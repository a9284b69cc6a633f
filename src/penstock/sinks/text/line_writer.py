"""What is written line by line: a stretch, and the blocks whose text comes in stretches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from penstock import events as ev
from penstock.core.tool_titles import Telling
from penstock.sinks.sanitize import Guard, Sanitizer
from penstock.sinks.text.theme import Palette, Piece, Style, call, codes, painted

PARTS = 256
"""Pieces of a block's text that are kept apart."""


class Stretch:
    """Writes one line and what hangs under it, piece by piece, as it would be written at once.

    Line breaks at its beginning and end leave no blank lines. Nothing is written before there is something to show.
    """

    __slots__ = ("_blank", "_fresh", "_guard", "_head", "_head_style", "_indent", "_out", "_palette", "begun")

    def __init__(self, out: list[str], palette: Palette, head: str, head_style: Style) -> None:
        self._out = out
        self._palette = palette
        self._head = head
        self._head_style = head_style
        self._indent = " " * len(head)
        self._guard = Guard(at_start=not head)
        self._blank = 0  # line breaks that are written if something follows them
        self._fresh = False  # at the start of a line
        self.begun = False

    def put(self, text: str, style: Style = "text") -> None:
        """Add harmless text."""
        if not self.begun:
            text = text.lstrip("\n")
            if not text:
                return
            self.begun = True
            if self._head:
                self._out.append(painted(self._palette, self._head_style, self._head))
        text = self._guard.feed(text)
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
        """Add pieces, each in its own style."""
        for style, text in pieces:
            self.put(text, style)

    def _hang(self, lines: str, style: Style) -> None:
        """Write lines under the one that stands; the last of them is not blank."""
        self._break()
        on, off = codes(self._palette, style)
        lines = lines.lstrip("\n") if (leading := len(lines) - len(lines.lstrip("\n"))) else lines
        start = self._indent + on
        self._out.append("\n" * (self._blank + leading) + start)
        if start or off:
            blank = f"\n{start}{off}\n"
            lines = lines.replace("\n", f"{off}\n{start}")
            while blank in lines:  # overlapping ones need another look
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


class Block:
    """A block of text or thinking in the top lane."""

    __slots__ = ("_joined", "_style", "agent", "kind", "message", "number", "parts", "sanitizer", "start", "stretch")

    def __init__(self, event: ev.BlockStarted | ev.Delta | ev.BlockRevised, message: int | None) -> None:
        self.number = event.block
        self.kind: Literal["text", "thinking"] = "thinking" if event.kind == "thinking" else "text"
        self.agent = event.agent
        self.message = message
        self.parts: list[str] = []  # the text so far, raw
        self.start = 0  # the first part that is not written
        self._joined = 0  # the first part that was not joined from smaller ones
        self.sanitizer = Sanitizer()
        self.stretch: Stretch | None = None  # the last one
        self._style: Style = "dim" if event.kind == "thinking" else "text"

    def grow(self, text: str) -> None:
        """Write more text."""
        self.parts.append(text)
        self.start += 1
        self._put(self.sanitizer.feed(text))

    def compact(self, most: int = PARTS) -> None:
        """Join the newest parts where they are many, so that memory is that of the text."""
        live = self.start == len(self.parts)
        first = max(self._joined, 0 if live else self.start)
        if len(self.parts) - first > most:
            self.parts[first:] = ["".join(self.parts[first:])]
            self._joined = first + 1
            if live:
                self.start = len(self.parts)

    def _put(self, text: str) -> None:
        if text and self.stretch is not None:
            self.stretch.put(text, self._style)

    def _catch_up(self) -> None:
        self.compact(1)
        waiting = self.parts[self.start :]
        del self.parts[self.start :]
        for text in waiting:  # one by one: what is done to them copies them, and the whole may be large
            self.grow(text)

    def end_stretch(self) -> None:
        """Write what was only collected, and end the line."""
        self._catch_up()
        if self.stretch is not None:
            self.stretch.end()

    def finish(self, words: str) -> None:
        """Write what waits, as no more text comes, and `words` on what became of the block."""
        self._catch_up()
        self._put(self.sanitizer.flush())
        if words and self.stretch is not None:
            self.stretch.put(f" {words}" if self.stretch.begun else words, "dim")


class Tool:
    """A call whose input streams in the top lane. It collects what its line will tell before the line is its own."""

    __slots__ = ("_first", "_sanitizer", "_telling", "called", "cut", "event", "parts", "stretch", "told", "whole")

    def __init__(self, event: ev.BlockStarted) -> None:
        self.event = event
        self.parts: list[str] = []
        self.stretch: Stretch | None = None
        self.called: ev.ToolCalled | None = None
        self.cut = False
        self.whole = False  # nothing more is told of it
        self.told = ""
        self._telling = Telling(event.name or "")
        self._first: str | None = None
        self._sanitizer = Sanitizer()

    @property
    def finished(self) -> bool:
        """Whether all that its line will say is known."""
        return self.called is not None or self.cut or self.whole

    def tell(self, text: str) -> None:
        """Let the line grow by what `text`, more of the input, tells."""
        if self._first is None and text.startswith("{") and text.endswith("}"):
            # An input that comes at once did not stream: the call with its own title is right behind it.
            self._first = text
            return
        if self._first:
            text = self._first + text
        self._first = ""
        if told := self._telling.feed(text):
            self.say(told)

    def write_to(self, stretch: Stretch) -> None:
        """Begin the line: the name, and what was told so far."""
        self.stretch = stretch
        stretch.put_all(call(self.event.name or ""))
        told, self.told = self.told, ""
        if told:
            self.say(told)

    def say(self, text: str) -> None:
        """More of the title, as it came."""
        if self.stretch is not None:
            self.stretch.put((": " if not self.told else "") + self._sanitizer.feed(text))
        self.told += text

    def finish(self) -> bool:
        """Tell what was only collected, then the rest of the title; whether the call fits what was told before."""
        if self.parts:
            self.tell(self.parts[0])
            if rest := "".join(self.parts[1:]):
                self.tell(rest)
        called, fits = self.called, True
        if called is not None:
            fits = called.name == self.event.name and called.title.startswith(self.told)
            if fits and len(called.title) > len(self.told):
                self.say(called.title[len(self.told) :])
        elif self._first and (told := self._telling.feed(self._first)):
            self.say(told)
        if self.stretch is not None and (last := self._sanitizer.flush()):
            self.stretch.put(last)
        return fits
