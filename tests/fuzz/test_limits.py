"""What never ends: lines, blocks and streams without an end cost a bounded amount of memory."""

from __future__ import annotations

import json
import os
import random
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from effort import at_most

from penstock.core.framing import MAX_LINE_BYTES
from penstock.core.normalizer.state import MAX_BLOCK_CHARS
from penstock.events import BlockEnded, Delta, Malformed, RunEnded, encode
from penstock.stream import Stream
from penstock.testing.conformance import mutate

if TYPE_CHECKING:
    from conftest import Recording

MIB = 1024 * 1024
PIECE = b"x" * MIB
DELTA = b'{"type":"message","role":"assistant","content":"%s","delta":true}\n'
LINES = int(os.environ.get("PENSTOCK_FUZZ_LINES") or at_most(20_000, 400_000)) // 10


def feed_pieces(stream: Stream, pieces: int) -> int:
    """Feed pieces of one line that has no end; the most memory that was held, in bytes."""
    tracemalloc.start()
    try:
        for _ in range(pieces):
            assert stream.feed(PIECE) == []
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_line_of_100_mib() -> None:
    """It is one malformed line with its size, and the next line is read."""
    stream = Stream("gemini")
    assert feed_pieces(stream, 100) < 3 * MAX_LINE_BYTES
    events = stream.feed(b"\n" + DELTA % b"next")
    malformed = [event for event in events if isinstance(event, Malformed)]
    assert [event.line for event in malformed] == [1]
    assert "104,857,600" in malformed[0].reason
    assert len(encode(malformed)) < 2000
    assert [event.text for event in events if isinstance(event, Delta)] == ["next"]


def test_a_line_without_end() -> None:
    """It is malformed when the stream ends, and holds no more memory than a line may."""
    stream = Stream("gemini")
    assert feed_pieces(stream, 80) < 3 * MAX_LINE_BYTES
    events = stream.close()
    assert [type(event) for event in events] == [Malformed, RunEnded]
    assert stream.health.parse_errors == 1


def test_a_block_larger_than_is_kept() -> None:
    """All of it streams by, its recap is a beginning that says so, and the next block is whole."""
    stream = Stream("gemini")
    line = DELTA % PIECE
    pieces = MAX_BLOCK_CHARS // MIB + 3
    streamed = 0
    for _ in range(pieces):
        streamed += sum(len(event.text) for event in stream.feed(line) if isinstance(event, Delta))
    assert streamed == pieces * MIB
    events = stream.feed(b'{"type":"tool_use","tool_name":"t","tool_id":"c1","parameters":{}}\n' + DELTA % b"next")
    events += stream.close()
    texts = [event for event in events if isinstance(event, BlockEnded) and event.kind == "text"]
    assert [(len(event.text), event.truncated) for event in texts] == [(MAX_BLOCK_CHARS, True), (4, False)]


@pytest.mark.slow
def test_one_stream_that_goes_on_and_on(recordings: list[Recording]) -> None:
    """Mutated runs of claude one after the other in a single stream: what is kept does not grow with them."""
    lines = [
        line for recording in recordings if recording.agent == "claude" for line in recording.data.split(b"\n")[:200]
    ]
    rng = random.Random(0)
    stream = Stream("claude")
    held: list[int] = []
    tracemalloc.start()
    try:
        for portion in range(10):
            for number in range(LINES // 10):
                line = mutate(rng.choice(lines), rng) if number % 4 == 0 else rng.choice(lines)
                # New ids, or it would be the same few messages again and again.
                stream.feed(
                    line.replace(b"msg_mock", b"msg_%d_" % (number // 50)).replace(b"toolu_", b"t%d_" % portion) + b"\n"
                )
            held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert held[-1] < 2 * max(held[:4]) + 4 * MIB
    assert isinstance(stream.close()[-1], RunEnded)
    assert json.loads(encode(stream.close()) or b"null") is None
