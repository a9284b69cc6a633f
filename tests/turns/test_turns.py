"""A run as the turn of a chat: by recordings, by random runs, and by the cases of the older design."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock import turns
from penstock import updates as up
from penstock.contract.session import Exit, Session
from penstock.events import (
    BlockEnded,
    BlockStarted,
    Delta,
    Event,
    MessageEnded,
    Replied,
    RunEnded,
    ToolCalled,
    ToolReturned,
)
from penstock.stream import Stream
from penstock.tags import strip_tags
from penstock.testing import feeds
from penstock.turns import Assistant, Completed, FinalMessageStart, Question, Streaming, Thinking, Turn, TurnEvent

if TYPE_CHECKING:
    from conftest import Recording


def neighbour(name: str) -> ModuleType:
    """A test module of another folder, for what it is made of."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parents[1] / "property" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RANDOM = neighbour("test_random_updates")
FEW = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)

STATUSES = {turns.WORKING, turns.PLANNING, turns.DELEGATING, turns.ASKING}
STATUSES |= {*turns.CALLING.values(), *turns.NOTICED.values()}
LIFE_CYCLE = re.compile("S[ST]*(?:F(?:A|S|T)*)?C")


def one_by_one(events: list[Event]) -> list[TurnEvent]:
    """The turn of a run whose events come one at a time."""
    turn = Turn()
    out = turn.start()
    for event in events:
        out += turn.feed([event])
    return out


def conflated(events: list[TurnEvent]) -> list[TurnEvent]:
    """Each `assistant` in the place of the ones right before it."""
    out: list[TurnEvent] = []
    for event in events:
        last = out[-1] if out else None
        if isinstance(event, Assistant) and isinstance(last, Assistant):
            out[-1] = Assistant(event.content, event.replace or last.replace)
        else:
            out.append(event)
    return out


def check(out: list[TurnEvent]) -> Completed:
    """Judge one turn by its life cycle; the end of it."""
    order = "".join(type(event).__name__[0] for event in out)
    assert LIFE_CYCLE.fullmatch(order), order
    assert ("F" in order) == ("A" in order)
    assert {event.status for event in out if isinstance(event, Streaming)} <= STATUSES
    bubble = ""
    for event in out:
        if isinstance(event, Assistant):
            assert event.replace or event.content.startswith(bubble), "a bubble that did not grow"
            assert bubble or event.content.strip(), "a bubble for nothing"
            bubble = event.content
    lines = msgspec.json.Encoder().encode_lines(out).splitlines()
    assert msgspec.json.Decoder(list[TurnEvent]).decode(b"[" + b",".join(lines) + b"]") == out
    end = out[-1]
    assert isinstance(end, Completed)
    return end


def said(events: list[Event]) -> list[str]:
    """The texts of the top agent's text blocks that were not given up."""
    gone = {event.message for event in events if isinstance(event, MessageEnded) and event.status == "superseded"}
    top = {e.block for e in events if isinstance(e, BlockStarted) and e.parent is None and e.message not in gone}
    return [e.text for e in events if isinstance(e, BlockEnded) and e.block in top and e.kind == "text"]


# --- recordings ------------------------------------------------------------------------------------


def test_recordings(recording: Recording, shorten: Callable[[str], Any]) -> None:
    """SC1 to SC5, G1, G5: the order of the events, and for the message the last round's reply, no more and no less."""
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


def test_no_earlier_round_in_the_message(recordings: list[Recording]) -> None:
    """Final message, SC1: what was said between the calls was shown, and is not part of the message."""
    seen = 0
    for recording in recordings:
        events = feeds.whole(Stream(recording.agent), recording.data)
        out = one_by_one(events)
        end = check(out)
        top = [event for event in events if event.parent is None]
        texts = [at for at, event in enumerate(top) if isinstance(event, BlockEnded) and event.kind == "text"]
        results = [at for at, event in enumerate(top) if isinstance(event, ToolReturned) and event.complete]
        if not results or not texts or texts[-1] < results[-1]:
            continue
        bubbles = [event.content for event in out if isinstance(event, Assistant)]
        for at in texts:
            event = top[at]
            if at < results[-1] and isinstance(event, BlockEnded) and event.complete:
                seen += 1
                assert event.text not in end.message
                assert any(event.text.strip() in bubble for bubble in bubbles)
    assert seen >= 20


def test_recordings_cut_short(recording: Recording) -> None:
    """A run that was cut anywhere is a complete turn, with what its last round had said."""
    for at in feeds.cut_points(recording.data, 3):
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


