"""Timeline of a chat: its entries, folded to the state that clients see, and the frames that update a client.

A client's only state is the number of the last entry that it has seen. The frames that it missed are computed when it
can accept more, so a slow client costs no more than a fast one, and gets fewer, larger steps.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeGuard

from msgspec.structs import replace

from penstock import events as ev
from penstock.chat import turn as turns
from penstock.chat.history import frames
from penstock.chat.history.activity import ActivityFold, AgentActivity
from penstock.chat.history.changes import ChangesFold
from penstock.chat.history.denied import DeniedActions
from penstock.chat.history.entries import (
    Answered,
    ChangesFound,
    Edited,
    Entry,
    Moved,
    Numbered,
    Prompted,
    Released,
    SentNow,
    SteerRequested,
    StopRequested,
    TurnBegan,
    TurnEnded,
    Undone,
)
from penstock.chat.history.frames import Frame, Snapshot, TurnView, UndoneFiles
from penstock.chat.history.past_frames import PastFrames
from penstock.chat.history.steps import Steps

KEPT_TURNS = 50
"""Turns of a snapshot: the newest. A client that needs more asks for the earlier ones."""

KEPT_UNDOS = 20
"""Number of requests to take back a turn's changes, or to make them again, that are recognized if they are repeated."""

FIRST_PLACE = -1_000_000
"""Place of a turn that is sent now while no other such turn waits: before all others, however often that happens."""

THINKING = turns.CALLING["think"]
"""Generic status that is shown for thinking."""


class _Live:
    """Turn that runs."""

    def __init__(self, view: TurnView, cwd: str) -> None:
        self.view = view
        self.turn = turns.Turn(view.turn)
        self.steps = Steps()
        self.denied = DeniedActions()
        self.activity = ActivityFold()
        self.changes = ChangesFold(cwd)
        self.at = view.began_at or 0  # the time of the run's newest entry
        self.growing = False  # the newest entry was text that the bubble shows
        self.questions: dict[str, ev.QuestionAsked] = {}


