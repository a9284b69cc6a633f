"""What happens in an ACP session: `session/update`, read with what little must be remembered of it.

Most agents give their chunks no message id. Then two model calls are told apart by the tool calls between them alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from penstock.agents._values import as_dict, as_float, plan_items, text_of, text_or
from penstock.agents.acp.calls import Call, Calls, meta_of
from penstock.agents.acp.end import model_of_usage, usage_of
from penstock.events import Kind, NoticeCode
from penstock.updates import (
    Failure,
    MessageEnd,
    MessageStart,
    ModelUsage,
    Notice,
    Plan,
    RunStart,
    Text,
    ToolCall,
    ToolReturn,
    TurnMark,
    Unknown,
    Update,
)

_SILENT = frozenset(
    {
        "available_commands_update",
        "config_option_update",
        "current_mode_update",
        "session_info_update",
        "plan_removed",
    }
)
_CHUNKS: dict[str, Kind] = {"agent_message_chunk": "text", "agent_thought_chunk": "thinking"}
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MODE_REMARK = re.compile(r"\[MODE_UPDATE\] \S+")
_COPILOT_REMARK = re.compile(r"(Error|Warning|Info): \S")


class Happenings:
    """Reads the updates of one session."""

    def __init__(self) -> None:
        self.error: str | None = None
        """The agent's own words of an error, while nothing was said after them."""
        self.cost: float | None = None
        """What the session has cost, in US dollars."""
        self._calls = Calls()
        self._messages: dict[str | None, str | None] = {}  # the open message of each lane
        self._acted: set[str | None] = set()  # lanes whose next words are another message: they made calls

    def speaks(self, agent: str) -> None:
        """The agent's own name for itself: what some do needs to be known by it."""
        self._calls.agent = agent.lower()

    def read(self, update: dict[str, Any]) -> Sequence[Update]:
        """The updates that the `update` of a `session/update` means."""
        kind = text_or(update.get("sessionUpdate"), "")
        if kind in _CHUNKS:
            return self._chunk(update, _CHUNKS[kind])
        if kind in _SILENT:
            return ()
        if kind in ("tool_call", "tool_call_update"):
            return self._worked(self._calls.patch(update, lane_of(update)))
        if kind == "user_message_chunk":
            return self._new_round(lane_of(update))
        if kind in ("plan", "plan_update"):
            plan = as_dict(update.get("plan")) or update
            items = plan_items(plan.get("entries") or plan.get("items"))
            return (Plan(items, lane_of(update)),) if items else ()
        if kind == "usage_update":
            return self._used(update)
        return (Unknown(f"session/update/{kind}", text_of(update.get("content")) or None, lane_of(update)),)

    def _used(self, update: dict[str, Any]) -> Sequence[Update]:
        cost = as_dict(update.get("cost"))
        self.cost = as_float(cost.get("amount")) if cost.get("currency") == "USD" else self.cost
        if self._calls.agent.startswith("codex") and None in self._messages:
            self._acted.add(None)  # it counts when a model call is over; a call that was refused leaves no other trace
        model = meta_of(update, "_claude/model")
        return (RunStart(model=model),) if model else ()

    def _chunk(self, update: dict[str, Any], kind: Kind) -> Sequence[Update]:
        content = update.get("content")
        text = content["text"] if isinstance(content, dict) and type(content.get("text")) is str else text_of(content)
        lane = lane_of(update) if "_meta" in update else None
        if not text:
            usage = usage_of(update)
            return (ModelUsage(usage, model_of_usage(update), lane=lane, whole=True),) if usage is not None else ()
        message = text_or(update.get("messageId"), "") or None
        if kind == "text" and (remark := self._remark(text, message)) is not None:
            return remark
        found = Text(kind, "delta", text, None, message, lane)
        if lane is None:
            self.error = None
        if lane in self._messages and self._messages[lane] == message and (message or lane not in self._acted):
            return (found,)
        ends = self._new_round(lane) if lane in self._acted else self._end_message(lane)
        self._messages[lane] = message
        return (*self._calls.settle(), *ends, MessageStart(message, lane), found)

    def _remark(self, text: str, message: str | None) -> Sequence[Update] | None:
        """The agent's own words among the model's, where their shape leaves no doubt; None where they are text."""
        agent = self._calls.agent
        if agent.startswith("gemini") and _MODE_REMARK.fullmatch(text):
            return (Notice("status", text),)
        if message is not None and _UUID.fullmatch(message) and text.startswith("API Error"):
            level = "Error"  # the model's own messages have other ids
        elif agent == "copilot" and (found := _COPILOT_REMARK.match(text)):
            level = found[1]
        else:
            return None
        if level != "Error":
            code: NoticeCode = "retry" if "Retrying" in text else "status"
            return (Notice(code, text, "info" if level == "Info" else "warning"),)
        self.error = text
        return (Notice("error", text, "error"), Failure(text))

    def _new_round(self, lane: str | None) -> Sequence[Update]:
        """What is said from now on answers something new."""
        self._acted.discard(lane)
        return (*self._end_message(lane), TurnMark(lane))

    def _end_message(self, lane: str | None) -> Sequence[Update]:
        if lane not in self._messages:
            return ()
        del self._messages[lane]
        return (MessageEnd(lane=lane),)

    def _worked(self, updates: Sequence[Update]) -> Sequence[Update]:
        """After the last of the calls that it made, a message is over; but not by a call that returns late."""
        self._note(updates)
        for update in updates:
            if isinstance(update, ToolReturn):
                lane = update.lane
                if lane in self._acted and not self._calls.waiting(lane):
                    return (*updates, *self._end_message(lane))
        return updates

    def _note(self, updates: Sequence[Update]) -> None:
        """Remember which lanes made calls: what they say next is another message."""
        for update in updates:
            if isinstance(update, ToolCall):
                self._acted.add(update.lane)
                if update.lane is None:
                    self.error = None

    def ask(self, patch: dict[str, Any]) -> tuple[Call, Sequence[Update]]:
        """The call that a permission is asked for, and what is told of it."""
        call, told = self._calls.ask(patch, lane_of(patch))
        self._note(told)
        return call, told

    def refuse(self, call: Call) -> None:
        """A person refused the call."""
        self._calls.refuse(call)

    def settle(self) -> list[Update]:
        """What is left to tell when the turn is over."""
        return self._calls.settle()


def lane_of(update: dict[str, Any]) -> str | None:
    """The call of the sub-agent that an update is from."""
    if "_meta" not in update:
        return None
    return meta_of(update, "parentToolUseId", "parentToolCallId", "agentId") or None
