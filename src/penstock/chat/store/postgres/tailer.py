"""News of all chats, for one node: one connection that listens, and a poll of the ends of all chats each second.

The poll finds what a notification that was lost would have named, and that the connection is dead. The new entries of
all chats that are followed here are read by one statement, before the subscribers are notified.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import NamedTuple

import psycopg

from penstock.chat.store.postgres.connections import RETRY_SECONDS, Away, Database
from penstock.chat.store.postgres.recent import READ_AHEAD, Recent
from penstock.chat.store.protocol import News, StoreClosed, StoreFailed

LISTEN = "LISTEN penstock"
"""Statement that names the channel: one for all chats, as each notification wakes every listener of the server."""

POLL_SECONDS = 1.0
"""Seconds between two polls: the longest that a lost notification delays an entry."""

CLOSING_SECONDS = 0.1
"""Seconds in which a connection whose socket was closed ends its statement."""

POLL = """SELECT id, last, key, version FROM heads
    UNION ALL SELECT '', count(*), 0, 0 FROM nodes WHERE seen + ttl > clock_timestamp()"""


class ChatEnd(NamedTuple):
    """End of a chat, as far as this node knows it."""

    last: int
    row: tuple[int, int] | None
    """Key of the chat and number of the changes of its row; None until a poll finds them."""


class Tailer:
    """Tasks that notify the subscribers of entries and rows, whoever made them."""

    def __init__(self, database: Database, recent: Recent, notify: Callable[[News], None]) -> None:
        self.nodes: int = 1
        """Number of nodes that are there."""
        self._database = database
        self._link = database.link()
        self._recent = recent
        self._notify = notify
        self._known: dict[str, ChatEnd] = {}
        self._fresh: dict[str, int] = {}  # chats with entries of other nodes, of which nobody is notified yet
        self._changed: set[str] = set()
        self._rows_lost = False  # a chat ends before what was known of it: the database was restored from a backup
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._closed = False

    async def start(self) -> None:
        """Listen, read the ends of all chats, and begin to follow them.

        Raises:
            StoreFailed, Away: the database cannot be used.
        """
        await self._listen()
        await self._poll()
        self._fresh, self._changed = {}, set()
        self._tasks = [asyncio.create_task(self._receive_all()), asyncio.create_task(self._pass_on())]

    async def close(self) -> None:
        """End the tasks and the connection."""
        self._closed = True
        self._link.cut()  # a statement that is cancelled would wait for the server
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSING_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._link.close()

    def made(self, chats: dict[str, int], changed: Iterable[str]) -> None:
        """Notify the subscribers of what this node did itself: nothing is read for it."""
        news = News(self._fresher(chats), changed=frozenset(changed))
        if news.chats or news.changed:
            self._notify(news)

    def forget(self, chat: str) -> None:
        """Forget a chat that this node deleted: another of its name begins anew."""
        self._known.pop(chat, None)

    def _fresher(self, chats: dict[str, int]) -> dict[str, int]:
        """Return the chats with new entries for this node, and remember them."""
        fresh: dict[str, int] = {}
        for chat, last in chats.items():
            end = self._known.get(chat)
            if end is None or last > end.last:
                fresh[chat] = last
                self._known[chat] = ChatEnd(last, None if end is None else end.row)
        return fresh

    def _received(self, chats: dict[str, int], changed: Iterable[str]) -> None:
        """Remember what other nodes did, until the subscribers are notified of it."""
        self._fresh.update(self._fresher(chats))
        self._changed.update(changed)
        if self._fresh or self._changed:
            self._wake.set()

    async def _pass_on(self) -> None:
        """Read ahead for all chats with news at once, and notify the subscribers."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            fresh, self._fresh = self._fresh, {}
            changed, self._changed = self._changed, set()
            rows_lost, self._rows_lost = self._rows_lost, False
            self._recent.forget(changed)
            wanted = self._recent.wanted(fresh)
            if wanted:
                try:
                    self._recent.put(wanted, await self._database.fetch(READ_AHEAD, self._recent.values(wanted)))
                except (StoreFailed, StoreClosed):
                    pass  # each reader reads by itself
            self._notify(News(fresh, all=rows_lost, changed=frozenset(changed)))

    # --- notifications and polls ---

    async def _receive_all(self) -> None:
        failures = 0
        while True:
            try:
                await self._listen()
                while True:
                    await self._poll()
                    if failures:
                        self._notify_again()
                    failures = 0
                    await self._receive()
            except (Away, StoreFailed, psycopg.Error):
                await self._link.close()
                if self._closed:
                    return
                await asyncio.sleep(RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)])
                failures += 1

    def _notify_again(self) -> None:
        """Notify of all chats, as readers that were notified before may have failed. The others know it all."""
        self._fresh.update({chat: end.last for chat, end in self._known.items()})
        self._changed.update(self._known)
        self._wake.set()

    async def _listen(self) -> None:
        patience = self._database.patience
        await self._link.run(LISTEN, {}, patience.statement, patience.connect)

    async def _receive(self) -> None:
        """Wait for notifications, until the next poll."""
        connection = await self._link.open(self._database.patience.connect)
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
        self._received(chats, changed)

    async def _poll(self) -> None:
        """Compare the ends of all chats with those that are known."""
        patience = self._database.patience
        before = dict(self._known)  # this node may append while the answer is on its way
        rows = await self._link.run(POLL, {}, patience.statement, patience.connect)
        chats, changed = dict[str, int](), set[str]()
        gone = self._known.keys() - {row[0] for row in rows}
        for id, last, *row in rows:
            if not id:
                self.nodes = max(last, 1)
                continue
            end = self._known.get(id)
            if end is not None and end.row is not None and end.row[0] != row[0]:
                end = None  # it was deleted, and there is another of its name
            elif id in before and last < before[id].last:
                end, self._rows_lost = None, True
            if end is None or end.last < last:
                chats[id] = last
            if end is None or end.row not in (tuple(row), None):
                changed.add(id)
            self._known[id] = ChatEnd(0 if end is None else end.last, (row[0], row[1]))
        for id in gone:
            del self._known[id]
        self._received(chats, changed | gone)
