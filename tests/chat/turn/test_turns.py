"""A run as the turn of a chat: by recordings, by random runs, and case by case. `test_seed` has what it grew from."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_updates import EXITS, TRAITS, UPDATES, events_from
from turn_judge import BASH, FEW, START, WORKING, check, conflated, one_by_one, run, said, text

from penstock import updates as up
from penstock.chat.reasoning_tags import strip_tags
from penstock.chat.turn import ASKING, Assistant, Completed, OpenQuestion, Streaming, Thinking, Turn
from penstock.core.normalizer.normalizer import Normalizer
from penstock.core.normalizer.outcome import Exit
from penstock.events import (
    Delta,
    Option,
    PlanItem,
    QuestionAnswered,
    QuestionAsked,
    Replied,
    RunEnded,
    ToolCalled,
)
from penstock.stream import Stream
from penstock.testing import feeds

if TYPE_CHECKING:
    from conftest import Recording


# --- recordings ------------------------------------------------------------------------------------


@pytest.mark.sample(3)
def test_recordings(recording: Recording, shorten: Callable[[str], Any]) -> None:
    """The order of the events, and for the message the last round's reply, no more and no less."""
    events = feeds.whole(Stream(recording.agent), recording.data)
    out = one_by_one(events)
    end = check(out)
    expected = recording.expected["reply"]  # a very long one as its hash; none of those has tags
    assert shorten(end.message) == (strip_tags(expected) if isinstance(expected, str) else expected)
    assert end.outcome == recording.expected["outcome"]
    bubbles = [event.content for event in out if isinstance(event, Assistant)]
    if bubbles:
        assert bubbles[-1].strip() == end.message.strip()
    told = [
        event.text for event in events if isinstance(event, Delta) and event.kind == "thinking" and not event.parent
    ]
    assert [event.content for event in out if isinstance(event, Thinking)] == told
    words = "\n".join(said(events))
    titles = [event.title for event in events if isinstance(event, ToolCalled) and event.title not in words]
    assert not [title for title in titles if any(title in bubble for bubble in bubbles)]
    assert conflated(Turn().feed(events)) == conflated(out)


LONG = 300_000
"""Bytes of a recording that is more of the same."""


def test_recordings_cut_short(recording: Recording) -> None:
    """A run that was cut anywhere is a complete turn, with what its last round had said."""
    for at in feeds.cut_points(recording.data, 3 if len(recording.data) < LONG else 1):
        events = feeds.cut(Stream(recording.agent), recording.data, at)
        end = events[-1]
        assert isinstance(end, RunEnded)
        completed = check(one_by_one(events))
        if not any(isinstance(event, Replied) for event in events):
            assert (completed.message, completed.outcome) == (strip_tags(end.reply), end.outcome)


# --- random runs -----------------------------------------------------------------------------------

TAGGED = st.builds(
    up.Text,
    kind=st.just("text"),
    mode=st.just("delta"),
    text=st.sampled_from(["<think>", "secret", "</think>", "<thi", "nk>", "`", "```\n", " ", "\n", "word"]),
)


@pytest.mark.parametrize("traits", TRAITS.values(), ids=TRAITS)
@given(updates=st.lists(UPDATES | TAGGED, max_size=30), exit=EXITS, cut=st.integers(0, 60))
@FEW
def test_random_runs(traits: up.Traits, updates: list[up.Update], exit: Exit | None, cut: int) -> None:
    """Any run is one turn in order, however its events were cut; a crash may end it anywhere."""
    events = events_from(traits, updates, exit)
    out = one_by_one(events)
    check(out)
    turn = Turn()
    pieces = turn.feed(events[:cut]) + turn.feed(events[cut:])
    assert conflated(pieces) == conflated(out)
    assert turn.feed(events) == turn.close() == turn.start() == []
    crashed = Turn()
    before = crashed.feed(events[:cut])
    over = crashed.completed
    after = crashed.close("the server was stopped")
    end = check([*before, *after])
    assert crashed.completed
    assert over == (after == [])
    assert over or (end.outcome, end.reason) == ("cut_off", "the server was stopped")


# --- case by case ----------------------------------------------------------------------------------


def test_an_open_tag_hides_its_own_block_only() -> None:
    """A tag without an end hides nothing of the next message, in the stream and in the message alike."""
    out = run(
        up.MessageStart("m1"), text("A<think>x"), up.MessageEnd(), up.MessageStart("m2"), text("B"), up.MessageEnd()
    )
    assert [event for event in out if isinstance(event, Assistant)][-1].content == "A\n\nB"
    assert out[-1].message == "A\n\nB"  # type: ignore[union-attr]


def test_an_explicit_final_message() -> None:
    """The agent's own final message is the message, where it holds all that its last round said."""
    assert run(text("Half"), up.MessageEnd(), up.Result(reply="Half and <think>x</think>half."))[-1] == Completed(
        "Half and half.", "ok"
    )
    assert run(up.Result(reply="Only this.")) == [WORKING, Completed("Only this.", "ok")]


