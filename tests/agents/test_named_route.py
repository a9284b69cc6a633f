"""A stream of a named agent: the route is found by its signs, and a stream of something else is an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.events import Event, RunEnded, Unknown
from penstock.stream import Stream
from penstock.testing import feeds

RECORDINGS = Path(__file__).parents[1] / "recordings"
REPLY = "All done: `notes.txt` has two lines. FINAL-REPLY."


def end_of(events: list[Event]) -> RunEnded:
    """The last event."""
    end = events[-1]
    assert isinstance(end, RunEnded)
    return end


@pytest.mark.parametrize(
    ("agent", "folder"),
    [
        ("codex", "codex-server/approval_allow"),
        ("codex", "acp/codex-tools"),
        ("codex", "codex/tools"),
        ("claude", "acp/claude-tools"),
        ("claude", "claude-server/deny"),
        ("gemini", "acp/gemini-tools"),
        ("copilot", "acp/copilot-tools"),
        ("qwen", "acp/qwen-tools"),
    ],
)
def test_the_route_of_a_named_agent_is_found(agent: str, folder: str) -> None:
    """Fed whole or byte by byte; lines of plain text may come before."""
    data = (RECORDINGS / folder / "input.ndjson").read_bytes()
    named, found = Stream(agent, label="x"), Stream(label="x")
    events = feeds.whole(named, b"warning: a line of text\n" + data)
    assert end_of(events).outcome == end_of(feeds.whole(found, data)).outcome == "ok"
    assert named.health.unknown_kinds == {}
    head = data[:20_000].rpartition(b"\n")[0] + b"\n"
    single, whole = Stream(agent), Stream(agent)
    assert [*feeds.chunked(single, head, [1])] == [*feeds.whole(whole, head)]


@pytest.mark.parametrize(
    ("agent", "line", "words"),
    [
        ("gemini", '{"type":"thread.started","thread_id":"t"}', "it looks like codex"),
        ("pi", '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s"}}', "it looks like acp"),
        ("claude", '{"a":1,"b":2}', "this is JSON, but not a stream of events"),
    ],
)
def test_a_stream_of_something_else_is_an_error(agent: str, line: str, words: str) -> None:
    """The reason says what the stream looks like."""
    end = end_of(feeds.whole(Stream(agent), f"{line}\n{line}\n".encode()))
    assert end.outcome == "error"
    assert f"no line of this stream is of {agent}" in str(end.reason)
    assert words in str(end.reason)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ('{"method":"thread/new","params":{}}', "thread/new"),
        ('{"type":"odd"}', "odd"),
        ('{"id":7,"result":{}}', "answer"),
        ('{"one":1,"two":2}', "{one, two}"),
        ("[1]", "list"),
    ],
)
def test_an_unknown_kind_has_a_name(line: str, kind: str) -> None:
    """In the event and in the counters."""
    stream = Stream("codex")
    events = feeds.whole(stream, line.encode() + b"\n")
    assert [event.wire_type for event in events if isinstance(event, Unknown)] == [kind]
    assert stream.health.unknown_kinds == {kind: 1}
