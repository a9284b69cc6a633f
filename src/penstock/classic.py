"""Names of the older designs from which Penstock was developed, implemented over the normalizer.

For programs that were written against those names, and for readers who know them; `docs/seeds.md` describes
what became of each. New programs use `penstock.stream.Stream`. This module decides nothing: text is compared,
repaired, closed and kept by `penstock.core.normalizer`, and made harmless by `penstock.sinks.sanitize`.
"""

from __future__ import annotations

import enum
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TextIO

import msgspec

from penstock import events as ev
from penstock import updates as up
from penstock.agents.generic.classifier import StreamEventClassifier as StreamEventClassifier
from penstock.agents.generic.classifier import StreamEventType as StreamEventType
from penstock.core.decoding import Decoded, Decoder, excerpt, well_formed
from penstock.core.health import Health
from penstock.core.normalizer.normalizer import Normalizer
from penstock.core.normalizer.snapshots import repair
from penstock.core.normalizer.state import PARTS, Block
from penstock.errors import AgentError
from penstock.run.agent import StreamingAgent as StreamingAgent
from penstock.sinks.chunks import StreamChunk as StreamChunk
from penstock.sinks.sanitize import clean, clean_line
from penstock.sinks.text.display_mode import look
from penstock.sinks.text.styles import COLOURS, PLAIN, Style, painted

__all__ = [
    "Colors",
    "ContentBlockState",
    "ContentType",
    "DeltaAccumulator",
    "DeltaRenderer",
    "HealthMonitor",
    "InBlock",
    "NotInBlock",
    "StreamChunk",
    "StreamEventClassifier",
    "StreamEventType",
    "StreamLineError",
    "StreamingAgent",
    "StreamingSession",
    "StreamingState",
    "TerminalMode",
    "TextDeltaRenderer",
    "ThinkingDeltaRenderer",
    "compute_append_only_suffix",
    "parse_stream_line",
]


# --- the streaming session -----------------------------------------------------------------------------


class StreamingState(enum.Enum):
    """State of a message in its life."""

    IDLE = "idle"
    """Nothing has been streamed since it began."""
    STREAMING = "streaming"
    FINALIZED = "finalized"
    """The message stopped; `has_any_streamed_content` still describes it."""


class NotInBlock(msgspec.Struct, frozen=True):
    """No block is current."""


class InBlock(msgspec.Struct, frozen=True):
    """The current block, and whether anything of it was printed."""

    index: int
    started_output: bool


ContentBlockState = NotInBlock | InBlock
"""The current block, or none."""


