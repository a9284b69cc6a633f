"""News of all chats, for one node: one connection that listens, and a poll of the ends of all chats each second.

The poll finds what a notification that was lost would have named, and that the connection is dead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import NamedTuple

import psycopg

from penstock.chat.store.postgres.connections import RETRY_SECONDS, STATEMENT_SECONDS, Away, Database, DatabaseLink
from penstock.chat.store.protocol import News, StoreFailed

LISTEN = "LISTEN penstock"
"""Statement that names the channel: one for all chats, as each notification wakes every listener of the server."""

POLL_SECONDS = 1.0
"""Seconds between two polls: the longest that a lost notification delays an entry."""

POLL = "SELECT id, last, version FROM heads"


class ChatEnd(NamedTuple):
    """End of a chat, as far as this node has heard of it."""

    last: int
    version: int | None
    """Number of changes of the row; None until a poll finds it."""


class Tailer:
    """Task that notifies the subscribers of entries and rows, whoever made them."""

    def __init__(self, database: Database, notify: Callable[[News], None]) -> None:
        self._link: DatabaseLink = database.link()
        self._notify = notify
        self._known: dict[str, ChatEnd] = {}
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen, read the ends of all chats, and begin to follow them.

        Raises:
            StoreFailed, Away: the database cannot be used.
        """
        await self._listen()
        await self._poll()
        self._task = asyncio.create_task(self._work())

    async def close(self) -> None:
        """End the task and its connection."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._link.close()

    def heard(self, chats: dict[str, int], changed: Iterable[str]) -> None:
        """Notify the subscribers of what is newer than what they know."""
        fresh: dict[str, int] = {}
        for chat, last in chats.items():
            end = self._known.get(chat)
            if end is None or last > end.last:
                fresh[chat] = last
                self._known[chat] = ChatEnd(last, None if end is None else end.version)
        if fresh or changed:
            self._notify(News(fresh, changed=frozenset(changed)))

    async def _work(self) -> None:
        failures = 0
        while True:
            try:
                await self._listen()
                await self._poll()
                failures = 0
                while True:
                    await self._hear()
                    await self._poll()
            except (Away, StoreFailed, psycopg.Error):
                await self._link.close()
                await asyncio.sleep(RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)])
                failures += 1

    async def _listen(self) -> None:
        await self._link.open()
        await self._link.run(LISTEN, {}, STATEMENT_SECONDS)

    async def _hear(self) -> None:
        """Wait for notifications, until the next poll."""
        connection = await self._link.open()
        end = asyncio.get_running_loop().time() + POLL_SECONDS
        while (left := end - asyncio.get_running_loop().time()) > 0:
            async for notification in connection.notifies(timeout=left, stop_after=1):
                self._take(notification.payload)

    def _take(self, payload: str) -> None:
        chats: dict[str, int] = {}
        changed: set[str] = set()
        for item in payload.split(","):
            chat, _, what = item.partition(" ")
            if what.isdecimal():
                chats[chat] = int(what)
            else:
                changed.add(chat)
        self.heard(chats, changed)

    async def _poll(self) -> None:
        """Compare the ends of all chats with those that are known."""
        rows = await self._link.run(POLL, {}, STATEMENT_SECONDS)
        known, self._known = self._known, {}
        fresh: dict[str, int] = {}
        changed = known.keys() - {id for id, _, _ in rows}
        for id, last, version in rows:
            end = known.get(id)
            self._known[id] = ChatEnd(max(last, 0 if end is None else end.last), version)
            if end is None or last > end.last:
                fresh[id] = last
            if end is None or end.version not in (version, None):
                changed.add(id)
        if fresh or changed:
            self._notify(News(fresh, changed=frozenset(changed)))
