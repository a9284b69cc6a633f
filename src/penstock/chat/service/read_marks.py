"""Read marks: the newest turn of each chat that each person has read, on whichever device."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

from penstock.chat.errors import NoSuchChat
from penstock.chat.service.chats.chats import Chats
from penstock.chat.service.shared import Shared
from penstock.chat.store.protocol import StoreFailed
from penstock.chat.store.rows import UNMARKED

LOOK_SECONDS = 1.0
"""Seconds between two looks at the people of the server."""


class ReadMarks:
    """Read marks of the chats of one service. They are in the rows of the chats."""

    def __init__(self, shared: Shared, chats: Chats) -> None:
        self._shared = shared
        self._chats = chats
        self._people: frozenset[str] = frozenset()
        """People of the server at the last look, and those who have marked something since."""

    async def mark(self, person: str, turns: Mapping[str, int]) -> None:
        """Note the newest turn that a person has read, of each chat. Marks only move forward.

        Unknown chats, and those that the person does not see, are left out. A mark is no later than the newest turn.

        Raises:
            StoreFailed: the marks could not be kept.
        """
        self._shared.require_open()
        self._people |= {person}
        newest = {id: min(turn, await self._newest(id, turn)) for id, turn in turns.items() if id in self._chats}
        marked = await self._shared.store.mark_read(person, newest)
        if not self._shared.this_node.by_jobs:  # otherwise the store's notifications name them
            for id in marked:
                await self._chats.read_row(id)

    async def _newest(self, id: str, turn: int) -> int:
        """Return the number of the newest turn of a chat, 0 for none; of other nodes too if `turn` is past it."""
        with suppress(NoSuchChat):
            live = self._chats.require(id).log.live
            if live.newest is None or live.newest.turn < turn:
                live = (await self._chats.fresh_log(id)).live
            return 0 if live.newest is None else live.newest.turn
        return 0

    async def follow(self, people: Callable[[], Collection[str] | None]) -> None:
        """Remove the marks of people who were removed, until cancelled. `people` returns the names; None: unknown."""
        while True:
            now = people()
            if now is not None and frozenset(now) != self._people:
                with suppress(StoreFailed):  # the next look does it
                    await self.keep(now)
            await asyncio.sleep(LOOK_SECONDS)

    async def keep(self, people: Collection[str]) -> None:
        """Remove the marks of those who are no longer among these people.

        On several machines that is whoever was among them at this node before, or marked something here: other nodes
        may know people that it does not.

        Raises:
            StoreFailed: some marks could not be removed; the next call does it.
        """
        known = frozenset(people)
        if self._shared.this_node.by_jobs:
            gone = self._people - known
        else:
            gone = frozenset(name for chat in self._chats for name in chat.row.reads) - known - {UNMARKED}
        for name in sorted(gone):
            await self._shared.store.forget_reader(name)
            if not self._shared.this_node.by_jobs:
                for chat in self._chats:
                    if name in chat.row.reads:
                        await self._chats.read_row(chat.row.id)
        self._people = known
