"""Tool calls: each is emitted once, after its input and before its output and its result.

Input waits for the tool's name, and output for its call. A call without an id gets one. A call or a result that the
wire repeats is not emitted again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from penstock import events as ev
from penstock import updates as up
from penstock.core import tool_titles
from penstock.core.health import Health
from penstock.core.normalizer.emitter import Emitter
from penstock.core.normalizer.messages import Messages
from penstock.core.normalizer.outcome import RunOutcome
from penstock.core.normalizer.permissions import Permissions
from penstock.core.normalizer.snapshots import adds_defaults, repair
from penstock.core.normalizer.state import Block, Lane, Message, place_key
from penstock.core.normalizer.waits import Waits

MAX_CALLS = 4096
"""Maximum number of calls that are kept: those that wait for a result, and those that returned, so that a repeated
result is not emitted again."""

MAX_LANES = 64
"""Levels of nested sub-agents that are followed, since the ids on a wire may form a cycle."""

MADE_UP = "call-"
"""Prefix of the ids that are generated for calls without an id on the wire."""

UNNAMED = "tool"
"""Name of a tool whose name the wire never sent."""

MIN_RESULTS = 2
"""Number of results from which it is suspicious that all are empty: a single command may print nothing."""


class TrackedCall:
    """One tool call."""

    __slots__ = (
        "at",
        "block",
        "call_id",
        "called",
        "changes",
        "is_command",
        "lane",
        "name",
        "output",
        "returned",
        "waited",
    )

    def __init__(self, call_id: str, name: str | None, lane: str | None) -> None:
        self.call_id: str = call_id
        self.name: str | None = name
        self.lane: str | None = lane
        self.called: bool = False  # `tool_called` was emitted
        self.returned: bool = False  # `tool_returned` was emitted
        self.block: Block | None = None  # its input
        self.output: Block | None = None
        self.at: int | None = None  # time stamp of `tool_called`
        self.waited: int = 0  # milliseconds for which questions held it up until then
        self.changes: list[ev.Change] | None = None  # that the input proposes
        self.is_command: bool = False


class CallTracker:
    """Calls of a run, by id."""

    def __init__(
        self,
        emitter: Emitter,
        messages: Messages,
        outcome: RunOutcome,
        permissions: Permissions,
        health: Health,
        traits: up.Traits,
        waits: Waits,
    ) -> None:
        self._waits = waits
        self._emitter = emitter
        self._traits = traits
        self._permissions = permissions
        self._messages = messages
        self._outcome = outcome
        self._health = health
        # Kept separately, so that the cost of a call does not grow with the calls before it.
        self._waiting: dict[str, TrackedCall] = {}  # no result has come
        self._with_place = self._with_text = 0  # results that could have a text; results that have one
        self._called = self._named = self._given = 0  # calls of the top agent, those with a name, those with an input
        self._unasked = 0  # results without a call
        self._before = 0  # messages until the last call of the top agent
        self._returned: dict[str, TrackedCall] = {}
        self._running: Counter[str | None] = Counter()  # calls that were emitted and wait, by lane
        self._made_up = 0

    def find(self, call_id: str | None) -> TrackedCall | None:
        """Return the call of this id; None if unknown."""
        if call_id is None:
            return None
        return self._waiting.get(call_id) or self._returned.get(call_id)

    def track(self, call_id: str, name: str | None, lane: str | None) -> TrackedCall:
        """Return the call of this id; a new one if the id is unknown."""
        call = self.find(call_id)
        if call is None:
            if len(self._waiting) + len(self._returned) >= MAX_CALLS:
                self._forget_one()
            call = self._waiting[call_id] = TrackedCall(call_id, name, lane)
        if call.name is None:
            call.name = name
        return call

    def held_up(self, call_id: str | None, lane: str | None) -> Iterator[str]:
        """Yield the ids of the calls that wait with this one: its own, and those whose sub-agents made it."""
        call = self.find(call_id)
        if call_id is not None:
            yield call_id
        lane = call.lane if call is not None else lane
        for _ in range(MAX_LANES):
            if lane is None:
                return
            yield lane
            outer = self.find(lane)
            lane = outer.lane if outer is not None else None

    def output_block(self, update: up.Text) -> Block | None:
        """Return the block of a call's output; None once the call has returned, or if no call is named."""
        if not update.call_id:
            return None
        call = self.track(update.call_id, None, update.lane)
        if call.returned or (call.output is not None and call.output.ended):
            return None
        if call.output is None:
            call.output = Block("tool_output", None, call.lane, call.call_id, call.name)
            call.output.held = not call.called
        return call.output

    # --- the call ----------------------------------------------------------------------------------

    def apply_call(self, update: up.ToolCall) -> None:
        """Reconcile the streamed input of a call with the complete one, and emit the call."""
        call = self.track(update.call_id or self._new_id(), update.name, update.lane)
        if call.called or call.returned:
            self._health.suppressed_duplicates += 1
            return
        block = call.block
        lane = self._messages.lane(call.lane if block is None else block.parent)
        if block is not None and block.ended and block.number:
            message = self._messages.reopen(lane, self._messages.find(lane, update))
            self._settle_text(block, update.input)
            self._emit_call(call, update, lane.parent, message)
            return
        if block is None or block.ended:
            block = self._input_block(call, update, lane)
        if not block.number:
            block.name = call.name = update.name or UNNAMED
            self._messages.start_block(block)
        self._settle_text(block, update.input)
        block.final = True
        self._messages.end_block(block)
        self._emit_call(call, update, block.parent, block.message)

    def _input_block(self, call: TrackedCall, update: up.ToolCall, lane: Lane) -> Block:
        """Return the block for the input of a call that has none, or whose block ended before anything was emitted."""
        message = self._messages.find(lane, update)
        block = message.places.get(place_key(update.place, "tool_input"))  # streamed before it had an id
        if block is None or block.ended or block.kind != "tool_input" or block.call_id is not None:
            key = place_key(call.call_id, "tool_input")
            block = self._messages.register(lane, message, key, "tool_input", call.call_id)
        block.call_id = call.call_id
        call.block = block
        return block

    def _settle_text(self, block: Block, value: Any) -> None:
        """Compare the streamed input with the complete one by value, since the same JSON can be written in many ways.

        Defaults that the agent adds are not a change: the block keeps the streamed input, and the call has the complete
        one.
        """
        sent = block.text
        if block.truncated or (not sent and value in (None, {})):
            return
        if sent:
            try:
                if adds_defaults(msgspec.json.decode(sent), value):
                    return
            except (msgspec.DecodeError, RecursionError):
                pass
        whole = tool_titles.compact(value)
        action, new = repair(sent, whole, True)
        if action == "suffix" and not block.ended:
            self._messages.put(block, new)
        elif action != "nothing":
            self._messages.revise(block, whole)

    def input_ended(self, block: Block) -> None:
        """Emit the call whose input ended completely, unless the wire has repeated it."""
        call = self.find(block.call_id)
        if call is None or call.called or call.returned or not call.name:
            return
        try:
            value = msgspec.json.decode(block.text or "{}")
        except (msgspec.DecodeError, RecursionError):
            value = block.text
        self._emit_call(call, up.ToolCall(call.call_id, call.name, value), block.parent, block.message)

    def _emit_call(self, call: TrackedCall, update: up.ToolCall, parent: str | None, message: Message | None) -> None:
        call.called = True
        call.lane = parent
        self._running[parent] += 1
        if parent is None:
            self._called += 1
            self._named += (call.name or UNNAMED) != UNNAMED
            self._given += update.input not in (None, {}, "") or bool(update.title or update.changes)
            self._before = self._messages.count
        call.at = self._emitter.at
        call.waited = self._waits.of_call(call.call_id, call.at)
        call.changes = update.changes or None
        kind = update.tool_kind or tool_titles.tool_kind(update.name)
        call.is_command = kind == "execute"
        self._outcome.note_content()
        self._emitter.emit(
            ev.ToolCalled,
            parent,
            call_id=call.call_id,
            name=call.name or UNNAMED,
            input=update.input,
            title=update.title if update.title is not None else tool_titles.title(update.name, update.input),
            tool_kind=kind,
            message=message.number if message is not None else None,
            changes=call.changes,
        )
        if call.output is not None:
            self._release(call.output, parent)

    def _release(self, output: Block, parent: str | None) -> None:
        """Emit output that waited for its call."""
        output.held = False
        output.parent = parent
        if output.size:
            ended, output.ended = output.ended, False
            self._messages.start_block(output)
            if ended:
                self._messages.end_block(output)

    # --- the result --------------------------------------------------------------------------------

    def apply_return(self, update: up.ToolReturn) -> None:
        """Emit the result of a call. This ends the call's sub-agent, and also the round once no call waits."""
        call = self.track(update.call_id or self._oldest_made_up(), update.name, update.lane)
        lane = self._messages.lane(call.lane)
        if call.returned:
            self._health.suppressed_duplicates += 1
            return
        block = call.block
        if block is not None and not block.ended:
            self._messages.end_block(block)
            self.input_ended(block)
            lane = self._messages.lane(call.lane)
        self._unasked += not call.called
        self._emit_return(call, update, complete=True)
        self._messages.end_lane(call.call_id)
        lane.results_seen = True
        if not self._running[lane.parent]:
            self._messages.end_implicit(lane)

    def _emit_return(self, call: TrackedCall, update: up.ToolReturn, complete: bool) -> None:
        if call.output is not None:
            self._messages.end_block(call.output, complete)
            call.output = None
        self._with_place += complete and update.output_reported
        self._with_text += bool(update.text or update.changes or call.changes)
        call.returned = True
        call.block = None
        self._running[call.lane] -= call.called
        self._returned[call.call_id] = self._waiting.pop(call.call_id)
        changes = call.changes if update.changes is None else update.changes
        refused = self._permissions.apply_return(update)
        self._emitter.emit(
            ev.ToolReturned,
            call.lane,
            call_id=call.call_id,
            text=update.text,
            is_error=update.is_error,
            complete=complete,
            name=call.name,
            exit_code=update.exit_code,
            duration_ms=self._duration_ms(call, update) if complete else None,
            changes=changes if changes and complete and not update.is_error and not refused else None,
            refused=refused,
            status_reported=not complete or self._has_status(call, update),
            output_reported=not complete or update.output_reported or bool(update.text),
        )
        call.changes = None

    def _has_status(self, call: TrackedCall, update: up.ToolReturn) -> bool:
        """Return whether the wire reports that the call succeeded or failed."""
        if update.is_error or update.refused or update.exit_code is not None:
            return True
        if update.status_reported is not None:
            return update.status_reported
        return self._traits.command_status or not call.is_command

    def _duration_ms(self, call: TrackedCall, update: up.ToolReturn) -> int | None:
        """Return the duration by the agent's clock, else by the time stamps, less the time spent on questions.

        Some agents start their own clock before they ask.
        """
        own, at = update.duration_ms, self._emitter.at
        if call.at is None or at is None:
            return own
        waited = self._waits.of_call(call.call_id, at) - call.waited
        measured = max(0, at - call.at - waited)
        return measured if own is None or (waited and own > measured) else own

    @property
    def waiting(self) -> bool:
        """True if a call has no result yet."""
        return bool(self._waiting)

    def disagreements(self) -> Iterator[str]:
        """Yield a sentence for each oddity that is rarely intended."""
        if self._with_place >= MIN_RESULTS and not self._with_text:
            yield f"all {self._with_place} results of calls are empty"
        if self._called >= MIN_RESULTS and not self._named:
            yield f"none of {self._called} calls has a name"
        if self._called >= MIN_RESULTS and not self._given:
            yield f"none of {self._called} calls has an input or a title"

    def losses(self, *, ended_well: bool) -> Iterator[str]:
        """Yield a sentence for calls and results that lack the other. `ended_well`: every call should have a result."""
        waiting = sum(call.called and call.lane is None for call in self._waiting.values())
        went_on = ended_well and self._messages.count > self._before  # after the last call
        if waiting and went_on and self._traits.runs_tools:
            yield f"calls without a result: {waiting} of {self._called}"
        if self._unasked:
            yield f"results without a call: {self._unasked}"

    def close(self) -> None:
        """End the calls that got no result, and output whose call never came."""
        for call in [*self._waiting.values()]:
            if call.called:
                self._emit_return(call, up.ToolReturn(call.call_id), complete=False)
            elif call.output is not None:
                self._messages.end_block(call.output, complete=False)

    # --- ids and memory ----------------------------------------------------------------------------

    def _new_id(self) -> str:
        self._made_up += 1
        return f"{MADE_UP}{self._made_up}"

    def _oldest_made_up(self) -> str:
        """Return the id for a result without one: that of the oldest waiting call with a generated id."""
        return next((call_id for call_id in self._waiting if call_id.startswith(MADE_UP)), None) or self._new_id()

    def _forget_one(self) -> None:
        """Forget the call that returned first; if none has, end the oldest one."""
        if not self._returned:
            call = next(iter(self._waiting.values()))
            if not call.called:
                del self._waiting[call.call_id]
                return
            self._emit_return(call, up.ToolReturn(call.call_id), complete=False)
        del self._returned[next(iter(self._returned))]
