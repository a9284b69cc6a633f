"""The rows of a chat to what its viewers see: a pure fold, and the frames that lead from any row to now.

A viewer is nothing but the number of the last row that it was told of. What it missed is computed when it can take
more, so one that reads slowly costs no more than one that reads at once, and gets fewer, larger steps.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple, TypeGuard

from msgspec.structs import replace

from penstock import events as ev
from penstock.chat import turn as turns
from penstock.chat.history import frames
from penstock.chat.history.entries import ChatDeleted, Entry, Numbered, Prompted, TurnBegan, TurnEnded
from penstock.chat.history.frames import Checkpoint, Frame, Snapshot, TurnView
from penstock.chat.history.steps import Steps

KEPT_TURNS = 50
"""A snapshot has so many turns, the newest. Who wants more asks for the earlier ones."""

MAX_MOMENTS = 20_000
"""So much of the past can be told step by step; who comes from before it gets a snapshot."""

MAX_FRAMES = 500
"""Who would get more frames than that at once gets a snapshot, which is smaller."""

THINKING = turns.CALLING["think"]
"""The generic line that stands for thinking."""


class _Growth(NamedTuple):
    """The reply of a turn became `length` characters long."""

    number: int
    version: int  # one for each text that does not go on from the one before
    length: int


class _Moment(NamedTuple):
    """Something that a viewer is told, and the row that made it so."""

    number: int
    turn: int  # 0 for the chat's own
    what: Frame | _Growth


class _Live:
    """The turn that runs."""

    def __init__(self, view: TurnView) -> None:
        self.view = view
        self.turn = turns.Turn()
        self.steps = Steps()
        self.text = ""
        self.growth: list[_Growth] = []
        self.growing = False  # the newest row was text that the bubble shows


class Thread:
    """A chat as it is shown after row `number`."""

    def __init__(self, checkpoints: Sequence[Checkpoint] = (), *, earlier: bool = False) -> None:
        """It begins where the last of the newest `checkpoints` stands; `earlier`: there are some before these."""
        self.number = checkpoints[-1].number if checkpoints else 0
        self.turns: dict[int, TurnView] = {}
        """The newest turns, by their number. They change; a `snapshot` does not."""
        self.deleted = False
        self._urgent = False  # something came that viewers are told at once
        self._at = 0  # when the row that is taken was appended
        self._earlier = earlier
        self._floor = self.number  # what was before cannot be told step by step
        self._moments: list[_Moment] = []
        self._live: _Live | None = None
        self._growths: dict[int, _Live] = {}  # turns whose growth is still told
        self._new: list[TurnView] = []  # recorded since the last checkpoint
        for checkpoint in checkpoints:
            self.turns.update((view.turn, replace(view)) for view in checkpoint.turns)
        if checkpoints:
            self.turns.update((view.turn, replace(view)) for view in checkpoints[-1].queued)
        self._forget()

    # --- what is known ---

    @property
    def running(self) -> TurnView | None:
        """The turn whose run goes on; it may be completed already."""
        return self._live.view if self._live is not None else None

    @property
    def queued(self) -> list[TurnView]:
        """The turns that wait, the next one first."""
        return [view for _, view in sorted(self.turns.items()) if view.state == "queued"]

    @property
    def asking(self) -> bool:
        """The running turn ended with a question that its run does not wait for: the run can be stopped."""
        return self._live is not None and self._live.turn.asking

    def snapshot(self) -> Snapshot:
        """All that a new viewer needs."""
        shown = [replace(view) for _, view in sorted(self.turns.items())]
        return Snapshot(self.number, shown, self._earlier)

    def checkpoint(self) -> Checkpoint | None:
        """What was recorded since the last one; None where nothing was, or a turn runs."""
        if self._live is not None or not self._new:
            return None
        made = Checkpoint(self.number, [replace(view) for view in self._new], [replace(view) for view in self.queued])
        self._new = []
        return made

    # --- rows ---

    def take(self, rows: Iterable[Numbered]) -> bool:
        """Take the next rows. True where viewers should be told at once: something else came than more text."""
        self._urgent = False
        more: list[ev.Event] = []  # text that only makes the reply longer: one step, however many rows
        for number, at, what in rows:
            if self._live is not None and self._live.growing and _is_text(what):
                more.append(what)
                self._live.steps.take(what)
                self.number, self._at = number, at
                continue
            if more:
                self._feed(more)
                more = []
            self.number, self._at = number, at
            self._take(what)
        if more:
            self._feed(more)
        self._bound()
        return self._urgent

    def _take(self, what: Entry | ev.Event | None) -> None:
        if isinstance(what, Prompted):
            view = TurnView(what.turn, what.text, what.by, what.key, asked_at=self._at, first=self.number)
            self.turns[what.turn] = view
            self._tell(what.turn, frames.Prompted(what.turn, what.text, what.by, self._at, what.key))
            self._forget()
        elif isinstance(what, TurnBegan):
            self._begin(what)
        elif isinstance(what, TurnEnded):
            self._end_without_run(what)
        elif isinstance(what, ChatDeleted):
            self.deleted = True
            self._tell(0, frames.Deleted())
        elif what is not None and self._live is not None:
            self._event(what, self._live)

    def _begin(self, began: TurnBegan) -> None:
        view = self.turns.get(began.turn)
        if view is None:  # its prompt was trimmed
            view = self.turns[began.turn] = TurnView(began.turn, "", asked_at=self._at, first=self.number)
        view.state, view.began_at, view.agent, view.model = "running", self._at, began.agent, began.model
        self._compact()
        self._live = self._growths[began.turn] = _Live(view)
        self._show(self._live.turn.start())

    def _event(self, event: ev.Event, live: _Live) -> None:
        live.steps.take(event)
        if isinstance(event, ev.RunStarted) and event.parent is None and event.model:
            live.view.model = event.model
        self._feed([event])
        live.growing = live.growing and _is_text(event)
        if isinstance(event, ev.RunEnded):
            view, began = live.view, live.view.began_at or self._at
            view.usage, view.cost_usd = event.usage, event.cost_usd
            view.duration_ms = event.at if event.at is not None else max(0, self._at - began)
            self._recorded(view)

    def _end_without_run(self, ended: TurnEnded) -> None:
        live, view = self._live, self.turns.get(ended.turn)
        if live is not None and live.view.turn == ended.turn:
            self._show(live.turn.close(ended.reason, ended.outcome))
            live.view.duration_ms = max(0, self._at - (live.view.began_at or self._at))
            self._recorded(live.view)
        elif view is not None and view.state == "queued":
            self._complete(view, turns.Completed("", ended.outcome, ended.reason))
            self._recorded(view)

    def _feed(self, events: list[ev.Event]) -> None:
        if self._live is not None:
            self._show(self._live.turn.feed(events))

    # --- what a turn says of it ---

    def _show(self, told: list[turns.TurnEvent]) -> None:
        live = self._live
        assert live is not None
        view = live.view
        for event in told:
            if isinstance(event, turns.Streaming):
                first = self._at if view.status is None and view.reply is None else None
                view.status, view.hint = event.status, event.hint
                self._tell(view.turn, frames.Streaming(view.turn, event.status, event.hint, first))
            elif isinstance(event, turns.Thinking):
                view.status = THINKING
                self._tell(view.turn, frames.Thinking(view.turn, event.content))
            elif isinstance(event, turns.FinalMessageStart):
                view.status, view.reply = None, ""
                self._tell(view.turn, frames.FinalMessageStart(view.turn))
            elif isinstance(event, turns.Assistant):
                self._grow(live, event)
            else:
                self._complete(view, event)

    def _grow(self, live: _Live, event: turns.Assistant) -> None:
        version = live.growth[-1].version if live.growth else 0
        live.view.status, live.view.reply, live.text = None, event.content, event.content
        live.growth.append(_Growth(self.number, version + event.replace, len(event.content)))
        live.growing = True
        self._tell(live.view.turn, live.growth[-1])

    def _complete(self, view: TurnView, event: turns.Completed) -> None:
        view.state, view.completed_at = "completed", self._at
        view.status = view.reply = None
        view.message, view.outcome, view.reason, view.hint = event.message, event.outcome, event.reason, event.hint
        what = frames.Completed(view.turn, event.message, event.outcome, self._at, event.reason, event.hint)
        self._tell(view.turn, what)

    def _recorded(self, view: TurnView) -> None:
        view.recorded, view.last = True, self.number
        if self._live is not None and self._live.view is view:
            view.steps = self._live.steps.count
            self._live = None
        self._new.append(view)
        self._tell(
            view.turn,
            frames.Recorded(view.turn, view.steps, view.duration_ms, view.usage, view.cost_usd, view.agent, view.model),
        )

    # --- frames ---

    def _tell(self, turn: int, what: Frame | _Growth) -> None:
        self._urgent = self._urgent or not isinstance(what, _Growth | frames.Thinking)
        self._moments.append(_Moment(self.number, turn, what))

    def frames(self, after: int, *, deltas: bool = False) -> list[tuple[int, Frame]] | None:
        """What leads a viewer from row `after` to now, each with the number of the row that it covers.

        Of what replaces itself, the latest. None where `after` is too old, too far back, or was never reached: such a
        viewer needs a `snapshot`.
        """
        if not self._floor <= after <= self.number:
            return None
        start = bisect_right(self._moments, after, key=lambda moment: moment.number)
        missed = self._moments[start:]
        newest = {moment.turn: moment for moment in missed if isinstance(moment.what, _Growth)}
        standing = [it for it in missed if not isinstance(it.what, _Growth) or newest[it.turn] is it]
        told = [_joined(list(alike)) for _, alike in groupby(standing, lambda it: (it.turn, type(it.what)))]
        found = [(it.number, self._frame(it, after, deltas)) for alike in told for it in alike]
        return found if len(found) <= MAX_FRAMES else None

    def _frame(self, moment: _Moment, after: int, deltas: bool) -> Frame:
        if not isinstance(moment.what, _Growth):
            return moment.what
        live = self._growths[moment.turn]
        seen = bisect_right(live.growth, after, key=lambda growth: growth.number) - 1
        known = live.growth[seen] if seen >= 0 else _Growth(0, live.growth[0].version, 0)
        goes_on = known.version == moment.what.version
        if not deltas:
            return frames.Assistant(moment.turn, live.text, not goes_on)
        offset = known.length if goes_on else 0
        return frames.AssistantDelta(moment.turn, live.text[offset:], offset, not goes_on)

    # --- bounds ---

    def _forget(self) -> None:
        """Keep the newest turns, and all that are not over."""
        over = sorted(turn for turn, view in self.turns.items() if view.recorded)
        for turn in over[: max(0, len(self.turns) - KEPT_TURNS)]:
            del self.turns[turn]
            self._earlier = True

    def _compact(self) -> None:
        """Of turns that are over, keep what still stands."""
        over = set(self._growths)
        self._moments = [it for it in self._moments if it.turn not in over or _stands(it.what)]
        self._growths = {}

    def _bound(self) -> None:
        growth = self._live.growth if self._live is not None else []
        for past in (self._moments, growth):
            if len(past) > MAX_MOMENTS:
                half = len(past) // 2
                self._floor = max(self._floor, past[half - 1].number)
                del past[: half - (past is growth)]  # the reply as it stood at the floor stays known


def _stands(what: Frame | _Growth) -> bool:
    """Whether a moment of a turn that is over is still told: not what was replaced since."""
    if isinstance(what, frames.Streaming):
        return what.began_at is not None
    return not isinstance(what, frames.Thinking | _Growth)


def _is_text(what: object) -> TypeGuard[ev.Delta]:
    return isinstance(what, ev.Delta) and what.kind == "text" and what.parent is None


def _joined(alike: list[_Moment]) -> list[_Moment]:
    """Moments of one kind and turn in a row, where they can be told as one: as one."""
    first, last = alike[0].what, alike[-1].what
    if isinstance(last, frames.Thinking):
        content = "".join(it.what.content for it in alike if isinstance(it.what, frames.Thinking))
        return [alike[-1]._replace(what=frames.Thinking(last.turn, content))]
    if isinstance(first, frames.Streaming) and isinstance(last, frames.Streaming):
        return [alike[-1]._replace(what=replace(last, began_at=first.began_at))]
    return alike
