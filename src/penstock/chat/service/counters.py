"""Counters of the service; `/metrics` shows them."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Awaitable
from typing import TypeVar

from msgspec.structs import replace

from penstock import events as ev
from penstock.chat.history.entries import TurnEnded
from penstock.chat.store.protocol import StoreFailed

Result = TypeVar("Result")

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5)
"""Upper bounds in seconds of the buckets of a histogram: from a fast disk to one that hangs."""


class Times:
    """Histogram of durations in seconds."""

    def __init__(self) -> None:
        self.buckets: list[int] = [0] * len(SECONDS)
        """Number of durations up to each bound of `SECONDS`."""
        self.count: int = 0
        self.sum: float = 0.0

    def add(self, seconds: float) -> None:
        """Count one duration."""
        self.count += 1
        self.sum += seconds
        for place, bound in enumerate(SECONDS):
            if seconds <= bound:
                self.buckets[place] += 1


class AgentTotals:
    """Totals of the turns of one agent. A figure that no run has reported is None."""

    def __init__(self) -> None:
        self.ended: Counter[ev.Outcome] = Counter()
        """Turns that ended, by outcome."""
        self.usage: ev.Usage = ev.Usage()

    def add(self, end: ev.RunEnded | TurnEnded) -> None:
        """Count the end of a turn."""
        self.ended[end.outcome] += 1
        if isinstance(end, ev.RunEnded):
            used = end.usage or ev.Usage()
            cost = used.cost_usd if end.cost_usd is None else end.cost_usd
            self.usage += replace(used, cost_usd=cost)


class Counters:
    """Counters of one service."""

    def __init__(self) -> None:
        self.entries: int = 0
        """Number of entries that were appended."""
        self.appends: Times = Times()
        """Durations of appends."""
        self.failures: int = 0
        """Number of appends that failed in the store."""
        self.agents: defaultdict[str, AgentTotals] = defaultdict(AgentTotals)
        """Totals by the name of the agent."""

    async def append(self, count: int, call: Awaitable[Result]) -> Result:
        """Await a call of the store that appends `count` entries, and count it.

        Raises:
            StoreFailed: as the call.
        """
        began = time.perf_counter()
        try:
            result = await call
        except StoreFailed:
            self.failures += 1
            raise
        self.appends.add(time.perf_counter() - began)
        self.entries += count
        return result
