"""The layout that all modes share: which line a piece of text belongs to, and the order of the lines.

A line belongs to one block. Text and thinking of the main agent stream, and so does the title of a tool call. While
such a line is open, everything else waits:

    open            another block's delta       anything that is not a block of the main agent
    text, thinking  ends it, begins its own     waits until it has ended (`_waiting`)
    a call's line   waits (`_queue`)            waits (`_queue`)

In `verbose` the output of a call streams like text.

The first line of a run is open until the agent's model is known or another line begins.

The output depends only on the events. `live` only decides whether an open line is written as it grows or when it has
ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from penstock import events as ev
from penstock.core.bounded import BoundedDict
from penstock.core.tool_titles import is_plan_tool
from penstock.sinks.sanitize import Sanitizer, clean
from penstock.sinks.shown import ShownText, shared
from penstock.sinks.text import theme
from penstock.sinks.text.calls import Calls
from penstock.sinks.text.edits import Paths
from penstock.sinks.text.first_line import FirstLine
from penstock.sinks.text.folding import fold, write_folded
from penstock.sinks.text.line_writer import LineWriter, Markdown, StreamedBlock
from penstock.sinks.text.markdown import MarkdownStyles, styled
from penstock.sinks.text.plan_calls import PlanCalls
from penstock.sinks.text.results import Results
from penstock.sinks.text.run_summary import Guidance, RunFacts
from penstock.sinks.text.streamed_calls import StreamedCall, StreamedCalls
from penstock.sinks.text.styles import Palette, Piece, duration
from penstock.sinks.text.visibility import DESCRIBED, Describer, LineKind, Prefixes, Service, Visibility
from penstock.sinks.text.wrapping import Margin, columns

if TYPE_CHECKING:
    from penstock.sinks.text.rendering.rendered_text import Rendering

MAX_KEPT_BLOCKS = 64
"""Maximum number of ended blocks whose text is kept, so that a late revision shows only what is new."""
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
        prefixes: Prefixes,
        margin: Margin,
        paths: Paths,
        guidance: Guidance,
        ci: Service | None = None,
        rendering: Rendering | None = None,
    ) -> None:
        self.out: list[str] = []
        self.open_block: int | None = None
        self.grow: Callable[[str], None] = self.out.append
        self._palette = palette
        self._live = live
        self._visibility = visibility
        self._margin = margin
        self._ci = ci
        self._rendering = rendering
        self._folds = 0
        self._prefixes = prefixes
        self._paths = paths
        self._facts = RunFacts(paths, guidance)
        self._describer = Describer(visibility, paths, self._facts)
        self._calls = Calls(paths, verbose=visibility.verbose)
        self._results = Results(visibility, self._calls, folds=ci is not None)
        self._streamed = StreamedCalls(self._calls)
        self._plans = PlanCalls()
        self._first = FirstLine(live=live)
        self._last_line: tuple[LineKind, LineWriter] | None = None
        self._above: LineKind | None = None  # kind of the last line that was written; None at the start
        self._reset()

    def _reset(self) -> None:
        self._shown = ShownText(clean)
        self._blocks: dict[int, StreamedBlock | None] = {}  # None for a block that is not shown
        self._kept: BoundedDict[int, StreamedBlock] = BoundedDict(MAX_KEPT_BLOCKS)
        for part in (self._prefixes, self._paths, self._facts, self._results, self._streamed, self._plans):
            part.reset()
        self._describer.reset()
        self._has_reported = False  # some event has come
        self._has_begun = False
        self._last_error: str | None = None
        self._spoken: set[int] = set()  # open messages whose text was shown
        self._text: StreamedBlock | None = None
        self._line: StreamedCall | None = None
        self._last_call: str | None = None  # the call whose line was written last
        self._waiting: list[Callable[[], None]] = []
        self._queue: deque[ev.Event] = deque()

    def take(self, event: ev.Event) -> None:
        """Lay out one event."""
        self._has_reported = True
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
        self._end_first()
        self._last_call = None

    @property
    def holds(self) -> dict[tuple[int, int], float]:
        """Held text of the open line: a key that no other one has, and the seconds that it may be held."""
        block = self._text
        if block is None or block.markdown is None:
            return {}
        return {(block.number, number): seconds for number, seconds in block.markdown.holds.items()}

    def flush_held(self) -> None:
        """Write the held text as it came."""
        if self._text is not None:
            self._text.flush_held()

    def silent(self, seconds: int, agent: str) -> None:
        """Write the length of the silence, and the command that is running. In a log, open text is not interrupted."""
        if self._live:
            self.close()
        if self._visibility.quiet:
            return
        state = "working" if self._has_reported else "starting"
        words = f"· still {state}, {duration(seconds * 1000, whole=True)}"
        line = self._begin("notice", agent, None)
        line.put(f"{words}: {running}" if (running := self._results.running) else words, "dim")
        line.end()

    def _handle(self, event: ev.Event) -> None:
        self._shown.note(event)
        if not self._has_begun and isinstance(event, _WORK):
            # Some agents say what they are at the end only; what they may do is known before.
            self._take_start(ev.RunStarted(agent=event.agent))
            self._end_first()
            self._has_begun = True
        if (handler := _HANDLERS.get(type(event))) is not None:
            handler(self, event)

    def _loose(self, write: Callable[[], None]) -> None:
        if self._text is None:
            write()
        else:
            self._waiting.append(write)

    # --- a call's growing line ---------------------------------------------------------------------

    def _route_to_call(self, event: ev.Event) -> bool:
        """Feed an event to the streaming call that it belongs to, whatever waits; return whether it is done with."""
        if isinstance(event, (ev.Delta, ev.BlockRevised, ev.BlockEnded)):
            if event.kind != "tool_input" or event.parent is not None:
                return False
            if (tool := self._streamed.of_block(event.block)) is not None:
                self._feed_tool(tool, event)
            return True
        if isinstance(event, ev.BlockStarted):
            if event.kind == "tool_input" and event.parent is None and "tool" in self._visibility.shown:
                self._add_tool(event)
        elif isinstance(event, ev.RunStarted):
            self._paths.add(event.cwd)
        elif isinstance(event, ev.ToolCalled):
            self._prefixes.learn(event)
            self._results.learn(event)
            self._facts.note(event)
            if event.parent is None and (called := self._streamed.of_event(event)) is not None:
                called.called = event
                self._finish_if_open(called)
                return True
        elif isinstance(event, ev.QuestionAsked):
            self._results.note_question(event)
        elif isinstance(event, ev.MessageEnded) and event.parent is None:
            self._abandon_calls(event.message)
        elif isinstance(event, ev.RunEnded):
            self._abandon_calls(None)
        return False

    def _add_tool(self, event: ev.BlockStarted) -> None:
        if not is_plan_tool(event.name or "") and (older := self._streamed.add(event)) is not None:
            older.complete = True
            self._finish_if_open(older)

    def _feed_tool(self, tool: StreamedCall, event: ev.Delta | ev.BlockRevised | ev.BlockEnded) -> None:
        if isinstance(event, ev.Delta):
            if self._live:
                tool.feed(event.text)
            else:
                tool.parts.append(event.text)
        elif isinstance(event, ev.BlockEnded) and not event.complete:
            tool.cut = True
            self._finish_if_open(tool)

    def _abandon_calls(self, message: int | None) -> None:
        """Finish the streaming inputs of this message, or of all messages: no call will follow them."""
        for tool in self._streamed.open():
            if not tool.finished and message in (None, tool.event.message):
                tool.complete = True
                self._finish_if_open(tool)

    def _finish_if_open(self, tool: StreamedCall) -> None:
        if tool is self._line:
            self._finish_tool(tool)

    def _open_tool(self, event: ev.BlockStarted) -> None:
        tool = self._streamed.of_block(event.block)
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
            tool.write_to(self._begin("tool", event.agent, None))

    def _finish_tool(self, tool: StreamedCall) -> None:
        self._line = self.open_block = None
        self._streamed.drop(tool)
        event, line = tool.called, tool.line or self._begin("tool", tool.event.agent, None)
        if tool.line is None:
            tool.write_to(line)
        grew = tool.finish()
        if event is None:
            if tool.cut and self._visibility.marked:
                line.put(f" {theme.CUT_OFF}", "dim")
        elif not grew:
            # The title differs from what was written: a line is never withdrawn, in any mode.
            line.put("…")
            line.end()
            self._write_call(event)
            return
        self._end_call(line, event)

    def _write_call(self, event: ev.ToolCalled) -> None:
        line = self._begin("tool", event.agent, event.parent)
        pieces, separator = self._calls.head(event.name, event.tool_kind)
        line.put_all(pieces)
        if title := self._calls.title(event):
            line.put(separator + title)
        self._end_call(line, event)

    def _end_call(self, line: LineWriter, event: ev.ToolCalled | None) -> None:
        if event is not None:
            line.put_all(self._calls.after_title(event))
            line.put_all(self._calls.below(event))
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
            shown = self._visibility.shows_block(event.kind)
            block = self._blocks[event.block] = StreamedBlock(event, message) if shown else None
            if block is not None and block.kind == "text":
                block.markdown = self._markdown()
        return self._blocks[event.block]

    def _markdown(self) -> Markdown | None:
        if self._rendering is not None:
            return self._rendering.begin()
        return MarkdownStyles() if self._palette or self._margin.width is not None else None

    def _styled(self, event: ev.Event, pieces: list[Piece]) -> list[Piece]:
        if self._rendering is not None:
            width = self._margin.width
            if width is not None:
                width -= 1 + columns(self._prefixes.prefix("text", event.agent, event.parent).rpartition("\n")[2])
            return self._rendering.pieces(pieces, width)
        return styled(pieces) if self._palette or self._margin.width is not None else pieces

    def _delta(self, event: ev.Delta) -> None:
        if event.parent is None and (block := self._block(event, None)) is not None:
            if self._text is not block:
                if block.kind == "text":
                    self._write_rest(event, self._shown.overdue(event.text))
                self._begin_text(block)
            self.grow(event.text)

    def _begin_text(self, block: StreamedBlock, mark: str = "") -> None:
        self._end_text()
        mark += theme.OUTPUT if block.kind == "result" else ""
        block.line = self._begin(block.kind, block.agent, None, mark)
        self._text = block
        self.open_block = block.number
        self.grow = block.grow if self._live else block.parts.append
        if block.kind == "text":
            self._shown.begin(block.number, block.message, correction=mark == theme.REVISED)
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
        if block.call_id is not None and block.line is not None:
            self._results.note_live(block.call_id, "".join(block.parts))  # the written text, not its final version
        block.parts = [] if event.truncated else [event.text]
        block.start = len(block.parts)
        self._kept[block.number] = block

    def _sub_agent_block(self, event: ev.BlockEnded) -> None:
        """Write a block of a sub-agent, which does not stream."""
        if event.kind == "tool_input":
            if not event.complete and "tool" in self._visibility.shown and self._visibility.marked:
                self._loose(partial(self._line_of, "tool", event, [("mark", theme.CALL), ("dim", theme.CUT_OFF)]))
        elif event.kind in self._visibility.shown and event.text:
            pieces = self._styled(event, theme.whole_block(event, marked=self._visibility.marked))
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
        """Write what is new in `text`. Written text stays; a marked line has the text from the first difference on."""
        del block.parts[block.start :]
        written = "".join(block.parts)
        if text.startswith(written):
            rest = text[len(written) :]
        else:
            kept = shared(written, text)
            if block is self._text:
                block.end_line()
            block.parts, block.start, block.sanitizer = [text[:kept]], 1, Sanitizer()
            block.markdown = block.markdown and self._markdown()
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
                self._loose(partial(self._line_of, "notice", event, [("dim", theme.REVISED + theme.GIVEN_UP)]))

    def _write_rest(self, event: ev.Event, text: str) -> None:
        """Write the text of the reply that was in no block."""
        self._end_text()
        if (rest := clean(text)).strip():
            self._line_of("text", event, self._styled(event, [("text", rest)]))

    def _begin(self, kind: LineKind, agent: str, parent: str | None, mark: str = "") -> LineWriter:
        self._last_call = None
        self._end_first()
        if self._last_line is not None and self._last_line[1].begun:
            self._above = self._last_line[0]
        # The answers of the main agent have blank lines around them.
        is_answer = kind == "text" and parent is None
        apart = self._above not in (None, "text") if is_answer else kind == "done" and self._above == "text"
        head = self._prefixes.prefix(kind, agent, parent) + mark + (theme.THOUGHT if kind == "thinking" else "")
        line = LineWriter(self.out, self._palette, head, margin=self._margin, space_before=apart)
        self._last_line = "tool" if kind == "text" and not is_answer else kind, line
        return line

    def _line_of(self, kind: LineKind, event: ev.Event, pieces: Iterable[Piece]) -> None:
        line = self._begin(kind, event.agent, event.parent)
        line.put_all(pieces)
        line.end()

    def _write_result(self, event: ev.ToolReturned) -> None:
        lines = self._results.lines(event, own=self._last_call == event.call_id)
        if lines is None:
            return
        self._end_first()
        if self._ci is None or lines.foldable.count("\n") < MAX_UNFOLDED_LINES:
            below: list[Piece] = [("output", f"\n{lines.foldable}")] if lines.foldable else []
            self._line_of("result", event, [*lines.head, *below, *lines.shown])
        else:
            title = "".join(words for _, words in lines.head)
            if lines.shown:
                self._line_of("result", event, lines.head)
                title = lines.folded_title
            self._folds += 1
            title = self._prefixes.prefix("result", event.agent, event.parent) + title
            write_folded(self.out, self._palette, fold(self._ci, event.agent, self._folds, title), lines)
            self._last_call = None

    def _take_called(self, event: ev.ToolCalled) -> None:
        if "tool" not in self._visibility.shown:
            return
        if is_plan_tool(event.name):
            self._plans.add(event)
        else:
            self._loose(partial(self._write_call, event))

    def _take_returned(self, event: ev.ToolReturned) -> None:
        self._facts.note(event)
        call, shown = self._plans.returned(event)
        self._take_plan(None)
        if call is not None:
            self._loose(partial(self._write_call, call))
        if shown and self._visibility.shows_result(event):
            self._loose(partial(self._write_result, event))

    def _take_line(self, event: ev.Event) -> None:
        if isinstance(event, ev.Notice) and event.level == "error":
            self._last_error = event.text
        if line := self._describer.describe(event):
            self._loose(partial(self._line_of, line[0], event, line[1]))

    def _take_start(self, event: ev.RunStarted) -> None:
        if self._has_begun or (self._last_line is not None and self._last_line[0] not in ("run", "notice")):
            if self._visibility.verbose:  # the first line has ended; only `verbose` shows later facts
                self._take_line(event)
            return
        if line := self._describer.describe(event):
            self._first.add(line[1], partial(self._begin, "run", event.agent, event.parent))
        if event.model is not None:
            self._end_first()

    def _end_first(self) -> None:
        if self._first.end():
            self._facts.has_first_line = True

    def _take_plan(self, event: ev.PlanChanged | None, *, ended: bool = False) -> None:
        if (plan := self._plans.due(event, ended=ended)) is not None:
            self._take_line(plan)

    def _run_ended(self, event: ev.RunEnded) -> None:
        self._write_rest(event, self._shown.overdue())
        self._write_rest(event, self._shown.rest(event.reply))
        if event.reason is not None and event.reason == self._last_error:
            event = msgspec.structs.replace(event, reason=None)
        self._take_plan(None, ended=True)
        for call in self._plans.rest():
            self._write_call(call)
        self._take_line(event)
        self._reset()


_WORK = (ev.BlockStarted, ev.ToolCalled, ev.QuestionAsked, ev.PlanChanged)
"""Events with which an agent's work begins: after them, the first line is finished."""

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
    ev.RunStarted: Layout._take_start,
    ev.PlanChanged: Layout._take_plan,
}
