"""Decisions of a chat: pure functions of its timeline."""

from __future__ import annotations

import pytest

from penstock.chat.errors import NoSuchTurn
from penstock.chat.history.entries import Entry, Numbered, Prompted, Released, StopRequested, TurnBegan
from penstock.chat.history.timeline import Timeline
from penstock.chat.service.turns.decisions import activity, stopped


def folded(*entries: Entry) -> Timeline:
    """The timeline of these entries."""
    timeline = Timeline(0)
    timeline.take([Numbered(number, 1, entry) for number, entry in enumerate(entries, 1)])
    return timeline


THREE = (Prompted(1, "a"), TurnBegan(1, "a", "/"), Prompted(2, "b"), Prompted(3, "c"))


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ((), ("idle", 0, 0, 0, False)),
        ((Prompted(1, "a"),), ("queued", 1, 1, 0, False)),
        (THREE, ("running", 2, 3, 0, False)),
        ((*THREE, StopRequested(1)), ("running", 0, 0, 2, False)),
        ((*THREE, StopRequested(1), Released(2)), ("running", 1, 2, 1, False)),
    ],
)
def test_activity(entries: tuple[Entry, ...], expected: tuple[str, int, int, int, bool]) -> None:
    """What lists show of a chat: its state, the turns that wait, the newest of them, those held, and a question."""
    assert activity(folded(*entries)) == expected


@pytest.mark.parametrize(
    ("more", "turn", "queued", "expected"),
    [
        ((), None, False, ([1, 2, 3], StopRequested())),
        ((), None, True, ([2, 3], StopRequested(None, True))),
        ((), 1, False, ([1], StopRequested(1))),
        ((), 1, True, ([], None)),
        ((), 2, False, ([2], StopRequested(2))),
        ((StopRequested(2),), 2, False, ([2], None)),
        ((StopRequested(1),), 1, False, ([1], None)),
        ((StopRequested(1), Released(3)), 1, False, ([1], StopRequested(1))),
    ],
)
def test_stopped(
    more: tuple[Entry, ...], turn: int | None, queued: bool, expected: tuple[list[int], StopRequested | None]
) -> None:
    """Which turns a stop stops; a second stop counts if it holds others than the first."""
    assert stopped(folded(*THREE, *more), turn, queued=queued) == expected


@pytest.mark.parametrize("turn", [0, 4, -1])
def test_a_turn_that_never_was_cannot_be_stopped(turn: int) -> None:
    """Its number is in the message."""
    with pytest.raises(NoSuchTurn, match=f"no turn {turn}"):
        stopped(folded(*THREE), turn, queued=False)
