"""Any series of updates, however senseless, makes a stream of events that the judge accepts."""

from __future__ import annotations

from typing import get_args

import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st

from penstock import events as ev
from penstock import updates as up
from penstock.core.normalizer.normalizer import Normalizer
from penstock.core.normalizer.outcome import Exit
from penstock.events import BlockEnded, BlockRevised, BlockStarted, Delta, Event, PlanItem, RunEnded, decode, encode
from penstock.testing import verify

# Small alphabets, so that ids, places and texts meet again and again.
LANES = st.sampled_from([None, None, None, "c1", "c2"])
MESSAGES = st.sampled_from([None, None, "m1", "m2"])
PLACES = st.sampled_from([None, 0, 0, 1, 2, "p"])
CALLS = st.sampled_from(["c1", "c2", "c3"])
MAYBE_CALLS = st.sampled_from([None, None, "c1", "c2"])
NAMES = st.sampled_from([None, "Bash", ""])
KINDS = st.sampled_from(["text", "text", "text", "thinking", "tool_input", "tool_output"])
WORDS = ["", "a", "ab", "abc", "a\nb", "haha", "ha", "!", "The whole text ", "The whole text so far", "😀"]
CLEAN = st.sampled_from(WORDS) | st.text(max_size=8)
TEXTS = CLEAN | st.sampled_from(["\ud83d", "\ude00", "a\ud83d", "\ude00b"])
"""Only text in pieces has halves of characters; the stream cleans all else before the normalizer sees it."""

INPUTS = st.sampled_from([None, {}, {"command": "ls"}, {"command": "😀"}, [1], "x", 1.5, {"a": {"b": [None]}}])
USAGES = st.builds(
    up.Usage,
    input_tokens=st.none() | st.integers(-1, 10),
    output_tokens=st.none() | st.integers(0, 10),
    cost_usd=st.none() | st.floats(0, 1),
)
OPTIONS = st.builds(ev.Option, id=CALLS, label=CLEAN, kind=st.sampled_from(get_args(ev.OptionKind)))
STATUSES = st.sampled_from(["pending", "in_progress", "completed"])

UPDATES = st.one_of(
    *[
        st.builds(
            up.Text,
            kind=KINDS,
            mode=st.sampled_from(["delta", "delta", "snapshot", "final"]),
            text=TEXTS,
            place=PLACES,
            message=MESSAGES,
            lane=LANES,
            call_id=MAYBE_CALLS,
        )
    ]
    * 4,
    st.builds(up.RunStart, session_id=st.sampled_from([None, "s1", "s2"]), model=st.sampled_from([None, "m"])),
    st.builds(up.MessageStart, message=MESSAGES, lane=LANES),
    st.builds(
        up.MessageEnd,
        message=MESSAGES,
        lane=LANES,
        status=st.sampled_from([None, None, "ok", "superseded", "cut"]),
        stop_reason=st.sampled_from([None, "end_turn"]),
        abandoned_from=st.sampled_from([None, None, 0, 1]),
    ),
    st.builds(up.BlockStart, kind=KINDS, place=PLACES, message=MESSAGES, lane=LANES, call_id=MAYBE_CALLS, name=NAMES),
    st.builds(up.BlockEnd, place=PLACES, message=MESSAGES, lane=LANES, kind=st.none() | KINDS, call_id=MAYBE_CALLS),
    st.builds(
        up.ToolCall,
        call_id=CALLS,
        name=st.sampled_from(["Bash", "Read", ""]),
        input=INPUTS,
        place=PLACES,
        message=MESSAGES,
        lane=LANES,
    ),
    st.builds(
        up.ToolReturn,
        call_id=CALLS,
        text=CLEAN,
        is_error=st.booleans(),
        exit_code=st.sampled_from([None, 0, 3]),
        name=NAMES,
        lane=LANES,
    ),
    st.builds(up.Phase, phase=st.sampled_from(["commentary", "final"]), message=MESSAGES, lane=LANES),
    st.builds(up.RoundEnd, lane=LANES),
    st.builds(up.Plan, items=st.lists(st.builds(PlanItem, text=CLEAN, status=STATUSES), max_size=2), lane=LANES),
    st.builds(
        up.ModelUsage,
        usage=USAGES,
        model=st.sampled_from([None, "m"]),
        message=MESSAGES,
        lane=LANES,
        whole=st.booleans(),
    ),
    st.builds(
        up.Notice,
        code=st.sampled_from(["retry", "status", "error"]),
        text=CLEAN,
        level=st.sampled_from(["info", "error"]),
        lane=LANES,
    ),
    st.builds(
        up.Question,
        id=CALLS,
        text=CLEAN,
        ask=st.sampled_from(get_args(ev.Ask)),
        options=st.none() | st.lists(OPTIONS, max_size=3),
        blocking=st.booleans(),
        free_text=st.booleans(),
        title=st.none() | CLEAN,
    ),
    st.builds(up.Answer, id=CALLS, by=st.sampled_from(get_args(ev.AnsweredBy)), text=st.none() | CLEAN, lane=LANES),
    st.builds(up.Failure, reason=CLEAN),
    st.builds(
        up.Result,
        reply=st.none() | CLEAN,
        is_error=st.booleans(),
        reason=st.none() | CLEAN,
        session_id=st.sampled_from([None, "s1"]),
        usage=st.none() | USAGES,
        cancelled=st.booleans(),
        stop_reason=st.sampled_from([None, "end_turn", "max_tokens"]),
    ),
    st.builds(up.Unknown, wire_type=st.sampled_from([None, "new"]), text=st.none() | CLEAN, lane=LANES),
)

