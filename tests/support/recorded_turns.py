"""Recordings as the entries of a turn in a chat, for the formats of other programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock import events as ev
from penstock.chat.history.entries import Entry, Numbered, Prompted, TurnBegan
from penstock.chat.turn import Completed, Turn
from penstock.stream import Stream
from penstock.testing import feeds

if TYPE_CHECKING:
    from conftest import Recording

PROMPT = "What is here?"


def entries_of(recording: Recording) -> list[Numbered]:
    """The entries of a chat whose second turn is this run; the first was taken back."""
    events = feeds.whole(Stream(recording.agent), recording.data)
    rows: list[Entry | ev.Event] = [
        Prompted(1, "Never mind"),
        Prompted(2, PROMPT),
        TurnBegan(2, recording.agent, "/"),
        *events,
    ]
    rows.append(Prompted(3, "And then?"))
    return [Numbered(number, number, what) for number, what in enumerate(rows, 1)]


def end_of(rows: list[Numbered]) -> Completed:
    """The end of the turn, folded by the chat's own rules alone."""
    turn = Turn(2)
    found = [turn.start(), turn.feed(row.what for row in rows if isinstance(row.what, ev.Base))]
    ends = [change for changes in found for change in changes if isinstance(change, Completed)]
    assert len(ends) == 1
    return ends[0]


def first_question(rows: list[Numbered]) -> ev.QuestionAsked | None:
    """The first question that the run waits for."""
    asked = (row.what for row in rows if isinstance(row.what, ev.QuestionAsked) and row.what.blocking)
    return next(asked, None)


def known(rows: list[Numbered]) -> int:
    """The number of entries before the one with which the end of the turn may be known."""
    return next(at for at, row in enumerate(rows) if isinstance(row.what, ev.Replied | ev.RunEnded))


def short_ones(recordings: list[Recording], number: int) -> dict[str, list[Numbered]]:
    """The turns of this many short recordings of all agents, by their names; the first one asks for a permission."""
    asking = next(it for it in recordings if it.name == "claude-server/edit_allow")
    found = {it.name: rows for it in recordings if 8 < len(rows := entries_of(it)) < 120}
    step = len(found) // number
    return {asking.name: entries_of(asking), **dict([*found.items()][::step][: number - 1])}


def plan_and_notices(rows: list[Numbered]) -> tuple[list[dict[str, Any]] | None, list[str]]:
    """The last plan of the main agent, and the texts of its warnings and errors."""
    events = [row.what for row in rows if isinstance(row.what, ev.Base) and row.what.parent is None]
    plans = [msgspec.to_builtins(it.items) for it in events if isinstance(it, ev.PlanChanged)]
    notices = [it.text for it in events if isinstance(it, ev.Notice) and it.level != "info"]
    return plans[-1] if plans else None, notices
