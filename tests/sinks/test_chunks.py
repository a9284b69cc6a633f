"""Chunks: new text only, and exactly one final chunk with what was missing."""

from __future__ import annotations

import json

import pytest

from penstock.events import (
    BlockEnded,
    BlockRevised,
    BlockStarted,
    Delta,
    Event,
    MessageEnded,
    MessageStarted,
    RunEnded,
    ToolReturned,
)
from penstock.sinks.chunks import ChunksSink, StreamChunk


def said(block: int, message: int, *texts: str, kind: str = "text", parent: str | None = None) -> list[Event]:
    """A block of a message, in deltas."""
    start = BlockStarted(agent="a", block=block, kind=kind, message=message, parent=parent)  # type: ignore[arg-type]
    deltas = [Delta(agent="a", block=block, kind=kind, text=text, parent=parent) for text in texts]  # type: ignore[arg-type]
    return [start, *deltas]


def done(block: int, text: str) -> Event:
    """The end of a block of text."""
    return BlockEnded(agent="a", block=block, kind="text", text=text, complete=True)


def ended(reply: str) -> list[Event]:
    """The end of a run."""
    return [RunEnded(agent="a", outcome="ok", reply=reply, rounds=1, session_id="s1")]


RETURNED: Event = ToolReturned(agent="a", call_id="c", text="", is_error=False, complete=True)


def test_a_run_with_a_tool() -> None:
    """Text of all rounds comes as it is said, messages apart; of the reply, the last round's, nothing is repeated."""
    events = [*said(1, 1, "I ", "look."), RETURNED, *said(2, 2, "Done", "."), done(2, "Done."), *ended("Done.")]
    assert ChunksSink().chunks(events) == [
        StreamChunk("I ", message=1),
        StreamChunk("look.", message=1),
        StreamChunk("\n\n", message=2),
        StreamChunk("Done", message=2),
        StreamChunk(".", message=2),
        StreamChunk("", None, True, "s1", "Done.", outcome="ok"),
    ]


def test_thinking_tools_and_sub_agents() -> None:
    """Thinking has its own field; tool input and what sub-agents say is no text of the reply."""
    events = [
        *said(1, 1, "hm", kind="thinking"),
        *said(2, 1, "{}", kind="tool_input"),
        *said(3, 1, "aside", parent="call"),
        *said(4, 1, "yes"),
        done(4, "yes"),
        *ended("yes"),
    ]
    assert ChunksSink().chunks(events) == [
        StreamChunk(thinking="hm", message=1),
        StreamChunk("yes", message=1),
        StreamChunk("", None, True, "s1", "yes", outcome="ok"),
    ]


def test_an_attempt_that_was_given_up_is_no_part_of_the_reply() -> None:
    """What a superseded message said does not count as put out."""
    events = [
        MessageStarted(agent="a", message=1),
        *said(1, 1, "The ans"),
        MessageEnded(agent="a", message=1, status="superseded"),
        *said(2, 2, "The"),
        done(2, "The"),
        *ended("The answer"),
    ]
    assert [chunk.text for chunk in ChunksSink().chunks(events)] == [
        "The ans",
        "\n\n",
        "The",
        " answer",
    ]


def test_a_revised_text_ends_in_the_final_chunk() -> None:
    """What a stream cannot take back is followed by the right text from the first difference on."""
    revised = BlockRevised(agent="a", block=1, kind="text", text="4 apples")
    end = BlockEnded(agent="a", block=1, kind="text", text="4 apples", complete=True)
    events = [*said(1, 1, "4 pears"), revised, end, *said(2, 2, "Bye"), done(2, "Bye"), *ended("4 apples\n\nBye")]
    assert [chunk.text for chunk in ChunksSink().chunks(events)] == ["4 pears", "\n\n", "Bye", "apples\n\nBye"]


def test_blocks_of_one_message_are_joined_as_they_are() -> None:
    """Inside a message nothing is added; thinking and a sub-agent between two messages make no second blank line."""
    events = [
        *said(1, 1, "one "),
        done(1, "one "),
        *said(2, 1, "two"),
        done(2, "two"),
        *said(3, 2, "hm", kind="thinking"),
        *said(4, 9, "aside", parent="call"),
        *said(5, 3, "three"),
        done(5, "three"),
        *ended("one two\n\nthree"),
    ]
    assert [chunk.text for chunk in ChunksSink().chunks(events)] == ["one ", "two", "", "\n\n", "three", ""]


@pytest.mark.parametrize("known", ["m", None])
def test_a_message_that_is_opened_again_is_one(known: str | None) -> None:
    """By its id, as in the reply; it may become known only at the end."""
    events = [
        MessageStarted(agent="a", message=1, message_id=known),
        *said(1, 1, "one "),
        done(1, "one "),
        MessageEnded(agent="a", message=1, status="ok", message_id="m"),
        MessageStarted(agent="a", message=2, message_id="m"),
        *said(2, 2, "two"),
        done(2, "two"),
        *ended("one two"),
    ]
    assert [chunk.text for chunk in ChunksSink().chunks(events)] == ["one ", "two", ""]


def test_the_reason_of_a_failure_is_in_the_final_chunk() -> None:
    """With the outcome, and with what there is of the reply."""
    end = RunEnded(agent="a", outcome="error", reply="half", rounds=1, reason="the model is at capacity")
    *_, final = ChunksSink().chunks([*said(1, 1, "half"), done(1, "half"), end])
    assert final == StreamChunk("", None, True, None, "half", outcome="error", reason="the model is at capacity")


def test_one_sink_may_be_given_one_run_after_another() -> None:
    """Nothing of the run before is in the next one."""
    events = [*said(1, 1, "a"), done(1, "a"), *ended("a")]
    sink = ChunksSink()
    assert sink.chunks(events) == sink.chunks(events)


def test_how_chunks_are_written() -> None:
    """`text` and `is_final` are in every line, the other fields only where they say something."""
    sink = ChunksSink()
    lines = (
        sink.render([*said(1, 1, "hm", kind="thinking"), *said(2, 1, "yes"), done(2, "yes"), *ended("yes")])
        + sink.close()
    )
    assert [json.loads(line) for line in lines.splitlines()] == [
        {"text": "", "thinking": "hm", "is_final": False, "message": 1},
        {"text": "yes", "is_final": False, "message": 1},
        {"text": "", "is_final": True, "session_id": "s1", "reply": "yes", "outcome": "ok"},
    ]
