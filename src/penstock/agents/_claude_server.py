"""Dialogue with Claude Code, and with the programs that start it: its two-way stream.

Its output is that of the route `exec`, with control lines between: requests for permissions, and answers to ours. The
process stays until stdin is closed, and a question for which stdin is closed is denied without a trace, so it is closed
only if the run is over. See `docs/agents/claude.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import msgspec

from penstock.adapter import Request, not_taken
from penstock.agents._claude_code import ClaudeCode, message_of, user_message
from penstock.agents._claude_questions import CHOICE_TOOL, PendingRequest, denied, request_of
from penstock.agents._claude_steers import CAPABILITY, ClaudeSteers
from penstock.agents._commands import commands_of
from penstock.agents._json import as_dict, as_list, text_of, text_or
from penstock.agents._stream_json import TASK_ENDS, TOOL_USES
from penstock.agents._stream_json_wire import BlockBegin, BlockDelta, MessageBegin, ResultLine, StreamEvent, System
from penstock.core.decoding import well_formed_values
from penstock.updates import Answer, Notice, Result, RoundEnd, Traits, Unknown, Update, Work

INITIALIZE, INTERRUPT, WITHDRAW = "penstock-initialize", "penstock-interrupt", "penstock-withdraw-"
"""Ids of Penstock's own requests; the last one begins them."""

NEXT_TURN = "penstock-next-turn"
"""Id of the work that a message means from its report until the model begins to answer it."""

_TOO_OLD = "this version does not report what becomes of a message"

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
        self._steers = ClaudeSteers()
        self._reports_messages = True  # until the program has said that it does not
        self._is_calling = False  # the main agent's message has a tool call
        self._awaits_turn = False  # a message has begun another turn, and the model has not begun to answer it
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
            # A message that Claude Code has would begin another turn.
            given = {"cancel_queued": True} if self._steers.are_out else {}
            self._send_request(INTERRUPT, subtype="interrupt", **given)
        return True

    def steer(self, id: str, text: str) -> Sequence[Update]:
        """Give Claude Code a message in its turn, at its next call of a tool."""
        if self.over or self._cancelling:
            return (not_taken(id, "the turn has ended"),)
        if not self._reports_messages:
            return (not_taken(id, _TOO_OLD),)
        self._steers.add(id, text)
        self._send_steers()
        return ()

    def _send_steers(self) -> None:
        if self._is_calling and not self._cancelling:
            for name, text in self._steers.to_send():
                self._send(**message_of(text), uuid=name, priority="next")

    def _withdraw_steers(self) -> None:
        self._is_calling = False
        for name in self._steers.to_withdraw():
            self._send_request(WITHDRAW + name, subtype="cancel_async_message", message_uuid=name)

    # --- messages of the program -------------------------------------------------------------------------

    def finish(self) -> Sequence[Update]:
        """Return the messages that the program has read, as far as is known, without a report."""
        return () if self.over or self._state == "running" else self._steers.unreported()

    def read(self, event: Any) -> Sequence[Update]:
        """Translate one line into updates."""
        kind = type(event)
        if kind is StreamEvent:
            updates = super().read(event)
            if type(event.event) is not BlockDelta and event.parent_tool_use_id is None:
                return (*self._follow(event.event), *updates)
            return updates
        if kind is dict:
            reader = _CONTROL_LINES.get(text_or(event.get("type"), ""))
            if reader is not None:
                return tuple(reader(self, event))
        updates = super().read(event)
        if kind is System:
            self._cwd = event.cwd or self._cwd
            return (*updates, *self._read_state(event))
        return tuple(self._read_result(event, updates)) if kind is ResultLine else updates

    def _follow(self, api: Any) -> Sequence[Update]:
        """Follow the main agent's model calls, which decide when a message is sent, and whether it is taken."""
        if type(api) is BlockBegin:
            if text_or(as_dict(api.content_block).get("type"), "") in TOOL_USES:
                self._is_calling = True
                self._send_steers()
        elif type(api) is MessageBegin:
            taken: list[Update] = [*self._steers.answering()]
            self._withdraw_steers()
            if self._awaits_turn:
                self._awaits_turn = False
                taken.append(Work(NEXT_TURN, on=False))
            elif taken and self._replied:  # another turn, which the program did not report
                self._replied = False
                taken.append(RoundEnd())
            return taken
        return ()

    def _message_changed(self, event: dict[str, Any]) -> Iterator[Update]:
        """Follow what becomes of a message."""
        name, state = text_of(event.get("command_uuid")), event.get("state")
        if state == "started":
            self._steers.began(name)
            if self._replied:  # another turn, with another result
                self._replied, self._is_notified, self._awaits_turn = False, True, True
                yield Work(NEXT_TURN, on=True)  # or the run would end before the model's first word
        elif state in ("cancelled", "discarded"):
            yield from self._withdrawn(name)

    def _withdrawn(self, name: str) -> Sequence[Update]:
        self._steers.withdrawn(name)
        return self._end() if self._replied and self._state in (None, "idle") and not self.over else ()

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
        id = text_of(response.get("request_id"))
        is_error = response.get("subtype") == "error"
        if id.startswith(WITHDRAW):
            name, cancelled = id.removeprefix(WITHDRAW), as_dict(response.get("response")).get("cancelled")
            # Without the request, the run would wait for a report that need not come.
            if is_error or cancelled is True:
                yield from self._withdrawn(name)
            elif cancelled is False:
                self._steers.kept(name)
        elif is_error:
            yield Notice("error", text_of(response.get("error")) or "a request failed", "warning")
        elif id == INITIALIZE and (given := as_dict(response.get("response")).get("commands")) is not None:
            yield commands_of(given)

    def _read_state(self, event: System) -> Sequence[Update]:
        """Follow the session's state and its sub-agents, which decide whether the run is over."""
        kind, task = event.subtype, event.task_id
        if kind == "init":
            self._began = True
            return self._check_steers(event)
        if kind == "session_state_changed":
            self._state = text_of(event.state)
            return self._end() if self._state == "idle" and self._replied else ()
        if task is None:
            return ()
        if kind == "task_started" and event.task_type in AGENT_TASKS:
            self._agents.add(task)
            if event.tool_use_id is not None:
                self._lanes[task] = event.tool_use_id
        elif kind == "task_notification" or text_of(as_dict(event.patch).get("status")) in TASK_ENDS:
            self._agents.discard(task)
        return ()

    def _check_steers(self, event: System) -> Sequence[Update]:
        """Reject messages if this version does not report what becomes of them."""
        self._reports_messages = CAPABILITY in as_list(event.capabilities)
        return () if self._reports_messages else self._steers.end(_TOO_OLD)

    def _read_result(self, event: ResultLine, updates: Sequence[Update]) -> Iterator[Update]:
        for update in updates:
            if type(update) is Result:
                self._replied = True
                self._withdraw_steers()
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
        """End the dialogue, unless a question waits, or a sub-agent or a message is left that begins another turn."""
        if (self._agents or self._pending or self._steers.are_out) and not self._cancelling:
            return ()
        self.over = True
        return (*self._steers.end(), Work(None, on=False))  # commands in the background end with the process


_CONTROL_LINES: dict[str, Callable[[ClaudeCodeServer, dict[str, Any]], Iterator[Update]]] = {
    "control_request": ClaudeCodeServer._requested,
    "control_cancel_request": ClaudeCodeServer._cancelled,
    "control_response": ClaudeCodeServer._responded,
    "command_lifecycle": ClaudeCodeServer._message_changed,
}
