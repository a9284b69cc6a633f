"""Chunks: the simplest stream that a program can show as it arrives, one JSON object per line.

`text` is always new text of the top agent, so a reader prints it as it arrives. A message that follows another one
begins with a chunk whose text is a blank line, so the joined texts read as the agent wrote them. Only the last chunk
has `is_final`: its `text` is the part of the reply that was not yet in a chunk, `reply` is the whole reply, `outcome`
and `reason` describe how the run ended, and `session_id` names the conversation. Only at the end is it known which text
belongs to the reply: text that an agent writes between its tool calls is in chunks too. A reader that wants only the
reply uses `reply`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from penstock.events import BlockEnded, BlockStarted, Delta, Event, Outcome, RunEnded
from penstock.sinks.shown import BLANK_LINE, ShownText


class StreamChunk(msgspec.Struct):
    """One piece of an agent's output."""

    text: str = ""
    """New text, to be printed after the text of the earlier chunks."""
    thinking: str | None = None
    """New thinking. A chunk with thinking has no text."""
    is_final: bool = False
    """True only in the last chunk."""
    session_id: str | None = None
    """The agent's id of the conversation; only in the last chunk, if it is known."""
    reply: str | None = None
    """The whole reply; only in the last chunk."""
    message: int | None = None
    """Number of the message that the text or thinking belongs to; not in the last chunk."""
    outcome: Outcome | None = None
    """Outcome of the run; only in the last chunk."""
    reason: str | None = None
    """Reason for the outcome, if it is not obvious; only in the last chunk."""


class ChunksSink:
    """Sink that writes the main agent's text and thinking as chunks, without sub-agents and tools."""

    def __init__(self) -> None:
        self._shown = ShownText()
        self._message_of: dict[int, int | None] = {}  # of the open blocks

    def render(self, events: Iterable[Event]) -> bytes:
        """Return the chunks of these events, as lines."""
        return _encoder.encode_lines([_as_object(chunk) for chunk in self.chunks(events)])

    def close(self) -> bytes:
        """Return b"": nothing is held back."""
        return b""

    def chunks(self, events: Iterable[Event]) -> list[StreamChunk]:
        """Return the chunks of these events."""
        found: list[StreamChunk] = []
        for event in events:
            if event.parent is not None:
                continue
            if type(event) is Delta:
                self._add_delta(event, found)
                continue
            self._shown.note(event)
            if isinstance(event, BlockStarted):
                self._message_of[event.block] = event.message
            elif isinstance(event, BlockEnded):
                self._message_of.pop(event.block, None)
            elif isinstance(event, RunEnded):
                found.append(self._final(event))
        return found

    def _add_delta(self, event: Delta, found: list[StreamChunk]) -> None:
        if event.kind not in ("text", "thinking"):
            return
        message = self._message_of.get(event.block)
        if event.kind == "thinking":
            found.append(StreamChunk(thinking=event.text, message=message))
            return
        if self._shown.open_block != event.block and self._shown.begin(event.block, message):
            found.append(StreamChunk(BLANK_LINE, message=message))
        self._shown.add(event.text)
        found.append(StreamChunk(event.text, message=message))

    def _final(self, event: RunEnded) -> StreamChunk:
        rest = self._shown.rest(event.reply)
        self._shown = ShownText()
        self._message_of.clear()
        return StreamChunk(rest, None, True, event.session_id, event.reply, None, event.outcome, event.reason)


def _as_object(chunk: StreamChunk) -> dict[str, Any]:
    # `text` and `is_final` are always present, the other fields only if they have a value.
    fields: dict[str, Any] = {"text": chunk.text}
    if chunk.thinking is not None:
        fields["thinking"] = chunk.thinking
    fields["is_final"] = chunk.is_final
    for name in ("message", "session_id", "reply", "outcome", "reason"):
        if (value := getattr(chunk, name)) is not None:
            fields[name] = value
    return fields


_encoder = msgspec.json.Encoder()
