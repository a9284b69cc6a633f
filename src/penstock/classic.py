"""The names of the older designs that Penstock grew from, over the one session.

For programs that were written against those names, and for readers who know them; `docs/seeds.md` says
what became of each. New programs use `penstock.stream.Stream`. Nothing is decided here: text is compared,
repaired, closed and kept by `penstock.core.normalizer`, made harmless by `penstock.sinks.sanitize`.
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
from penstock.sinks.chunks import StreamChunk as StreamChunk
from penstock.sinks.sanitize import clean, clean_line
from penstock.sinks.text.display_mode import look
from penstock.sinks.text.theme import COLOURS, PLAIN, Style, painted

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
    """Where a message is in its life."""

    IDLE = "idle"
    """Nothing was streamed since it began."""
    STREAMING = "streaming"
    FINALIZED = "finalized"
    """It stopped; `has_any_streamed_content` still answers for it."""


class NotInBlock(msgspec.Struct, frozen=True):
    """No block is current."""


class InBlock(msgspec.Struct, frozen=True):
    """The current block, and whether anything of it was put out."""

    index: int
    started_output: bool


ContentBlockState = NotInBlock | InBlock
"""Which block is current."""


class StreamingSession:
    """One message after another, told by calls.

    A delta must hold new text only. After each call `events` holds the normalizer's events that it made,
    and no others: who wants the text reads it there, or gives them to a sink.

    Args:
        agent: the label of its events.
        armed: take a delta that begins with the whole block so far for a snapshot, and keep its new part
            (contract rule 4). Without it every delta is believed.
    """

    def __init__(self, agent: str = "agent", *, armed: bool = False) -> None:
        self._normalizer = Normalizer(agent, up.Traits(block_ends=True, repair_snapshots=armed))
        self.events: list[ev.Event] = []
        """What the last call meant."""
        self.state = StreamingState.IDLE
        self.content_block: ContentBlockState = NotInBlock()
        self._streamed = False
        self._tools: set[int] = set()  # where a tool's input streams

    @property
    def health(self) -> Health:
        """What was counted."""
        return self._normalizer.health

    def on_message_start(self) -> None:
        """A message begins: what an older one left open ends, and nothing counts as streamed."""
        self._apply(up.MessageStart())
        self._tools.clear()
        self.state = StreamingState.IDLE
        self.content_block = NotInBlock()
        self._streamed = False

    def on_content_block_start(self, index: int) -> None:
        """A block begins at `index`. The current one is over, and so is one that stood there before."""
        indices = {index}
        if isinstance(self.content_block, InBlock):
            indices.add(self.content_block.index)
        self._apply(*(up.BlockEnd(_place(kind, at)) for at in sorted(indices) for kind in _KINDS))
        self._tools -= indices
        self.content_block = InBlock(index, started_output=False)

    def on_text_delta(self, index: int, text: str) -> bool:
        """New text; whether it is the first of its block, so that a prefix is to be shown."""
        return self._delta("text", index, text)

    def on_thinking_delta(self, index: int, text: str) -> bool:
        """New thinking; answers like `on_text_delta`. Text and thinking of one index are two blocks."""
        return self._delta("thinking", index, text)

    def on_tool_input_delta(self, index: int, partial_json: str, name: str = "tool") -> bool:
        """A new piece of a tool's input; answers like `on_text_delta`. `name`: the tool's, at the first piece."""
        start = [] if index in self._tools else [up.BlockStart("tool_input", _place("tool_input", index), name=name)]
        self._tools.add(index)
        return self._delta("tool_input", index, partial_json, start)

    def has_any_streamed_content(self) -> bool:
        """Whether anything of this message was streamed: its repeat as a whole is then not shown."""
        return self._streamed

    def on_message_stop(self) -> bool:
        """The message is over; whether a line is to be ended: something was streamed since it began.

        A second stop answers False: there is nothing left to end.
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
    """What to append to `last_rendered` so that `current` stands there; "" where appending cannot do it.

    "" for two texts that are not empty and not equal is a discontinuity: the caller says so (ends the line,
    begins a new one), as the normalizer does with `block_revised`.
    """
    action, text = repair(last_rendered, current, final=False)
    return text if action == "suffix" else ""


class TerminalMode(enum.Enum):
    """When output leaves, and whether it is coloured."""

    FULL = "full"
    """A terminal: each delta at once."""
    BASIC = "basic"
    """Colours, but no terminal: each block once, when it is whole."""
    NONE = "none"
    """Pipes, logs, CI: as `BASIC`, without colours."""

    @classmethod
    def detect(cls, stream: TextIO | None = None, env: Mapping[str, str] | None = None) -> TerminalMode:
        """The mode for a stream (stdout) in an environment (the process's), as the command line chooses it."""
        stream = sys.stdout if stream is None else stream
        env = os.environ if env is None else env
        return cls(look(env, is_tty=stream is not None and stream.isatty()).mode)


class Colors(msgspec.Struct, frozen=True):
    """Whether colours are wanted."""

    enabled: bool = True

    def paint(self, style: Style, text: str) -> str:
        """`text` between the codes of `style`, or as it is."""
        return painted(COLOURS if self.enabled else PLAIN, style, text)


class DeltaRenderer(Protocol):
    """What is shown of a block while it streams, by appending only. A renderer remembers nothing."""

    def render_first_delta(self, accumulated: str, prefix: str, colors: Colors, mode: TerminalMode) -> str:
        """The prefix and the text so far, with no line break of its own; "" where blocks are shown when whole."""
        ...

    def render_subsequent_delta(self, accumulated: str, prefix: str, colors: Colors, mode: TerminalMode) -> str:
        """Always "": who renders puts out `compute_append_only_suffix` instead."""
        ...

    def render_completion(self, mode: TerminalMode) -> str:
        """The end of the line; "" where the whole block was put out with its own."""
        ...


