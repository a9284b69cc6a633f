"""All of every result is in the output of `verbose`, whether it streamed, partly streamed, or came at its end."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from penstock.core.tool_titles import is_plan_tool
from penstock.events import Event, ToolReturned
from penstock.sinks.sanitize import clean
from penstock.sinks.text.sink import TextSink
from penstock.stream import Stream

if TYPE_CHECKING:
    from conftest import Recording


def lines_of(text: str) -> Counter[str]:
    """The lines of a text without their blanks, as often as there are."""
    return Counter(line for line in ("".join(line.split()) for line in text.split("\n")) if line)


def check(events: list[Event], ci: str | None = None) -> None:
    """Check that each line of each result is shown."""
    sink = TextSink("none", detail="verbose", prefix="none", ci=ci)  # type: ignore[arg-type]
    shown = "".join((sink.render(events) + sink.close()).split())
    for event in events:
        if isinstance(event, ToolReturned) and not is_plan_tool(event.name or ""):
            for line, count in lines_of(clean(event.text)).items():
                assert shown.count(line) >= count, (event.call_id, line)


def test_results_of_recordings(recording: Recording) -> None:
    """Of each agent, in a terminal and in the logs of CI services."""
    stream = Stream(recording.agent)
    events = stream.feed(recording.data) + stream.close()
    for ci in (None, "github", "gitlab"):
        check(events, ci)


def test_streamed_output_in_pieces(recording: Recording) -> None:
    """The same if any part of the streamed output is missing on the wire, as agents send it by a clock."""
    lines = recording.data.split(b"\n")
    marks = (b"outputDelta", b"partial_result", b"tool_execution_update", b"content_update", b"in_progress")
    streamed = [number for number, line in enumerate(lines) if any(mark in line for mark in marks)]
    for gone in (streamed[:1], streamed[-1:], streamed[1::2], streamed):
        left = b"\n".join(line for number, line in enumerate(lines) if number not in gone)
        stream = Stream(recording.agent)
        check(stream.feed(left) + stream.close())
