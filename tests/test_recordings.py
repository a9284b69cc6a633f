"""Every folder of `tests/recordings` is read and compared with what its agent said. Adding one needs no code."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

import pytest
from effort import at_most

from penstock.events import (
    BlockEnded,
    BlockRevised,
    BlockStarted,
    Delta,
    Event,
    MessageEnded,
    RunEnded,
    ToolCalled,
    encode,
)
from penstock.sinks.text.sink import TextSink
from penstock.stream import Stream
from penstock.testing import feeds, verify
from penstock.testing.verify import verify_cut

if TYPE_CHECKING:
    from conftest import Recording

MAX_BYTEWISE = at_most(25_000, 300_000)
"""Bytes of the longest recording that is fed byte by byte; longer ones have the same lines, and more of them."""
MAX_CUT = 300_000
"""Bytes of the longest recording that is cut at more than two places."""
ODD_SIZES = [(3,), (4093, 1, 17), (65_536,)]


def read(recording: Recording) -> list[Event]:
    """The events of a recording, fed whole."""
    return feeds.whole(Stream(recording.agent), recording.data)


def blocks(events: list[Event], shorten: Callable[[str], Any]) -> list[list[Any]]:
    """Text and thinking of the top lane in order of appearance, without attempts that the agent gave up."""
    given_up = {event.message for event in events if isinstance(event, MessageEnded) and event.status == "superseded"}
    last: dict[int, str] = {}
    order: list[tuple[int, str]] = []
    for event in events:
        if isinstance(event, BlockStarted) and event.parent is None and event.kind in ("text", "thinking"):
            if event.message not in given_up:
                order.append((event.block, event.kind))
        elif isinstance(event, BlockEnded | BlockRevised):
            last[event.block] = event.text
    return [[kind, shorten(last[block])] for block, kind in order if last[block]]


def test_what_the_agent_said(recording: Recording, shorten: Callable[[str], Any]) -> None:
    """Blocks, tool calls, reply, outcome and session id are those of the wire, read by hand."""
    events = read(recording)
    expected = recording.expected
    assert blocks(events, shorten) == expected["blocks"]
    calls = [[event.name, event.input] for event in events if isinstance(event, ToolCalled) and event.parent is None]
    assert calls == expected["calls"]
    end = events[-1]
    assert isinstance(end, RunEnded)
    assert shorten(end.reply) == expected["reply"]
    assert end.outcome == expected["outcome"]
    assert end.session_id == expected.get("session_id")


def test_the_contract_holds(recording: Recording) -> None:
    """The judge finds nothing in the whole stream."""
    assert verify(read(recording)) == []


def test_every_line_is_understood(recording: Recording) -> None:
    """No line is unknown, malformed or read leniently, and no adapter fails."""
    stream = Stream(recording.agent)
    feeds.whole(stream, recording.data)
    health = stream.health
    assert health.unknown_kinds == {}
    assert (health.unknown_events, health.parse_errors, health.lenient_lines, health.adapter_errors) == (0, 0, 0, 0)
    assert health.lines == len([line for line in recording.data.split(b"\n") if line])
    assert health.bytes == len(recording.data)


@pytest.mark.sample(5)
def test_chunks_are_invisible(recording: Recording) -> None:
    """Byte by byte, or in odd pieces where that would take long, the events are those of the whole."""
    expected = encode(read(recording))
    for sizes in [(1,)] if len(recording.data) <= MAX_BYTEWISE else ODD_SIZES:
        assert encode(feeds.chunked(Stream(recording.agent), recording.data, sizes)) == expected


def test_joined_deltas_are_the_same_text(recording: Recording) -> None:
    """With fewer events the text of the log, the health and the rules of the contract are the same."""
    single, joined = Stream(recording.agent), Stream(recording.agent)
    joined.joins_deltas = True
    wanted, found = feeds.whole(single, recording.data), feeds.chunked(joined, recording.data, [65_536, 977])
    verify(found)
    assert len(found) <= len(wanted)
    for sizes in ((len(found) + 1,), (3, 1)):
        assert shown(found, sizes) == shown(wanted, sizes)
    assert joined.health == single.health


def shown(events: list[Event], sizes: Sequence[int]) -> str:
    """The text of a log, with the events given in groups of these sizes in turn."""
    sink, pieces, size, at = TextSink("none", detail="verbose"), [], cycle(sizes), 0
    while at < len(events):
        step = next(size)
        pieces.append(sink.render(events[at : at + step]))
        at += step
    return "".join([*pieces, sink.close()])


@pytest.mark.sample(4)
def test_cut_short(recording: Recording) -> None:
    """Cut anywhere, the contract still holds, with one end, and what was streamed is a beginning of the whole."""
    complete = read(recording)
    for at in feeds.cut_points(recording.data, 6 if len(recording.data) <= MAX_CUT else 2):
        events = feeds.cut(Stream(recording.agent), recording.data, at)
        assert verify_cut(complete, events) == [], f"cut after {at} bytes"
        assert [type(event) for event in events].count(RunEnded) == 1


def test_each_text_once(recording: Recording) -> None:
    """The live channel puts out each block's text once, and no block twice under another number."""
    events = read(recording)
    live: dict[int, list[str]] = defaultdict(list)
    revised = {event.block for event in events if isinstance(event, BlockRevised)}
    for event in events:
        if isinstance(event, Delta):
            live[event.block].append(event.text)
    ended = [event for event in events if isinstance(event, BlockEnded)]
    assert len({event.block for event in ended}) == len(ended)
    for event in ended:
        if event.block not in revised:
            assert "".join(live[event.block]) == event.text


def test_closing_twice_does_no_harm(recording: Recording) -> None:
    """A second `close` says nothing."""
    stream = Stream(recording.agent)
    stream.feed(recording.data)
    assert isinstance(stream.close()[-1], RunEnded)
    assert stream.close() == []


def test_partial_messages_change_nothing(unpartial: Recording, shorten: Callable[[str], Any]) -> None:
    """A run with partial messages and one without give the same blocks, calls and reply."""
    partial = unpartial.sibling(unpartial.case.removesuffix(".nopartial"))
    with_partial, without = read(partial), read(unpartial)
    assert blocks(with_partial, shorten) == blocks(without, shorten)
    calls = [[(e.name, e.input) for e in events if isinstance(e, ToolCalled)] for events in (with_partial, without)]
    assert calls[0] == calls[1]
    ends = [events[-1] for events in (with_partial, without)]
    assert all(isinstance(end, RunEnded) for end in ends)
    assert ends[0].reply == ends[1].reply  # type: ignore[union-attr]
    assert any(isinstance(event, Delta) for event in with_partial)


def test_detection(recording: Recording) -> None:
    """The agent is found from its first lines, with the same events; `ccs` and `kilo` have another agent's wire."""
    stream = Stream("auto")
    events = feeds.whole(stream, recording.data)
    if not recording.data:
        assert isinstance(events[-1], RunEnded)
        return
    if recording.agent in ("ccs", "kilo"):
        assert stream.agent == {"ccs": "claude", "kilo": "opencode"}[recording.agent]
        return
    assert stream.agent == recording.agent.partition("/")[0]
    assert encode(events) == encode(read(recording))


def test_folders_are_complete(recordings: list[Recording]) -> None:
    """Each folder says what it expects, in the words that the tests know."""
    known = {"agent", "version", "argv", "blocks", "calls", "reply", "outcome", "session_id"}
    for recording in recordings:
        assert {"agent", "blocks", "calls", "reply", "outcome"} <= set(recording.expected) <= known, recording.name
    assert len({recording.agent for recording in recordings}) >= 10
