"""Dialogue with Claude Code, and with the programs that start it: its two-way stream.

Its output is that of the route `exec`, with control lines between: requests for permissions, and answers to ours. The
process stays until stdin is closed, and a question for which stdin is closed is denied without a trace, so it is closed
only if the run is over. See `docs/agents/claude.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import msgspec

from penstock.adapter import Request
from penstock.agents._claude_code import ClaudeCode, user_message
from penstock.agents._claude_questions import CHOICE_TOOL, PendingRequest, denied, request_of
from penstock.agents._json import as_dict, text_of, text_or
from penstock.agents._stream_json import TASK_ENDS
from penstock.agents._stream_json_wire import ResultLine, StreamEvent, System
from penstock.core.decoding import well_formed_values
from penstock.updates import Answer, Notice, Result, Traits, Unknown, Update, Work

INITIALIZE, INTERRUPT = "penstock-initialize", "penstock-interrupt"
"""Ids of Penstock's own requests."""

AGENT_TASKS = frozenset({"local_agent", "local_workflow"})
"""Kinds of background work that end with another turn of the agent, and so may ask. A command in the background does
neither, and may never end."""


class ClaudeCodeServer(ClaudeCode):
    """Base of the dialogues, which are also readers of recorded ones."""

    traits: ClassVar[Traits] = Traits(block_ends=True, finals=True, asks_for_all=True)

    def __init__(self, request: Request | None = None) -> None:
        """Make a dialogue about `request`, or a reader of a recorded one.

        Raises:
            UsageError: the prompt cannot be encoded.
        """
        super().__init__()
        self.over: bool = False
        self._is_live = request is not None
        self._lines: list[bytes] = []
        self._began = False  # the turn runs: before that there is nothing to interrupt
        self._replied = False
        self._state: str | None = None  # of the session, if this version reports it
        self._cancelling = False
        self._cwd: str | None = None  # as the program reports it
        self._lanes: dict[str, str] = {}  # calls that started sub-agents, by the id of the sub-agent
        self._agents: set[str] = set()  # sub-agents that run
        self._pending: dict[str, PendingRequest] = {}  # by the id of the request
        self._interrupted: set[str] = set()  # calls that nobody has denied, though the result says so
        if request is not None:
            self._send_request(INITIALIZE, subtype="initialize", hooks=None)
            self._send(**user_message(request))

    # --- messages to the program -------------------------------------------------------------------------

    def take(self) -> bytes:
        """Return the lines to write now, and forget them."""
        lines, self._lines = b"".join(self._lines), []
        return lines

    def _send(self, **message: Any) -> None:
        if self._is_live:
            self._lines.append(msgspec.json.encode(well_formed_values(message)) + b"\n")

    def _send_request(self, id: str, **request: Any) -> None:
        self._send(type="control_request", request_id=id, request=request)

    def _respond(self, id: str, response: dict[str, Any]) -> None:
        self._send(type="control_response", response={"subtype": "success", "request_id": id, "response": response})

    def answer(self, answer: Answer) -> Sequence[Update]:
        """Answer a question by the id of an option or in words; else reject it.

        Raises:
            KeyError: no such question is waiting.
        """
        pending = self._request_with(answer.id)
        if pending is None or self._cancelling:
            raise KeyError(answer.id)
        pending.answers[answer.id] = answer
        if pending.is_answered:
            del self._pending[pending.id]
            self._respond(pending.id, pending.response())
        return (msgspec.structs.replace(answer, lane=pending.questions[0].lane),)

    def _request_with(self, question: str) -> PendingRequest | None:
        for pending in self._pending.values():
            if question not in pending.answers and any(each.id == question for each in pending.questions):
                return pending
        return None

    def cancel(self) -> bool:
        """Interrupt the turn. Claude Code withdraws its waiting questions then."""
        if self.over or not self._began or not self._is_live:
            return False
        if not self._cancelling:
            self._cancelling = True
            self._send_request(INTERRUPT, subtype="interrupt")
        return True

    # --- messages of the program -------------------------------------------------------------------------

    def read(self, event: Any) -> Sequence[Update]:
        """Translate one line into updates."""
        kind = type(event)
        if kind is StreamEvent:
            return super().read(event)
        if kind is dict:
            reader = _CONTROL_LINES.get(text_or(event.get("type"), ""))
            if reader is not None:
                return tuple(reader(self, event))
        updates = super().read(event)
        if kind is System:
            self._cwd = event.cwd or self._cwd
            return (*updates, *self._read_state(event))
        return tuple(self._read_result(event, updates)) if kind is ResultLine else updates

    def _requested(self, event: dict[str, Any]) -> Iterator[Update]:
        id, request = event.get("request_id"), as_dict(event.get("request"))
        kind = text_of(request.get("subtype"))
        if not isinstance(id, str) or kind != "can_use_tool":
            error = f"{kind[:200]} is not supported here"  # without an answer the run would wait for ever
            self._send(type="control_response", response={"subtype": "error", "request_id": id, "error": error})
            yield Unknown(f"control_request/{kind}")
            return
        pending = request_of(id, request, self._lanes.get(text_of(request.get("agent_id"))), self._cwd)
        if self._cancelling:
            self._withdraw(pending)
            self._respond(id, denied(None))
            return
        self._pending[id] = pending
        yield from pending.questions

    def _cancelled(self, event: dict[str, Any]) -> Iterator[Update]:
        pending = self._pending.pop(text_of(event.get("request_id")), None)
        if pending is not None:
            yield from self._withdraw(pending)

    def _withdraw(self, pending: PendingRequest) -> list[Update]:
        """Return the withdrawal of all questions of a request that are still open."""
        if pending.call_id is not None:
            self._interrupted.add(pending.call_id)
        return [
            Answer(question.id, "withdrawn", lane=question.lane)
            for question in pending.questions
            if question.id not in pending.answers
        ]

    def _responded(self, event: dict[str, Any]) -> Iterator[Update]:
        response = as_dict(event.get("response"))
        if response.get("subtype") == "error":
            yield Notice("error", text_of(response.get("error")) or "a request failed", "warning")

    def _read_state(self, event: System) -> Sequence[Update]:
        """Follow the session's state and its sub-agents, which decide whether the run is over."""
        kind, task = event.subtype, event.task_id
        if kind == "init":
            self._began = True
        elif kind == "session_state_changed":
            self._state = text_of(event.state)
            return self._end() if self._state == "idle" and self._replied else ()
        elif task is None:
            return ()
        elif kind == "task_started" and event.task_type in AGENT_TASKS:
            self._agents.add(task)
            if event.tool_use_id is not None:
                self._lanes[task] = event.tool_use_id
        elif kind == "task_notification" or text_of(as_dict(event.patch).get("status")) in TASK_ENDS:
            self._agents.discard(task)
        return ()

    def _read_result(self, event: ResultLine, updates: Sequence[Update]) -> Iterator[Update]:
        for update in updates:
            if type(update) is Result:
                self._replied = True
                if self._cancelling:
                    for pending in self._pending.values():
                        yield from self._withdraw(pending)
                    self._pending.clear()
                interrupted = update.cancelled and update.cause != "budget"
                reason = None if interrupted else update.reason  # that of an interrupt is a diagnostic of its own
                update = msgspec.structs.replace(update, refused=self._refused(event), reason=reason)
            yield update
        if self._replied and (self._cancelling or self._state in (None, "idle")):
            yield from self._end()

    def _refused(self, event: ResultLine) -> int | None:
        """Count the denied permissions. The wire counts interrupted calls and choices that were not made too."""
        if not isinstance(event.permission_denials, list):
            return None
        denials = map(as_dict, event.permission_denials)
        calls = [text_of(each.get("tool_use_id")) for each in denials if each.get("tool_name") != CHOICE_TOOL]
        return len([call for call in calls if call not in self._interrupted])

    def _end(self) -> Sequence[Update]:
        """End the dialogue, unless a question waits, or a sub-agent runs, whose end begins another turn."""
        if (self._agents or self._pending) and not self._cancelling:
            return ()
        self.over = True
        return (Work(None, on=False),)  # commands in the background end with the process


_CONTROL_LINES: dict[str, Callable[[ClaudeCodeServer, dict[str, Any]], Iterator[Update]]] = {
    "control_request": ClaudeCodeServer._requested,
    "control_cancel_request": ClaudeCodeServer._cancelled,
    "control_response": ClaudeCodeServer._responded,
}
