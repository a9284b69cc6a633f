"""Formats of many agents and libraries that have no adapter here, as their public documents describe them.

Each file of `unseen` says the same in its own way: perhaps "I will look.", a call of a tool whose result is
"file list of things", and at last the reply. They were written by hand.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from penstock import events as ev
from penstock.stream import Stream
from penstock.testing.verify import verify

FILES = sorted((Path(__file__).parent / "unseen").glob("*.ndjson"))
FIRST, REPLY, PRINTED = "I will look.", "It is done: two files.", "file list of things"
Line = dict[str, Any]


def read(data: bytes) -> list[ev.Event]:
    """The events of a stream, which keep the contract."""
    stream = Stream("generic")
    events = stream.feed(data) + stream.close()
    assert verify(events) == []
    assert stream.health.adapter_errors == 0
    return events


def lines(*values: Line) -> bytes:
    """Values as lines."""
    return b"".join(msgspec.json.encode(value) + b"\n" for value in values)


def said(events: list[ev.Event], kind: str = "text") -> list[str]:
    """What the blocks of a kind say."""
    return [each.text.strip() for each in events if isinstance(each, ev.BlockEnded) and each.kind == kind]


def end(events: list[ev.Event]) -> ev.RunEnded:
    """The last event."""
    assert isinstance(events[-1], ev.RunEnded)
    return events[-1]


RECORDINGS = Path(__file__).parents[1] / "recordings"
OWN_WORDS = {"goose/err400", "goose/err401", "goose/errstream", "goose/killed_sigterm"}
"""Recordings that only the agent's own reader understands: an error as a text of the model, a stream without an end."""
YOUNGER = sorted(
    path
    for agent in ("kilo", "kimi", "droid", "goose")
    for path in (RECORDINGS / agent).glob("*/input.ndjson")
    if f"{agent}/{path.parent.name}" not in OWN_WORDS
)


@pytest.mark.parametrize("path", YOUNGER, ids=lambda path: f"{path.parts[-3]}/{path.parts[-2]}")
def test_a_real_stream_needs_no_adapter(path: Path) -> None:
    """The generic reader has the reply, the outcome, the calls, and no change of a call that did not succeed."""
    expected = msgspec.json.decode(path.with_name("expected.json").read_bytes())
    events = read(path.read_bytes())
    assert (end(events).reply.strip(), end(events).outcome) == (expected["reply"].strip(), expected["outcome"])
    assert sum(isinstance(event, ev.ToolCalled) for event in events) == len(expected["calls"])
    made = [change for event in events if isinstance(event, ev.ToolReturned) for change in event.changes or ()]
    wanted = 0 if path.parts[-3] == "kimi" else {"edit": 3, "tools": 1}.get(path.parts[-2], 0)  # kimi flags no failure
    assert len(made) == wanted


class Foreign(NamedTuple):
    """What a stream of a program without an adapter says."""

    reply: str
    calls: int = 0
    failed: int = 0
    made: int = 0
    """Changes of files by calls that are said to have succeeded."""


DONE, FAILS = "All done: `notes.txt` has two lines. FINAL-REPLY.", "The command failed with status 3. FINAL-REPLY."
FOREIGN = {
    "vibe-tools": Foreign(DONE, 2, made=1),
    "vibe-toolerror": Foreign(FAILS, 1, failed=1),
    "grok-tools": Foreign(DONE, 2),
    "grok-toolerror": Foreign(FAILS, 1),
    "grok-edits": Foreign("All is edited. FINAL-REPLY.", 5),
    "grok-err401": Foreign("Sorry, I encountered an error: Grok API error: 401 This key is not good enough."),
    "continue-tools": Foreign(DONE),
    "continue-toolerror": Foreign(FAILS),
}
"""Output of the real programs, in `foreign`: mistral-vibe 3.0.2 (its plain command), grok-cli 0.0.34, continue 1.5.47.

grok reports no failure of a call, and an error of the provider as the answer of the model.
"""


@pytest.mark.parametrize("name", FOREIGN)
def test_a_real_stream_of_a_foreign_program(name: str) -> None:
    """The reply, each call once, its failure if it is reported, and no change that nothing proves."""
    events = read((Path(__file__).parent / "foreign" / f"{name}.ndjson").read_bytes())
    called = [event for event in events if isinstance(event, ev.ToolCalled)]
    returned = [event for event in events if isinstance(event, ev.ToolReturned)]
    made = [change for event in returned for change in event.changes or ()]
    assert end(events).outcome == "ok"
    found = Foreign(end(events).reply, len(called), sum(event.is_error for event in returned), len(made))
    assert found == FOREIGN[name]
    assert {event.call_id for event in called} == {event.call_id for event in returned}
    assert not [event for event in events if isinstance(event, ev.Unknown | ev.Malformed)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_reply_is_read_once_and_live(path: Path) -> None:
    """The reply, the text before it, and nothing of the tool's or the user's."""
    data = path.read_bytes()
    events = read(data)
    assert (end(events).outcome, end(events).reply.strip()) == ("ok", REPLY)
    texts, thoughts = said(events), said(events, "thinking")
    assert texts[-1] == REPLY
    assert set(texts[:-1] + thoughts) <= {FIRST, "hm", "hm so"}
    assert (FIRST in texts + thoughts) is (b"will" in data)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_call_has_its_result(path: Path) -> None:
    """Where there is a tool, its call is shown, and its result belongs to it."""
    data = path.read_bytes()
    events = read(data)
    calls = [each.call_id for each in events if isinstance(each, ev.ToolCalled)]
    returns = {each.call_id: each.text for each in events if isinstance(each, ev.ToolReturned) and each.complete}
    if PRINTED.encode() in data and path.stem != "warp-oz":  # which gives no id to either
        assert calls
        assert PRINTED in returns[calls[0]]


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        ("SUCCESS", "ok"),
        ("OK", "ok"),
        ("completed", "ok"),
        ("Done", "ok"),
        ("ERROR", "error"),
        ("FAILURE", "error"),
        ("failed", "error"),
        ("TIMEOUT", "error"),
        ("CANCELLED", "cancelled"),
        ("aborted", "cancelled"),
    ],
)
@pytest.mark.parametrize("streamed", [True, False])
def test_a_status_word_is_the_outcome(status: str, outcome: str, streamed: bool) -> None:
    """Whatever its case; what the agent said before it failed is kept, and said once."""
    piece = {"event": "step_update", "step_update": {"text_delta": "Half of it.", "step_type": "agent_response"}}
    result = {"event": "result", "result": {"response": "Half of it.", "status": status}}
    events = read(lines(*[piece][:streamed], result))
    assert (end(events).outcome, end(events).reply) == (outcome, "Half of it.")
    assert said(events) == ["Half of it."]


