"""Texts: the block that each belongs to, and what is new in it."""

from __future__ import annotations

import pytest
from normalized import names, of_type, run_of, text, texts

from penstock import updates as up
from penstock.core.normalizer.snapshots import MIN_REPEAT_CHARS
from penstock.events import BlockEnded, BlockRevised, BlockStarted, Delta, Event, MessageEnded, ToolCalled

BLOCK_ENDS = up.Traits(block_ends=True)
FINALS = up.Traits(block_ends=True, finals=True)
REPAIRS = up.Traits(repair_snapshots=True)
LONG = "A sentence that is long enough. " * 3
assert len(LONG) >= MIN_REPEAT_CHARS


def given(words: str, call_id: str | None = "c1", mode: up.Mode = "delta", place: up.Place = None) -> up.Text:
    """Text of a call's input."""
    return up.Text("tool_input", mode, words, place, call_id=call_id)


def output(words: str, call_id: str | None = "c1", mode: up.Mode = "delta") -> up.Text:
    """Text of a call's output."""
    return up.Text("tool_output", mode, words, call_id=call_id)


def deltas(events: list[Event]) -> list[str]:
    """The texts as they were emitted."""
    return [event.text for event in of_type(events, Delta)]


# --- calls -----------------------------------------------------------------------------------------


def test_output_streams_between_call_and_result() -> None:
    """Output of a call waits for the call, even if it has ended by then, and comes before the result."""
    events = run_of(
        output("a"), output("", "c2"), output("ab", mode="final"), output("late"), output("nobody's", None),
        up.ToolCall("c1", "Bash", {"command": "ls"}), up.ToolCall("c2", "Bash"), up.ToolReturn("c1"), output("after"),
    )  # fmt: skip
    assert [(event.kind, event.text) for event in of_type(events, BlockEnded) if event.kind == "tool_output"] == [
        ("tool_output", "ab")
    ]
    order = [name for name in names(events) if name in ("ToolCalled", "BlockStarted", "ToolReturned")]
    assert order[:4] == ["BlockStarted", "ToolCalled", "BlockStarted", "BlockStarted"]


def test_input_of_a_call_that_was_made_is_known() -> None:
    """Input that is streamed again after its call makes no block."""
    call = up.ToolCall("c1", "Bash", {"command": "ls"})
    events = run_of(call, given('{"command":"ls"}'), up.BlockStart("tool_input", 0, call_id="c1"), given("{", place=0))
    assert texts(events) == ['{"command":"ls"}']
    assert len(of_type(events, ToolCalled)) == 1


def test_deltas_of_a_repeated_input_are_known() -> None:
    """Input without an id, at the place where a call that was made is announced again, makes no block."""
    call = up.ToolCall("c1", "Bash", {"command": "ls"})
    again = up.BlockStart("tool_input", 5, call_id="c1")
    events = run_of(up.MessageStart("m1"), call, again, given("{", None, place=5), traits=BLOCK_ENDS)
    assert texts(events) == ['{"command":"ls"}']


def test_input_that_ended_is_known() -> None:
    """Input of a call whose block has ended is not emitted again."""
    begin = up.BlockStart("tool_input", 0, call_id="c1", name="Bash")
    events = run_of(begin, given("{}", place=0), up.BlockEnd(0), given("{}", place=0), traits=BLOCK_ENDS)
    assert texts(events) == ["{}"]


def test_input_after_the_first_output_of_its_call() -> None:
    """A call that is known by its output alone has the input that comes next."""
    events = run_of(output("x"), given('{"a":1}'), up.ToolCall("c1", "t", {"a": 1}), traits=BLOCK_ENDS)
    assert [event.kind for event in of_type(events, BlockEnded)] == ["tool_input", "tool_output"]


def test_a_call_that_is_announced_twice_is_one_block() -> None:
    """The input of a call has one block, however often it is announced; it starts once its name is there."""
    events = run_of(
        up.BlockStart("tool_input", 0, call_id="c1"),
        given("{", place=0),
        up.BlockStart("tool_input", 0, call_id="c1", name="Bash"),
        up.BlockStart("tool_input", 0, call_id="c1", name="Bash"),
        given("}", place=0),
        traits=BLOCK_ENDS,
    )
    assert [(event.kind, event.name) for event in of_type(events, BlockStarted)] == [("tool_input", "Bash")]
    assert deltas(events) == ["{", "}"]


def test_a_name_that_comes_after_the_end() -> None:
    """The name of a call whose input had no text and has ended starts no block."""
    events = run_of(
        up.BlockStart("tool_input", 0, call_id="c1"),
        up.BlockEnd(0),
        up.BlockStart("tool_input", 0, call_id="c1", name="Bash"),
        traits=BLOCK_ENDS,
    )
    assert of_type(events, BlockStarted) == []


def test_input_that_is_replaced_before_its_name_is_known() -> None:
    """A snapshot that differs from input of which nothing was emitted is no revision."""
    events = run_of(given('{"a":'), given('{"b":1}', mode="snapshot"), up.ToolCall("c1", "t", {"b": 1}))
    assert of_type(events, BlockRevised) == []
    assert texts(events) == ['{"b":1}']


def test_output_is_never_announced() -> None:
    """The start of a block of output, which starts with its text, is nothing by itself."""
    assert names(run_of(up.BlockStart("tool_output", call_id="c1"))) == ["RunEnded"]


# --- places and marks ------------------------------------------------------------------------------


