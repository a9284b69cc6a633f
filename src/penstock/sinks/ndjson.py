"""The events themselves, one JSON object a line: the public format of `docs/events.md`."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.events import Event, encode


class NdjsonSink:
    """Every event as one line, as soon as it is there."""

    def render(self, events: Iterable[Event]) -> bytes:
        """The lines of these events."""
        return encode(events)

    def close(self) -> bytes:
        """Nothing is held back."""
        return b""
