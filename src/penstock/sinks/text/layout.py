"""The layout that all modes share: which line a piece of text belongs to, and the order of the lines.

A line belongs to one block. Text and thinking of the main agent stream, and so does the title of a tool call. While
such a line is open, everything else waits:

    open            another block's delta       anything that is not a block of the main agent
    text, thinking  ends it, begins its own     waits until it has ended (`_waiting`)
    a call's line   waits (`_queue`)            waits (`_queue`)

The output depends on the events alone. `live` only decides whether an open line is written as it grows or once it
has ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from penstock import events as ev
from penstock.core.bounded import BoundedDict
from penstock.sinks.sanitize import CommandFilter, Sanitizer, clean, clean_line
from penstock.sinks.shown import ShownText, shared
from penstock.sinks.text import theme
from penstock.sinks.text.line_writer import LineWriter, StreamedBlock, StreamedCall
from penstock.sinks.text.theme import Palette, Piece
from penstock.sinks.text.visibility import DESCRIBED, Describer, LineKind, Prefix, Prefixes, Service, Visibility, fold

MAX_KEPT_BLOCKS = 64
"""Ended blocks whose text is kept, so that a late revision shows only what is new."""
MAX_UNFOLDED_LINES = 10
"""Lines of the longest result that is not folded in a CI service's log."""