class Timeline:
    """State of a chat for clients, after entry `number`."""

    def __init__(self, number: int = 0, views: Iterable[TurnView] = ()) -> None:
        """Begin after entry `number`, with the newest turns as summed up in `views`."""
        self.number: int = number
        self.turns: dict[int, TurnView] = {view.turn: view for view in views}
        """Newest turns, by their number. They change; a `snapshot` does not."""
        self.stops: set[int] = set()
        """Unfinished turns that a person stopped or took back."""
        self.deleted: bool = False
        self._waiting: dict[int, TurnView] = {view.turn: view for view in self.turns.values() if view.state == "queued"}
        self._at = 0  # the time of the entry that is being folded
        self._earlier = False
        self._past = PastFrames(number)
        self._live: _Live | None = None
        self._finalized: dict[int, TurnView] = {}  # since the last summary
        self._forget()

    # --- state ---

    @property
    def running(self) -> TurnView | None:
        """Turn whose run has not ended; it may be completed already."""
        return self._live.view if self._live is not None else None

    @property
    def queued(self) -> list[TurnView]:
        """Turns that wait, the next one first."""
        return sorted(self._waiting.values(), key=_order)

    @property
    def held(self) -> list[TurnView]:
        """Turns that wait until a person releases them, the next one first."""
        return [view for view in self.queued if view.held]

    @property
    def ready(self) -> list[TurnView]:
        """Queued turns that are not held, the next one first."""
        return [view for view in self.queued if not view.held]

    @property
    def given(self) -> list[TurnView]:
        """Queued turns that are on their way to the agent of the running turn, in the order of their numbers."""
        if self._live is None:
            return []
        given = frames.Steer(self._live.view.turn, "given")
        return [view for _, view in sorted(self._waiting.items()) if view.steer == given]

    @property
    def newest(self) -> TurnView | None:
        """Turn that was asked for last."""
        return self.turns[max(self.turns)] if self.turns else None

    @property
    def latest(self) -> TurnView | None:
        """Last turn of the conversation: turns that wait come after those that began, in their own order."""
        return in_conversation(self.turns.values())[-1] if self.turns else None

    @property
    def asking(self) -> bool:
        """True if the running turn ended with a question that its run does not wait for: the run can be stopped."""
        return self._live is not None and self._live.turn.asking

    @property
    def questions(self) -> dict[str, ev.QuestionAsked]:
        """Open questions of the run, by their id."""
        return self._live.questions if self._live is not None else {}

    @property
    def worked_until(self) -> int | None:
        """Time of the running turn's newest entry, in milliseconds since 1970; None if no turn runs."""
        return self._live.at if self._live is not None else None

    @property
    def at(self) -> int:
        """Time of the newest entry, in milliseconds since 1970."""
        return self._at

    def activity(self, turn: int) -> AgentActivity:
        """Return what the agent of a turn does now: nothing, unless the turn runs."""
        live = self._live
        return live.activity.now() if live is not None and live.view.turn == turn else AgentActivity()

    def snapshot(self) -> Snapshot:
        """Return everything that a new client needs."""
        shown = [replace(view) for view in in_conversation(self.turns.values())]
        return Snapshot(self.number, shown, self._earlier)

    def start(self) -> list[tuple[int, Frame]]:
        """Return the frames that a new client needs, each with the number that it covers."""
        return [(self.number, self.snapshot())]

    @property
    def is_summed_up(self) -> bool:
        """True if the last summary has all turns that are over."""
        return not self._finalized

    def summary(self) -> list[TurnView] | None:
        """Return all waiting turns, and those changed since the last summary; None while a turn runs."""
        if self._live is not None:
            return None
        changed = self._finalized | {view.turn: view for view in self.queued}
        self._finalized = {}
        return [view for _, view in sorted(changed.items())]

    # --- entries ---

    def take(self, entries: Iterable[Numbered]) -> bool:
        """Fold the next entries.

        Return whether clients should see them at once: they contain more than growing text.
        """
        self._past.is_urgent = False
        more: list[ev.Event] = []  # text that only makes the reply longer: one step, however many entries
        for number, at, what in entries:
            self._past.note_time(number, at)
            if self._live is not None and self._live.growing and _is_text(what):
                more.append(what)
                self._live.steps.take(what)
                self.number, self._at = number, at
                self._live.at = at
                continue
            if more:
                self._feed(more)
                more = []
            self.number, self._at = number, at
            self._take(what)
        if more:
            self._feed(more)
        self._past.bound()
        return self._past.is_urgent

    def note_time(self, number: int, at: int) -> None:
        """Note the time of an entry, which follows the one noted before; of the first one if the timeline is new."""
        self._past.note_time(number, at)

    def time_of(self, number: int) -> int | None:
        """Return the time of an entry, in milliseconds since 1970; None if it is unknown.

        It tells whether a client has seen this entry, or another one that had its number before the store was restored.
        """
        return self._past.time_of(number)

    def delete(self) -> None:
        """End the chat, and show its clients that it was deleted."""
        self.deleted = True
        self.number += 1
        self._change(0, frames.Deleted())

    def drop(self, upto: int) -> None:
        """Drop the turns whose last entry is not after number `upto`: they are no longer kept."""
        for view in [view for view in self.turns.values() if 0 < view.last <= upto]:
            del self.turns[view.turn]

    def _take(self, what: Entry | ev.Event | None) -> None:
        if isinstance(what, ev.Base):
            if self._live is not None:
                self._event(what, self._live)
        elif isinstance(what, Prompted):
            view = TurnView(what.turn, what.text, what.by, what.key, asked_at=self._at, first=self.number)
            view.person, view.attachments = what.person, what.attachments or None
            queued = self.queued
            view.held = bool(self.held) and not what.now  # it does not overtake those before it
            view.place = max([0, *(it.place for it in queued)])
            self.turns[what.turn] = self._waiting[what.turn] = view
            frame = frames.PromptedFrame(
                what.turn, what.text, what.by, self._at, what.key, what.person, view.attachments
            )
            self._change(what.turn, frame)
            if view.held:
                self._show_held()
            if what.now:
                self._send_now(view, what.stops)
            if what.steers is not None:
                self._steer(view, what.steers)
            self._forget()
        elif isinstance(what, TurnBegan):
            self._begin(what)
        elif isinstance(what, TurnEnded):
            self._end_without_run(what)
        elif isinstance(what, StopRequested):
            self._stop(what)
        elif isinstance(what, Released):
            self._hold([view for view in self.held if view.turn <= what.turn], False)
        elif isinstance(what, SentNow | SteerRequested | Edited | Moved):
            self._change_queue(what)
        elif isinstance(what, Undone):
            self._undo(what)
        elif isinstance(what, ChangesFound) and self._live is not None and self._live.view.turn == what.turn:
            self._live.view.found = what.others
        elif isinstance(what, Answered) and self._live is not None and self._live.view.turn == what.turn:
            self._live.questions.pop(what.id, None)

    def _stop(self, what: StopRequested) -> None:
        given = self.given
        views = [it for it in self.queued if it not in given] if what.queued else [*self.turns.values()]
        stopped = {view.turn for view in views if what.turn in (None, view.turn) and not view.finalized}
        self.stops |= stopped
        if self._live is not None and self._live.view.turn in stopped:
            self._hold([view for view in self.queued if view.turn not in self.stops], True)

    def _change_queue(self, what: SentNow | SteerRequested | Edited | Moved) -> None:
        waiting = {view.turn: view for view in self.queued}
        if isinstance(what, Moved):
            for place, view in enumerate([waiting[turn] for turn in what.turns if turn in waiting], 1):
                view.place = place
            self._show_queue()
        elif what.turn not in waiting:
            pass  # it has begun, or was taken back
        elif isinstance(what, SentNow):
            self._send_now(waiting[what.turn], what.stops)
        elif isinstance(what, SteerRequested):
            self._steer(waiting[what.turn], what.into)
        else:
            view = waiting[what.turn]
            view.prompt, view.edits = what.text, view.edits + 1
            self._change(view.turn, frames.EditedFrame(view.turn, view.prompt, view.edits))

    def _undo(self, what: Undone) -> None:
        view = self.turns.get(what.turn)
        if view is None or not view.finalized:
            return  # it is no longer kept
        if what.redo:
            view.undone = None
        else:
            stayed = sum(file.does == "stay" for file in what.files)
            view.undone = UndoneFiles(len(what.files) - stayed, stayed, self._at, what.person)
        if what.key is not None:
            view.undos = dict([*(view.undos or {}).items(), (what.key, self.number)][-KEPT_UNDOS:])
        self._finalized[view.turn] = view
        self._change(view.turn, frames.UndoneFrame(view.turn, view.undone))

    def _send_now(self, view: TurnView, stops: int | None) -> None:
        """Put a waiting turn before all others, except those that were sent so before; stop the running one for it."""
        sent = [it.place for it in self.queued if it.place < 0 and it is not view]
        view.place = max(sent) + 1 if sent else FIRST_PLACE
        self._hold([view], False)
        if self._live is not None and self._live.view.turn == stops:
            self.stops.add(stops)
        self._show_queue()

    def can_steer(self, turn: int) -> bool:
        """Return whether messages can be given to a turn: it runs, and is not being stopped."""
        view = self.running
        return view is not None and view.turn == turn and view.steerable and turn not in self.stops

    def _steer(self, view: TurnView, into: int) -> None:
        """Give a waiting turn to the running one, if that takes messages."""
        self._show_steer(view, into, "given" if self.can_steer(into) else "late")

    def _show_steer(self, view: TurnView, into: int, state: frames.SteerState) -> None:
        view.steer = frames.Steer(into, state)
        self._change(view.turn, frames.SteerFrame(view.turn, view.steer))

    def _answer_steer(self, notice: ev.Notice, into: int) -> None:
        """Make a message that the agent took a part of the running turn; let one that it rejected wait."""
        view = next((it for it in self.given if str(it.turn) == notice.steer), None)
        if view is None:
            return
        if notice.code != "user":
            self._show_steer(view, into, "late")
            return
        self._show_steer(view, into, "taken")
        self._complete(view, turns.Completed("", "ok", turn=view.turn))
        self._record(view)

    def _show_queue(self) -> None:
        self._change(0, frames.QueueFrame([view.turn for view in self.queued]))

    def _hold(self, views: list[TurnView], held: bool) -> None:
        changed = [view for view in views if view.held != held]
        for view in changed:
            view.held = held
        if changed:
            self._show_held()

    def _show_held(self) -> None:
        self._change(0, frames.HeldTurns([view.turn for view in self.held]))

    def _begin(self, began: TurnBegan) -> None:
        view = self.turns.get(began.turn)
        if view is None:  # its prompt was trimmed
            view = self.turns[began.turn] = TurnView(began.turn, "", asked_at=self._at, first=self.number)
        self._waiting.pop(view.turn, None)
        view.state, view.began_at, view.agent, view.model = "running", self._at, began.agent, began.model
        view.held, view.steerable = False, began.steerable
        self._past.begin(began.turn)
        self._live = _Live(view, began.cwd)
        self._show(self._live, self._live.turn.start())
        if view.steerable:
            self._change(view.turn, frames.SteerableFrame(view.turn))

    def _event(self, event: ev.Event, live: _Live) -> None:
        live.at = self._at
        live.steps.take(event)
        live.denied.take(event)
        live.activity.take(event, self._at)
        live.changes.take(event)
        if isinstance(event, ev.RunStarted) and event.parent is None and event.model:
            live.view.model = event.model
        elif isinstance(event, ev.QuestionAsked) and event.blocking:
            live.questions[event.id] = event
        elif isinstance(event, ev.QuestionAnswered):
            live.questions.pop(event.id, None)
        elif isinstance(event, ev.Notice) and event.steer is not None:
            self._answer_steer(event, live.view.turn)
        self._feed([event])
        if isinstance(event, ev.PlanChanged) and event.parent is None and live.view.state == "running":
            done, total = sum(item.status == "completed" for item in event.items), len(event.items)
            live.view.plan = frames.PlanProgress(done, total) if total else None
            self._change(live.view.turn, frames.PlanFrame(live.view.turn, done, total))
        live.growing = live.growing and _is_text(event)
        if isinstance(event, ev.RunEnded):
            view, began = live.view, live.view.began_at or self._at
            view.usage, view.cost_usd = event.usage, event.cost_usd
            view.context_tokens, view.context_window = event.context_tokens, event.context_window
            view.duration_ms = event.at if event.at is not None else max(0, self._at - began)
            self._record(view)

    def _end_without_run(self, ended: TurnEnded) -> None:
        live, view = self._live, self.turns.get(ended.turn)
        if live is not None and live.view.turn == ended.turn:
            self._show(live, live.turn.close(ended.reason, ended.outcome))
            until = self._at if ended.until is None else ended.until
            live.view.duration_ms = max(0, until - (live.view.began_at or until))
            self._record(live.view)
        elif view is not None and view.state == "queued":
            self._complete(view, turns.Completed("", ended.outcome, ended.reason, turn=view.turn))
            self._record(view)

    def _feed(self, events: list[ev.Event]) -> None:
        assert self._live is not None  # events between two turns are skipped
        self._show(self._live, self._live.turn.feed(events))

    # --- the events of a turn ---

    def _show(self, live: _Live, shown: list[turns.TurnEvent]) -> None:
        view = live.view
        for event in shown:
            if isinstance(event, turns.Assistant):
                self._grow(live, event)
                continue
            if isinstance(event, turns.Completed):
                self._complete(view, event)
                continue
            if isinstance(event, turns.Streaming):
                if view.status is None and view.reply is None:
                    event = replace(event, began_at=self._at)
                view.status, view.question = event.status, event.question
            elif isinstance(event, turns.Thinking):
                view.status = THINKING
            else:
                view.status, view.reply = None, ""
            self._change(view.turn, event)

    def _grow(self, live: _Live, event: turns.Assistant) -> None:
        live.view.status, live.view.reply, live.growing = None, event.content, True
        self._past.grow(self.number, event.content, event.replace)

    def _complete(self, view: TurnView, event: turns.Completed) -> None:
        self._waiting.pop(view.turn, None)
        view.state, view.completed_at, view.held, view.steerable = "completed", self._at, False, False
        view.status = view.reply = view.plan = None
        view.message, view.question = event.message, event.question
        view.outcome, view.reason, view.cause, view.resets_at = (
            event.outcome,
            event.reason,
            event.cause,
            event.resets_at,
        )
        self._change(view.turn, replace(event, completed_at=self._at))

    def _record(self, view: TurnView) -> None:
        view.finalized, view.last = True, self.number
        self.stops.discard(view.turn)
        if self._live is not None and self._live.view is view:
            view.steps = self._live.steps.count
            denied = self._live.denied
            view.refused, view.needs_allow = denied.count, denied.needs_allow
            view.rejected, view.denied = denied.rejected, denied.named or None
            view.changed = self._live.changes.count()
            for left in self.given:
                self._show_steer(left, view.turn, "late")
            self._live = None
        self._finalized[view.turn] = view
        self._change(
            view.turn,
            frames.Finalized(
                view.turn,
                view.steps,
                view.duration_ms,
                view.usage,
                view.cost_usd,
                view.agent,
                view.model,
                view.refused,
                view.needs_allow,
                view.rejected,
                view.denied,
                view.context_tokens,
                view.context_window,
                view.changed,
                view.found,
            ),
        )

    # --- frames ---

    def _change(self, turn: int, frame: Frame) -> None:
        self._past.add(self.number, turn, frame)

    def frames(self, after: int, *, deltas: bool = False) -> list[tuple[int, Frame]] | None:
        """Return the frames that bring a client from entry `after` up to date, each with the number that it covers.

        Of frames that replace each other, only the newest is returned. None if `after` is too old, too far back, or was
        never reached: such a client needs a `snapshot`.
        """
        return self._past.since(after, deltas=deltas) if after <= self.number else None

    # --- bounds ---

    def _forget(self) -> None:
        """Keep the newest turns and all unfinished ones."""
        over = sorted(turn for turn, view in self.turns.items() if view.finalized)
        for turn in over[: max(0, len(self.turns) - KEPT_TURNS)]:
            del self.turns[turn]
            self._earlier = True


