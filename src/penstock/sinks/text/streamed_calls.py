"""Calls whose input streams: their line grows as more of the title becomes known."""

from __future__ import annotations

from penstock import events as ev
from penstock.core.tool_titles import TitleReader
from penstock.sinks.sanitize import Sanitizer
from penstock.sinks.text.calls import Calls
from penstock.sinks.text.line_writer import LineWriter


class StreamedCall:
    """Call whose input streams. It collects the title until a line of its own can be opened."""

    __slots__ = (
        "_calls", "_first", "_held", "_sanitizer", "_separator", "_title", "called", "complete", "cut", "event", "line",
        "parts", "written",
    )  # fmt: skip

    def __init__(self, event: ev.BlockStarted, calls: Calls) -> None:
        self.event: ev.BlockStarted = event
        self.parts: list[str] = []
        self.line: LineWriter | None = None
        self.called: ev.ToolCalled | None = None
        self.cut: bool = False
        self.complete: bool = False  # no more input will come
        self.written: str = ""  # the title so far
        self._title = TitleReader(event.name or "")
        self._first: str | None = None
        self._sanitizer = Sanitizer()
        # The beginning of a path, until it is known whether it is in the working directory; None if there is no path.
        self._held: str | None = "" if calls.has_path(event.name or "") else None
        self._calls = calls
        self._separator = ""

    @property
    def finished(self) -> bool:
        """Whether the complete text of its line is known."""
        return self.called is not None or self.cut or self.complete

    def feed(self, text: str) -> None:
        """Extend the title by what `text`, the next part of the input, adds to it."""
        if self._first is None and text.startswith("{") and text.endswith("}"):
            # An input that arrives in one piece did not stream: the call with its title follows immediately.
            self._first = text
            return
        if self._first:
            text = self._first + text
        self._first = ""
        if title := self._title.feed(text):
            self.written += title
            self._write_title(title)

    def write_to(self, line: LineWriter) -> None:
        """Begin the line: the name, and the title so far."""
        self.line = line
        pieces, self._separator = self._calls.head(self.event.name or "")
        line.put_all(pieces)
        if self.written:
            self._write_title(self.written)

    def _write_title(self, text: str) -> None:
        if self.line is None:
            return
        if self._held is not None:
            self._held += text
            if self._calls.paths.may_shorten(self._held):
                return
            text, self._held = self._calls.paths.short(self._held), None
        self._put(text)

    def _put(self, text: str) -> None:
        if self.line is not None and text:
            separator, self._separator = self._separator, ""
            self.line.put(separator + self._sanitizer.feed(text))

    def finish(self) -> bool:
        """Write the collected text and the rest of the title; return whether the call matches the written text."""
        if self.parts:
            self.feed(self.parts[0])
            if rest := "".join(self.parts[1:]):
                self.feed(rest)
        called, fits = self.called, True
        if called is not None:
            fits = called.name == self.event.name and called.title.startswith(self.written)
            if fits and not self.written:
                self._held = None
                self._put(self._calls.title(called))
            elif fits and len(called.title) > len(self.written):
                self._write_title(self._calls.raw_title(called)[len(self.written) :])
        elif self._first and (title := self._title.feed(self._first)):
            self._write_title(title)
        if self._held:
            self._put(self._held)
        if self.line is not None and (last := self._sanitizer.flush()):
            self.line.put(last)
        return fits


class StreamedCalls:
    """Calls of the main agent whose input streams, until their lines are finished."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._by_block: dict[int, StreamedCall] = {}
        self._by_id: dict[str, StreamedCall] = {}

    def reset(self) -> None:
        """Forget the calls of a run."""
        self._by_block.clear()
        self._by_id.clear()

    def of_block(self, block: int) -> StreamedCall | None:
        """Return the call whose input is this block; None if it is not shown."""
        return self._by_block.get(block)

    def open(self) -> list[StreamedCall]:
        """Return the calls whose lines are not finished."""
        return list(self._by_block.values())

    def add(self, event: ev.BlockStarted) -> StreamedCall | None:
        """Add the call of a block. Return an older one with the same id: a call has one input, so it was repeated."""
        call = self._by_block[event.block] = StreamedCall(event, self._calls)
        if event.call_id is None:
            return None
        older = self._by_id.get(event.call_id)
        self._by_id[event.call_id] = call
        return older

    def of_event(self, event: ev.ToolCalled) -> StreamedCall | None:
        """Return the call that this event completes; None if its input did not stream."""
        if (call := self._by_id.get(event.call_id)) is not None:
            return call
        nameless = (call for call in self.open() if call.event.call_id is None and not call.finished)
        return next((call for call in nameless if call.event.name == event.name), None)

    def drop(self, call: StreamedCall) -> None:
        """Forget a call whose line is finished."""
        self._by_block.pop(call.event.block, None)
        if self._by_id.get(call_id := call.event.call_id or "") is call:
            del self._by_id[call_id]