class StreamingSession:
    """Session of messages, one after another, reported by calls.

    A delta must contain new text only. After each call `events` has the normalizer's events that it made,
    and no others: a caller reads the text there, or passes the events to a sink.

    `index` is the number of a block in its message; `text` and `partial_json` are the new characters alone.

    Args:
        agent: the label of its events.
        armed: interpret a delta that begins with the whole block so far as a snapshot, and keep its new part
            (contract rule 4). Without it every delta is accepted as it is.
    """

    def __init__(self, agent: str = "agent", *, armed: bool = False) -> None:
        self._normalizer = Normalizer(agent, up.Traits(block_ends=True, repair_snapshots=armed))
        self.events: list[ev.Event] = []
        """Events of the last call."""
        self.state: StreamingState = StreamingState.IDLE
        self.content_block: ContentBlockState = NotInBlock()
        self._streamed = False
        self._tools: set[int] = set()  # where a tool's input streams

    @property
    def health(self) -> Health:
        """Counters of the session."""
        return self._normalizer.health

    def on_message_start(self) -> None:
        """Begin a message: end what an older one left open, and count nothing as streamed."""
        self._apply(up.MessageStart())
        self._tools.clear()
        self.state = StreamingState.IDLE
        self.content_block = NotInBlock()
        self._streamed = False

    def on_content_block_start(self, index: int) -> None:
        """Begin a block at `index`. The current block ends, and so does an earlier one at this index."""
        indices = {index}
        if isinstance(self.content_block, InBlock):
            indices.add(self.content_block.index)
        self._apply(*(up.BlockEnd(_place(kind, at)) for at in sorted(indices) for kind in _KINDS))
        self._tools -= indices
        self.content_block = InBlock(index, started_output=False)

    def on_text_delta(self, index: int, text: str) -> bool:
        """Add new text; return whether it is the first of its block, so that a prefix must be shown."""
        return self._delta("text", index, text)

    def on_thinking_delta(self, index: int, text: str) -> bool:
        """Add new thinking; return as `on_text_delta`. Text and thinking of one index are two blocks."""
        return self._delta("thinking", index, text)

    def on_tool_input_delta(self, index: int, partial_json: str, name: str = "tool") -> bool:
        """Add a piece of a tool's input; return as `on_text_delta`. `name` is the tool's, at the first piece."""
        start = [] if index in self._tools else [up.BlockStart("tool_input", _place("tool_input", index), name=name)]
        self._tools.add(index)
        return self._delta("tool_input", index, partial_json, start)

    def has_any_streamed_content(self) -> bool:
        """Return whether anything of this message was streamed: its repeat as a whole is then not shown."""
        return self._streamed

    def on_message_stop(self) -> bool:
        """End the message; return whether a line must be ended: if something was streamed since it began.

        A second stop returns False: there is nothing left to end.
        """
        self._apply(up.MessageEnd())
        ended = self.state is StreamingState.STREAMING
        self.state = StreamingState.FINALIZED
        self.content_block = NotInBlock()
        return ended

    def _delta(self, kind: ev.Kind, index: int, text: str, before: Sequence[up.Update] = ()) -> bool:
        self._apply(*before, up.Text(kind, "delta", text, _place(kind, index)))
        shown = any(isinstance(event, ev.Delta | ev.BlockRevised) for event in self.events)
        current = self.content_block
        started = isinstance(current, InBlock) and current.index == index and current.started_output
        self.content_block = InBlock(index, started_output=shown or started)
        if shown:
            self._streamed = True
            self.state = StreamingState.STREAMING
        return any(isinstance(event, ev.BlockStarted) for event in self.events)

    def _apply(self, *updates: up.Update) -> None:
        for update in updates:
            self._normalizer.apply(update)
        self.events = self._normalizer.drain()


_KINDS: tuple[ev.Kind, ...] = ("text", "thinking", "tool_input")


def _place(kind: ev.Kind, index: int) -> str:
    # The older design counts by kind and index; in the normalizer one place holds one block.
    return f"{kind} {index}"


# --- what to put out -----------------------------------------------------------------------------------


def compute_append_only_suffix(last_rendered: str, current: str) -> str:
    """Return the text to append to `last_rendered` so that it becomes `current`; "" if appending cannot do it.

    "" for two texts that are not empty and not equal is a discontinuity: the caller shows it (ends the line,
    begins a new one), as the normalizer does with `block_revised`.
    """
    action, text = repair(last_rendered, current, final=False)
    return text if action == "suffix" else ""


class TerminalMode(enum.Enum):
    """Time at which output is printed, and whether it is coloured."""

    FULL = "full"
    """A terminal: each delta at once."""
    BASIC = "basic"
    """Colours, but not a terminal: each block once, when it is complete."""
    NONE = "none"
    """Pipes, logs, CI: as `BASIC`, without colours."""

    @classmethod
    def detect(cls, stream: TextIO | None = None, env: Mapping[str, str] | None = None) -> TerminalMode:
        """Return the mode for `stream` (default: stdout) in the environment `env` (default: the process's).

        The command line chooses it in the same way.
        """
        stream = sys.stdout if stream is None else stream
        env = os.environ if env is None else env
        return cls(look(env, is_tty=stream is not None and stream.isatty()).mode)


class Colors(msgspec.Struct, frozen=True):
    """Colours, if they are enabled."""

    enabled: bool = True

    def paint(self, style: Style, text: str) -> str:
        """Return `text` between the codes of `style`; without colours, as it is."""
        return painted(COLOURS if self.enabled else PLAIN, style, text)