def in_conversation(views: Iterable[TurnView]) -> list[TurnView]:
    """Return turns in the order of their conversation: as they ran, then those that wait, in their own order.

    A turn that never began, as it was taken back, is behind the turn that was asked for before it and waits no more.
    One that became a part of another turn is in front of that.
    """
    some = list(views)
    found = sorted((view for view in some if view.state == "queued" or view.began_at is not None), key=_order)
    for view in sorted(
        (view for view in some if view.state != "queued" and view.began_at is None), key=lambda view: view.turn
    ):
        whole = next((place for place, it in enumerate(found) if it.turn == view.whole), None)
        if whole is not None:
            found.insert(whole, view)
            continue
        earlier = [
            (it.turn, place) for place, it in enumerate(found, 1) if it.turn < view.turn and it.state != "queued"
        ]
        found.insert(max(earlier)[1] if earlier else 0, view)
    return found


def _order(view: TurnView) -> tuple[int, int, int]:
    """Return the sort key of a turn: they run one at a time, and those that wait come last."""
    if view.state == "queued":
        return 2, view.place, view.turn
    return (0, view.last, view.turn) if view.finalized else (1, 0, view.turn)


def _is_text(what: object) -> TypeGuard[ev.Delta]:
    return isinstance(what, ev.Delta) and what.kind == "text" and what.parent is None
