"""Decisions of a chat: entries that follow from its timeline, without any input or output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec

from penstock import events as ev
from penstock.chat.errors import Conflicting, ContentTooLarge, Invalid, NoSuchTurn, NotAllowed, TooMany
from penstock.chat.history.entries import (
    OWNER,
    Answered,
    Asker,
    AttachedFile,
    Edited,
    Moved,
    Prompted,
    SentNow,
    SteerRequested,
    StopRequested,
    TurnEnded,
)
from penstock.chat.history.frames import Steer, TurnView
from penstock.chat.history.timeline import Timeline
from penstock.chat.service.log.chat_log import Write
from penstock.chat.service.webhooks import Occasion
from penstock.core.questions import REJECT, resolve

State = Literal["idle", "queued", "running"]

GAVE_WAY = "gave way to a message"
TAKEN_BACK = "taken back before it began"

ENTRY_SPARE_BYTES = 1024
"""Bytes of a prompt's entry besides its text: numbers, a key, and the names of fields."""


def prompted(
    timeline: Timeline,
    text: str,
    by: Asker,
    key: str | None,
    max_queue: int,
    max_entry_bytes: int,
    *,
    person: str = OWNER,
    attachments: Sequence[AttachedFile] = (),
    now: bool = False,
    stops: int | None = None,
    steers: int | None = None,
) -> Prompted:
    """Return the entry of a prompt that a person submits.

    `now`: it begins before the turns that wait. `stops`: running turn that it stops, as the person saw it. `steers`:
    running turn to which it is given; it waits if that is over by now.

    Raises:
        TooMany: `max_queue` turns wait.
        ContentTooLarge: the prompt does not fit into an entry.
        Conflicting: the prompt is a heartbeat's, and the chat is busy; or another turn runs than the one to stop.
    """
    stops = _to_stop(timeline, stops) if now else None
    queued = [view for view in timeline.queued if view.by != "heartbeat" and view.turn not in timeline.stops]
    if by == "heartbeat" and (timeline.queued or timeline.running):
        raise Conflicting("the chat is busy")
    if len(queued) >= max_queue:
        raise TooMany(f"{max_queue} messages of this chat wait already", help="stop some, or wait for them")
    entry = Prompted(max(timeline.turns, default=0) + 1, text, by, key, person, [*attachments], now, stops, steers)
    _check_size(entry, max_entry_bytes)
    return entry


def _check_size(entry: Prompted | Edited, max_entry_bytes: int) -> None:
    if len(msgspec.json.encode(entry)) > max_entry_bytes - ENTRY_SPARE_BYTES:
        most = f"{max_entry_bytes:,} bytes"
        raise ContentTooLarge("the message is larger than the store accepts", expected=most)


def _to_stop(timeline: Timeline, seen: int | None) -> int | None:
    """Return the running turn that a message stops; None if none runs.

    Raises:
        Conflicting: it is not the one that was seen.
    """
    if timeline.running is None:
        return None
    if timeline.running.turn != seen:
        raise Conflicting(
            f"turn {timeline.running.turn} runs by now",
            expected="the turn that you saw",
            help="look, and send it again",
        )
    return seen


def _waiting(timeline: Timeline, turn: int) -> TurnView:
    """Return a turn that waits.

    Raises:
        NoSuchTurn: there never was such a turn.
        Conflicting: it no longer waits.
    """
    if not 1 <= turn <= max(timeline.turns, default=0):
        raise NoSuchTurn(f"the chat has no turn {turn}")
    view = timeline.turns.get(turn)
    if view is None or view.state != "queued":
        raise Conflicting(f"message {turn} no longer waits", help="write another message")
    if turn in timeline.stops:
        raise Conflicting(f"message {turn} was taken back", help="write another message")
    if view.steer is not None and view.steer.state == "given":
        raise Conflicting(
            f"message {turn} was given to the agent", help="wait until the agent took it, or stop the turn"
        )
    return view


