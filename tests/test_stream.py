"""The stream: what it does when an adapter breaks its promise."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
import pytest

from penstock.events import Delta, Unknown
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
