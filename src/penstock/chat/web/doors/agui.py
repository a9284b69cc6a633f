"""A turn as a stream of AG-UI: one run of the protocol, from its start to its end or to a question.

The reply is one message that grows. Text that the agent withdraws is replaced by a snapshot of all messages. At the
full level each round has a message of its own, and thinking, calls and sub-agents are shown as they come.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from penstock import events as ev
from penstock.chat.history.entries import Answered, Numbered
from penstock.chat.turn import Assistant, Completed, Streaming, TurnEvent
from penstock.chat.web.doors.agui_thread import Thread
from penstock.chat.web.doors.turn_fold import TurnFold, data_line, failure_text, question_text
from penstock.core.questions import PERMISSIONS, OpenQuestion

VERSION = "1.0"
"""Version of the protocol. Clients that do not declare it get only what earlier ones know as well."""

CUT = "cut_off"
"""Code of a stream that ends before its turn."""


class AgUiOptions(NamedTuple):
    """How a turn is shown."""

    thread: str
    """The client's id of the thread."""
    run: str
    """The client's id of the run."""
    chat: str
    messages: Sequence[Mapping[str, Any]] = ()
    """Messages that the client has."""
    is_new: bool = True
    """True if the client declares version 1.0 of the protocol."""
    is_full: bool = False
    """True to show thinking and calls."""
    since: int = 0
    """Number of the last entry that a run before has: nothing up to there is shown again."""
    asks_from: int = 0
    """Number of the entry from which on a question that is open has not been answered yet."""


