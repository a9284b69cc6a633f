"""Decisions of a chat: pure functions of its timeline."""

from __future__ import annotations

import pytest

from penstock import events as ev
from penstock.chat.errors import Conflicting, ContentTooLarge, Invalid, NoSuchTurn, NotAllowed
from penstock.chat.history.entries import (
    Edited,
    Entry,
    Moved,
    Numbered,
    Prompted,
    Released,
    SentNow,
    StopRequested,
    TurnBegan,
    TurnEnded,
)
from penstock.chat.history.timeline import Timeline
from penstock.chat.service.turns.decisions import activity, edited, ended, moved, resolved, stopped


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


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ((), [2, 3]),
        ((Moved([3, 2]),), [3, 2]),
        ((Moved([3, 2]), Prompted(4, "d")), [3, 2, 4]),
        ((SentNow(3),), [3, 2]),
        ((Prompted(4, "d", now=True),), [4, 2, 3]),
        ((Prompted(4, "d", now=True), Prompted(5, "e", now=True)), [4, 5, 2, 3]),
        ((SentNow(3), SentNow(2)), [3, 2]),
        ((SentNow(3), TurnEnded(2, "cancelled"), Prompted(4, "d"), Prompted(5, "e", now=True)), [3, 5, 4]),
        ((SentNow(3), Moved([2, 3]), Prompted(4, "d", now=True)), [4, 2, 3]),
        ((Moved([3, 9]),), [2, 3]),
        ((StopRequested(1), Prompted(4, "d", now=True)), [4, 2, 3]),
        ((TurnEnded(1, "ok"), TurnBegan(2, "a", "/"), Moved([3, 2])), [3]),
    ],
)
def test_the_order_of_what_waits(more: tuple[Entry, ...], expected: list[int]) -> None:
    """What was moved keeps its number; what is sent now goes before the rest, in the order in which it was sent."""
    timeline = folded(*THREE, *more)
    assert [view.turn for view in timeline.queued] == expected
    again = Timeline(timeline.number, timeline.snapshot().turns)  # as the summaries have it
    assert [view.turn for view in again.queued] == expected


def test_what_is_sent_now_holds_nothing() -> None:
    """A stop holds what waits behind it; a message that stops the turn does not, and is not held itself."""
    timeline = folded(*THREE, Prompted(4, "d", now=True, stops=1))
    assert (timeline.stops, timeline.held) == ({1}, [])
    timeline = folded(*THREE, StopRequested(1), Prompted(4, "d", now=True))
    assert [view.turn for view in timeline.held] == [2, 3]
    assert [view.turn for view in timeline.ready] == [4]
    assert folded(*THREE, Prompted(4, "d", now=True, stops=3)).stops == set(), "only what runs is stopped"


def test_a_message_edited_after_it_began_stays() -> None:
    """The fold follows what the agent got, whatever an entry says."""
    timeline = folded(
        *THREE, TurnEnded(1, "ok"), TurnBegan(2, "a", "/"), Edited(2, "x"), Edited(3, "y"), Edited(9, "z")
    )
    assert [(view.prompt, view.edits) for view in timeline.turns.values()] == [("a", 0), ("b", 0), ("y", 1)]


@pytest.mark.parametrize(
    ("turn", "edits", "person", "error"),
    [
        (2, 1, "owner", Conflicting),
        (1, 0, "owner", Conflicting),
        (4, 0, "owner", NoSuchTurn),
        (0, 0, "owner", NoSuchTurn),
        (3, 0, "owner", Conflicting),
        (2, 0, "bob", NotAllowed),
    ],
)
def test_edits_that_are_rejected(turn: int, edits: int, person: str, error: type[Exception]) -> None:
    """Another text than the one seen, a turn that began, never was or was taken back, and another person's message."""
    with pytest.raises(error):
        edited(folded(*THREE, StopRequested(3)), turn, "x", edits, 100_000, person=person)


def test_an_edit_is_as_large_as_a_prompt() -> None:
    """A text that no entry holds is rejected before it is written."""
    with pytest.raises(ContentTooLarge):
        edited(folded(*THREE), 2, "x" * 3000, 0, 4000)


@pytest.mark.parametrize("turns", [[2], [2, 2], [2, 3, 4], []])
def test_an_order_names_each_message_once(turns: list[int]) -> None:
    """Otherwise one would be lost from it."""
    with pytest.raises(Invalid):
        moved(folded(*THREE), [2, 3], turns)


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
