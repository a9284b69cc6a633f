"""One layout for every mode: which line a piece of text belongs to, and in which order lines come.

A line belongs to one *stretch* of one block. Text and thinking of the top lane stream; so does the telling
line of a tool call. While one of them is open, the rest waits:

    open            another block's delta       anything that is no block of the top lane
    text, thinking  ends it, begins its own     waits until it has ended (`_waiting`)
    a call's line   waits (`_queue`)            waits (`_queue`)

What comes out depends on the events alone. `live` only says whether an open stretch writes as it grows or
once it has ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from penstock import events as ev
from penstock.sinks.sanitize import Guard, Sanitizer, clean, clean_line
from penstock.sinks.shown import ShownText, shared
from penstock.sinks.text import theme
from penstock.sinks.text.line_writer import Block, Stretch, Tool
from penstock.sinks.text.theme import Palette, Piece
from penstock.sinks.text.visibility import DESCRIBED, Describer, Heads, LineKind, Look, Prefix, Service, fold

MAX_KEPT_BLOCKS = 64
"""Ended blocks whose text is kept, so that a late revision can show what is new."""
MAX_UNFOLDED_LINES = 10
"""A longer result is folded in a CI service."""


class Layout:
    """Events in, pieces of output out (`out`); see the head of this module.

    `open_block` is the number of the block whose deltas may be given to `grow` directly.
    """

    def __init__(
        self, palette: Palette, *, live: bool, look: Look, prefix: Prefix = "agent", ci: Service | None = None
    ) -> None:
        self.out: list[str] = []
        self.open_block: int | None = None
        self.grow: Callable[[str], None] = self.out.append
        self._palette = palette
        self._live = live
        self._look = look
        self._describer = Describer(look)
        self._ci = ci
        self._folds = 0
        self._heads = Heads(prefix)
        self._reset()

    def _reset(self) -> None:
        self._shown = ShownText(clean)
        self._blocks: dict[int, Block | None] = {}  # None: not shown
        self._kept: dict[int, Block] = {}
        self._tools: dict[int, Tool] = {}
        self._calls: dict[str, Tool] = {}
        self._heads.reset()
        self._told_error: str | None = None
        self._spoken: set[int] = set()  # open messages that were seen
        self._text: Block | None = None
        self._line: Tool | None = None
        self._last_call: str | None = None  # the call whose line was the last one written
        self._waiting: list[Callable[[], None]] = []
        self._queue: deque[ev.Event] = deque()

    # --- what comes in -----------------------------------------------------------------------------

    def take(self, event: ev.Event) -> None:
        """Lay out one event."""
        if not self._of_tool(event):
            self._queue.append(event)
        while self._queue and self._line is None:
            self._handle(self._queue.popleft())

    def compact(self) -> None:
        """Bound what is kept of the open line; called now and then."""
        if self._text is not None:
            self._text.compact()

    def close(self) -> None:
        """End the open line and write what waits. A run may go on after it."""
        self._give_up(None)
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

    def _of_tool(self, event: ev.Event) -> bool:
        """Bring what belongs to a streaming call to it, whatever waits; whether that was all of the event."""
        if isinstance(event, (ev.Delta, ev.BlockRevised, ev.BlockEnded)):
            if event.kind != "tool_input" or event.parent is not None:
                return False
            if (tool := self._tools.get(event.block)) is not None:
                self._feed_tool(tool, event)
            return True
        if isinstance(event, ev.BlockStarted):
            if event.kind == "tool_input" and event.parent is None and "tool" in self._look.shown:
                self._add_tool(Tool(event))
        elif isinstance(event, ev.ToolCalled):
            self._heads.learn(event)
            if event.parent is None and (called := self._tool_of(event)) is not None:
                called.called = event
                self._finish_if_open(called)
                return True
        elif isinstance(event, ev.MessageEnded) and event.parent is None:
            self._give_up(event.message)
        elif isinstance(event, ev.RunEnded):
            self._give_up(None)
        return False

    def _add_tool(self, tool: Tool) -> None:
        self._tools[tool.event.block] = tool
        if (call_id := tool.event.call_id) is not None:
            if (older := self._calls.get(call_id)) is not None:
                older.whole = True  # a call has one input: the wire began again
                self._finish_if_open(older)
            self._calls[call_id] = tool

    def _feed_tool(self, tool: Tool, event: ev.Delta | ev.BlockRevised | ev.BlockEnded) -> None:
        if isinstance(event, ev.Delta):
            if self._live:
                tool.tell(event.text)
            else:
                tool.parts.append(event.text)
        elif isinstance(event, ev.BlockEnded) and not event.complete:
            tool.cut = True
            self._finish_if_open(tool)

    def _tool_of(self, event: ev.ToolCalled) -> Tool | None:
        if (tool := self._calls.get(event.call_id)) is not None:
            return tool
        nameless = (tool for tool in self._tools.values() if tool.event.call_id is None and not tool.finished)
        return next((tool for tool in nameless if tool.event.name == event.name), None)

    def _give_up(self, message: int | None) -> None:
        """No call will come any more for the streaming inputs of this message, or of all."""
        for tool in list(self._tools.values()):
            if not tool.finished and message in (None, tool.event.message):
                tool.whole = True
                self._finish_if_open(tool)

    def _finish_if_open(self, tool: Tool) -> None:
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
            self.grow = tool.tell
            tool.write_to(self._begin("tool", event.agent, None, streams=True))

    def _finish_tool(self, tool: Tool) -> None:
        self._line = self.open_block = None
        self._tools.pop(tool.event.block, None)
        if self._calls.get(call_id := tool.event.call_id or "") is tool:
            del self._calls[call_id]
        event, stretch = tool.called, tool.stretch or self._begin("tool", tool.event.agent, None)
        if tool.stretch is None:
            tool.write_to(stretch)
        grew = tool.finish()
        if event is None:
            if tool.cut and self._look.marked:
                stretch.put(f" {theme.CUT_OFF}", "dim")
        elif not grew:
            # What was told is not the title: the line cannot be taken back, in no mode.
            stretch.put("…")
            stretch.end()
            self._write_call(event)
            return
        self._end_call(stretch, event)

    def _write_call(self, event: ev.ToolCalled) -> None:
        stretch = self._begin("tool", event.agent, event.parent)
        stretch.put_all(theme.call(event.name))
        if event.title:
            stretch.put(f": {clean(event.title)}")
        self._end_call(stretch, event)

    def _end_call(self, stretch: Stretch, event: ev.ToolCalled | None) -> None:
        if event is not None and self._look.verbose and (whole := theme.input_lines(event.input, event.title)):
            stretch.put("\n" + whole, "dim")
        stretch.end()
        self._last_call = event.call_id if event is not None else None

    # --- text and thinking -------------------------------------------------------------------------

    def _started(self, event: ev.BlockStarted) -> None:
        if event.kind == "tool_input":
            if event.parent is None:
                self._open_tool(event)
        elif event.parent is None:
            self._block(event, event.message)

    def _block(self, event: ev.BlockStarted | ev.Delta, message: int | None) -> Block | None:
        if event.block not in self._blocks:
            self._blocks[event.block] = Block(event, message) if event.kind in self._look.shown else None
        return self._blocks[event.block]

    def _delta(self, event: ev.Delta) -> None:
        if event.parent is None and (block := self._block(event, None)) is not None:
            if self._text is not block:
                if block.kind == "text":
                    self._write_rest(event, self._shown.overdue(event.text))
                self._begin_text(block)
            self.grow(event.text)

    def _begin_text(self, block: Block, mark: str = "") -> None:
        self._end_text()
        block.stretch = self._begin(block.kind, block.agent, None, self._live, mark)
        self._text = block
        self.open_block = block.number
        self.grow = block.grow if self._live else block.parts.append
        if block.kind == "text":
            self._shown.begin(block.number, block.message, correction=bool(mark))
        if block.message is not None:
            self._spoken.add(block.message)

    def _end_text(self) -> None:
        """End the open stretch of text; what waited for it follows."""
        if (block := self._text) is None:
            return
        block.end_stretch()
        self._text = self.open_block = None
        waiting, self._waiting = self._waiting, []
        for write in waiting:
            write()

    def _ended(self, event: ev.BlockEnded) -> None:
        if event.parent is not None:
            self._whole_block(event)
            return
        if (block := self._blocks.pop(event.block, None)) is None:
            return
        marked = self._look.marked and not event.complete
        if block is self._text:
            block.finish(theme.CUT_OFF if marked else "")
            self._end_text()
        elif rest := block.sanitizer.flush() + (theme.CUT_OFF if marked else ""):
            self._loose(partial(self._line_of, block.kind, event, [("dim", rest)]))
        block.parts = [] if event.truncated else [event.text]
        block.start = len(block.parts)
        self._kept[block.number] = block
        if len(self._kept) > MAX_KEPT_BLOCKS:
            del self._kept[next(iter(self._kept))]

    def _whole_block(self, event: ev.BlockEnded) -> None:
        """A block of a sub-agent."""
        if event.kind == "tool_input":
            if not event.complete and "tool" in self._look.shown and self._look.marked:
                self._loose(partial(self._line_of, "tool", event, [("mark", theme.CALL), ("dim", theme.CUT_OFF)]))
        elif event.kind in self._look.shown and event.text:
            pieces = theme.whole_block(event, marked=self._look.marked)
            self._loose(partial(self._line_of, event.kind, event, pieces))

    def _revised(self, event: ev.BlockRevised) -> None:
        if event.parent is not None or event.kind not in ("text", "thinking"):
            return
        if event.block not in self._blocks:  # ended
            late = self._kept.get(event.block) or Block(event, None)
            if late.kind in self._look.shown:
                self._loose(partial(self._revise_ended, late, event.text))
        elif (block := self._blocks[event.block]) is not None:
            self._revise(block, event.text, "")

    def _revise_ended(self, block: Block, text: str) -> None:
        self._revise(block, text, theme.REVISED)
        block.finish("")
        self._end_text()

    def _revise(self, block: Block, text: str, mark: str) -> None:
        """Show what is new in `text`. What is written stays: the first difference begins a marked line."""
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
        elif mark and block.stretch is not None:
            block.stretch.put(theme.taken_back(len(written) - len(text)), "dim")

    def _message_ended(self, event: ev.MessageEnded) -> None:
        if event.parent is None and event.message in self._spoken:
            self._spoken.discard(event.message)
            if event.status == "superseded" and self._look.marked:
                self._loose(partial(self._line_of, "text", event, [("dim", theme.REVISED + theme.GIVEN_UP)]))

    def _write_rest(self, event: ev.Event, text: str) -> None:
        """Write what no block has brought."""
        self._end_text()
        if (rest := clean(text)).strip():
            self._line_of("text", event, [("text", rest)])

    # --- lines that are no block -------------------------------------------------------------------

    def _begin(self, kind: LineKind, agent: str, parent: str | None, streams: bool = False, mark: str = "") -> Stretch:
        self._last_call = None
        head = self._heads.head(kind, agent, parent) + mark + (theme.THOUGHT if kind == "thinking" else "")
        return Stretch(self.out, self._palette, head, "live" if streams and self._look.marked else "head")

    def _line_of(self, kind: LineKind, event: ev.Event, pieces: list[Piece]) -> None:
        stretch = self._begin(kind, event.agent, event.parent)
        stretch.put_all(pieces)
        stretch.end()

    def _write_result(self, event: ev.ToolReturned) -> None:
        own = self._last_call == event.call_id
        name = "" if own else clean_line(event.name or self._heads.name(event.call_id))
        if self._look.verbose and "\n" in (text := event.text.strip("\n")):
            self._whole_result(event, name, clean(text))
        elif pieces := theme.result(event, name, marked=self._look.marked):
            self._line_of("result", event, pieces)

    def _whole_result(self, event: ev.ToolReturned, name: str, text: str) -> None:
        pieces = theme.result_header(event, name, marked=self._look.marked)
        service = self._ci if text.count("\n") >= MAX_UNFOLDED_LINES else None
        if service is None:
            self._line_of("result", event, [*pieces, ("dim", "\n" + text)])
            return
        self._folds += 1
        head = self._heads.head("result", event.agent, event.parent)
        title = Guard().feed(head + "".join(words for _, words in pieces))
        begin, end = fold(service, self._folds, title)
        self.out.append(begin)
        stretch = Stretch(self.out, self._palette, "", "head")
        stretch.put(theme.indented(text), "dim")
        stretch.end()
        self.out.append(end)
        self._last_call = None

    def _take_called(self, event: ev.ToolCalled) -> None:
        if "tool" in self._look.shown:
            self._loose(partial(self._write_call, event))

    def _take_returned(self, event: ev.ToolReturned) -> None:
        if self._look.shows_result(event):
            self._loose(partial(self._write_result, event))

    def _take_line(self, event: ev.Event) -> None:
        if isinstance(event, ev.Notice) and event.level == "error":
            self._told_error = event.text
        if line := self._describer.describe(event):
            self._loose(partial(self._line_of, line[0], event, line[1]))

    def _run_ended(self, event: ev.RunEnded) -> None:
        self._write_rest(event, self._shown.overdue())
        self._write_rest(event, self._shown.rest(event.reply))
        if event.reason is not None and event.reason == self._told_error:
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