class DeltaRenderer(Protocol):
    """Renderer of a block while it streams, by appending only. A renderer has no state.

    `accumulated` is the text so far, `prefix` the label before it, `colors` paints, and `mode` is the time of output.
    """

    def render_first_delta(self, accumulated: str, prefix: str, colors: Colors, mode: TerminalMode) -> str:
        """Return the prefix and the text so far, without a line break; "" if blocks are shown when complete."""
        ...

    def render_subsequent_delta(self, accumulated: str, prefix: str, colors: Colors, mode: TerminalMode) -> str:
        """Return "", always: the caller prints `compute_append_only_suffix` instead."""
        ...

    def render_completion(self, mode: TerminalMode) -> str:
        """Return the end of the line; "" if the whole block was printed with its own."""
        ...


class _Renderer:
    _style: Style = "text"

    def render_first_delta(self, accumulated: str, prefix: str, colors: Colors, mode: TerminalMode) -> str:
        """Return the prefix in brackets and the text so far, made harmless; "" except in a terminal."""
        if mode is not TerminalMode.FULL:
            return ""
        head = colors.paint("head", f"[{clean_line(prefix)}] ")
        return head + colors.paint(self._style, clean(accumulated))

    def render_subsequent_delta(self, accumulated: str, prefix: str, colors: Colors, mode: TerminalMode) -> str:
        """Return "", always."""
        return ""

    def render_completion(self, mode: TerminalMode) -> str:
        """Return a line break in a terminal, otherwise ""."""
        return "\n" if mode is TerminalMode.FULL else ""


class TextDeltaRenderer(_Renderer):
    """Renderer of text."""


class ThinkingDeltaRenderer(_Renderer):
    """Renderer of thinking: dim."""

    _style: Style = "dim"


# --- accumulating --------------------------------------------------------------------------------------


class ContentType(enum.Enum):
    """Type of a piece of content; the values are the kinds of events' blocks."""

    TEXT = "text"
    THINKING = "thinking"
    TOOL_INPUT = "tool_input"


class _Content:
    """One content: its text in the normalizer's own record type, and its source and time."""

    __slots__ = ("block", "partial", "source", "updated")

    def __init__(self, content_type: ContentType) -> None:
        kind: ev.Kind = content_type.value
        self.block = Block(kind, None, None)
        self.partial = True
        self.source: str | None = None
        self.updated: int | None = None


class DeltaAccumulator:
    """Contents by type and key, each partial or complete, with its source and the time of its last update.

    `content_type` and `key` name a content; `source` is the name of the event that brought it. No clock is read:
    callers pass times as `at`, in milliseconds. A text is bounded as a block's is
    (`penstock.core.normalizer.state.MAX_BLOCK_CHARS`); `clear` frees it.
    """

    def __init__(self) -> None:
        self._contents: dict[tuple[ContentType, str], _Content] = {}

    def add_delta(
        self, content_type: ContentType, key: str, text: str, *, source: str | None = None, at: int | None = None
    ) -> None:
        """Append new text, and mark the content as partial. `source` is the name of the event that brought it."""
        content = self._touch(content_type, key, source, at)
        content.block.add(text)
        if len(content.block.parts) > PARTS:
            content.block.compact()
        content.partial = True

    def set_complete(
        self, content_type: ContentType, key: str, text: str, *, source: str | None = None, at: int | None = None
    ) -> str:
        """Set the complete text; return the new part of it ("" also if it is not a continuation)."""
        content = self._touch(content_type, key, source, at)
        suffix = compute_append_only_suffix(content.block.text, text)
        if content.block.text != text:
            content.block.set_text(text)
        content.partial = False
        return suffix

    def mark_as_delta(self, content_type: ContentType, key: str, *, at: int | None = None) -> None:
        """Mark the content as partial."""
        self._touch(content_type, key, None, at).partial = True

    def mark_as_complete(self, content_type: ContentType, key: str, *, at: int | None = None) -> None:
        """Mark the content as complete, with its current text."""
        self._touch(content_type, key, None, at).partial = False

    def is_delta(self, content_type: ContentType, key: str) -> bool:
        """Return whether the content exists and is partial."""
        content = self._contents.get((content_type, key))
        return content is not None and content.partial

    def get_display_content(self, content_type: ContentType, key: str) -> str | None:
        """Return the text so far; None if there is no such content. It is raw: sanitize it before showing it."""
        content = self._contents.get((content_type, key))
        return content.block.text if content is not None else None

    def source(self, content_type: ContentType, key: str) -> str | None:
        """Return the event that brought the last text, if it was given."""
        content = self._contents.get((content_type, key))
        return content.source if content is not None else None

    def last_update(self, content_type: ContentType, key: str) -> int | None:
        """Return the time of the content's last change, in milliseconds, if it was given."""
        content = self._contents.get((content_type, key))
        return content.updated if content is not None else None

    def clear(self, content_type: ContentType | None = None, key: str | None = None) -> None:
        """Drop all contents, those of a type, or those of a key."""
        self._contents = {
            (kind, name): content
            for (kind, name), content in self._contents.items()
            if content_type not in (None, kind) or key not in (None, name)
        }

    def _touch(self, content_type: ContentType, key: str, source: str | None, at: int | None) -> _Content:
        content = self._contents.get((content_type, key))
        if content is None:
            content = self._contents[(content_type, key)] = _Content(content_type)
        content.source = content.source if source is None else source
        content.updated = content.updated if at is None else at
        return content


