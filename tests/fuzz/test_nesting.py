"""JSON that is nested deeply: no reader may run into Python's own limit."""

from __future__ import annotations

import pytest

from penstock.events import RunEnded, ToolCalled, encode
from penstock.sinks.text.sink import TextSink
from penstock.stream import Stream
from penstock.testing.verify import verify


def line(depth: int, unclean: str) -> bytes:
    """A call whose input has so many levels, in a line of claude's; `unclean` makes the fast reader refuse it."""
    deep = "[" * depth + "]" * depth
    call = f'{{"type":"tool_use","id":"t","name":"Bash","input":{{"a":{deep},"n":{10**30}}}}}'
    return f'{{"type":"assistant","message":{{"id":"m","content":[{call}]}}{unclean}}}\n'.encode()


@pytest.mark.parametrize("unclean", ["", ',"x":NaN', ',"x":"\\ud83d"'])
@pytest.mark.parametrize("depth", [10, 150, 500, 900, 2_000, 50_000])
def test_depth_is_harmless(depth: int, unclean: str) -> None:
    """Whatever the depth: a call or a malformed line, an end, and events that can be written and shown."""
    stream = Stream("claude")
    events = stream.feed(line(depth, unclean)) + stream.close()
    assert verify(events) == []
    assert isinstance(events[-1], RunEnded)
    assert any(isinstance(event, ToolCalled) for event in events) or stream.health.parse_errors == 1
    assert encode(events)
    sink = TextSink("none", detail="verbose")
    assert sink.render(events) + sink.close()


def test_shallow_lines_are_read_in_either_way() -> None:
    """What is not clean is read all the same."""
    for unclean in ("", ',"x":NaN'):
        stream = Stream("claude")
        assert any(isinstance(event, ToolCalled) for event in stream.feed(line(150, unclean)))