@pytest.mark.parametrize("traits", RANDOM.TRAITS.values(), ids=RANDOM.TRAITS)
@given(updates=st.lists(RANDOM.UPDATES | TAGGED, max_size=30), exit=RANDOM.EXITS, cut=st.integers(0, 60))
@FEW
def test_random_runs(traits: up.Traits, updates: list[up.Update], exit: Exit | None, cut: int) -> None:
    """G2, G4, G5: any run is one turn in order, however its events were cut; a crash may end it anywhere."""
    events = RANDOM.run(traits, updates, exit)
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


@given(rounds=st.lists(st.lists(st.text(st.sampled_from("ab \n`<think>/"), min_size=1), min_size=1), min_size=1))
@FEW
def test_last_round_only(rounds: list[list[str]]) -> None:
    """Final message, SC1, SC3, G2: rounds of text are shown one after the other, and the last one stays."""
    updates: list[up.Update] = []
    for number, texts in enumerate(rounds):
        updates += [up.MessageStart(f"m{number}"), *(up.Text("text", "delta", text, place=0) for text in texts)]
        if number < len(rounds) - 1:
            updates += [up.ToolCall(f"c{number}", "Bash", {"command": "ls"}, place=1), up.MessageEnd()]
            updates.append(up.ToolReturn(f"c{number}", "x"))
    updates += [up.MessageEnd(), up.Result()]
    end = check(one_by_one(RANDOM.run(up.Traits(block_ends=True), updates)))
    assert end.message == strip_tags("".join(rounds[-1]))


# --- case by case ----------------------------------------------------------------------------------


def run(*updates: up.Update, exit: Exit | None = None, traits: up.Traits | None = None) -> list[TurnEvent]:
    """The turn of a run of these updates; text has marks for its blocks' ends."""
    session = Session("test", traits or up.Traits(block_ends=True))
    events: list[Event] = []
    for update in updates:
        session.apply(update, events)
    session.close(exit, events)
    out = one_by_one(events)
    check(out)
    return out


def text(content: str, place: int = 0) -> up.Update:
    """New text of the current message."""
    return up.Text("text", "delta", content, place=place)


def thought(content: str) -> up.Update:
    """New thinking."""
    return up.Text("thinking", "delta", content, place="t")


BASH = (up.ToolCall("c1", "Bash", {"command": "rm -r secret"}), up.ToolReturn("c1", "gone"))
WORKING = Streaming("Working…")
START = FinalMessageStart()


def test_the_whole_life_of_a_turn() -> None:
    """SC1 to SC4, G2, G4, G5: thinking by pieces, one start, rounds that replace each other, one message."""
    assert run(
        *(up.MessageStart("m1"), thought("I "), thought("look."), text("Let me "), text("look."), *BASH),
        *(up.MessageEnd(), up.MessageStart("m2"), thought("So."), text("All "), text("done."), up.MessageEnd()),
        up.Result(reply="All done."),
    ) == [
        WORKING,
        Thinking("I "),
        Thinking("look."),
        START,
        Assistant("Let me"),
        Assistant("Let me look."),
        Streaming("Running a command…"),
        WORKING,
        Thinking("So."),
        Assistant("All", replace=True),
        Assistant("All done."),
        Completed("All done.", "ok"),
    ]


def test_thinking_is_passed_on_as_it_comes() -> None:
    """SC1, G3: a piece that begins like the one before is no snapshot: neither dropped nor doubled."""
    out = run(*map(thought, ["ha", "haha", "ha", "ha"]), up.Result())
    assert [event.content for event in out if isinstance(event, Thinking)] == ["ha", "haha", "ha", "ha"]


def test_whole_messages_only() -> None:
    """SC5; final message, SC2: a run without thinking that prints its messages whole is a turn like others."""
    out = run(up.Text("text", "final", "All of it.", message="m1"), up.Result(reply="All of it."))
    assert out == [WORKING, START, Assistant("All of it."), Completed("All of it.", "ok")]


def test_an_explicit_final_message() -> None:
    """The agent's own final message is the message, where it holds all that its last round said."""
    assert run(text("Half"), up.MessageEnd(), up.Result(reply="Half and <think>x</think>half."))[-1] == Completed(
        "Half and half.", "ok"
    )
    assert run(up.Result(reply="Only this.")) == [WORKING, Completed("Only this.", "ok")]


def test_tags_are_in_neither_stream_nor_message() -> None:
    """Final message, SC4, G3, G5: one helper for both, over the borders of pieces; code stays whole."""
    pieces = ["<thi", "nk>secret</th", "ink>\n\nSee:\n```xml\n<thi", "nk>\n```\n<tool_call>secret", "</tool_call>"]
    out = run(*map(text, pieces), up.Result())
    assert [event for event in out if isinstance(event, Assistant)][-1].content == "See:\n```xml\n<think>\n```"
    assert out[-1] == Completed("See:\n```xml\n<think>\n```", "ok")
    assert "secret" not in repr(out)