# --- health --------------------------------------------------------------------------------------------


class HealthMonitor:
    """Counter of the events of a stream, in the stream's `Health` or one of its own.

    Only lines that could not be parsed, and texts that had to be revised, are warnings. `label` is the agent's name;
    `health` is the report to count in, by default a new one.
    """

    def __init__(self, label: str, health: Health | None = None) -> None:
        self.label = label
        self.health: Health = Health() if health is None else health

    def record_delta_event(self) -> None:
        """Count an event that brought new text."""
        self._line().delta_events += 1

    def record_complete_event(self) -> None:
        """Count an event that brought complete content."""
        self._line().complete_events += 1

    def record_control_event(self) -> None:
        """Count an event that only controls the stream."""
        self._line().control_events += 1

    def record_unknown_event(self, kind: str) -> None:
        """Count valid JSON of a kind that is not handled."""
        self._line().count_unknown(kind)

    def record_parse_error(self) -> None:
        """Count a line that could not be parsed."""
        health = self._line()
        health.count_parse_error(health.lines)

    @property
    def warnings(self) -> list[str]:
        """Warnings: a sentence for each problem that should be examined."""
        return self.health.warnings

    def summary(self) -> str:
        """Return all counts that matter, for people."""
        return self.health.summary(self.label)

    def _line(self) -> Health:
        self.health.lines += 1
        return self.health


# --- one line of claude's wire -------------------------------------------------------------------------


class StreamLineError(AgentError, ValueError):
    """The line is not JSON."""


def parse_stream_line(line: str | bytes) -> StreamChunk:
    """Return one line of claude's `stream-json` as a chunk, without state from the lines before.

    A `result` gives the final chunk, with the whole text in `text`; an `assistant` message its text blocks
    joined, and its thinking blocks; every other line an empty chunk. For a stream, with each text once,
    use `penstock.sinks.chunks`.

    Raises:
        StreamLineError: the line is not one JSON value (it is a `ValueError` too).
    """
    data = _parsed(line)
    if not isinstance(data, dict):
        return StreamChunk()
    if data.get("type") == "result":
        return StreamChunk(_text(data, "result"), is_final=True, session_id=_text(data, "session_id") or None)
    if data.get("type") == "assistant":
        message = data.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
        text = "".join(_text(block, "text") for block in blocks if block.get("type") == "text")
        thinking = "".join(_text(block, "thinking") for block in blocks if block.get("type") == "thinking")
        return StreamChunk(text, thinking or None)
    return StreamChunk()


def _parsed(line: str | bytes) -> Any:
    raw = line.encode("utf-8", "surrogatepass") if isinstance(line, str) else line
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        found = Decoder(Any).slow(raw)
    if len(found) == 1 and isinstance(found[0], Decoded):
        return found[0].event
    raise StreamLineError(f"the line is not JSON: {excerpt(raw)!r}", expected="one JSON object a line")


def _text(data: dict[str, Any], key: str) -> str:
    value = data.get(key)
    return well_formed(value) if isinstance(value, str) else ""
