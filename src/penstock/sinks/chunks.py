"""Chunks: the smallest stream that a program can show while it comes, one JSON object a line.

`text` is only ever new text of the top agent, so a reader puts it out as it comes. Exactly one chunk, the
last, has `is_final`: its `text` is what of the reply was not put out yet, `reply` is the whole reply, and
`session_id` names the conversation. Which text belongs to the reply is known only at the end: what an agent
says between its tool calls was chunks as well. A reader that wants the reply alone takes `reply`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from penstock.events import BlockStarted, Delta, Event, MessageEnded, RunEnded, ToolReturned


class StreamChunk(msgspec.Struct):
    """One piece of an agent's output."""

    text: str = ""
    """New text, to be put out after the text of the chunks before."""
    thinking: str | None = None
    """New thinking; such a chunk has no text."""
    is_final: bool = False
    """True in the last chunk alone."""
    session_id: str | None = None
    """The agent's name for the conversation; in the last chunk, where it is known."""
    reply: str | None = None
    """The whole reply; in the last chunk."""


class ChunksSink:
    """Makes chunks of the top agent's text and thinking; sub-agents and tools are passed over."""

    def __init__(self) -> None:
        # What was put out, by part and message, to hold the final chunk against; a tool result begins a part.
        self._put_out: dict[tuple[int, int], list[str]] = {}
        self._part = 0
        self._message_of: dict[int, int] = {}
        self._returned = False

    def render(self, events: Iterable[Event]) -> bytes:
        """The chunks that these events make, as lines."""
        return _encoder.encode_lines([_as_object(chunk) for chunk in self.chunks(events)])

    def close(self) -> bytes:
        """Nothing is held back."""
        return b""

    def chunks(self, events: Iterable[Event]) -> list[StreamChunk]:
        """The chunks that these events make."""
        found: list[StreamChunk] = []
        for event in events:
            if event.parent is not None:
                continue
            kind = type(event)
            if kind is Delta:
                found.extend(self._delta(event))  # type: ignore[arg-type]  # narrowed by its exact type, for speed
            elif isinstance(event, BlockStarted):
                self._message_of[event.block] = event.message or 0
            elif isinstance(event, MessageEnded) and event.status == "superseded":
                self._put_out.pop((self._part, event.message), None)
            elif isinstance(event, ToolReturned):
                self._returned = True
            elif isinstance(event, RunEnded):
                found.append(StreamChunk(self._rest(event.reply), None, True, event.session_id, event.reply))
        return found

    def _delta(self, event: Delta) -> Iterable[StreamChunk]:
        if event.kind == "thinking":
            return (StreamChunk(thinking=event.text),)
        if event.kind != "text":
            return ()
        if self._returned:
            self._part += 1
            self._returned = False
        self._put_out.setdefault((self._part, self._message_of.get(event.block, 0)), []).append(event.text)
        return (StreamChunk(event.text),)

    def _rest(self, reply: str) -> str:
        before = sum(part < self._part for part, _ in self._put_out)
        return not_put_out(["".join(texts) for texts in self._put_out.values()], reply, before)


def not_put_out(texts: list[str], reply: str, before: int = 0) -> str:
    """The part of the reply that these texts, put out one after another, did not show yet.

    The reply continues what was put out last, as a rule: it is then the rest of it, or nothing. Where the two
    part (the agent revised its text), it is everything after the first difference, so that no text is missing,
    at the price of a piece shown twice. `before`: so many texts are older than the last tool result, and are
    a part of the reply only if everything after them is one as well.
    """
    best = 0
    for first in range(len(texts)):
        shown, whole = _covered(texts[first:], reply)
        if whole:
            return reply[shown:]
        if first >= before:
            best = max(best, shown)
    return reply[best:]


def _covered(texts: list[str], reply: str) -> tuple[int, bool]:
    """How many characters of the reply these texts are, and whether they all are a part of it."""
    at = 0
    for number, text in enumerate(texts):
        # Messages are joined by a blank line, except where the adapter says that one continues the other.
        gap = 2 if number and reply.startswith("\n\n", at) and reply.startswith(text, at + 2) else 0
        if not reply.startswith(text, at + gap):
            return at + _common(text, reply[at : at + len(text)]), False
        at += gap + len(text)
    return at, True


def _common(one: str, other: str) -> int:
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _as_object(chunk: StreamChunk) -> dict[str, Any]:
    # `text` and `is_final` are always there, the others only where they say something.
    fields: dict[str, Any] = {"text": chunk.text}
    if chunk.thinking is not None:
        fields["thinking"] = chunk.thinking
    fields["is_final"] = chunk.is_final
    if chunk.session_id is not None:
        fields["session_id"] = chunk.session_id
    if chunk.reply is not None:
        fields["reply"] = chunk.reply
    return fields


_encoder = msgspec.json.Encoder()
