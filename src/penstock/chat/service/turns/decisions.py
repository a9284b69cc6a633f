"""Decisions of a chat: entries that follow from its timeline, without any input or output."""

from __future__ import annotations

import msgspec

from penstock import events as ev
from penstock.chat.errors import Conflicting, ContentTooLarge, Invalid, TooMany
from penstock.chat.history.entries import Asker, Prompted, TurnEnded
from penstock.chat.history.frames import TurnView
from penstock.chat.history.timeline import Timeline
from penstock.chat.service.log.chat_log import Write
from penstock.core.questions import REJECT, resolve

GAVE_WAY = "gave way to a message"
TAKEN_BACK = "taken back before it began"

ENTRY_SPARE_BYTES = 1024
"""Bytes of a prompt's entry besides its text: numbers, a key, and the names of fields."""


def prompted(
    timeline: Timeline, text: str, by: Asker, key: str | None, max_queue: int, max_entry_bytes: int
) -> Prompted:
    """Return the entry of a prompt.

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
    entry = Prompted(max(timeline.turns, default=0) + 1, text, by, key)
    if len(msgspec.json.encode(entry)) > max_entry_bytes - ENTRY_SPARE_BYTES:
        most = f"{max_entry_bytes:,} bytes"
        raise ContentTooLarge("the message is larger than the store accepts", expected=most)
    return entry


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
