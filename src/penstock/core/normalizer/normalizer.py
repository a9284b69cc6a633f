"""Entry point of the normalizer: updates to events.

`Normalizer` dispatches the updates of one run. Each of its parts owns some state: `Messages` the open messages and
blocks, `CallTracker` the tool calls, `Texts` the assignment of a text to its block, `RunOutcome` and `RunInfo` the
facts about the run, `Emitter` the events. Only `snapshots`, which `Texts` uses, compares texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from penstock import events as ev
from penstock import updates as up
from penstock.core.decoding import excerpt
from penstock.core.framing import lines_of
from penstock.core.health import Health
from penstock.core.kind_names import kind_name
from penstock.core.normalizer.calls import CallTracker
from penstock.core.normalizer.commands import OfferedCommands
from penstock.core.normalizer.emitter import Emitter
from penstock.core.normalizer.messages import Messages
from penstock.core.normalizer.outcome import Exit, RunOutcome
from penstock.core.normalizer.permissions import Permissions
from penstock.core.normalizer.run_info import RunInfo
from penstock.core.normalizer.state import Block, Lane
from penstock.core.normalizer.texts import Texts
from penstock.core.normalizer.waits import Waits
from penstock.core.questions import ordered, with_same_command
from penstock.core.unfamiliar import PlacesOfKinds

MAX_RAW_CHARS = 4000
"""Maximum characters of an unknown wire event in the event `unknown`."""

MAX_WORK = 1024
"""Maximum number of background tasks that are remembered: more than any agent runs at once."""

_COMPLETE = frozenset({up.ToolCall, up.ToolReturn, up.Plan, up.Result, up.Failure})
"""Updates that count as complete events in the health report."""


class Normalizer:
    """Normalizer of one run: makes its events from an agent's updates.

    `apply` and its siblings emit events; `drain` returns them. Texts in updates must be well formed, but the text of a
    delta may begin or end with half of a surrogate pair.

    Args:
        agent: label of the agent in the events.
        traits: properties of the agent's wire.
        run: number of the run, if several runs share an output.
        health: counters to add to.
        after: normalizer that this one replaces; its events that were not drained yet come first.
    """

    def __init__(
        self,
        agent: str,
        traits: up.Traits,
        run: int | None = None,
        health: Health | None = None,
        *,
        after: Normalizer | None = None,
    ) -> None:
        self.health: Health = health or Health()
        self._traits = traits
        self._emitter = Emitter(agent, run)
        if after is not None:
            self._emitter.at = after._emitter.at
            self._emitter.events = after.drain()
        self._emit = self._emitter.emit
        self._top = Lane(None)
        self._outcome = RunOutcome(self._top, traits.regular_end)
        self._info = RunInfo(self._emitter)
        self._messages = Messages(
            self._emitter, traits, self.health, self._top, self._outcome, self._info, self._input_ended
        )
        self.permissions: Permissions = Permissions(traits.asks_for_all)
        """Permissions of the run, with the questions that are open."""
        self._waits = Waits()
        self._calls = CallTracker(
            self._emitter, self._messages, self._outcome, self.permissions, self.health, traits, self._waits
        )
        self._texts = Texts(self._messages, self._calls, traits, self.health)
        self._commands = OfferedCommands(self._emitter)
        self._plan: list[ev.PlanItem] | None = None
        self._work: dict[str, None] = {}  # the background tasks
        self._places = PlacesOfKinds()
        self._applied_texts = 0  # without those of the fast path, which `health` counts
        self._results = 0
        self._closed = False
        self._handlers: dict[type, Callable[[Any], None]] = {
            up.RunStart: self._run_start,
            up.MessageStart: self._messages.start,
            up.MessageEnd: self._messages.end,
            up.Phase: self._messages.set_phase,
            up.BlockStart: self._texts.start_block,
            up.BlockEnd: self._texts.end_block,
            up.ToolCall: self._calls.apply_call,
            up.ToolReturn: self._calls.apply_return,
            up.RoundEnd: self._messages.end_round,
            up.Plan: self._plan_changed,
            up.Commands: self._commands.update,
            up.ModelUsage: self._messages.add_usage,
            up.ContextUse: self._outcome.context.apply,
            up.Notice: self._notice,
            up.Question: self._question,
            up.Answer: self._answer,
            up.Work: self._work_changed,
            up.Failure: self._failure,
            up.Result: self._result,
        }

    # --- in and out --------------------------------------------------------------------------------

    def stamp(self, at: int | None) -> None:
        """Set the time stamp of the events to come, in milliseconds since the start."""
        self._emitter.at = at

    def drain(self) -> list[ev.Event]:
        """Return the events since the last call."""
        return self._emitter.drain()

    def apply_batch(
        self,
        wire_events: Iterable[Any],
        region: bytes,
        read: Callable[[Any], Sequence[up.Update]],
        failed: Callable[[Any, Exception], Sequence[up.Update]],
        *,
        joins_deltas: bool = False,
    ) -> None:
        """Apply the updates of many lines. Nearly all of them are new text for an open block of the top agent.

        That case takes few steps and bypasses `Emitter.emit`, because the speed of a stream depends on it. Each line is
        read as it is applied, so that its updates are freed at once.

        Args:
            wire_events: the event of each line.
            region: the lines.
            read: function that returns the updates of an event.
            failed: function that returns the updates of an event for which `read` raised an exception.
            joins_deltas: emit one event for consecutive deltas of a block.
        """
        emitter, delta, text_update, unknown = self._emitter, ev.Delta, up.Text, up.Unknown
        agent, run, at, emit = emitter.agent, emitter.run, emitter.at, emitter.events.append
        lines: list[bytes] = []
        block: Block | None = None  # of the last delta; looked up again after any other update
        place: up.Place = None
        kind: ev.Kind = "text"
        key: str | None = None
        first = number = 0  # part of the block that the next joined event begins with, and the block's number
        grow = list[str]().append  # to the parts of the block
        deltas = silent = 0
        for index, event in enumerate(wire_events):
            try:
                updates = read(event)
            except Exception as error:
                updates = failed(event, error)
            if not updates:
                silent += 1
            for update in updates:
                if (
                    type(update) is text_update
                    and update.mode == "delta"
                    and update.lane is None
                    and (text := update.text)
                ):
                    if block is None or update.place != place or update.kind != kind or update.message != key:
                        if joins_deltas and block is not None:
                            self._emit_joined(block, first)
                        place, kind, key = update.place, update.kind, update.message
                        block = self._open_block(place, kind, key)
                        if block is not None:
                            first, number, grow = len(block.parts), block.number, block.parts.append
                    if block is not None:
                        deltas += 1
                        grow(text)
                        if not joins_deltas:
                            emit(delta(number, kind, text, agent=agent, run=run, at=at))
                        continue
                if joins_deltas and block is not None:
                    self._emit_joined(block, first)
                block = None
                if type(update) is unknown:
                    self.health.delta_events += deltas  # its place among the texts is noted
                    deltas = 0
                    lines = lines or lines_of(region)
                    self.apply(update, lines[index])
                else:
                    self.apply(update)
        if joins_deltas and block is not None:
            self._emit_joined(block, first)
        self.health.delta_events += deltas
        self.health.control_events += silent
        self._outcome.any_line = True

    def _emit_joined(self, block: Block, first: int) -> None:
        """Emit the parts of a block from the one numbered `first` as one delta."""
        self._emit(ev.Delta, None, block=block.number, kind=block.kind, text="".join(block.parts[first:]))

    def apply(self, update: up.Update, line: bytes = b"") -> None:
        """Apply one update; do nothing after the end of the run. `line`: the line that it comes from."""
        if self._closed:
            return
        kind = type(update)
        self._outcome.any_line = True
        if kind is up.Text:
            self._applied_texts += bool(update.text)  # type: ignore[union-attr]
            self._texts.apply(update)  # type: ignore[arg-type]
        elif kind is up.Unknown:
            self._unknown(update, line)  # type: ignore[arg-type]
        else:
            if kind in _COMPLETE:
                self.health.complete_events += 1
            else:
                self.health.control_events += 1
            self._results += kind is up.ToolReturn
            self._handlers[kind](update)

    def _open_block(self, place: up.Place, kind: ev.Kind, key: str | None) -> Block | None:
        """Return the top agent's block that takes such a delta unchanged, as new text; None if there is none."""
        message = self._top.message
        if message is None or (key is not None and not message.is_named(key)):
            return None
        block = message.places.get(place)  # type: ignore[arg-type]  # None finds nothing
        return block if block is not None and block.plain and block.kind == kind else None

    def control(self) -> None:
        """Count a line that has no updates."""
        self._outcome.any_line = True
        self.health.control_events += 1

    def noise(self, text: str) -> None:
        """Emit a line that is not JSON."""
        self.health.noise_lines += 1
        self._notice(up.Notice("noise", text))

    def malformed(self, line: int, reason: str, shown: str) -> None:
        """Emit a line that cannot be decoded. `line`: its number."""
        self._outcome.any_line = True
        self.health.count_parse_error(line)
        self._emit(ev.Malformed, None, line=line, reason=reason, excerpt=shown)

    def compact(self) -> None:
        """Bound the memory of the open blocks. Call it from time to time."""
        self._messages.compact()

    @property
    def working(self) -> bool:
        """True if tasks run in the background."""
        return bool(self._work)

    @property
    def closed(self) -> bool:
        """True if the run has ended."""
        return self._closed

    # --- updates that belong to no message ---------------------------------------------------------

    def _input_ended(self, block: Block) -> None:
        self._calls.input_ended(block)

    def _run_start(self, update: up.RunStart) -> None:
        self._info.update(update)
        self.health.version = update.version or self.health.version
        if self._top.open_message is None:
            self._info.emit_pending()
        self._commands.begin()

    def _plan_changed(self, update: up.Plan) -> None:
        if update.items != self._plan:
            self._plan = update.items
            self._emit(ev.PlanChanged, update.lane, items=update.items)

    def _notice(self, update: up.Notice) -> None:
        if update.lane is None:
            self._outcome.apply_notice(update)
        if update.cause is not None:
            self.health.count_cause(update.cause)
        self._emit(
            ev.Notice,
            update.lane,
            level=update.level,
            code=update.code,
            text=update.text,
            cause=update.cause,
            attempt=update.attempt,
            max_attempts=update.max_attempts,
            wait_ms=update.wait_ms,
            steer=update.steer,
        )

    def _question(self, update: up.Question) -> None:
        update = with_same_command(update)
        self.permissions.apply_question(update)
        if update.blocking:
            self._waits.begin(update.id, self._calls.held_up(update.call_id, update.lane), self._emitter.at)
        self._emit(
            ev.QuestionAsked,
            update.lane,
            id=update.id,
            text=update.text,
            blocking=update.blocking,
            ask=update.ask,
            options=ordered(update.options) or None,
            free_text=update.free_text,
            call_id=update.call_id,
            tool_kind=update.tool_kind,
            title=update.title,
            changes=update.changes,
        )

    def _answer(self, update: up.Answer) -> None:
        update = self.permissions.apply_answer(update)
        self._waits.end(update.id, self._emitter.at)
        self._emit(ev.QuestionAnswered, update.lane, id=update.id, by=update.by, option=update.option, text=update.text)

    def _work_changed(self, update: up.Work) -> None:
        if update.on:
            if update.id is not None and len(self._work) < MAX_WORK:
                self._work[update.id] = None
        elif update.id is None:
            self._work.clear()
        else:
            self._work.pop(update.id, None)

    def _unknown(self, update: up.Unknown, line: bytes) -> None:
        kind = update.wire_type or kind_name(line)
        self.health.count_unknown(kind)
        is_own = update.lane is None and not self._outcome.is_repeated  # and not after the agent's own end
        has_text = is_own and bool(update.text and update.text.strip())
        self._places.note(kind, self._texts_so_far, self._results, waiting=self._calls.waiting, has_text=has_text)
        raw = excerpt(line, MAX_RAW_CHARS)
        self._emit(ev.Unknown, update.lane, raw=raw, wire_type=kind, text=update.text)

    @property
    def _texts_so_far(self) -> int:
        return self.health.delta_events + self._applied_texts

    def _failure(self, update: up.Failure) -> None:
        self._outcome.fail(update)

    # --- the end -----------------------------------------------------------------------------------

    def _result(self, update: up.Result) -> None:
        outcome = self._outcome
        if outcome.is_repeated:
            text = update.reason or (
                "the agent ended again, with an error" if update.is_error else "the agent ended again"
            )
            self._notice(up.Notice("result", text, "warning" if update.is_error else "info"))
            return
        good = not update.is_error and not update.cancelled
        if message := self._top.open_message:
            complete = good and (message.is_whole or not self._traits.block_ends)
            self._messages.end_message(self._top, message, "ok" if complete else "cut", complete)
        outcome.apply_result(update)
        self.permissions.apply_result(update)
        if update.session_id is not None:
            self._info.set_session_id(update.session_id)
        self._emit(
            ev.Replied,
            None,
            reply=outcome.reply,
            is_error=update.is_error or (good and outcome.limit is not None),
            session_id=self._info.session_id,
            usage=outcome.usage,
            cost_usd=outcome.cost_usd,
            duration_ms=update.duration_ms,
        )

    def close(self, exit: Exit | None = None) -> None:
        """End everything that is open, from the inside out, then the run. A second call does nothing."""
        if self._closed:
            return
        self._commands.begin()
        outcome = self._outcome
        last = self._top.open_message
        outcome.is_broken = last is not None and self._messages.ends and not last.is_whole
        good = outcome.judge(exit).outcome in ("ok", "empty")
        for lane in self._messages.lanes:
            if message := lane.open_message:
                complete = message.is_whole or (good and not self._traits.block_ends)
                self._messages.end_message(lane, message, "ok" if complete and good else "cut", complete)
        self.health.drift += self._places.close(self._texts_so_far, self._results)
        self.health.losses += [*self._calls.losses(ended_well=good), *outcome.losses()]
        self.health.checks += [*self._calls.disagreements(), *self._messages.doubles.disagreements()]
        self._calls.close()
        outcome.close()
        verdict = outcome.judge(exit)
        if verdict.cause is not None:
            self.health.count_cause(verdict.cause)
        self._emit(
            ev.RunEnded,
            None,
            outcome=verdict.outcome,
            reply=outcome.reply,
            rounds=self._top.rounds,
            session_id=self._info.session_id,
            reason=verdict.reason,
            usage=outcome.usage,
            cost_usd=outcome.cost_usd,
            duration_ms=outcome.duration_ms,
            cause=verdict.cause,
            resets_at=verdict.resets_at,
            refused=self.permissions.refused,
            asked_ms=self._waits.of_run(self._emitter.at) or None,
            **outcome.context.figures(),
        )
        self._closed = True
