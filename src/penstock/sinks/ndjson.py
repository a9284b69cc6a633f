"""The NDJSON sink: one line with a JSON object for each event, in the public format of `docs/events.md`."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.events import Event, encode


class NdjsonSink:
    """Sink that writes each event as one line at once."""

    def render(self, events: Iterable[Event]) -> bytes:
        """Return the lines of these events."""
        return encode(events)

    def close(self) -> bytes:
        """Return b"": nothing is held back."""
        return b""