def edited(
    timeline: Timeline, turn: int, text: str, edits: int, max_entry_bytes: int, *, person: str = OWNER
) -> Edited | None:
    """Return the entry for another text of a waiting turn; None if it has this text already.

    `edits`: number of changes of the text that the person has seen.

    Raises:
        NoSuchTurn: there never was such a turn.
        NotAllowed: it is another person's, in whose name it would be sent.
        Conflicting: it no longer waits, or has another text than the one that was seen.
        ContentTooLarge: the text does not fit into an entry.
    """
    view = _waiting(timeline, turn)
    if view.person != person:
        raise NotAllowed(f"this message is {view.person}'s", expected="the person who wrote it")
    if view.prompt == text:
        return None
    if view.edits != edits:
        raise Conflicting("the message was edited meanwhile", help="look at its text, and edit that")
    entry = Edited(turn, text, person)
    _check_size(entry, max_entry_bytes)
    return entry


def moved(timeline: Timeline, seen: list[int], turns: list[int], *, person: str = OWNER) -> Moved | None:
    """Return the entry for another order of the waiting turns; None if they are in it already.

    Raises:
        Invalid: they are not the turns that were `seen`.
        Conflicting: these are not the ones that wait, or are in another order.
    """
    if sorted(seen) != sorted(turns):
        raise Invalid("this is not an order of the messages that wait", expected="each of them once")
    now = [view.turn for view in timeline.queued if view.turn not in timeline.stops]
    if now == turns:
        return None
    if now != seen:
        raise Conflicting("the messages that wait have changed", help="look at them, and move them again")
    return Moved(turns, person)


def sent_now(timeline: Timeline, turn: int, stops: int | None, *, person: str = OWNER) -> SentNow | None:
    """Return the entry for a waiting turn that begins before the others; None if it does already.

    `stops`: running turn that it stops, as the person saw it.

    Raises:
        NoSuchTurn: there never was such a turn.
        Conflicting: it no longer waits, or another turn runs than the one to stop.
    """
    view = _waiting(timeline, turn)
    stopping = _to_stop(timeline, stops)
    is_done = timeline.ready[:1] == [view] and (stopping is None or stopping in timeline.stops)
    return None if is_done else SentNow(turn, stopping, person)


def steered(timeline: Timeline, turn: int, into: int, *, person: str = OWNER) -> SteerRequested | None:
    """Return the entry that gives a waiting turn to the agent of the running turn `into`; None if it was given to it.

    Raises:
        NoSuchTurn: there never was such a turn.
        Conflicting: it no longer waits, or has files, or the turn that was seen takes no messages, or is over.
    """
    if any(view.turn == turn and view.steer == Steer(into, "given") for view in timeline.given):
        return None
    view = _waiting(timeline, turn)
    if view.attachments:
        raise Conflicting("a message with files waits for a turn of its own", help="stop the turn, and send it")
    if not timeline.can_steer(into):
        raise Conflicting(f"turn {into} takes no messages now", help="stop the turn, or wait until it ends")
    return SteerRequested(turn, into, person)


class Activity(NamedTuple):
    """Facts about the turns of one chat for the list of chats."""

    state: State
    waiting: int
    """Number of queued turns that are not held."""
    waiting_upto: int
    """Highest number of these turns; 0 if there is none."""
    held: int
    """Number of turns that wait until a person releases them."""
    asks: bool
    """True if a question waits for a person."""


def activity(timeline: Timeline) -> Activity:
    """Return these facts for a timeline."""
    running, ready, held = timeline.running, timeline.ready, timeline.held
    is_running = running is not None and running.state == "running"
    state: State = "running" if is_running else "queued" if ready or held else "idle"
    asks = bool(timeline.questions)
    if state == "idle" and not asks:
        latest = timeline.latest
        asks = latest is not None and latest.question is not None
    return Activity(state, len(ready), max((view.turn for view in ready), default=0), len(held), asks)


class Announced(NamedTuple):
    """State that webhooks announce: the turn at work, and whether a question waits for a person."""

    running: int | None
    asks: bool


def announced(timeline: Timeline, now: Activity) -> Announced:
    """Return the current state that webhooks announce, of a timeline with this activity."""
    running = timeline.running
    return Announced(running.turn if running is not None and now.state == "running" else None, now.asks)


