"""A turn as a chat completion of OpenAI's interface, whole or as a stream of chunks.

The text is sent once it is certain, at the end of the turn: a chunk cannot be taken back. Tools that the agent called
are never `tool_calls`: a client would run them itself. A stream never ends without the outcome of the turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from penstock import events as ev
from penstock.chat.history.entries import Numbered
from penstock.chat.turn import Assistant, Completed, Streaming, TurnEvent
from penstock.chat.web.doors.turn_fold import DONE, TurnFold, asked_text, data_line, failure_text

LIVE_CHARS = 80
"""Characters by which a reply grows before it is shown again: each time it is sent and stored as a whole."""

LIMITS = ("rate_limit", "usage_limit")
"""Causes of failures for which a client waits."""

NO_RETRY = {"x-should-retry": "false"}
"""Header of a response whose request clients must not repeat: the turn would fail in the same way."""


class CompletionOptions(NamedTuple):
    """How a completion is shown."""

    id: str
    created: int
    """Seconds since 1970."""
    model: str
    """Model as the program names it."""
    is_full: bool = False
    """True to show thinking and the titles of calls, as reasoning."""
    is_live: bool = False
    """True for a program that shows `event` chunks: the status, and the reply while it grows."""
    with_usage: bool = False
    """True for a last chunk with the usage."""
    since: int = 0
    """Number of the last entry that the program has seen: questions up to there are not repeated."""


class ChatCompletion:
    """Completion of one turn, from its entries."""

    def __init__(self, turn: int, options: CompletionOptions) -> None:
        self.is_over: bool = False
        """True once the end was sent: nothing follows."""
        self._fold = TurnFold(turn)
        self._options = options
        self._content = ""
        self._reasoning: list[str] = []
        self._error: dict[str, Any] | None = None
        self._shown = ""  # reply that is shown while it grows
        self._status: str | None = None

    @property
    def is_completed(self) -> bool:
        """True if the turn has ended; its usage may follow."""
        return self._fold.completed is not None

    def start(self) -> bytes:
        """Return the first chunk: the prompt is accepted."""
        return self._chunk({"role": "assistant", "content": ""})

    def take(self, rows: Sequence[Numbered]) -> bytes:
        """Return the chunks for the next entries of the chat."""
        out: list[bytes] = []
        if self.is_over or not rows:
            return b""
        seen = sum(row.number <= self._options.since for row in rows)
        self._fold.take(rows[:seen])
        for change in self._fold.take(rows[seen:]):
            self._show(change, out)
        question = self._fold.question
        if question is not None and rows[-1].number >= self._options.since:
            self._say(asked_text(self._fold.reply, question), out)
            self._finish(out)
        elif self._fold.is_recorded:
            self._end(out)
        return b"".join(out)

    def close(self, reason: str) -> bytes:
        """Return the last chunks if no further entry can come; `reason`: why, if the turn has not ended."""
        out: list[bytes] = []
        if not self.is_over:
            if self.is_completed:
                self._end(out)
            else:
                self._fail(reason, "cut_off", out)
        return b"".join(out)

    def response(self) -> tuple[int, dict[str, str], bytes]:
        """Return the status, headers and body of a response that is not a stream, once it `is_over`."""
        if self._error is not None:
            status = 429 if self._error["code"] in LIMITS else 500
            return status, NO_RETRY, msgspec.json.encode({"error": self._error})
        message = {"role": "assistant", "content": self._content}
        if self._reasoning:
            message["reasoning_content"] = "".join(self._reasoning)
        choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
        usage = {"usage": usage_of(self._fold.usage)} if self._fold.usage is not None else {}
        return 200, {}, msgspec.json.encode({**self._head("chat.completion"), "choices": [choice], **usage})

    # --- changes of the turn ---

    def _show(self, change: ev.Event | TurnEvent, out: list[bytes]) -> None:
        if self._options.is_full:
            self._reason(change, out)
        if self._options.is_live and isinstance(change, Streaming):
            self._report(change.status, out)
        elif self._options.is_live and isinstance(change, Assistant):
            self._grow(change, out)

    def _reason(self, change: ev.Event | TurnEvent, out: list[bytes]) -> None:
        text = ""
        if isinstance(change, ev.Delta) and change.kind == "thinking" and change.parent is None:
            text = change.text
        elif isinstance(change, ev.BlockEnded) and change.kind == "thinking" and change.parent is None:
            text = "\n\n"
        elif isinstance(change, ev.ToolCalled) and change.parent is None:
            text = f"▸ {change.title or change.name}\n\n"
        if text:
            self._reasoning.append(text)
            out.append(self._chunk({"reasoning_content": text}))

    def _report(self, status: str, out: list[bytes]) -> None:
        if status != self._status:
            self._status = status
            out.append(self._event("status", {"description": status, "done": False}))

    def _grow(self, change: Assistant, out: list[bytes]) -> None:
        if change.replace or not self._shown or len(change.content) >= len(self._shown) + LIVE_CHARS:
            self._shown = change.content
            out.append(self._event("replace", {"content": change.content}))

    # --- the end ---

    def _end(self, out: list[bytes]) -> None:
        end = self._fold.completed
        assert end is not None
        failure = failure_text(end)
        self._say(_message(end), out)
        if failure is None:
            self._finish(out)
        else:
            self._fail(failure, end.cause or end.outcome, out)

    def _say(self, text: str, out: list[bytes]) -> None:
        if self._shown:  # what follows is the whole message
            out.append(self._event("replace", {"content": ""}))
        if text:
            self._content = text
            out.append(self._chunk({"content": text}))

    def _finish(self, out: list[bytes]) -> None:
        self._over(out)
        out.append(self._chunk({}, "stop"))
        if self._options.with_usage:
            usage = usage_of(self._fold.usage or ev.Usage())
            out.append(data_line({**self._head(), "choices": [], "usage": usage}))
        out.append(DONE)

    def _fail(self, message: str, code: str, out: list[bytes]) -> None:
        self._over(out)
        self._error = {"message": message, "type": "agent_error", "param": None, "code": code}
        out += [data_line({"error": self._error}), DONE]

    def _over(self, out: list[bytes]) -> None:
        self.is_over = True
        if self._status is not None:
            out.append(self._event("status", {"description": self._status, "done": True, "hidden": True}))

    # --- chunks ---

    def _head(self, kind: str = "chat.completion.chunk") -> dict[str, Any]:
        options = self._options
        return {"id": options.id, "object": kind, "created": options.created, "model": options.model}

    def _chunk(self, delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
        return data_line({**self._head(), "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]})

    def _event(self, kind: str, data: dict[str, Any]) -> bytes:
        return data_line({"event": {"type": kind, "data": data}})


def usage_of(usage: ev.Usage) -> dict[str, Any]:
    """Return the usage of a run by OpenAI's names; unknown figures are 0."""
    prompt, completion = usage.input_tokens or 0, usage.output_tokens or 0
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens or 0},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
    }


def _message(end: Completed) -> str:
    if end.outcome != "cancelled":
        return end.message
    return "\n\n".join(filter(None, (end.message.rstrip(), f"[{end.reason or 'stopped'}]")))
