"""How many agents are at work at once. One that waits for a person is not: it holds nobody up."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Slot:
    """The place of one run."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._working = True

    def work(self, working: bool) -> None:
        """Whether it is at work, or waits for a person. Who goes on does so at once, over the limit if need be."""
        if working != self._working:
            self._working = working
            if working:
                self._slots.used += 1
            else:
                self._slots.give_back()


class Slots:
    """So many places, taken in the order of asking. One event loop."""

    def __init__(self, limit: int) -> None:
        self.used = 0
        self._limit = limit
        self._waiting: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def take(self) -> AsyncIterator[Slot]:
        """A place, as soon as one is free, for as long as the context lasts."""
        if self.used >= self._limit or any(not turn.done() for turn in self._waiting):
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():  # it had just got its place
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
        """A place is free: it is the next one's, if there are no more at work than there may be."""
        self.used -= 1
        while self._waiting and self.used < self._limit:
            turn = self._waiting.popleft()
            if not turn.done():  # else it was cancelled meanwhile
                self.used += 1
                turn.set_result(None)