def test_attempts_that_were_given_up_leave_nothing() -> None:
    """A message begun again empties the bubble, and is no part of the message."""
    out = run(
        *(up.MessageStart("m1"), text("Firs"), up.MessageStart("m1"), text("Second."), up.MessageEnd(), up.Result())
    )
    assert out[1:] == [
        *(START, Assistant("Firs"), Assistant("", replace=True), Assistant("Second."), Completed("Second.", "ok"))
    ]


def test_an_attempt_that_was_read_at_once_was_said_too() -> None:
    """What was given up within one feed is shown and taken away, as it is piece by piece."""
    normalizer = Normalizer("test", up.Traits(block_ends=True))
    for update in (up.MessageStart("m1"), text("Firs"), up.MessageStart("m1")):
        normalizer.apply(update)
    assert Turn().feed(normalizer.drain()) == [WORKING, START, Assistant("Firs"), Assistant("", replace=True)]


def test_blocks_that_were_taken_back_leave_nothing() -> None:
    """Of a message that ended well, a block that the agent took back is gone from the bubble."""
    out = run(text("Kept.", 0), text("Gone.", 1), up.MessageEnd(abandoned_from=1), up.Result())
    assert out[-2:] == [Assistant("Kept.", replace=True), Completed("Kept.", "ok")]


def test_a_message_that_goes_on_is_the_same_round() -> None:
    """A message that is opened again after a tool's result is no other round."""
    out = run(up.MessageStart("m1"), text("A"), up.MessageEnd(), *BASH, up.MessageStart("m1"), text("B"), up.Result())
    assert [event for event in out if isinstance(event, Assistant)] == [Assistant("A"), Assistant("AB")]


def test_revised_text_replaces() -> None:
    """Another text for a block is another bubble."""
    out = run(text("Helo"), up.Text("text", "final", "Hello", place=0), up.Result())
    assert out[1:] == [START, Assistant("Helo"), Assistant("Hello", replace=True), Completed("Hello", "ok")]


def test_blocks_that_interleave() -> None:
    """Text that grows before other text is shown in its place."""
    out = run(text("A", 0), text("C", 1), text("B", 0), up.Result())
    assert out[2:-1] == [Assistant("A"), Assistant("AC"), Assistant("ABC", replace=True)]


def test_sub_agents_are_a_status() -> None:
    """Neither words nor tools of a sub-agent are shown, and none of its questions ends the turn."""
    out = run(
        up.ToolCall("c1", "Task", {"prompt": "p"}),
        *(up.Text("text", "delta", "secret", lane="c1"), up.Text("thinking", "delta", "secret", lane="c1")),
        *(
            up.ToolCall("c2", "Bash", {}, lane="c1"),
            up.Question("q", "secret", "text", lane="c1"),
            up.ToolReturn("c1", "x"),
        ),
        *(up.MessageStart("m2"), text("Done."), up.MessageEnd(), up.Result()),
    )
    assert "secret" not in repr(out)
    assert Streaming("Sub-agents are working…") in out
    assert out[-1] == Completed("Done.", "ok")


def test_statuses_are_not_the_agents_words() -> None:
    """Calls, plans and notices are a few short lines, the same one once."""
    out = run(
        *(up.ToolCall(f"c{n}", "Read", {"path": "secret"}) for n in range(2)),
        *(up.ToolReturn("c0"), up.ToolReturn("c1")),
        *(up.Notice("retry", "secret"), up.Notice("status", "secret"), up.Plan([PlanItem("secret", "pending")])),
    )
    assert [event.status for event in out if isinstance(event, Streaming)] == [
        *("Working…", "Reading…", "Working…", "Trying again…", "Planning…")
    ]
    assert "secret" not in repr(out)


@pytest.mark.parametrize(
    ("ending", "outcome", "reason"),
    [
        ([up.Result(is_error=True, reason="overloaded")], "error", "overloaded"),
        ([up.Result(cancelled=True, reason="stopped")], "cancelled", "stopped"),
        ([], "cut_off", "the stream ended before the agent did"),
    ],
)
def test_turns_that_fail_complete_too(ending: list[up.Update], outcome: str, reason: str) -> None:
    """What was said stays, with what became of the run."""
    assert run(up.MessageStart("m"), text("So far"), *ending)[-1] == Completed("So far", outcome, reason)  # type: ignore[arg-type]


def test_a_time_limit_completes_too() -> None:
    """A run that was stopped by a time limit keeps what it said."""
    end = run(text("So far"), exit=Exit(signal=15, timed_out=True))[-1]
    assert isinstance(end, Completed)
    assert (end.message, end.outcome) == ("So far", "timed_out")


