"""Reader of `session/update`, with the little state that it needs.

Most agents give their chunks no message id. Then the updates between them separate two model calls: tool calls, a plan,
the figures of a call.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

from penstock.agents._commands import commands_of
from penstock.agents._facts import AcpQuirks
from penstock.agents._json import (
    as_dict,
    as_float,
    as_int,
    inner_message,
    object_of,
    plan_items,
    text_of,
    text_or,
    word_of,
    words_of,
)
from penstock.agents.acp.calls import AcpCall, AcpCalls, meta_of
from penstock.agents.acp.causes import cause_of_info, cause_of_words
from penstock.agents.acp.end import model_of_usage, usage_of
from penstock.agents.acp.sub_agents import SubAgents
from penstock.agents.registry import acp_quirks
from penstock.core.misfits import note
from penstock.events import Kind, Level, NoticeCode
from penstock.updates import (
    ContextUse,
    Failure,
    MessageEnd,
    MessageStart,
    ModelUsage,
    Notice,
    Plan,
    RoundEnd,
    RunStart,
    Text,
    ToolCall,
    ToolReturn,
    Unknown,
    Update,
    Usage,
    Work,
)

_SILENT = frozenset(
    {
        "compaction_summary_chunk",
        "config_option_update",
        "current_mode_update",
        "plan_removed",
    }
)
COMMANDS = "available_commands_update"
"""Update with the commands of the session. Agents send it before the prompt too, or instead of the history."""
_CHUNKS: dict[str, Kind] = {"agent_message_chunk": "text", "agent_thought_chunk": "thinking"}
_UUID = re.compile(r"(?:msg_)?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SENTENCE_END = re.compile(r"[.!?:…。！？：][\])}\"'”’»*_`]*\s*$")
_DISCARDED = Notice("retry", "the agent discarded this answer of the model and asked again", "warning")
_LEVELLED_REMARK = re.compile(r"(Error|Warning|Info): \S")


ERROR_WITHOUT_WORDS = "the agent reported an error of its own"
"""Reason of a failure whose words the agent has not sent, or not yet."""
TAIL_CHARS = 16
"""Characters of the end of a text that show whether it ends a sentence."""


class SessionUpdates:
    """Reader of the updates of one session."""

    def __init__(self) -> None:
        self.error: str | None = None
        """The agent's own text of an error, until other text follows."""
        self.cost: float | None = None
        """Cost of the session, in US dollars."""
        self._calls = AcpCalls()
        self._sub_agents = SubAgents(self._calls)
        self._messages: dict[str | None, str | None] = {}  # the open message of each lane
        self._acted: set[str | None] = set()  # lanes that made calls: their next text begins a round
        self._counted: set[str | None] = set()  # lanes with a model call that is over: their next text begins a message
        self.turns: int = 0
        """Turns that the agent took by itself, as background work had ended."""
        self._totals: tuple[int, ...] | None = None  # figures of the session so far
        self._tail = ""  # the end of the top agent's last text
        self._background: list[str] = []  # sub-agents whose end the agent will answer
        self._has_ids = False  # the model's text has ids of messages: text without one is the agent's own
        self._trouble: Failure | None = None  # the latest error in `_meta`, after which the agent may try again
        self._retries = False  # the agent asks the model again: a message with the id of the open one is that one anew
        self._failed = False  # the agent reported that it stopped trying: its next text is the reason

    def identify(self, agent: str) -> None:
        """Select the quirks of the agent's ACP by the agent's own name for itself."""
        self._calls.quirks = acp_quirks(agent)

    @property
    def is_working(self) -> bool:
        """True if background work is going on that the agent will answer."""
        return bool(self._background)

    @property
    def quirks(self) -> AcpQuirks:
        """Differences between the agent's ACP and the protocol."""
        return self._calls.quirks

    def read(self, update: dict[str, Any]) -> Sequence[Update]:
        """Translate the `update` of a `session/update`."""
        kind = word_of(update.get("sessionUpdate"))
        if kind in _CHUNKS:
            return self._chunk(update, _CHUNKS[kind])
        if kind == "session_info_update":
            return self._state(update)
        if kind == COMMANDS:
            return (commands_of(update.get("availableCommands")),)
        if kind in _SILENT:
            return ()
        if kind in ("tool_call", "tool_call_update"):
            if not text_or(update.get("toolCallId"), ""):
                return (Unknown(f"session/update/{kind} without an id"),)
            lane = self._sub_agents.of_call(update)
            worked = self._worked([*self._calls.begin(lane), *self._calls.patch(update, lane)])
            return (*worked, *self._launched(update)) if "_meta" in update else worked
        if kind == "user_message_chunk":
            return self._new_round(self._sub_agents.marked(update))
        if kind in ("plan", "plan_update"):
            return self._planned(update)
        if kind == "usage_update":
            return self._used(update)
        if kind == "notice":
            return self._notice(update)
        if kind == "compaction_update":
            return self._compacted(update)
        lane = self._sub_agents.marked(update)
        return (Unknown(f"session/update/{kind}", text_of(update.get("content")) or None, lane),)

    def _planned(self, update: dict[str, Any]) -> Sequence[Update]:
        lane = self._sub_agents.of_text(update)
        if lane in self._messages:
            self._acted.add(lane)  # the tool that changes the plan is not reported as a call
        plan = as_dict(update.get("plan")) or update
        items = plan_items(plan.get("entries") or plan.get("items"))
        return (Plan(items, lane),) if items else ()

    def _used(self, update: dict[str, Any]) -> Sequence[Update]:
        cost = object_of(update.get("cost"))
        self.cost = as_float(cost.get("amount")) if word_of(cost.get("currency")) == "USD" else self.cost
        counts = self.quirks.counts
        if counts == "after" and None in self._messages:
            self._acted.add(None)  # a call that was rejected leaves no other trace
        elif counts == "before" and (lane := self._sub_agents.of_text(update)) in self._messages:
            self._counted.add(lane)  # the agent may ask the model again by itself, with no call between
        origin = as_dict(as_dict(update.get("_meta")).get("_claude/origin"))
        over = self._turn_over(origin) if origin else ()
        model = meta_of(update, "_claude/model")
        filled = ContextUse(as_int(update.get("used")), as_int(update.get("size")))
        started = (RunStart(model=model),) if model else ()
        called = self._grown(as_dict(update.get("_meta"))) if self.quirks.session_totals else ()
        return (*started, *over, *called, filled) if filled.window else (*started, *over, *called)

    def _grown(self, meta: dict[str, Any]) -> Sequence[Update]:
        """Translate the figures of the session so far: the model call since the last ones, or what was used before."""
        names = ("promptTokens", "completionTokens", "cachedTokens")
        totals = tuple(as_int(meta.get(name)) or 0 for name in names)
        before, self._totals = self._totals, totals
        given, out, cached = (now - then for now, then in zip(totals, before or totals, strict=True))
        if given < 0 or out < 0 or not (given or out):
            return ()
        return (ModelUsage(Usage(given, out, max(0, cached)), whole=True),)

    def _turn_over(self, origin: dict[str, Any]) -> Sequence[Update]:
        """Translate the end of a turn of the agent: what follows answers the end of background work."""
        if None in self._messages:
            self._acted.add(None)
        if origin.get("kind") != "task-notification" or not self._background:
            return ()
        self.turns += 1
        return (Work(self._background.pop(0), on=False),)

    def _notice(self, update: dict[str, Any]) -> Sequence[Update]:
        words = [text_of(update.get(key)).strip() for key in ("title", "description")]
        severity = update.get("severity")
        level: Level = "error" if severity == "error" else "warning" if severity == "warning" else "info"
        lane = self._sub_agents.marked(update)
        return (Notice("status", ": ".join(filter(None, words)) or "a notice without words", level, lane),)

    def _compacted(self, update: dict[str, Any]) -> Sequence[Update]:
        """Translate the state of a compaction, whose end is a notice: the model then goes on in another message."""
        status, why = update.get("status"), text_of(update.get("error")).strip()
        if status not in ("completed", "failed"):
            return ()
        if None in self._messages:
            self._counted.add(None)
        if status == "completed":
            return (Notice("compaction", "the context was compacted"),)
        return (Notice("compaction", f"the context could not be compacted{f': {why}' if why else ''}", "warning"),)

    def begin(self, call_id: str | None) -> Sequence[Update]:
        """Return the call that a form belongs to, if it was only announced."""
        begun = self._calls.begin(call_id)
        self._note(begun)
        return begun

    def _launched(self, update: dict[str, Any]) -> Sequence[Update]:
        """Return the start of background work that a call reports as its result."""
        response = as_dict(as_dict(as_dict(update.get("_meta")).get("claudeCode")).get("toolResponse"))
        if response.get("isAsync") is not True or response.get("status") != "async_launched":
            return ()
        work = text_of(response.get("agentId")) or text_of(update.get("toolCallId"))
        self._background.append(work)
        return (Work(work, on=True),)

    def _state(self, update: dict[str, Any]) -> Sequence[Update]:
        """Translate what an agent reports of its state in `_meta`: an error, after which it may try again."""
        for own in object_of(update.get("_meta")).values():
            fields = object_of(own) if isinstance(own, dict | list) else {}
            error = object_of(fields.get("error"))
            if words := text_of(error.get("message")):
                self._trouble = Failure(words, cause_of_info(error.get("codexErrorInfo")))
                return (Notice("retry", words, "warning", cause=self._trouble.cause),)
            if word_of(object_of(fields.get("threadStatus")).get("type")) == "systemError":
                self._failed = True
                failure = self._trouble or Failure(ERROR_WITHOUT_WORDS)
                self.error = failure.reason
                return (failure,)
        return ()

    def _own_text(self, update: dict[str, Any], text: str) -> Sequence[Update]:
        """Translate text of the agent itself: why it gave up, or a remark."""
        if not self._failed:
            level: Level = "warning" if meta_of(update, "level") in ("warning", "error") else "info"
            return (Notice("status", text.strip(), level),)
        words = inner_message(text.strip())
        cause = cause_of_words(words, self.quirks) or (self._trouble.cause if self._trouble is not None else None)
        self._failed, self.error = False, words
        return (Notice("error", words, "error", cause=cause), Failure(words, cause))

    def _chunk(self, update: dict[str, Any], kind: Kind) -> Sequence[Update]:
        content = update.get("content")
        text = content["text"] if isinstance(content, dict) and type(content.get("text")) is str else words_of(content)
        if isinstance(content, dict) and content.get("type") == "text" and not isinstance(content.get("text"), str):
            word_of(content.get("text"))
            return (Unknown(f"session/update/{update['sessionUpdate']}/text", text_of(content)),)
        if not text:
            return self._call_over(update)
        message = word_of(update.get("messageId")) or None
        goes_on = message is not None and self._messages.get(None) == message and "_meta" not in update
        lane = None if goes_on else self._sub_agents.of_text(update)
        if kind == "text" and lane is None and message is None and (self._has_ids or self._failed):
            return self._own_text(update, text)
        if kind == "text" and "_meta" in update and _replaces_an_answer(update):
            return (Notice("status", text.strip()),)
        if kind == "text" and (remark := self._remark(text, message)) is not None:
            return remark
        self._has_ids = self._has_ids or message is not None
        begins = not goes_on or self._retries  # more of a message that is open says nothing about an error after it
        if begins:
            self._failed, self._trouble = False, None
        found = Text(kind, "delta", text, None, message, lane)
        tail = self._tail
        if lane is None:
            self.error = None if begins else self.error
            self._tail = (tail + text)[-TAIL_CHARS:] if kind == "text" else ""
        known = lane in self._messages and self._messages[lane] == message
        again, self._retries = self._retries and lane is None, False
        if known and again and message:
            return (MessageStart(message), found)
        if known and (message or not (lane in self._acted or lane in self._counted)):
            return (found,)
        ends = self._end_before(lane, message, tail if kind == "text" else "")
        begun = self._calls.begin(lane)
        self._note(begun)
        self._messages[lane] = message
        return (*self._calls.settle(), *begun, *ends, MessageStart(message, lane), found)

    def _end_before(self, lane: str | None, message: str | None, tail: str) -> Sequence[Update]:
        """End the open message of a lane before another one, whose text follows text that ended with `tail`."""
        if lane in self._acted:
            return self._new_round(lane)
        if lane is None and self._is_discarded(message):
            return (*self._end_message(lane, "superseded"), _DISCARDED)
        if lane is None and self._is_continued(message, tail):
            return self._end_message(lane, stop_reason="max_tokens")
        return self._end_message(lane)

    def retried(self, why: str) -> Sequence[Update]:
        """Translate the notification that the agent asks the model again, as its answer has broken off."""
        self._retries = True
        return (Notice("retry", why or "the model call failed", "warning"),)

    def _call_over(self, update: dict[str, Any]) -> Sequence[Update]:
        """Translate an empty chunk. With figures, which some agents send so, it ends a model call."""
        usage = usage_of(update)
        if usage is None:
            return ()
        lane = self._sub_agents.marked(update)
        if lane in self._messages:
            self._counted.add(lane)
        return (ModelUsage(usage, model_of_usage(update), lane=lane, whole=True),)

    def _remark(self, text: str, message: str | None) -> Sequence[Update] | None:
        """Return the agent's own text among the model's, if its shape is unambiguous; None if it is the model's."""
        quirks = self.quirks
        if quirks.status_remark and re.fullmatch(quirks.status_remark, text):
            return (Notice("status", text),)
        # The model's own messages have other ids. One without an id may be the model's.
        is_error = (message is None or _UUID.fullmatch(message)) and self._is_error(text)
        if is_error and message is None:
            note("a text that reads as an error without an id")
        if is_error and message is not None:
            level = "Error"
        elif quirks.levelled_remarks and (found := _LEVELLED_REMARK.match(text)):
            level = found[1]
        else:
            return None
        if level != "Error":
            code: NoticeCode = "retry" if "Retrying" in text else "status"
            return (Notice(code, text, "info" if level == "Info" else "warning"),)
        self.error = text
        cause = cause_of_words(text, quirks)
        return (Notice("error", text, "error", cause=cause), Failure(text, cause))

    def _is_error(self, text: str) -> bool:
        """Return whether a text is one of the agent's own sentences about an error."""
        return text.startswith("API Error") or any(re.match(pattern, text) for pattern, _ in self.quirks.errors)

    def _new_round(self, lane: str | None) -> Sequence[Update]:
        """Begin a new round: the text that follows answers something new."""
        self._acted.discard(lane)
        return (*self._end_message(lane), RoundEnd(lane))

    def _end_message(
        self, lane: str | None, status: Literal["superseded"] | None = None, stop_reason: str | None = None
    ) -> Sequence[Update]:
        self._counted.discard(lane)
        if lane not in self._messages:
            return ()
        del self._messages[lane]
        return (MessageEnd(lane=lane, status=status, stop_reason=stop_reason),)

    def _is_continued(self, message: str | None, tail: str) -> bool:
        """Return whether a message continues the open one, which ended with `tail`: nothing on the wire says so."""
        is_next = message is not None and self._messages.get(None) not in (None, message)
        return self.quirks.goes_on and is_next and tail != "" and _SENTENCE_END.search(tail) is None

    def _is_discarded(self, message: str | None) -> bool:
        """Return whether the open message belongs to an answer that the one of another message replaces."""
        before, after = (self._answer_of(it) for it in (self._messages.get(None), message))
        return before is not None and after is not None and before != after

    def _answer_of(self, message: str | None) -> str | None:
        found = re.fullmatch(f"{self.quirks.answer_id}.*", message or "") if self.quirks.answer_id else None
        return found[1] if found else None

    def _worked(self, updates: Sequence[Update]) -> Sequence[Update]:
        """End a message after the last of its calls has returned, but not by a call that returns late."""
        self._note(updates)
        for update in updates:
            if isinstance(update, ToolReturn):
                lane = update.lane
                if lane in self._acted and not self._calls.waiting(lane):
                    return (*updates, *self._end_message(lane))
        return updates

    def _note(self, updates: Sequence[Update]) -> None:
        """Remember the lanes that made calls: their next text is another message."""
        for update in updates:
            if isinstance(update, ToolCall):
                self._acted.add(update.lane)
                if update.lane is None:
                    self.error = None
            elif isinstance(update, ToolReturn) and update.call_id in self._messages:
                self._end_message(update.call_id)  # that of a sub-agent, which is over with its call
                self._acted.discard(update.call_id)

    def ask(self, patch: dict[str, Any]) -> tuple[AcpCall, Sequence[Update]]:
        """Return the call that a permission is asked for, and emit it."""
        lane = self._sub_agents.of_call(patch)
        begun = self._calls.begin(lane)
        call, updates = self._calls.ask(patch, lane)
        updates = (*begun, *updates)
        self._note(updates)
        return call, updates

    def reject(self, call: AcpCall) -> None:
        """Note that a person rejected the call."""
        self._calls.reject(call)

    def settle(self, *, is_whole: bool) -> list[Update]:
        """Return the updates that are left when the turn is over. `is_whole`: the agent ended it, and nobody else."""
        left = self._calls.settle()
        for call in self._calls.open() if is_whole else ():
            if not call.emitted:  # it was announced, and no status says that it ran
                note("a call without a status")
        return left


def _replaces_an_answer(update: dict[str, Any]) -> bool:
    """Return whether a text is marked as the agent's own, for an answer of the model that is not whole."""
    own = (as_dict(value) for value in as_dict(update.get("_meta")).values())
    return any(fields.get("fallbackContent") is True for fields in own)