class Layout:
    """State of one run's output: events in, pieces of text out (`out`); the module's docstring has the rules.

    `open_block` is the number of the block whose deltas may be given to `grow` directly.
    """

    def __init__(
        self,
        palette: Palette,
        *,
        live: bool,
        visibility: Visibility,
        prefix: Prefix = "agent",
        ci: Service | None = None,
    ) -> None:
        self.out: list[str] = []
        self.open_block: int | None = None
        self.grow: Callable[[str], None] = self.out.append
        self._palette = palette
        self._live = live
        self._visibility = visibility
        self._describer = Describer(visibility)
        self._ci = ci
        self._folds = 0
        self._prefixes = Prefixes(prefix)
        self._reset()

    def _reset(self) -> None:
        self._shown = ShownText(clean)
        self._blocks: dict[int, StreamedBlock | None] = {}  # None: not shown
        self._kept: BoundedDict[int, StreamedBlock] = BoundedDict(MAX_KEPT_BLOCKS)
        self._tools: dict[int, StreamedCall] = {}
        self._calls: dict[str, StreamedCall] = {}
        self._prefixes.reset()
        self._last_error: str | None = None
        self._spoken: set[int] = set()  # open messages whose text was shown
        self._text: StreamedBlock | None = None
        self._line: StreamedCall | None = None
        self._last_call: str | None = None  # the call whose line was written last
        self._waiting: list[Callable[[], None]] = []
        self._queue: deque[ev.Event] = deque()

    # --- input ------------------------------------------------------------------------------------

    def take(self, event: ev.Event) -> None:
        """Lay out one event."""
        if not self._route_to_call(event):
            self._queue.append(event)
        while self._queue and self._line is None:
            self._handle(self._queue.popleft())

    def compact(self) -> None:
        """Join the parts of the open line, to bound its memory; called after each batch."""
        if self._text is not None:
            self._text.compact()

    def close(self) -> None:
        """End the open line and write what waits. The run may continue afterwards."""
        self._abandon_calls(None)
        while self._queue:
            self._handle(self._queue.popleft())
        self._end_text()
        self._last_call = None

    def _handle(self, event: ev.Event) -> None:
        self._shown.note(event)
        if (handler := _HANDLERS.get(type(event))) is not None:
            handler(self, event)

    def _loose(self, write: Callable[[], None]) -> None:
        if self._text is None:
            write()
        else:
            self._waiting.append(write)

    # --- a call's growing line ---------------------------------------------------------------------

    def _route_to_call(self, event: ev.Event) -> bool:
        """Feed a streaming call with what belongs to it, whatever waits; return whether the event is done with."""
        if isinstance(event, (ev.Delta, ev.BlockRevised, ev.BlockEnded)):
            if event.kind != "tool_input" or event.parent is not None:
                return False
            if (tool := self._tools.get(event.block)) is not None:
                self._feed_tool(tool, event)
            return True
        if isinstance(event, ev.BlockStarted):
            if event.kind == "tool_input" and event.parent is None and "tool" in self._visibility.shown:
                self._add_tool(StreamedCall(event))
        elif isinstance(event, ev.ToolCalled):
            self._prefixes.learn(event)
            if event.parent is None and (called := self._tool_of(event)) is not None:
                called.called = event
                self._finish_if_open(called)
                return True
        elif isinstance(event, ev.MessageEnded) and event.parent is None:
            self._abandon_calls(event.message)
        elif isinstance(event, ev.RunEnded):
            self._abandon_calls(None)
        return False

    def _add_tool(self, tool: StreamedCall) -> None:
        self._tools[tool.event.block] = tool
        if (call_id := tool.event.call_id) is not None:
            if (older := self._calls.get(call_id)) is not None:
                older.complete = True  # a call has one input: the wire repeated it from the start
                self._finish_if_open(older)
            self._calls[call_id] = tool

    def _feed_tool(self, tool: StreamedCall, event: ev.Delta | ev.BlockRevised | ev.BlockEnded) -> None:
        if isinstance(event, ev.Delta):
            if self._live:
                tool.feed(event.text)
            else:
                tool.parts.append(event.text)
        elif isinstance(event, ev.BlockEnded) and not event.complete:
            tool.cut = True
            self._finish_if_open(tool)

    def _tool_of(self, event: ev.ToolCalled) -> StreamedCall | None:
        if (tool := self._calls.get(event.call_id)) is not None:
            return tool
        nameless = (tool for tool in self._tools.values() if tool.event.call_id is None and not tool.finished)
        return next((tool for tool in nameless if tool.event.name == event.name), None)

    def _abandon_calls(self, message: int | None) -> None:
        """Finish the streaming inputs of this message, or of all messages: no call will follow them."""
        for tool in list(self._tools.values()):
            if not tool.finished and message in (None, tool.event.message):
                tool.complete = True
                self._finish_if_open(tool)

    def _finish_if_open(self, tool: StreamedCall) -> None:
        if tool is self._line:
            self._finish_tool(tool)

    def _open_tool(self, event: ev.BlockStarted) -> None:
        tool = self._tools.get(event.block)
        if tool is None:
            return
        self._end_text()
        self._line = tool
        if tool.finished:
            self._finish_tool(tool)
            return
        self.open_block = event.block
        self.grow = tool.parts.append
        if self._live:
            self.grow = tool.feed
            tool.write_to(self._begin("tool", event.agent, None, streams=True))

    def _finish_tool(self, tool: StreamedCall) -> None:
        self._line = self.open_block = None
        self._tools.pop(tool.event.block, None)
        if self._calls.get(call_id := tool.event.call_id or "") is tool:
            del self._calls[call_id]
        event, line = tool.called, tool.line or self._begin("tool", tool.event.agent, None)
        if tool.line is None:
            tool.write_to(line)
        grew = tool.finish()
        if event is None:
            if tool.cut and self._visibility.marked:
                line.put(f" {theme.CUT_OFF}", "dim")
        elif not grew:
            # The title begins otherwise than what was written: a line is never taken back, in any mode.
            line.put("…")
            line.end()
            self._write_call(event)
            return
        self._end_call(line, event)

    def _write_call(self, event: ev.ToolCalled) -> None:
        line = self._begin("tool", event.agent, event.parent)
        line.put_all(theme.call(event.name))
        if event.title:
            line.put(f": {clean(event.title)}")
        self._end_call(line, event)

    def _end_call(self, line: LineWriter, event: ev.ToolCalled | None) -> None:
        if event is not None and self._visibility.verbose and (whole := theme.input_lines(event.input, event.title)):
            line.put("\n" + whole, "dim")
        line.end()
        self._last_call = event.call_id if event is not None else None

    # --- text and thinking -------------------------------------------------------------------------

    def _started(self, event: ev.BlockStarted) -> None:
        if event.kind == "tool_input":
            if event.parent is None:
                self._open_tool(event)
        elif event.parent is None:
            self._block(event, event.message)

    def _block(self, event: ev.BlockStarted | ev.Delta, message: int | None) -> StreamedBlock | None:
        if event.block not in self._blocks:
            self._blocks[event.block] = StreamedBlock(event, message) if event.kind in self._visibility.shown else None
        return self._blocks[event.block]

    def _delta(self, event: ev.Delta) -> None:
        if event.parent is None and (block := self._block(event, None)) is not None:
            if self._text is not block:
                if block.kind == "text":
                    self._write_rest(event, self._shown.overdue(event.text))
                self._begin_text(block)
            self.grow(event.text)

    def _begin_text(self, block: StreamedBlock, mark: str = "") -> None:
        self._end_text()
        block.line = self._begin(block.kind, block.agent, None, self._live, mark)
        self._text = block
        self.open_block = block.number
        self.grow = block.grow if self._live else block.parts.append
        if block.kind == "text":
            self._shown.begin(block.number, block.message, correction=bool(mark))
        if block.message is not None:
            self._spoken.add(block.message)

    def _end_text(self) -> None:
        """End the open line of text; then write what waited for it."""
        if (block := self._text) is None:
            return
        block.end_line()
        self._text = self.open_block = None
        waiting, self._waiting = self._waiting, []
        for write in waiting:
            write()

    def _ended(self, event: ev.BlockEnded) -> None:
        if event.parent is not None:
            self._sub_agent_block(event)
            return
        if (block := self._blocks.pop(event.block, None)) is None:
            return
        marked = self._visibility.marked and not event.complete
        if block is self._text:
            block.finish(theme.CUT_OFF if marked else "")
            self._end_text()
        elif rest := block.sanitizer.flush() + (theme.CUT_OFF if marked else ""):
            self._loose(partial(self._line_of, block.kind, event, [("dim", rest)]))
        block.parts = [] if event.truncated else [event.text]
        block.start = len(block.parts)
        self._kept[block.number] = block

    def _sub_agent_block(self, event: ev.BlockEnded) -> None:
        """Write a block of a sub-agent, which does not stream."""
        if event.kind == "tool_input":
            if not event.complete and "tool" in self._visibility.shown and self._visibility.marked:
                self._loose(partial(self._line_of, "tool", event, [("mark", theme.CALL), ("dim", theme.CUT_OFF)]))
        elif event.kind in self._visibility.shown and event.text:
            pieces = theme.whole_block(event, marked=self._visibility.marked)
            self._loose(partial(self._line_of, event.kind, event, pieces))

    def _revised(self, event: ev.BlockRevised) -> None:
        if event.parent is not None or event.kind not in ("text", "thinking"):
            return
        if event.block not in self._blocks:  # ended
            late = self._kept.get(event.block) or StreamedBlock(event, None)
            if late.kind in self._visibility.shown:
                self._loose(partial(self._revise_ended, late, event.text))
        elif (block := self._blocks[event.block]) is not None:
            self._revise(block, event.text, "")

    def _revise_ended(self, block: StreamedBlock, text: str) -> None:
        self._revise(block, text, theme.REVISED)
        block.finish("")
        self._end_text()

    def _revise(self, block: StreamedBlock, text: str, mark: str) -> None:
        """Write what is new in `text`. Written text stays: from the first difference on, a marked line follows."""
        del block.parts[block.start :]
        written = "".join(block.parts)
        if text.startswith(written):
            rest = text[len(written) :]
        else:
            kept = shared(written, text)
            block.parts, block.start, block.sanitizer = [text[:kept]], 1, Sanitizer()
            rest, mark = text[kept:], theme.REVISED
        if text == written:
            return
        if mark or self._text is not block:
            self._begin_text(block, mark)
        if rest:
            self.grow(rest)
        elif mark and block.line is not None:
            block.line.put(theme.taken_back(len(written) - len(text)), "dim")

    def _message_ended(self, event: ev.MessageEnded) -> None:
        if event.parent is None and event.message in self._spoken:
            self._spoken.discard(event.message)
            if event.status == "superseded" and self._visibility.marked:
                self._loose(partial(self._line_of, "text", event, [("dim", theme.REVISED + theme.GIVEN_UP)]))

    def _write_rest(self, event: ev.Event, text: str) -> None:
        """Write text of the reply that no block contained."""
        self._end_text()
        if (rest := clean(text)).strip():
            self._line_of("text", event, [("text", rest)])

    # --- lines of other events ---------------------------------------------------------------------

    def _begin(
        self, kind: LineKind, agent: str, parent: str | None, streams: bool = False, mark: str = ""
    ) -> LineWriter:
        self._last_call = None
        head = self._prefixes.prefix(kind, agent, parent) + mark + (theme.THOUGHT if kind == "thinking" else "")
        return LineWriter(self.out, self._palette, head, "live" if streams and self._visibility.marked else "head")

    def _line_of(self, kind: LineKind, event: ev.Event, pieces: list[Piece]) -> None:
        line = self._begin(kind, event.agent, event.parent)
        line.put_all(pieces)
        line.end()

    def _write_result(self, event: ev.ToolReturned) -> None:
        own = self._last_call == event.call_id
        name = "" if own else clean_line(event.name or self._prefixes.name(event.call_id))
        if self._visibility.verbose and "\n" in (text := event.text.strip("\n")):
            self._write_full_result(event, name, clean(text))
        elif pieces := theme.result(event, name, marked=self._visibility.marked):
            self._line_of("result", event, pieces)

    def _write_full_result(self, event: ev.ToolReturned, name: str, text: str) -> None:
        pieces = theme.result_header(event, name, marked=self._visibility.marked)
        service = self._ci if text.count("\n") >= MAX_UNFOLDED_LINES else None
        if service is None:
            self._line_of("result", event, [*pieces, ("dim", "\n" + text)])
            return
        self._folds += 1
        head = self._prefixes.prefix("result", event.agent, event.parent)
        title = CommandFilter().feed(head + "".join(words for _, words in pieces))
        begin, end = fold(service, self._folds, title)
        self.out.append(begin)
        line = LineWriter(self.out, self._palette, "", "head")
        line.put(theme.indented(text), "dim")
        line.end()
        self.out.append(end)
        self._last_call = None

    def _take_called(self, event: ev.ToolCalled) -> None:
        if "tool" in self._visibility.shown:
            self._loose(partial(self._write_call, event))

    def _take_returned(self, event: ev.ToolReturned) -> None:
        if self._visibility.shows_result(event):
            self._loose(partial(self._write_result, event))

    def _take_line(self, event: ev.Event) -> None:
        if isinstance(event, ev.Notice) and event.level == "error":
            self._last_error = event.text
        if line := self._describer.describe(event):
            self._loose(partial(self._line_of, line[0], event, line[1]))

    def _run_ended(self, event: ev.RunEnded) -> None:
        self._write_rest(event, self._shown.overdue())
        self._write_rest(event, self._shown.rest(event.reply))
        if event.reason is not None and event.reason == self._last_error:
            event = msgspec.structs.replace(event, reason=None)
        self._take_line(event)
        self._reset()


_HANDLERS: dict[type, Callable[[Layout, Any], None]] = {
    ev.BlockStarted: Layout._started,
    ev.Delta: Layout._delta,
    ev.BlockRevised: Layout._revised,
    ev.BlockEnded: Layout._ended,
    ev.MessageEnded: Layout._message_ended,
    ev.ToolCalled: Layout._take_called,
    ev.ToolReturned: Layout._take_returned,
    ev.RunEnded: Layout._run_ended,
    **dict.fromkeys(DESCRIBED, Layout._take_line),
}