OPTIONS = [Option("A", "A", "choice"), Option("B", "B", "choice")]
QUESTION = OpenQuestion("q1", "Which one?", "choice", OPTIONS)


def test_a_question_at_the_end_of_the_run() -> None:
    """A run that ends with its question open has both: what became of it, and the question."""
    turn = Turn()
    normalizer = Normalizer("test", up.Traits())
    normalizer.apply(up.Question("q1", "Which one?", "choice", OPTIONS))
    turn.feed(normalizer.drain())
    assert turn.asking
    normalizer.close(Exit(cancelled=True, why="stopped"))
    assert turn.feed(normalizer.drain()) == [Completed("Which one?", "cancelled", "stopped", QUESTION)]
    assert not turn.asking


def test_a_question_that_the_agent_answers_by_itself() -> None:
    """Its answer, right behind it, lets the turn go on."""
    out = run(text("a"), up.Question("q1", "May I?", "tool"), up.Answer("q1", "person", "once"), text("b"), up.Result())
    assert out[-1] == Completed("ab", "ok")


def test_a_question_that_the_run_waits_for_keeps_the_turn_open() -> None:
    """It is shown with its options until it is answered, whatever else happens."""
    out = run(
        *(
            up.MessageStart("m"),
            text("Two ways."),
            up.Question("q1", "Which one?", "choice", OPTIONS, blocking=True),
        ),
        *(up.Notice("retry", "x"), up.Answer("q1", "person", "A"), text(" I take A."), up.MessageEnd(), up.Result()),
    )
    assert out[3:] == [
        Streaming("Waiting for your answer…", QUESTION),
        *(WORKING, Assistant("Two ways. I take A."), Completed("Two ways. I take A.", "ok")),
    ]


DONE = (up.MessageStart("m9"), text("Done."), up.MessageEnd(), up.Result())


@pytest.mark.parametrize(
    ("before", "early"),
    [
        ([], True),
        ([*BASH], True),
        ([up.Notice("background", "a command runs on")], False),
        ([up.ToolCall("c1", "Bash", {})], False),
        ([up.ToolCall("c1", "Task", {}), up.MessageStart(lane="c1")], False),
        ([up.MessageStart(lane="c1")], False),
    ],
)
def test_when_a_turn_is_complete(before: list[up.Update], early: bool) -> None:
    """With the agent's answer; with the end of the run where work is known to go on beside it."""
    normalizer = Normalizer("test", up.Traits(block_ends=True))
    for update in (*before, *DONE):
        normalizer.apply(update)
    turn = Turn()
    assert (Completed("Done.", "ok") in turn.feed(normalizer.drain())) == early
    for update in (up.MessageStart("m10"), text("Really."), up.MessageEnd(), up.Result()):
        normalizer.apply(update)
    normalizer.close()
    out = turn.feed(normalizer.drain())
    assert out == [] if early else out[-1] == Completed("Really.", "ok")


def test_a_record_that_was_cut_off() -> None:
    """A turn whose events stop is closed with what it said, once; held back text is not lost."""
    normalizer = Normalizer("test", up.Traits())
    normalizer.apply(text("So far <thi"))
    turn = Turn()
    turn.feed(normalizer.drain())
    assert turn.close("the server was stopped") == [
        Assistant("So far <thi"),
        Completed("So far <thi", "cut_off", "the server was stopped"),
    ]
    assert turn.close() == []


def test_growing_text_is_told_once_a_feed() -> None:
    """A long reply that is read at once is no thousand copies of itself."""
    normalizer = Normalizer("test", up.Traits())
    for _ in range(1000):
        normalizer.apply(text("word "))
    out = Turn().feed(normalizer.drain())
    assert [len(event.content) for event in out if isinstance(event, Assistant)] == [4999]


def test_two_questions_at_once() -> None:
    """The newest one is shown; when it is answered, the one before is shown again, until none waits."""
    one, two = (
        ev_question("q1", "The first?"),
        ev_question("q2", "The second?"),
    )
    turn = Turn()
    turn.start()
    assert turn.feed([one]) == [Streaming(ASKING, OpenQuestion("q1", "The first?", "tool"))]
    assert turn.feed([two]) == [Streaming(ASKING, OpenQuestion("q2", "The second?", "tool"))]
    assert turn.feed([QuestionAnswered(agent="x", id="q2", by="person", text="yes")]) == [
        Streaming(ASKING, OpenQuestion("q1", "The first?", "tool"))
    ]
    assert turn.feed([QuestionAnswered(agent="x", id="q1", by="person", text="yes")]) == [Streaming("Working…")]
    turn.feed([one, two])
    assert turn.feed([QuestionAnswered(agent="x", id="q1", by="person", text="yes")]) == []  # the second is still shown


def ev_question(id: str, text: str) -> QuestionAsked:
    """A question that the run waits for."""
    return QuestionAsked(agent="x", id=id, text=text, ask="tool", blocking=True)
