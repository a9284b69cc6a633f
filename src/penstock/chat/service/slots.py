"""Limit of concurrently working agents. An agent that waits for a person does not count and does not delay others."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Slot:
    """Slot of one run."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._working = True

    def work(self, working: bool) -> None:
        """Set whether the run is at work, or waits for a person.

        A run that continues does so at once, over the limit if necessary.
        """
        if working != self._working:
            self._working = working
            if working:
                self._slots.used += 1
            else:
                self._slots.give_back()


class Slots:
    """Limited number of slots, given in the order of the calls. Use it in one event loop."""

    def __init__(self, limit: int) -> None:
        self.used: int = 0
        self._limit = limit
        self._waiting: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def take(self) -> AsyncIterator[Slot]:
        """Wait for a free slot, and hold it until the context ends."""
        if self.used >= self._limit or any(not turn.done() for turn in self._waiting):
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():  # it had just got its slot
                    self.give_back()
                raise
        else:
            self.used += 1
        slot = Slot(self)
        try:
            yield slot
        finally:
            slot.work(True)
            self.give_back()

    def give_back(self) -> None:
        """Free a slot; give it to the next caller if fewer are at work than the limit."""
        self.used -= 1
        while self._waiting and self.used < self._limit:
            turn = self._waiting.popleft()
            if not turn.done():  # otherwise it was cancelled meanwhile
                self.used += 1
                turn.set_result(None)