def test_why_a_run_failed_is_no_text_of_the_models() -> None:
    """Unless the failed result calls it a response."""
    events = read(lines({"type": "result", "is_error": True, "result": "Rate limit"}))
    assert (end(events).outcome, end(events).reason, said(events)) == ("error", "Rate limit", [])
    events = read(lines({"event": "result", "result": {"response": "Half.", "status": "ERROR", "error": "Quota"}}))
    assert (end(events).outcome, end(events).reason, said(events)) == ("error", "Quota", ["Half."])


def test_what_is_said_again_under_another_name_is_said_once() -> None:
    """In pieces and then whole; whole under two names; and in the result."""
    pieces = [{"type": "text_delta", "text": piece} for piece in ("It is done:", " two files.")]
    whole, again = {"type": "assistant_message", "text": REPLY}, {"type": "note", "text": REPLY}
    result = {"type": "result", "response": REPLY}
    assert said(read(lines(*pieces, {"type": "message_stop"}, whole, again, result))) == [REPLY]


@pytest.mark.parametrize("name", ["completion", "result", "done"])
@pytest.mark.parametrize("last", ["two files.", "It is done: two files.", " two files.\n"])
def test_an_end_that_repeats_the_last_piece_adds_nothing(name: str, last: str) -> None:
    """The end of a run has the whole of a text that came in pieces, or its last piece alone; other words are new."""
    pieces = [{"type": "message", "text": piece} for piece in ("It is done: ", "two files.")]
    events = read(lines(*pieces, {"type": name, "finalText": last}))
    assert (said(events), end(events).reply) == ([REPLY], REPLY)
    events = read(lines(*pieces, {"type": name, "finalText": REPLY + " And one more."}))
    assert end(events).reply == REPLY + " And one more."


def test_a_text_that_only_seems_whole_replaces_none() -> None:
    """One of the same name goes on what was begun; one of another name is a text of its own."""
    events = read(lines({"type": "out", "text": "It is done: "}, {"type": "out", "text": "two files."}))
    assert said(events) == [REPLY]
    events = read(lines({"type": "text_delta", "text": "It is don"}, {"type": "remark", "text": "A new thought."}))
    assert said(events) == ["It is don", "A new thought."]
    assert not [each for each in events if isinstance(each, ev.BlockRevised)]


def test_a_long_text_that_begins_again_is_not_cut() -> None:
    """Pieces of one name that look whole, and a text too long to be compared, are all kept."""
    sentences = [
        f"Sentence {number} has enough words to look like a whole message of its own. " for number in (1, 2, 3)
    ]
    pieces = [
        "It begins, ",
        *sentences,
        sentences[0],
        "It begins, " + sentences[1],
        *["y" * 70_000 + ". "] * 5,
        sentences[2],
    ]
    events = read(lines(*({"type": "out", "text": piece} for piece in pieces)))
    assert "".join(said(events)).replace("\n", "") == "".join(pieces).strip()


def test_pieces_of_an_input_are_no_text() -> None:
    """Whatever they are called."""
    for key in ("input_json_delta", "arguments_delta", "inputTextDelta", "partial_json", "tool_input_delta"):
        events = read(lines({"type": "x", key: '{"path": "a b c'}, {"type": "x", "text_delta": REPLY}))
        assert said(events) == [REPLY]


def test_text_that_no_rule_finds_is_shown_before_a_bare_end() -> None:
    """Never "empty"; with the reason in words."""
    for last in ({"type": "result", "status": "ok"}, {"type": "ping"}):
        events = read(
            lines({"kind": "x", "foo": {"bar": [{"baz": "It is done:"}]}}, {"kind": "x", "qux": "Two files."}, last)
        )
        assert (end(events).outcome, end(events).reply) == ("ok", "It is done:\nTwo files.")
        told = [each.text for each in events if isinstance(each, ev.Notice) and each.code == "decision"]
        assert told == ["no field of a known name had text: what looks like prose is shown as it is"]


def test_what_is_no_prose_is_no_reply() -> None:
    """Ids, states, paths and errors of an agent that said nothing."""
    values = (
        {"kind": "x", "id": "a1-b2", "phase": "starting", "at": "/tmp/a b/c.txt"},
        {"kind": "x", "os": "Linux 6.1"},
    )
    assert end(read(lines(*values))).reply == ""
    assert end(read(lines({"type": "error", "message": "It went wrong here."}))).reply == ""