def test_an_open_tag_hides_its_own_block_only() -> None:
    """A tag without an end hides nothing of the next message, in the stream and in the message alike."""
    out = run(
        up.MessageStart("m1"), text("A<think>x"), up.MessageEnd(), up.MessageStart("m2"), text("B"), up.MessageEnd()
    )
    assert [event for event in out if isinstance(event, Assistant)][-1].content == "A\n\nB"
    assert out[-1].message == "A\n\nB"  # type: ignore[union-attr]


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
    session = Session("test", up.Traits(block_ends=True))
    events: list[Event] = []
    for update in (up.MessageStart("m1"), text("Firs"), up.MessageStart("m1")):
        session.apply(update, events)
    assert Turn().feed(events) == [WORKING, START, Assistant("Firs"), Assistant("", replace=True)]


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
        *(up.ToolCall("c2", "Bash", {}, lane="c1"), up.Hint("q", "secret", lane="c1"), up.ToolReturn("c1", "x")),
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
        *(up.Notice("retry", "secret"), up.Notice("status", "secret"), up.Plan([RANDOM.PlanItem("secret", "pending")])),
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


QUESTION = Question("q1", "Which one?", ["A", "B"])


def test_a_question_that_nothing_waits_for_ends_the_turn() -> None:
    """Final message, SC5, G1, and G6: the early end has its own message, and the text so far is not reset."""
    out = run(
        *(up.MessageStart("m1"), text("Two ways."), up.Hint("q1", "Which one?", ["A", "B"])),
        *(up.Notice("status", "x"), up.MessageEnd(), up.MessageStart("m2"), text("I go on."), up.Result()),
    )
    assert out == [
        *(WORKING, START, Assistant("Two ways.")),
        Completed("Two ways.\n\nWhich one?", "ok", hint=QUESTION),
    ]


def test_a_question_at_the_end_of_the_run() -> None:
    """A run that ends with its question open has both: what became of it, and the question."""
    turn = Turn()
    session = Session("test", up.Traits())
    events: list[Event] = []
    session.apply(up.Hint("q1", "Which one?", ["A", "B"]), events)
    turn.feed(events)
    assert turn.asking
    session.close(Exit(cancelled=True, why="stopped"), events)
    assert turn.feed(events[1:]) == [Completed("Which one?", "cancelled", "stopped", QUESTION)]
    assert not turn.asking


def test_a_question_that_the_agent_answers_by_itself() -> None:
    """Its answer, right behind it, lets the turn go on."""
    out = run(text("a"), up.Hint("q1", "May I?"), up.HintAnswer("q1", "once"), text("b"), up.Result())
    assert out[-1] == Completed("ab", "ok")


def test_a_question_that_the_run_waits_for_keeps_the_turn_open() -> None:
    """It is shown with its options until it is answered, whatever else happens."""
    out = run(
        *(up.MessageStart("m"), text("Two ways."), up.Hint("q1", "Which one?", ["A", "B"], blocking=True)),
        *(up.Notice("retry", "x"), up.HintAnswer("q1", "A"), text(" I take A."), up.MessageEnd(), up.Result()),
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
    session = Session("test", up.Traits(block_ends=True))
    events: list[Event] = []
    for update in (*before, *DONE):
        session.apply(update, events)
    turn = Turn()
    assert (Completed("Done.", "ok") in turn.feed(events)) == early
    more: list[Event] = []
    for update in (up.MessageStart("m10"), text("Really."), up.MessageEnd(), up.Result()):
        session.apply(update, more)
    session.close(None, more)
    out = turn.feed(more)
    assert out == [] if early else out[-1] == Completed("Really.", "ok")


def test_a_record_that_was_cut_off() -> None:
    """A turn whose events stop is closed with what it said, once; held back text is not lost."""
    session = Session("test", up.Traits())
    events: list[Event] = []
    session.apply(text("So far <thi"), events)
    turn = Turn()
    turn.feed(events)
    assert turn.close("the server was stopped") == [
        Assistant("So far <thi"),
        Completed("So far <thi", "cut_off", "the server was stopped"),
    ]
    assert turn.close() == []


def test_growing_text_is_told_once_a_feed() -> None:
    """A long reply that is read at once is no thousand copies of itself."""
    session = Session("test", up.Traits())
    events: list[Event] = []
    for _ in range(1000):
        session.apply(text("word "), events)
    out = Turn().feed(events)
    assert [len(event.content) for event in out if isinstance(event, Assistant)] == [4999]
