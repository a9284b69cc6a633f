"""Decisions of a chat: pure functions of its timeline."""

from __future__ import annotations

import pytest

from penstock import events as ev
from penstock.chat.errors import Invalid, NoSuchTurn
from penstock.chat.history.entries import Entry, Numbered, Prompted, Released, StopRequested, TurnBegan, TurnEnded
from penstock.chat.history.timeline import Timeline
from penstock.chat.service.turns.decisions import activity, ended, resolved, stopped


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


def test_only_a_running_turn_is_ended() -> None:
    """Those that wait stay in the queue."""
    assert ended(folded(*THREE), "cut_off", "why") == [TurnEnded(1, "cut_off", "why")]
    assert ended(folded(Prompted(1, "a")), "cut_off", "why") == []


def test_what_answers_a_question_is_told_if_nothing_was_said() -> None:
    """The labels of its options, or that words are expected."""
    options = [ev.Option("1", "Blue", "choice"), ev.Option("2", "Red", "choice")]
    question = ev.QuestionAsked("q", "Which?", True, "choice", options, agent="a")
    with pytest.raises(Invalid) as caught:
        resolved(question, " ")
    assert caught.value.expected == "one of: Blue, Red"
    with pytest.raises(Invalid) as caught:
        resolved(ev.QuestionAsked("q", "Which?", True, "choice", free_text=True, agent="a"), " ")
    assert caught.value.expected == "one of: words"
