"""Unknown kinds in the report on a stream, the names of lines, and texts that are taken back or joined."""

from __future__ import annotations

import msgspec
import pytest

from penstock import events as ev
from penstock import updates as up
from penstock.core.health import Health
from penstock.core.kind_names import MAX_BYTES, kind_name
from penstock.core.normalizer.normalizer import Normalizer
from penstock.core.unfamiliar import MAX_KINDS, Unfamiliar, is_suspect
from penstock.stream import Stream
from penstock.testing import feeds


def test_kinds_that_may_matter_are_named_in_a_warning() -> None:
    """At most a few by name, with the versions that are known; quiet ones are in the summary alone."""
    suspects = [Unfamiliar(f"system/retry_{number}", warns=True) for number in range(12)]
    warning = Health(drift=suspects, version="9.9", recorded=("1.0", "1.1")).warnings[0]
    assert "system/retry_0 (elsewhere)" in warning
    assert " more" in warning
    assert "version 9.9; recordings are of 1.0, 1.1" in warning
    assert "there are no recordings of it" in Health(drift=suspects[:1]).warnings[0]
    assert [is_suspect(name) for name in ("system/settled", "{version, event}", "{}")] == [False, True, False]
    quiet = Health(drift=[Unfamiliar("system/settled")])
    assert quiet.warnings == []
    assert "system/settled" in quiet.summary("claude")


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (b'{"type": "x"}', "x"),
        (b'{"id": 1, "result": {}}', "answer"),
        (b'{"a": 1, "b": 2}', "{a, b}"),
        (b"[1]", "list"),
        (b"{", "not JSON"),
        (b'"' + b"x" * MAX_BYTES + b'"', "a long line"),
    ],
)
def test_a_line_has_a_name(line: bytes, name: str) -> None:
    """Type, method or fields, whatever the line is."""
    assert kind_name(line) == name


def line(value: object) -> bytes:
    """Return a value as one line."""
    return msgspec.json.encode(value) + b"\n"


def test_kinds_are_bounded() -> None:
    """An agent that prints a new kind in each line fills no memory; a kind in a call is told as such."""
    call = {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "ls"}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": "x"}
    lines = [line({"type": "assistant", "message": {"id": "m", "role": "assistant", "content": [call]}})]
    lines += [line({"type": f"new_{number}"}) for number in range(MAX_KINDS + 5)]
    lines += [line({"type": "user", "message": {"role": "user", "content": [result]}})]
    stream = Stream("claude")
    feeds.whole(stream, b"".join(lines))
    assert len(stream.health.drift) == MAX_KINDS
    assert {it.place for it in stream.health.drift} == {"in a call"}


def delta(text: str, index: int) -> bytes:
    """Return a delta of claude."""
    inner = {"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": text}}
    return line({"type": "stream_event", "event": inner})


def test_joined_deltas_are_those_of_the_chunk() -> None:
    """The first delta of a block is an event of its own; those that follow are one, until another block or line."""
    start = line({"type": "stream_event", "event": {"type": "message_start", "message": {"id": "m"}}})
    stop = line({"type": "stream_event", "event": {"type": "content_block_stop", "index": 1}})
    ping = line({"type": "system", "subtype": "status", "status": "working"})
    first = start + delta("a", 0) + delta("b", 0) + delta("b", 0)
    second = delta("b", 0) + delta("c", 1) + ping + delta("d", 1) + delta("e", 1) + stop
    stream = Stream("claude")
    stream.joins_deltas = True
    events = [*stream.feed(first), *stream.feed(second), *stream.close()]
    texts = [event.text for event in events if isinstance(event, ev.Delta)]
    assert texts == ["a", "bb", "b", "c", "de"]


def test_an_attempt_that_ended_is_taken_back() -> None:
    """A retry takes the text before it out of the reply, in a sub-agent too; a second one changes nothing more."""
    retry = up.MessageEnd(status="superseded")
    normalizer = Normalizer("qwen", up.Traits())
    for update in (
        up.MessageStart("1"),
        up.Text("text", "delta", "Wrong", None, "1"),
        up.MessageEnd("1"),
        retry,
        retry,
    ):
        normalizer.apply(update)
    below = up.Text("text", "delta", "Wrong too", None, "2", "lane")
    for update in (up.MessageStart("2", "lane"), below, up.MessageEnd("2", "lane")):
        normalizer.apply(update)
    normalizer.apply(up.MessageEnd(lane="lane", status="superseded"))
    assert normalizer.health.superseded_attempts == 2
