"""The order of two effects of a run, where a promise hangs on it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.events import Delta, RunEnded

if TYPE_CHECKING:
    from run.processes.conftest import Place

PATIENCE_SECONDS = 60


def test_bytes_are_on_disk_before_their_events_are_emitted(place: Place, tmp_path: Path) -> None:
    """At the time that a reader is notified of text, the recording already holds the line that it came from."""
    order: list[tuple[str, bool]] = []
    ended = threading.Event()
    run = place.agent("works", "turn").run("hi", record=tmp_path)

    def note() -> None:
        # In the run's own thread, which goes on only when this returns.
        assert run.record is not None
        on_disk = (run.record / "input.ndjson").read_text()
        while events := run.poll():
            order.extend((event.text, event.text in on_disk) for event in events if isinstance(event, Delta))
            if isinstance(events[-1], RunEnded):
                ended.set()

    with run:
        place.pid("ready")
        run.on_news(note)  # the agent goes on when this is set, so that the second text comes with a notification
        place.make("go")
        assert ended.wait(PATIENCE_SECONDS)
    assert order == [("it is being built", True), ("it is built", True)]