def test_a_block_of_another_kind_at_the_same_place() -> None:
    """A text of another kind, or the input of another call, at a place that is in use has a block of its own."""
    events = run_of(
        text("a", place=0),
        up.Text("thinking", "delta", "b", 0),
        given("{}", "c1", place=1),
        given("[]", "c2", place=1),
        traits=BLOCK_ENDS,
    )
    assert [(event.kind, event.text) for event in of_type(events, BlockEnded)] == [
        ("text", "a"),
        ("thinking", "b"),
        ("tool_input", "{}"),
        ("tool_input", "[]"),
    ]


def test_a_block_at_a_place_that_is_in_use() -> None:
    """A block that begins where another one is open ends that one."""
    events = run_of(text("a", place=0), up.BlockStart("text", 0), text("b", place=0), traits=BLOCK_ENDS)
    assert texts(events) == ["a", "b"]


def test_a_block_that_begins_again_restarts_its_message() -> None:
    """On a wire with finals, a message that begins again is superseded once a block of it begins again."""
    start: list[up.Update] = [up.MessageStart("m1"), up.BlockStart("text", 0)]
    events = run_of(*start, text("a", place=0), *start, text("b", place=0), text("b", "final", 0), traits=FINALS)
    assert of_type(events, MessageEnded)[0].status == "superseded"
    events = run_of(*start, text("a", place=0), start[0], up.BlockStart("text", 1), traits=FINALS)
    assert len(of_type(events, MessageEnded)) == 1  # continued: its next block is a new one


@pytest.mark.parametrize(
    ("mark", "found"),
    [
        (up.BlockEnd(0), [True]),
        (up.BlockEnd(kind="text"), [True]),
        (up.BlockEnd(), [False]),
        (up.BlockEnd(7), [False]),
        (up.BlockEnd(lane="nobody"), [False]),
    ],
)
def test_the_end_of_a_block_is_found(mark: up.BlockEnd, found: list[bool]) -> None:
    """The wire ends a block by its place or by its kind; an end of nothing changes nothing."""
    events = run_of(up.MessageStart("m1"), text("a", place=0), mark, up.MessageEnd(status="cut"), traits=BLOCK_ENDS)
    assert [event.complete for event in of_type(events, BlockEnded)] == found


def test_a_block_waits_for_its_final() -> None:
    """On a wire with finals the mark of a block's end does not end it: its final does, or the message."""
    begun: list[up.Update] = [up.MessageStart("m1"), text("a", place=0), up.BlockEnd(0)]
    events = run_of(*begun, text("ab", "final", 0), up.MessageEnd(), traits=FINALS)
    assert [(event.text, event.complete) for event in of_type(events, BlockEnded)] == [("ab", True)]
    events = run_of(*begun, up.MessageEnd(status="cut"), traits=FINALS)
    assert [(event.text, event.complete) for event in of_type(events, BlockEnded)] == [("a", True)]


# --- snapshots -------------------------------------------------------------------------------------


def test_an_old_snapshot_of_an_ended_block_is_known() -> None:
    """A snapshot that says less than a block that has ended makes no block; one that says something else does."""
    begun: list[up.Update] = [text("one two", place=0), up.BlockEnd(0)]
    assert texts(run_of(*begun, text("one", "snapshot", 0), traits=BLOCK_ENDS)) == ["one two"]
    assert texts(run_of(*begun, text("three", "snapshot", 0), traits=BLOCK_ENDS)) == ["one two", "three"]
    assert texts(run_of(*begun, text("three", "delta", 0), traits=BLOCK_ENDS)) == ["one two", "three"]


def test_deltas_after_their_full_frame_are_known() -> None:
    """Where a proxy may send the full frame of a block first, its deltas are not emitted again."""
    frame = text(LONG, "final")
    pieces = [text(LONG[:20], place=0), text(LONG[20:], place=0)]
    assert texts(run_of(frame, up.BlockStart("text", 0), *pieces, traits=REPAIRS)) == [LONG]
    assert texts(run_of(frame, *pieces, traits=REPAIRS)) == [LONG]
    assert texts(run_of(*pieces, frame, frame, traits=REPAIRS)) == [LONG]


def test_a_character_is_whole() -> None:
    """Text with characters beyond ASCII is emitted as it comes, unless it ends with half of one."""
    assert deltas(run_of(text("é"), text("😀"))) == ["é", "😀"]


def test_deltas_that_are_snapshots_revise_their_block() -> None:
    """A delta that proves those before it to be snapshots replaces the text of its block."""
    events = run_of(*(text(words) for words in ("one two", "one two three", "one two three four")), traits=REPAIRS)
    assert texts(events) == ["one two three four"]
    assert len(of_type(events, BlockRevised)) == 1


def test_a_delta_that_is_a_snapshot_adds_its_end() -> None:
    """A delta that begins with the whole block adds what is new in it."""
    events = run_of(text("one two three"), text("one two three four"), traits=REPAIRS)
    assert deltas(events) == ["one two three", " four"]


def test_the_joined_deltas_of_a_repaired_block_are_known() -> None:
    """An agent that joins the snapshots that it received does not bring them back with its final."""
    pieces = ["one two three", "one two three four"]
    events = run_of(*map(text, pieces), text("".join(pieces), "final"), traits=REPAIRS)
    assert texts(events) == ["one two three four"]
    assert of_type(events, BlockRevised) == []
