"""The stream: what it does when an adapter breaks its promise."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
import pytest

from penstock.core.framing import lines_of
from penstock.events import Delta, Malformed, Unknown
from penstock.stream import Stream
from penstock.updates import Text, Traits, Update


class Line(msgspec.Struct):
    """A line of the wire."""

    n: int = 0


class Raising:
    """Raises for every third line, and remembers what it was given."""

    name: ClassVar[str] = "raising"
    traits: ClassVar[Traits] = Traits()
    wire: ClassVar[Any] = Line

    def __init__(self) -> None:
        self.given: list[int] = []

    def read(self, event: Line) -> tuple[Update, ...]:
        """One delta a line."""
        self.given.append(event.n)
        if event.n % 3 == 2:
            raise ValueError(event.n)
        return (Text("text", "delta", f"{event.n} ", "t"),)


LINES = b"".join(b'{"n":%d}\n' % number for number in range(9))


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_an_event_is_read_once_even_by_an_adapter_that_raises(size: int) -> None:
    """However the bytes are cut: each event is given once, and the one that fails costs only itself."""
    adapter = Raising()
    stream = Stream(adapter)
    events = [event for at in range(0, len(LINES), size) for event in stream.feed(LINES[at : at + size])]
    assert adapter.given == list(range(9))
    assert "".join(event.text for event in events if isinstance(event, Delta)) == "0 1 3 4 6 7 "
    assert [event.raw for event in events if isinstance(event, Unknown)] == ['{"n":2}', '{"n":5}', '{"n":8}']
    assert stream.health.adapter_errors == 3


def test_strict_lets_the_error_out() -> None:
    """For tests of adapters."""
    with pytest.raises(ValueError, match="2"):
        Stream(Raising(), strict=True).feed(LINES)


def test_lines_that_are_no_plain_events_are_read_among_many_that_are() -> None:
    """A region is read in pieces where some of its lines need a second look: nothing is lost, moved or misnumbered."""
    begin = b'{"type":"stream_event","event":{"type":"message_start","message":{"id":"m"}}}'
    delta = b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%d "}}'
    line = b'{"type":"stream_event","event":%s}' % delta
    odd = {0: begin, 40: b"", 41: b"no JSON", 77: b'{"type":"no such event"}', 90: b'{"type": broken', 97: b""}
    data = b"".join(odd.get(at, line % at) + b"\n" for at in range(99))
    at_once, one_by_one = Stream("claude", strict=True), Stream("claude", strict=True)

    events = [*at_once.feed(data), *at_once.close()]

    assert events == [*(it for one in lines_of(data) for it in one_by_one.feed(one + b"\n")), *one_by_one.close()]
    assert [it.line for it in events if isinstance(it, Malformed)] == [91]
    assert at_once.health == one_by_one.health
    assert at_once.health.lines == 99
    assert "1 2 3" in "".join(it.text for it in events if isinstance(it, Delta))
