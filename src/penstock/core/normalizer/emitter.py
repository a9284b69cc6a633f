"""Emitter of events: the only place that stamps them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.events import Delta, Event, Kind


class Emitter:
    """Emitter of one run: stamps its events and collects them until they are drained.

    Args:
        agent: label of the agent.
        run: number of the run, if several runs share an output.
    """

    __slots__ = ("agent", "at", "events", "run")

    def __init__(self, agent: str, run: int | None) -> None:
        self.agent: str = agent
        self.run: int | None = run
        self.at: int | None = None  # time stamp of the events to come, in milliseconds since the start
        self.events: list[Event] = []

    def emit(self, kind: Callable[..., Event], parent: str | None, /, **fields: Any) -> None:
        """Append an event of the lane `parent`."""
        self.events.append(kind(agent=self.agent, run=self.run, parent=parent, at=self.at, **fields))

    def emit_delta(self, parent: str | None, block: int, kind: Kind, text: str) -> None:
        """Append a delta, without the dictionary of fields: on some wires nearly all events are deltas."""
        self.events.append(Delta(block, kind, text, agent=self.agent, run=self.run, parent=parent, at=self.at))

    def drain(self) -> list[Event]:
        """Return the events since the last call."""
        events, self.events = self.events, []
        return events
