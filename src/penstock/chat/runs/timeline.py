"""Timeline of a document or loop: its agents' runs as turns, like those of a chat, and its own state beside them."""

from __future__ import annotations

import time
from collections.abc import Iterable

from msgspec.structs import replace

from penstock import events as ev
from penstock.chat.history.entries import Entry, Numbered
from penstock.chat.history.frames import Frame
from penstock.chat.history.timeline import Timeline
from penstock.chat.runs.views import RunChanged, RunDetails

RunFrame = Frame | RunChanged
"""Frame of the stream of a document or loop."""


class RunTimeline:
    """State of a document or loop for clients.

    The timeline numbers its entries, because they have no stored numbers. The first number is the time, so a client
    that reconnects with a number of an earlier timeline gets everything anew.
    """

    deleted = False

    def __init__(self) -> None:
        self.number: int = time.time_ns() // 1000
        self.turns: Timeline = Timeline(self.number)
        self._details: RunDetails | None = None
        self._changed_at = self.number

    def take(self, entries: Iterable[tuple[int, Entry | ev.Event]]) -> bool:
        """Fold the next entries, each with its time. Return whether clients should see them at once."""
        return self.turns.take([Numbered(self._next(), at, what) for at, what in entries])

    def show(self, details: RunDetails) -> bool:
        """Set the state; return whether it has changed."""
        if details == self._details:
            return False
        self._details = details
        self._changed_at = self._next()
        return True

    def start(self) -> list[tuple[int, RunFrame]]:
        """Return the frames that a new client needs, each with the number that it covers."""
        snapshot = replace(self.turns.snapshot(), number=self.number, earlier=False)
        return [(self.number, snapshot), (self.number, self._state())]

    def time_of(self, number: int) -> None:
        """Return None: its numbers are never those of another timeline."""

    def frames(self, after: int, *, deltas: bool = False) -> list[tuple[int, RunFrame]] | None:
        """Return the frames that bring a client from entry `after` up to date; None if it needs all of `start`."""
        if after > self.number:
            return None
        missed = self.turns.frames(min(after, self.turns.number), deltas=deltas)
        if missed is None or after >= self._changed_at:
            return [*missed] if missed is not None else None
        before = [it for it in missed if it[0] < self._changed_at]
        return [*before, (self._changed_at, self._state()), *missed[len(before) :]]

    def _next(self) -> int:
        self.number += 1
        return self.number

    def _state(self) -> RunChanged:
        assert self._details is not None
        return RunChanged(self._details.run, self._details.loop)
