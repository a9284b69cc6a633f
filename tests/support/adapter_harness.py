"""Lines of an agent through its adapter alone, and through the whole stream: for the tests of all adapters."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from penstock import events as ev
from penstock import updates as up
from penstock.core.decoding import fit
from penstock.core.normalizer.outcome import Exit
from penstock.stream import Stream
from penstock.testing import verify

Line = dict[str, Any]
INPUT: tuple[ev.Kind, ...] = ("tool_input",)


def read(make: Any, *lines: Line) -> list[up.Update]:
    """The updates of lines, read by one new adapter of this class."""
    adapter = make()
    return [update for line in lines for update in adapter.read(fit(line, make.wire))]


def run(agent: str, *lines: Line, exit: Exit | None = None) -> list[ev.Event]:
    """The events of lines, which keep the grammar."""
    stream = Stream(agent, strict=True)
    data = b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines)
    events = stream.feed(data) + stream.close(exit)
    assert verify(events) == []
    return events


def of(events: Sequence[ev.Event] | Sequence[up.Update], *kinds: type[Any]) -> list[Any]:
    """The events of some types."""
    return [event for event in events if isinstance(event, kinds)]


def blocks(
    events: Sequence[ev.Event], parent: str | None = None, without: Sequence[ev.Kind] = INPUT
) -> list[tuple[str, str, bool]]:
    """The blocks of a lane as they ended, without those of some kinds."""
    return [
        (event.kind, event.text, event.complete)
        for event in of(events, ev.BlockEnded)
        if event.kind not in without and event.parent == parent
    ]


def end(events: Sequence[ev.Event]) -> tuple[str, str, str | None]:
    """Outcome, reply and reason of the run."""
    last = events[-1]
    assert isinstance(last, ev.RunEnded)
    return last.outcome, last.reply, last.reason