EXITS = st.none() | st.builds(
    Exit,
    code=st.sampled_from([None, 0, 1]),
    signal=st.sampled_from([None, 15]),
    cancelled=st.booleans(),
    timed_out=st.booleans(),
)

TRAITS = {
    "plain": up.Traits(),
    "block_ends": up.Traits(block_ends=True),
    "finals": up.Traits(block_ends=True, finals=True),
    "only_finals": up.Traits(finals=True),
    "repair_snapshots": up.Traits(block_ends=True, repair_snapshots=True),
    "regular_end": up.Traits(regular_end=True),
}

FEW = examples(40, 120)


def run(traits: up.Traits, updates: list[up.Update], exit: Exit | None = None) -> list[Event]:
    """The events of a normalizer that is given `updates` and closed, twice."""
    normalizer = Normalizer("test", traits)
    for update in updates:
        normalizer.apply(update)
    normalizer.close(exit)
    events = normalizer.drain()
    normalizer.close(exit)
    for update in updates[:3]:
        normalizer.apply(update)
    assert normalizer.drain() == [], "there are events after the end"
    return events


@pytest.mark.parametrize("traits", TRAITS.values(), ids=TRAITS)
@given(updates=st.lists(UPDATES, max_size=30), exit=EXITS)
@FEW
def test_the_judge_accepts_all(traits: up.Traits, updates: list[up.Update], exit: Exit | None) -> None:
    """No exception, no violation, one end, and every event can be written and read again."""
    events = run(traits, updates, exit)
    assert verify(events) == []
    assert [type(event) for event in events].count(RunEnded) == 1
    lines = encode(events).split(b"\n")[:-1]
    assert [decode(line) for line in lines] == [decode(encode([event]).rstrip(b"\n")) for event in events]


@pytest.mark.parametrize("traits", TRAITS.values(), ids=TRAITS)
@given(updates=st.lists(UPDATES, max_size=20), after=st.lists(UPDATES, max_size=5))
@FEW
def test_what_was_said_stands(traits: up.Traits, updates: list[up.Update], after: list[up.Update]) -> None:
    """Later updates change nothing in the events that were already given."""
    normalizer = Normalizer("test", traits)
    for update in updates:
        normalizer.apply(update)
    events = normalizer.drain()
    before = encode(events)
    for update in after:
        normalizer.apply(update)
    normalizer.close()
    assert encode(events) == before
    assert encode(events + normalizer.drain()).startswith(before)


