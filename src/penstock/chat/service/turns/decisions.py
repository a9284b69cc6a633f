"""Decisions of a chat: entries that follow from its timeline, without any input or output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec

from penstock import events as ev
from penstock.chat.errors import Conflicting, ContentTooLarge, Invalid, NoSuchTurn, TooMany
from penstock.chat.history.entries import OWNER, Asker, AttachedFile, Prompted, StopRequested, TurnEnded
from penstock.chat.history.frames import TurnView
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
) -> Prompted:
    """Return the entry of a prompt that a person submits.

    Raises:
        TooMany: `max_queue` turns wait.
        ContentTooLarge: the prompt does not fit into an entry.
        Conflicting: the prompt is a heartbeat's, and the chat is busy.
    """
    queued = [view for view in timeline.queued if view.by != "heartbeat" and view.turn not in timeline.stops]
    if by == "heartbeat" and (timeline.queued or timeline.running):
        raise Conflicting("the chat is busy")
    if len(queued) >= max_queue:
        raise TooMany(f"{max_queue} messages of this chat wait already", help="stop some, or wait for them")
    entry = Prompted(max(timeline.turns, default=0) + 1, text, by, key, person, [*attachments])
    if len(msgspec.json.encode(entry)) > max_entry_bytes - ENTRY_SPARE_BYTES:
        most = f"{max_entry_bytes:,} bytes"
        raise ContentTooLarge("the message is larger than the store accepts", expected=most)
    return entry


class Activity(NamedTuple):
    """Facts about the turns of one chat for the list of chats."""

    state: State
    waiting: int
    """Number of queued turns that are not held."""
    waiting_upto: int
    """Newest of these turns; 0 if there is none."""
    held: int
    """Number of turns that wait until a person releases them."""
    asks: bool
    """True if a question waits for a person."""


def activity(timeline: Timeline) -> Activity:
    """Return these facts for a timeline."""
    running, newest, ready, held = timeline.running, timeline.newest, timeline.ready, timeline.held
    is_running = running is not None and running.state == "running"
    state: State = "running" if is_running else "queued" if ready or held else "idle"
    asks = bool(timeline.questions) or (state == "idle" and newest is not None and newest.question is not None)
    return Activity(state, len(ready), ready[-1].turn if ready else 0, len(held), asks)


class Announced(NamedTuple):
    """State that webhooks announce: the turn at work, and whether a question waits for a person."""

    running: int | None
    asks: bool


def announced(timeline: Timeline) -> Announced:
    """Return the current state that webhooks announce."""
    running = timeline.running
    at_work = running.turn if running is not None and running.state == "running" else None
    return Announced(at_work, activity(timeline).asks)


def happened(before: Announced, timeline: Timeline) -> list[tuple[TurnView, list[Occasion]]]:
    """Return the turns that have ended, or begun to ask, since `before`, with their events, the most urgent first."""
    now = announced(timeline)
    found: dict[int, list[Occasion]] = {}
    asking = timeline.running or timeline.newest
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
    """
    if turn is not None and not 1 <= turn <= max(timeline.turns, default=0):
        raise NoSuchTurn(f"the chat has no turn {turn}")
    running = [timeline.running] if timeline.running is not None and not queued else []
    found = [view.turn for view in (*running, *timeline.queued) if turn in (None, view.turn)]
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


def answered_later(newest: TurnView | None, question: str, text: str) -> str:
    """Return the prompt that answers the question with which the newest turn ended.

    Raises:
        Conflicting: it did not end with this question.
    """
    if newest is None or newest.state != "completed" or newest.question is None or newest.question.id != question:
        raise Conflicting("this question is closed", help="write it as a message")
    labels = {option.id: option.label for option in newest.question.options or ()}
    return labels.get(text, text)
