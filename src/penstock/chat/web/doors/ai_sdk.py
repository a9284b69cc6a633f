"""A turn as a stream of the AI SDK's chat (`useChat` of versions 5, 6 and 7).

Only parts that all three versions know are sent, approvals apart. Tools are `dynamic` and `providerExecuted`: the
client shows them, and never runs one. Text cannot be taken back, so the last step is always the turn's own message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from penstock import events as ev
from penstock.chat.history.entries import Answered, Numbered
from penstock.chat.turn import Completed, Streaming, TurnEvent
from penstock.chat.web.doors.turn_fold import (
    DONE,
    TurnFold,
    asked_text,
    data_line,
    failure_text,
)
from penstock.core.questions import PERMISSIONS, OpenQuestion

APPROVALS_SINCE = 6
"""Version of the AI SDK from which on it has approvals."""


class UiOptions(NamedTuple):
    """How a turn is shown."""

    message_id: str
    sdk: int = 5
    """Major version of the client's AI SDK, if it says so."""
    is_full: bool = False
    """True to show thinking, text and calls as they come."""
    since: int = 0
    """Number of the last entry that the message before has: nothing up to there is shown again."""
    asks_from: int = 0
    """Number of the entry from which on a question that is open has not been answered yet."""


class UiStream:
    """Stream of one turn, from its entries."""

    def __init__(self, turn: int, options: UiOptions) -> None:
        self.is_over: bool = False
        """True once the end is said: nothing follows."""
        self._fold = TurnFold(turn)
        self._prefix = f"t{turn}."
        self._options = options
        self._status: str | None = None
        self._parts = 0  # text and reasoning parts so far
        self._open: dict[int, tuple[str, str]] = {}  # kind and id of the open part of each block
        self._texts: dict[str, str] = {}  # texts of the current step
        self._in_step = False
        self._calls: dict[str, bool] = {}  # calls that were sent, and whether their output was

    @property
    def is_completed(self) -> bool:
        """True if the turn has ended; its usage may follow."""
        return self._fold.completed is not None

    def start(self) -> bytes:
        """Return the first part: the prompt is accepted."""
        return data_line({"type": "start", "messageId": self._options.message_id})

    def take(self, rows: Sequence[Numbered]) -> bytes:
        """Return the parts for the next entries of the chat."""
        out: list[dict[str, Any]] = []
        if self.is_over or not rows:
            return b""
        seen = sum(row.number <= self._options.since for row in rows)
        self._fold.take(rows[:seen])
        was_completed = self.is_completed
        for change in self._fold.take(rows[seen:]):
            if not was_completed:
                self._show(change, out)
            was_completed = was_completed or isinstance(change, Completed)
        question = self._fold.question
        ends = False
        if question is not None and rows[-1].number >= max(self._options.since, self._options.asks_from):
            self._ask(question, out)
            ends = True
        elif self._fold.is_recorded:
            self._end(out)
            ends = True
        return b"".join(data_line(part) for part in out) + (DONE if ends else b"")

    def close(self, reason: str) -> bytes:
        """Return the last parts if no further entry can come; `reason`: why, if the turn has not ended."""
        if self.is_over:
            return b""
        out: list[dict[str, Any]] = []
        if self.is_completed:
            self._end(out)
        else:
            self._fail(reason, out)
        return b"".join(data_line(part) for part in out) + DONE

    # --- changes of the turn ---

    def _show(self, change: ev.Event | TurnEvent, out: list[dict[str, Any]]) -> None:
        if isinstance(change, Streaming):
            if change.status != self._status:
                self._status = change.status
                out.append({"type": "data-status", "data": {"status": change.status}, "transient": True})
        elif self._options.is_full and isinstance(change, ev.Base) and change.parent is None:
            self._detail(change, out)

    def _detail(self, event: ev.Base, out: list[dict[str, Any]]) -> None:
        if isinstance(event, ev.MessageStarted):
            self._begin_step(out)
        elif isinstance(event, ev.MessageEnded):
            self._end_step(out)
        elif isinstance(event, ev.Delta):
            self._grow(event, out)
        elif isinstance(event, ev.BlockEnded):
            self._end_part(event.block, out)
        elif isinstance(event, ev.ToolCalled):
            self._call(event.call_id, event.name, event.input, event.title, out)
        elif isinstance(event, ev.ToolReturned):
            self._return(event, out)
        elif isinstance(event, ev.PlanChanged):
            items = msgspec.to_builtins(event.items)
            out.append({"type": "data-plan", "id": f"{self._prefix}plan", "data": {"items": items}})
        elif isinstance(event, ev.Notice) and event.level != "info":
            data = {"level": event.level, "text": event.text}
            out.append({"type": "data-notice", "data": data, "transient": True})

    def _begin_step(self, out: list[dict[str, Any]]) -> None:
        self._end_step(out)
        self._texts = {}
        self._in_step = True
        out.append({"type": "start-step"})

    def _end_step(self, out: list[dict[str, Any]]) -> None:
        for block in [*self._open]:
            self._end_part(block, out)
        if self._in_step:
            self._in_step = False
            out.append({"type": "finish-step"})

    def _grow(self, event: ev.Delta, out: list[dict[str, Any]]) -> None:
        kind = {"text": "text", "thinking": "reasoning"}.get(event.kind)
        if kind is None:
            return
        if event.block not in self._open:
            if not self._in_step:
                self._begin_step(out)
            self._open[event.block] = (kind, self._begin_part(kind, out))
        _, id = self._open[event.block]
        if kind == "text":
            self._texts[id] = self._texts.get(id, "") + event.text
        out.append({"type": f"{kind}-delta", "id": id, "delta": event.text})

    def _begin_part(self, kind: str, out: list[dict[str, Any]]) -> str:
        self._parts += 1
        id = f"{self._options.message_id}.p{self._parts}"
        out.append({"type": f"{kind}-start", "id": id})
        return id

    def _end_part(self, block: int, out: list[dict[str, Any]]) -> None:
        kind, id = self._open.pop(block, ("", ""))
        if kind:
            out.append({"type": f"{kind}-end", "id": id})

    # --- calls ---

    def _call(self, id: str, name: str, input: Any, title: str, out: list[dict[str, Any]]) -> None:
        if id not in self._calls:
            self._calls[id] = False
            part = {"type": "tool-input-available", "toolCallId": f"{self._prefix}{id}", "toolName": name}
            out.append({**part, "input": input, "title": title, "dynamic": True, "providerExecuted": True})

    def _return(self, event: ev.ToolReturned, out: list[dict[str, Any]]) -> None:
        if self._calls.get(event.call_id) is not False:
            return  # a client fails at the output of a call that it does not know
        self._calls[event.call_id] = True
        part = {"toolCallId": f"{self._prefix}{event.call_id}", "dynamic": True, "providerExecuted": True}
        if event.failed or not event.complete:
            text = event.text or ("failed" if event.complete else "no result")
            out.append({"type": "tool-output-error", **part, "errorText": text})
        else:
            out.append({"type": "tool-output-available", **part, "output": event.text})

    # --- questions ---

    def _ask(self, question: OpenQuestion, out: list[dict[str, Any]]) -> None:
        self._end_step(out)
        if self._options.sdk >= APPROVALS_SINCE and is_approval(question):
            call = question.call_id
            assert call is not None
            input = {"command": question.command} if question.command else {}
            self._call(call, question.tool_kind or "tool", input, question.title or question.text, out)
            id = f"{self._prefix}{call}"
            out.append({"type": "tool-approval-request", "approvalId": question.id, "toolCallId": id})
            self._finish(out, "tool-calls")
            return
        data = {"text": question.text, "options": msgspec.to_builtins(question.options or [])}
        out.append({"type": "data-question", "id": question.id, "data": data})
        self._say(asked_text(self._fold.reply, question), out)
        self._finish(out, "stop")

    # --- the end ---

    def _end(self, out: list[dict[str, Any]]) -> None:
        end = self._fold.completed
        assert end is not None
        self._end_step(out)
        if end.message.strip() != "".join(self._texts.values()).strip():
            self._say(end.message, out)
        out.append({"type": "message-metadata", "messageMetadata": self._metadata(end)})
        failure = failure_text(end)
        if failure is not None:
            self._fail(failure, out)
        elif end.outcome == "cancelled":
            self.is_over = True
            out.append({"type": "abort"})
        else:
            self._finish(out, "stop")

    def _say(self, text: str, out: list[dict[str, Any]]) -> None:
        if text.strip():
            self._begin_step(out)
            id = self._begin_part("text", out)
            out.append({"type": "text-delta", "id": id, "delta": text})
            out.append({"type": "text-end", "id": id})
            self._end_step(out)

    def _finish(self, out: list[dict[str, Any]], reason: str) -> None:
        self.is_over = True
        out.append({"type": "finish", "finishReason": reason})

    def _fail(self, text: str, out: list[dict[str, Any]]) -> None:
        self._end_step(out)
        self.is_over = True
        out.append({"type": "error", "errorText": text})

    def _metadata(self, end: Completed) -> dict[str, Any]:
        usage, cost = self._fold.usage, self._fold.cost_usd
        found = {"outcome": end.outcome, "reason": end.reason, "cause": end.cause, "cost_usd": cost}
        found["usage"] = msgspec.to_builtins(usage) if usage is not None else None
        return {name: value for name, value in found.items() if value is not None}


def is_approval(question: ev.QuestionAsked | OpenQuestion) -> bool:
    """Return whether a question can be an approval of the AI SDK: the permission for a call."""
    return question.ask in PERMISSIONS and question.call_id is not None


def shown_before(rows: Sequence[Numbered], sdk: int) -> int:
    """Return the number of the last entry of a turn that an earlier message has; 0 if the first one goes on.

    The answer to a question is a message of its own, unless it was an approval.
    """
    asked = {row.what.id: row.what for row in rows if isinstance(row.what, ev.QuestionAsked)}
    for row in reversed(rows):
        if isinstance(row.what, Answered):
            question = asked.get(row.what.id)
            if question is None or sdk < APPROVALS_SINCE or not is_approval(question):
                return row.number
    return 0