class AgUiStream:
    """Stream of one turn, from its entries."""

    def __init__(self, turn: int, options: AgUiOptions) -> None:
        self.is_over: bool = False
        """True once the end is said: nothing follows."""
        self._turn = turn
        self._options = options
        self._fold = TurnFold(turn)
        self._prefix = f"{options.chat}.t{turn}"
        self._thread = Thread(options.messages, self._prefix)
        self._out: list[dict[str, Any]] = []
        self._is_live = False  # what the client has was compared with what it should have
        self._status: str | None = None
        self._replies = 1
        self._reply = self._prefix  # id of the message that grows
        self._is_apart = False  # text that does not continue the message is another one
        self._is_open = False  # the message is open
        self._step: str | None = None
        self._blocks: dict[int, tuple[str, str, dict[str, str]]] = {}  # open ones: kind, id, sub-agent
        self._calls: dict[str, bool] = {}  # calls that were sent, and whether their result was
        self._parents: dict[str, str | None] = {}  # calls, and the sub-agent that made them
        self._titles: dict[str, str] = {}
        self._agents: dict[str, bool] = {}  # sub-agents, and whether they are at work

    @property
    def is_completed(self) -> bool:
        """True if the turn has ended; its usage may follow."""
        return self._fold.completed is not None

    def start(self) -> bytes:
        """Return the first event: the prompt is accepted."""
        version = {"protocolVersion": VERSION} if self._options.is_new else {}
        return data_line({"type": "RUN_STARTED", **self._ids(), **version})

    def take(self, rows: Sequence[Numbered]) -> bytes:
        """Return the events for the next entries of the chat."""
        if self.is_over or not rows:
            return b""
        for part in _parts(rows, self._options.since):
            if part[-1].number > self._options.since:
                self._go_live()
            self._take(part)
        question = self._fold.question
        if question is not None and rows[-1].number >= max(self._options.since, self._options.asks_from):
            self._go_live()
            self._ask(question)
        elif self._fold.is_recorded:
            self._go_live()
            self._end()
        return self._said() if self._is_live else b""

    def close(self, reason: str) -> bytes:
        """Return the last events if no further entry can come; `reason`: why, if the turn has not ended."""
        if self.is_over:
            return b""
        self._go_live()
        if self.is_completed:
            self._end()
        else:
            self._fail(reason, CUT)
        return self._said()

    def _take(self, rows: Sequence[Numbered]) -> None:
        was_completed = self.is_completed
        for change in self._fold.take(rows):
            if not was_completed:
                self._show(change)
            was_completed = was_completed or isinstance(change, Completed)
        last = rows[-1].what
        if isinstance(last, Answered) and last.turn == self._turn:
            self._is_apart = True

    def _go_live(self) -> None:
        """Leave out what a run before has shown, and correct it if the client has something else."""
        if not self._is_live:
            self._is_live = True
            self._close()
            self._out.clear()
            self._status = None
            self._agents = dict.fromkeys(self._agents, False)
            if not self._thread.is_as_sent:
                self._out.append(self._thread.snapshot())

    def _emit(self, kind: str, **fields: Any) -> None:
        event = {"type": kind, **fields}
        self._thread.apply(event)
        self._out.append(event)

    def _said(self) -> bytes:
        data = b"".join(map(data_line, self._out))
        self._out.clear()
        return data

    def _ids(self) -> dict[str, str]:
        return {"threadId": self._options.thread, "runId": self._options.run}

    # --- changes of the turn ---

    def _show(self, change: ev.Event | TurnEvent) -> None:
        if isinstance(change, Streaming):
            if change.status != self._status:
                self._status = change.status
                self._emit("CUSTOM", name="penstock.status", value={"status": change.status})
        elif isinstance(change, Assistant):
            self._say(change.content)
        elif self._options.is_full and isinstance(change, ev.Base):
            if change.parent is None:
                self._detail(change)
            elif self._options.is_new:
                self._work(change, self._lane(change.parent))

    def _say(self, content: str, *, is_end: bool = False) -> None:
        """Bring the message to this text."""
        shown = self._thread.text(self._reply)
        if content.strip() == shown.strip():
            return
        if not content.startswith(shown):
            if not self._is_apart:
                self._rewrite(content, is_end=is_end)
                return
            if not content.strip():
                return
            self._end_message()
            self._replies += 1
            self._reply, shown = f"{self._prefix}.{self._replies}", ""
        self._is_apart = False
        if not self._is_open:
            self._is_open = True
            self._emit("TEXT_MESSAGE_START", messageId=self._reply, role="assistant")
        self._emit("TEXT_MESSAGE_CONTENT", messageId=self._reply, delta=content[len(shown) :])

    def _rewrite(self, content: str, *, is_end: bool) -> None:
        if self._thread.is_large and not is_end:
            return  # at the end
        if is_end and not content.strip():
            self._end_message()
            self._thread.remove(self._reply)
        else:
            self._thread.set_text(self._reply, content)
        self._out.append(self._thread.snapshot())

    def _end_message(self) -> None:
        if self._is_open:
            self._is_open = False
            self._emit("TEXT_MESSAGE_END", messageId=self._reply)

    # --- the full level ---

    def _detail(self, event: ev.Base) -> None:
        """Show an event of the agent itself."""
        if isinstance(event, ev.MessageStarted):
            self._end_step()
            self._step = f"message {event.message}"
            self._emit("STEP_STARTED", stepName=self._step)
        elif isinstance(event, ev.MessageEnded):
            self._end_step()
        elif isinstance(event, ev.PlanChanged):
            self._is_apart = True
            plan = {"items": msgspec.to_builtins(event.items)}
            self._emit("ACTIVITY_SNAPSHOT", messageId=f"{self._prefix}.plan", activityType="plan", content=plan)
        elif isinstance(event, ev.Notice):
            if event.level != "info":
                self._emit("CUSTOM", name="penstock.notice", value={"level": event.level, "text": event.text})
        else:
            self._is_apart = self._is_apart or isinstance(event, ev.ToolCalled)
            self._work(event, {})

    def _work(self, event: ev.Base, lane: dict[str, str]) -> None:
        """Show thinking and calls, and the text of a sub-agent."""
        if isinstance(event, ev.Delta):
            if event.kind == "thinking" or (event.kind == "text" and lane):
                self._grow(event, lane)
        elif isinstance(event, ev.BlockRevised):
            if event.block in self._blocks:
                _, id, _ = self._blocks[event.block]
                self._thread.set_text(id, event.text)
                self._out.append(self._thread.snapshot())
        elif isinstance(event, ev.BlockEnded):
            self._end_block(event.block)
        elif isinstance(event, ev.ToolCalled):
            self._call(event, lane)
        elif isinstance(event, ev.ToolReturned):
            self._return(event, lane)

    def _grow(self, event: ev.Delta, lane: dict[str, str]) -> None:
        if event.block not in self._blocks:
            id = f"{self._prefix}.block.{event.block}"
            while self._is_live and self._thread.is_known(id):
                id += "'"  # a client adds to a message whose id it knows
            if event.kind == "thinking":
                self._blocks[event.block] = ("REASONING", id, lane)
                self._emit("REASONING_START", messageId=id, **lane)
                self._emit("REASONING_MESSAGE_START", messageId=id, role="reasoning", **lane)
            else:
                self._blocks[event.block] = ("TEXT", id, lane)
                self._emit("TEXT_MESSAGE_START", messageId=id, role="assistant", **lane)
        kind, id, lane = self._blocks[event.block]
        self._emit(f"{kind}_MESSAGE_CONTENT", messageId=id, delta=event.text, **lane)

    def _end_block(self, block: int) -> None:
        if block in self._blocks:
            kind, id, lane = self._blocks.pop(block)
            self._emit(f"{kind}_MESSAGE_END", messageId=id, **lane)
            if kind == "REASONING":
                self._emit("REASONING_END", messageId=id, **lane)

    def _end_step(self) -> None:
        if self._step is not None:
            self._emit("STEP_FINISHED", stepName=self._step)
            self._step = None

    # --- calls and sub-agents ---

    def _call_id(self, id: str) -> str:
        return f"{self._prefix}.call.{id}"

    def _call(self, event: ev.ToolCalled, lane: dict[str, str]) -> None:
        if event.call_id in self._calls:
            return
        id = self._call_id(event.call_id)
        self._calls[event.call_id] = False
        self._parents[event.call_id] = event.parent
        self._titles[event.call_id] = event.title or event.name
        input = msgspec.json.encode({} if event.input is None else event.input).decode()
        self._emit("TOOL_CALL_START", toolCallId=id, toolCallName=event.name, **lane)
        self._emit("TOOL_CALL_ARGS", toolCallId=id, delta=input, **lane)
        self._emit("TOOL_CALL_END", toolCallId=id, **lane)

    def _return(self, event: ev.ToolReturned, lane: dict[str, str]) -> None:
        if self._agents.get(event.call_id):
            self._leave(event.call_id, event)
        if self._calls.get(event.call_id) is False:
            text = event.text or (
                "failed" if event.complete and event.failed else "" if event.complete else "no result"
            )
            self._result(event.call_id, text, lane)

    def _result(self, call: str, text: str, lane: dict[str, str]) -> None:
        self._calls[call] = True
        id = self._call_id(call)
        self._emit("TOOL_CALL_RESULT", messageId=f"{id}.result", toolCallId=id, content=text, role="tool", **lane)

    def _agent_id(self, call: str) -> str:
        return f"{self._prefix}.agent.{call}"

    def _lane(self, call: str) -> dict[str, str]:
        """Return the mark of the events of a sub-agent, which begins with its first one."""
        id = self._agent_id(call)
        if call not in self._agents or (not self._agents[call] and self._calls.get(call) is False):
            self._agents[call] = True
            above = self._parents.get(call)
            more = (
                {"parentSubagentRunId": self._agent_id(above)} if above is not None and self._agents.get(above) else {}
            )
            if call in self._calls:
                more["parentToolCallId"] = self._call_id(call)
            self._emit("SUBAGENT_STARTED", subagentRunId=id, name=self._titles.get(call, "sub-agent"), **more)
        return {"subagentRunId": id}

    def _leave(self, call: str, event: ev.ToolReturned) -> None:
        self._agents[call] = False
        if event.failed or not event.complete:
            self._emit("SUBAGENT_ERROR", subagentRunId=self._agent_id(call), message=event.text or "no result")
        else:
            self._emit("SUBAGENT_FINISHED", subagentRunId=self._agent_id(call))

    # --- questions and the end ---

    def _close(self, question: str | None = None) -> None:
        """End all that is open. `question`: id of the one that the sub-agents wait for."""
        for block in [*self._blocks]:
            self._end_block(block)
        self._end_message()
        self._end_step()
        outcome = {} if question is None else {"outcome": {"type": "suspended", "interruptIds": [question]}}
        for call in [call for call, is_at_work in self._agents.items() if is_at_work]:
            self._agents[call] = False
            self._emit("SUBAGENT_FINISHED", subagentRunId=self._agent_id(call), **outcome)

    def _ask(self, question: OpenQuestion) -> None:
        """End the run with a question: as an interrupt, or for earlier clients as a message."""
        self._say(self._fold.reply, is_end=True)
        self._close(question.id)
        self.is_over = True
        if self._options.is_new:
            self._out.append(self._thread.snapshot())
            self._finish({"type": "interrupt", "interrupts": [self._interrupt(question)]})
            return
        id = f"{self._prefix}.ask{self._options.since}"
        self._emit("TEXT_MESSAGE_START", messageId=id, role="assistant")
        self._emit("TEXT_MESSAGE_CONTENT", messageId=id, delta=question_text(question))
        self._emit("TEXT_MESSAGE_END", messageId=id)
        self._finish(None)

    def _interrupt(self, question: OpenQuestion) -> dict[str, Any]:
        options = msgspec.to_builtins(question.options or [])
        answer: dict[str, Any] = {"type": "string"}
        if options and not question.free_text:
            answer["enum"] = [option["id"] for option in options]
        schema = {"type": "object", "properties": {"answer": answer}, "required": ["answer"]}
        reason = "tool_call" if question.ask in PERMISSIONS else "input_required"
        found = {"id": question.id, "reason": reason, "message": question_text(question), "responseSchema": schema}
        found["metadata"] = {"penstock": {"ask": question.ask, "options": options}}
        if question.call_id in self._calls:
            found["toolCallId"] = self._call_id(question.call_id)
        return found

    def _end(self) -> None:
        end = self._fold.completed
        assert end is not None
        self._say(end.message, is_end=True)
        for call in [call for call, has_result in self._calls.items() if not has_result]:
            parent = self._parents.get(call)
            self._result(call, "no result", {} if parent is None else {"subagentRunId": self._agent_id(parent)})
        self._close()
        failure = failure_text(end)
        if failure is not None:
            self._fail(failure, end.cause or end.outcome)
        elif end.outcome != "cancelled":
            self.is_over = True
            self._finish({"type": "success", "pendingToolCallIds": []} if self._options.is_new else None)
        elif self._options.is_new:
            self.is_over = True
            self._finish({"type": "cancelled"})
        else:
            self._fail(end.reason or "stopped", end.outcome)

    def _finish(self, outcome: dict[str, Any] | None) -> None:
        more: dict[str, Any] = {} if outcome is None else {"outcome": outcome, **self._usage()}
        result: dict[str, Any] = {"chat": self._options.chat, "turn": self._turn}
        if self._fold.cost_usd is not None:
            result["cost_usd"] = self._fold.cost_usd
        self._emit("RUN_FINISHED", **self._ids(), result=result, **more)

    def _fail(self, text: str, code: str) -> None:
        self._close()
        self.is_over = True
        self._emit("RUN_ERROR", message=text, code=code, **(self._usage() if self._options.is_new else {}))

    def _usage(self) -> dict[str, Any]:
        usage = self._fold.usage
        if usage is None:
            return {}
        counts = {
            "inputTokens": usage.input_tokens,
            "outputTokens": usage.output_tokens,
            "reasoningTokens": usage.reasoning_tokens,
            "cachedInputTokens": usage.cached_tokens,
            "cacheWriteInputTokens": usage.cache_write_tokens,
        }
        known = {name: count for name, count in counts.items() if count is not None}
        return {"usage": [known]} if known else {}


def _parts(rows: Sequence[Numbered], since: int) -> Iterator[Sequence[Numbered]]:
    """Yield entries in parts that end with an answer or with entry `since`."""
    part: list[Numbered] = []
    for row in rows:
        part.append(row)
        if isinstance(row.what, Answered) or row.number == since:
            yield part
            part = []
    if part:
        yield part
