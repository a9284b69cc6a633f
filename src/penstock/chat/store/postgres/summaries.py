"""Summaries of chats: one statement reads those that are asked for at the same time, as at the start of a node."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any

from penstock.chat.store.columns import from_postgres
from penstock.chat.store.postgres import statements
from penstock.chat.store.postgres.connections import Database
from penstock.chat.store.protocol import Summary, UnknownChat
from penstock.chat.store.rows import TurnRow

MAX_GROUP = 50
"""Chats of one statement, at most: a summary can be large."""

Waiting = dict[str, list[asyncio.Future[Summary]]]
"""Callers that wait, by their chats."""


class Summaries:
    """Reader of summaries, of which many may be asked for at once."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: dict[int, Waiting] = {}
        self._reading: set[asyncio.Task[None]] = set()

    async def read(self, chat: str, limit: int) -> Summary:
        """Return the newest `limit` turns of a chat and all unfinished ones.

        Raises:
            UnknownChat: there is none.
            StoreFailed, StoreClosed: as `Database.fetch`.
        """
        loop = asyncio.get_running_loop()
        if limit not in self._waiting:
            self._waiting[limit] = {}
            loop.call_soon(self._start, limit)
        result: asyncio.Future[Summary] = loop.create_future()
        self._waiting[limit].setdefault(chat, []).append(result)
        return await result

    def _start(self, limit: int) -> None:
        waiting = [*self._waiting.pop(limit).items()]
        for first in range(0, len(waiting), MAX_GROUP):
            task = asyncio.create_task(self._read(dict(waiting[first : first + MAX_GROUP]), limit))
            self._reading.add(task)
            task.add_done_callback(self._reading.discard)

    async def _read(self, group: Waiting, limit: int) -> None:
        found: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
        try:
            for id, *row in await self._database.fetch(statements.SUMMARIES, {"ids": [*group], "limit": limit}):
                found[id].append(tuple(row))
            results = {chat: _summary(rows) for chat, rows in found.items()}
        except BaseException as error:
            for result in _open(group):
                result.set_exception(error)
            if not isinstance(error, Exception):
                raise
            return
        for chat, callers in group.items():
            for result in _open({chat: callers}):
                if chat in results:
                    result.set_result(results[chat])
                else:
                    result.set_exception(UnknownChat(chat))


def _open(group: Waiting) -> list[asyncio.Future[Summary]]:
    """Return what callers still wait for: one of them may have been cancelled."""
    return [result for callers in group.values() for result in callers if not result.done()]


def _summary(rows: list[tuple[Any, ...]]) -> Summary:
    return Summary(rows[0][0], rows[0][1], [from_postgres(row[2:], TurnRow) for row in rows if row[2] is not None])