class _Renderer:
    _style: Style = "text"

    def render_first_delta(self, accumulated: str, prefix: str, colors: Colors, mode: TerminalMode) -> str:
        """The prefix in brackets and the text so far, made harmless; "" but in a terminal."""
        if mode is not TerminalMode.FULL:
            return ""
        head = colors.paint("head", f"[{clean_line(prefix)}] ")
        return head + colors.paint(self._style, clean(accumulated))

    def render_subsequent_delta(self, accumulated: str, prefix: str, colors: Colors, mode: TerminalMode) -> str:
        """Always ""."""
        return ""

    def render_completion(self, mode: TerminalMode) -> str:
        """A line break in a terminal, else ""."""
        return "\n" if mode is TerminalMode.FULL else ""


class TextDeltaRenderer(_Renderer):
    """Renders text."""


class ThinkingDeltaRenderer(_Renderer):
    """Renders thinking: dim."""

    _style: Style = "dim"


# --- accumulating --------------------------------------------------------------------------------------


class ContentType(enum.Enum):
    """What a piece of content is; the values are the kinds of events' blocks."""

    TEXT = "text"
    THINKING = "thinking"
    TOOL_INPUT = "tool_input"


class _Content:
    """One content: its text in the normalizer's own kind of record, and what was said about it."""

    __slots__ = ("block", "partial", "source", "updated")

    def __init__(self, content_type: ContentType) -> None:
        kind: ev.Kind = content_type.value
        self.block = Block(kind, None, None)
        self.partial = True
        self.source: str | None = None
        self.updated: int | None = None


class DeltaAccumulator:
    """Contents by type and key, each partial or complete, with its source and the time of its last update.

    It reads no clock: times come in as `at`, in milliseconds. A text is bounded as a block's is
    (`penstock.core.normalizer.state.MAX_BLOCK_CHARS`); `clear` frees it.
    """

    def __init__(self) -> None:
        self._contents: dict[tuple[ContentType, str], _Content] = {}

    def add_delta(
        self, content_type: ContentType, key: str, text: str, *, source: str | None = None, at: int | None = None
    ) -> None:
        """Append new text; the content is partial. `source`: the name of the event that brought it."""
        content = self._touch(content_type, key, source, at)
        content.block.add(text)
        if len(content.block.parts) > PARTS:
            content.block.compact()
        content.partial = True

    def set_complete(
        self, content_type: ContentType, key: str, text: str, *, source: str | None = None, at: int | None = None
    ) -> str:
        """The whole text is known; gives what of it is new ("" also where it is not a continuation)."""
        content = self._touch(content_type, key, source, at)
        suffix = compute_append_only_suffix(content.block.text, text)
        if content.block.text != text:
            content.block.set_text(text)
        content.partial = False
        return suffix

    def mark_as_delta(self, content_type: ContentType, key: str, *, at: int | None = None) -> None:
        """The content is partial."""
        self._touch(content_type, key, None, at).partial = True

    def mark_as_complete(self, content_type: ContentType, key: str, *, at: int | None = None) -> None:
        """The content is complete as it stands."""
        self._touch(content_type, key, None, at).partial = False

    def is_delta(self, content_type: ContentType, key: str) -> bool:
        """Whether the content is there and partial."""
        content = self._contents.get((content_type, key))
        return content is not None and content.partial

    def get_display_content(self, content_type: ContentType, key: str) -> str | None:
        """The text so far, None if there is no such content. It is raw: sanitize before showing it."""
        content = self._contents.get((content_type, key))
        return content.block.text if content is not None else None

    def source(self, content_type: ContentType, key: str) -> str | None:
        """The event that brought the last text, where that was said."""
        content = self._contents.get((content_type, key))
        return content.source if content is not None else None

    def last_update(self, content_type: ContentType, key: str) -> int | None:
        """When the content last changed, in milliseconds, where that was said."""
        content = self._contents.get((content_type, key))
        return content.updated if content is not None else None

    def clear(self, content_type: ContentType | None = None, key: str | None = None) -> None:
        """Forget all contents, those of a type, or those of a key."""
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
    """Counts what passes, over a stream's `Health` or one of its own.

    Only lines that could not be parsed, and texts that had to be revised, are warnings.
    """

    def __init__(self, label: str, health: Health | None = None) -> None:
        self.label = label
        self.health = Health() if health is None else health

    def record_delta_event(self) -> None:
        """An event brought new text."""
        self._line().delta_events += 1

    def record_complete_event(self) -> None:
        """An event brought something whole."""
        self._line().complete_events += 1

    def record_control_event(self) -> None:
        """An event only steered."""
        self._line().control_events += 1

    def record_unknown_event(self, kind: str) -> None:
        """Valid JSON of a kind that is not handled."""
        self._line().count_unknown(kind)

    def record_parse_error(self) -> None:
        """A line could not be parsed."""
        health = self._line()
        health.count_parse_error(health.lines)

    @property
    def warnings(self) -> list[str]:
        """A sentence for each thing that should be looked at."""
        return self.health.warnings

    def summary(self) -> str:
        """All counts that matter, for people."""
        return self.health.summary(self.label)

    def _line(self) -> Health:
        self.health.lines += 1
        return self.health


# --- one line of claude's wire -------------------------------------------------------------------------


class StreamLineError(AgentError, ValueError):
    """The line is not JSON."""


def parse_stream_line(line: str | bytes) -> StreamChunk:
    """One line of claude's `stream-json` as a chunk, with no memory of the lines before.

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