def one_block(traits: up.Traits, updates: list[up.Update]) -> tuple[str, bool]:
    """The text of the only block that `updates` make, and whether it was revised."""
    events = run(traits, updates)
    assert verify(events) == []
    told = [event for event in events if isinstance(event, BlockEnded | BlockRevised)]
    assert len([event for event in told if isinstance(event, BlockEnded)]) == bool(told)
    return told[-1].text if told else "", any(isinstance(event, BlockRevised) for event in told)


@given(pieces=st.lists(st.text(max_size=6), min_size=1, max_size=12))
@FEW
def test_growing_snapshots_come_out_as_the_last(pieces: list[str]) -> None:
    """Snapshots that only grow need no revision."""
    texts = ["".join(pieces[: end + 1]) for end in range(len(pieces))]
    text, revised = one_block(up.Traits(), [up.Text("text", "snapshot", text, place=0) for text in texts])
    assert (text, revised) == (texts[-1], False)


@given(
    texts=st.lists(st.text(alphabet="ab", max_size=5), min_size=1, max_size=8), final=st.text(alphabet="ab", max_size=5)
)
@FEW
def test_any_snapshots_come_out_as_the_final(texts: list[str], final: str) -> None:
    """Whatever the snapshots were, the final is the truth."""
    updates: list[up.Update] = [up.MessageStart("m")]
    updates += [up.Text("text", "snapshot", text, place=0, message="m") for text in texts]
    updates += [up.Text("text", "final", final, place=0, message="m"), up.MessageEnd("m")]
    if not final and not any(texts):
        return
    assert one_block(up.Traits(block_ends=True, finals=True), updates)[0] == final


@given(sent=st.text(alphabet="ab ", min_size=1, max_size=8), final=st.text(alphabet="ab ", min_size=1, max_size=8))
@FEW
def test_a_different_final_revises(sent: str, final: str) -> None:
    """A final that goes on adds, one that differs revises, an equal one is silent."""
    updates = [up.Text("text", "delta", char, place=0) for char in sent] + [up.Text("text", "final", final, place=0)]
    text, revised = one_block(up.Traits(block_ends=True, finals=True), list(updates))
    assert text == final
    assert revised == (not final.startswith(sent))


@given(sent=st.text(alphabet="ab ", min_size=1, max_size=8), final=st.text(alphabet="ab ", min_size=1, max_size=8))
@FEW
def test_a_late_final_revises(sent: str, final: str) -> None:
    """A final after its block has ended is silent if equal, else a late revision."""
    updates: list[up.Update] = [up.MessageStart("m"), up.Text("text", "delta", sent, place=0), up.BlockEnd(place=0)]
    updates.append(up.Text("text", "final", final, place=0, message="m"))
    text, revised = one_block(up.Traits(block_ends=True), updates)
    assert (text, revised) == (final, final != sent)


def test_two_messages_may_say_the_same() -> None:
    """Equal texts of two messages are two texts."""
    updates: list[up.Update] = []
    for message in ("m1", "m2"):
        updates += [up.MessageStart(message), up.Text("text", "delta", "Done.", place=0, message=message)]
        updates += [up.Text("text", "final", "Done.", place=0, message=message), up.MessageEnd(message)]
    events = run(up.Traits(block_ends=True, finals=True), updates)
    assert [event.text for event in events if isinstance(event, Delta)] == ["Done.", "Done."]
    assert len([event for event in events if isinstance(event, BlockStarted)]) == 2
    assert isinstance(events[-1], RunEnded)
    assert events[-1].reply == "Done.\n\nDone."


def test_surrogate_halves_meet_across_deltas() -> None:
    """Two halves become one character, a lone one U+FFFD."""
    updates: list[up.Update] = [
        up.Text("text", "delta", text, place=0)
        for text in ("a\ud83d", "", "\ude00b", "\ud83d", "c", "\ude00", "\ud83d")
    ]
    assert one_block(up.Traits(), updates) == ("a😀b\ufffdc\ufffd\ufffd", False)