def happened(before: Announced, now: Announced, timeline: Timeline) -> list[tuple[TurnView, list[Occasion]]]:
    """Return the turns that have ended, or begun to ask, since `before`, with their events, the most urgent first."""
    found: dict[int, list[Occasion]] = {}
    asking = timeline.running or timeline.latest
    if now.asks and not before.asks and asking is not None:
        found[asking.turn] = ["asks"]
    if before.running is not None and now.running != before.running:
        found.setdefault(before.running, []).append("ended")
    return [(timeline.turns[turn], what) for turn, what in found.items() if turn in timeline.turns]


def stopped(
    timeline: Timeline, turn: int | None, *, queued: bool, person: str = OWNER
) -> tuple[list[int], StopRequested | None]:
    """Return the turns that a stop of one turn, or of all, stops, and its entry; None if they are stopped already.

    With `queued`, turns that wait are taken back, and the running one continues.

    Raises:
        NoSuchTurn: there never was such a turn.
        Conflicting: it was given to the agent of the running turn, and so cannot be taken back.
    """
    if turn is not None and not 1 <= turn <= max(timeline.turns, default=0):
        raise NoSuchTurn(f"the chat has no turn {turn}")
    running = [timeline.running] if timeline.running is not None and not queued else []
    given = {view.turn for view in timeline.given}
    if turn in given:
        raise Conflicting(f"message {turn} was given to the agent", help="stop the turn first")
    waiting = [view for view in timeline.queued if not (queued and view.turn in given)]
    found = [view.turn for view in (*running, *waiting) if turn in (None, view.turn)]
    # A second stop of a run that is slow to end counts for what was asked for since the first.
    holds = any(view.turn in found for view in running) and bool(timeline.ready)
    is_done = timeline.stops.issuperset(found) and not holds
    return found, None if is_done else StopRequested(turn, queued, person)


def taken_back(timeline: Timeline) -> list[Write]:
    """Return the ends of queued turns: of those that were taken back, and of heartbeats that give way to a message."""
    queued = timeline.queued
    ends: list[Write] = [TurnEnded(it.turn, "cancelled", TAKEN_BACK) for it in queued if it.turn in timeline.stops]
    left = [view for view in queued if view.turn not in timeline.stops]
    if any(view.by != "heartbeat" for view in left):
        ends += [TurnEnded(view.turn, "cancelled", GAVE_WAY) for view in left if view.by == "heartbeat"]
    return ends


def ended(timeline: Timeline, outcome: ev.Outcome, reason: str) -> list[Write]:
    """Return the end of the running turn, if there is one."""
    return [] if timeline.running is None else [TurnEnded(timeline.running.turn, outcome, reason)]


def lost(timeline: Timeline, reason: str) -> list[Write]:
    """Return the end of a running turn, if there is one, whose run ended unseen: the time since is not the agent's."""
    if timeline.running is None:
        return []
    return [TurnEnded(timeline.running.turn, "cut_off", reason, timeline.worked_until)]


def resolved(question: ev.QuestionAsked, text: str) -> str:
    """Return the answer to a question: the id of an option, or words.

    Raises:
        Invalid: the text is not an answer to this question.
    """
    answer = resolve(question, text)
    if answer is None:
        labels = ", ".join(option.label for option in question.options or ()) or "words"
        raise Invalid("this is not an answer to the question", expected=f"one of: {labels}")
    return answer.option or answer.text or REJECT


def answered(question: ev.QuestionAsked, turn: int, text: str, *, person: str, always: bool) -> Answered:
    """Return the entry that answers a question of a running turn.

    `always`: the command that it is about is allowed in the whole chat.

    Raises:
        Invalid: the text is not an answer to this question, or does not allow a command, which `always` needs.
    """
    answer = resolved(question, text)
    allowing = {option.id for option in question.options or () if option.kind in ("allow_once", "allow_always")}
    if always and (question.ask != "command" or answer not in allowing):
        raise Invalid("only a command can always be allowed", expected="an answer that allows a command")
    return Answered(turn, question.id, answer, person, always)


def answered_later(latest: TurnView | None, question: str, text: str) -> str:
    """Return the prompt that answers the question with which the last turn ended.

    Raises:
        Conflicting: it did not end with this question.
    """
    if latest is None or latest.state != "completed" or latest.question is None or latest.question.id != question:
        raise Conflicting("this question is closed", help="write it as a message")
    labels = {option.id: option.label for option in latest.question.options or ()}
    return labels.get(text, text)
