"""Chunks: new text only, and exactly one final chunk with what was missing."""

from __future__ import annotations

import json

import pytest

from penstock.events import (
    BlockRevised,
    BlockStarted,
    Delta,
    Event,
    MessageEnded,
    MessageStarted,
    RunEnded,
    ToolReturned,
)
from penstock.sinks.chunks import ChunksSink, StreamChunk, not_put_out


def said(block: int, message: int, *texts: str, kind: str = "text", parent: str | None = None) -> list[Event]:
    """A block of a message, in deltas."""
    start = BlockStarted(agent="a", block=block, kind=kind, message=message, parent=parent)  # type: ignore[arg-type]
    deltas = [Delta(agent="a", block=block, kind=kind, text=text, parent=parent) for text in texts]  # type: ignore[arg-type]
    return [start, *deltas]


def ended(reply: str) -> list[Event]:
    """The end of a run."""
    return [RunEnded(agent="a", outcome="ok", reply=reply, rounds=1, session_id="s1")]


RETURNED: Event = ToolReturned(agent="a", call_id="c", text="", is_error=False, complete=True)


@pytest.mark.parametrize(
    ("texts", "before", "reply", "rest"),
    [
        ([], 0, "", ""),
        ([], 0, "whole", "whole"),
        (["whole"], 0, "whole", ""),
        (["who"], 0, "whole", "le"),
        (["one", "two"], 0, "one\n\ntwo", ""),
        (["one", "two"], 0, "onetwo", ""),
        (["one", "two"], 0, "one\n\ntwo and", " and"),
        (["I look.", "Done."], 1, "Done.", ""),
        (["I look.", "Done"], 1, "Done.", "."),
        (["I look."], 1, "I am done.", "I am done."),
        (["wrong text"], 0, "wrote text", "te text"),
        (["shown"], 0, "", ""),
    ],
)
def test_what_was_not_put_out(texts: list[str], before: int, reply: str, rest: str) -> None:
    """The final chunk carries the rest of the reply, or all after the first difference."""
    assert not_put_out(texts, reply, before) == rest


def test_a_run_with_a_tool() -> None:
    """Text of all rounds comes as it is said; the reply is the last round's, and nothing is repeated."""
    events = [*said(1, 1, "I ", "look."), RETURNED, *said(2, 2, "Done", "."), *ended("Done.")]
    assert ChunksSink().chunks(events) == [
        StreamChunk("I "),
        StreamChunk("look."),
        StreamChunk("Done"),
        StreamChunk("."),
        StreamChunk("", None, True, "s1", "Done."),
    ]


def test_thinking_tools_and_sub_agents() -> None:
    """Thinking has its own field; tool input and what sub-agents say is no text of the reply."""
    events = [
        *said(1, 1, "hm", kind="thinking"),
        *said(2, 1, "{}", kind="tool_input"),
        *said(3, 1, "aside", parent="call"),
        *said(4, 1, "yes"),
        *ended("yes"),
    ]
    assert ChunksSink().chunks(events) == [
        StreamChunk(thinking="hm"),
        StreamChunk("yes"),
        StreamChunk("", None, True, "s1", "yes"),
    ]


def test_an_attempt_that_was_given_up_is_no_part_of_the_reply() -> None:
    """What a superseded message said does not count as put out."""
    events = [
        MessageStarted(agent="a", message=1),
        *said(1, 1, "The ans"),
        MessageEnded(agent="a", message=1, status="superseded"),
        *said(2, 2, "The"),
        *ended("The answer"),
    ]
    assert [chunk.text for chunk in ChunksSink().chunks(events)] == ["The ans", "The", " answer"]


def test_a_revised_text_ends_in_the_final_chunk() -> None:
    """What a stream cannot take back is followed by the right text from the first difference on."""
    revised = BlockRevised(agent="a", block=1, kind="text", text="4 apples")
    events = [*said(1, 1, "4 pears"), revised, *ended("4 apples")]
    assert [chunk.text for chunk in ChunksSink().chunks(events)] == ["4 pears", "apples"]


def test_how_chunks_are_written() -> None:
    """`text` and `is_final` are in every line, the other fields only where they say something."""
    sink = ChunksSink()
    lines = sink.render([*said(1, 1, "hm", kind="thinking"), *said(2, 1, "yes"), *ended("yes")]) + sink.close()
    assert [json.loads(line) for line in lines.splitlines()] == [
        {"text": "", "thinking": "hm", "is_final": False},
        {"text": "yes", "is_final": False},
        {"text": "", "is_final": True, "session_id": "s1", "reply": "yes"},
    ]
