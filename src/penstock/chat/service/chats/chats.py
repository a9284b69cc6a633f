"""The chats of the store in this process: found at the start, and followed as others change them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Coroutine, Iterator
from typing import Any

from penstock.chat.errors import ChatError, NoSuchChat
from penstock.chat.service.chats.chat import Chat
from penstock.chat.service.chats.chat_order import ChatOrder, Key
from penstock.chat.service.log.chat_log import MAX_NUMBER, STORE_ERRORS, ChatLog
from penstock.chat.service.shared import Shared
from penstock.chat.store import permits
from penstock.chat.store.protocol import FirstEntry, News, StoreClosed, StoreFailed, Subscription, UnknownChat
from penstock.chat.store.rows import ChatRow

Start = Callable[[Coroutine[Any, Any, None]], None]
"""Function that runs a coroutine until the service is closed."""


class Chats:
    """Chats of this process, by id. Other processes of the same store may create, change and delete chats as well."""

    def __init__(self, shared: Shared, start: Start) -> None:
        """Create it.

        `start` runs the work of single chats concurrently with the reading of the store's notifications.
        """
        self._shared = shared
        self._start = start
        self._chats: dict[str, Chat] = {}
        self._creating: set[str] = set()
        """Ids of the chats that the store does not have yet. Nobody sees them, but their ids and places are taken."""
        self._order = ChatOrder(self._chats)
        shared.list_watchers.append(self._order.note)

    def __len__(self) -> int:
        return len(self._chats.keys() | self._creating)

    def __iter__(self) -> Iterator[Chat]:
        return iter([*self._chats.values()])

    def __contains__(self, id: str) -> bool:
        return id in self._chats

    def is_taken(self, id: str) -> bool:
        """Return whether there is a chat of this id, or one that is being created."""
        return id in self._chats or id in self._creating

    def get(self, id: str) -> Chat | None:
        """Return a chat; None if there is none of this id."""
        return self._chats.get(id)

    def require(self, id: str) -> Chat:
        """Return a chat.

        Raises:
            NoSuchChat: there is none of this id.
        """
        chat = self._chats.get(id)
        if chat is None:
            raise NoSuchChat(id)
        return chat

    def newest_first(self, before: Key | None = None) -> Iterator[Chat]:
        """Yield the chats, the one used last first: all, or those before one."""
        return self._order.newest_first(before)

    def wanted(self) -> list[Chat]:
        """Return the chats that ask, work, wait or are pinned, the one used last first."""
        return self._order.wanted()

    # --- here ---

    async def recover(self) -> None:
        """Find the chats of the store: end and mark turns that a crash cut off, and continue with those that wait.

        Raises:
            StoreFailed: the store cannot be read.
        """
        at_once = asyncio.Semaphore(self._shared.limits.recovering)

        async def recover(row: ChatRow) -> None:
            async with at_once:
                await self.add(row)

        work = [recover(row) for row in await self._rows()]
        failures = [error for error in await asyncio.gather(*work, return_exceptions=True) if error is not None]
        for error in failures:
            # A chat that cannot be read raises an error when it is used; the others can be used.
            if not isinstance(error, StoreFailed) or len(failures) == len(work):
                raise error

    async def create(self, row: ChatRow, first: FirstEntry | None = None) -> Chat:
        """Create a chat. It is here once the store has it, also if the caller is cancelled meanwhile.

        `first`: entry of its first turn, which begins then.

        Raises:
            UsageError: the store has a chat with this id.
            StoreFailed: it cannot be kept.
        """
        self._creating.add(row.id)
        creating = asyncio.create_task(self._create(row, first), name=f"new chat {row.id}")
        creating.add_done_callback(_note_failure)
        return await asyncio.shield(creating)

    async def _create(self, row: ChatRow, first: FirstEntry | None) -> Chat:
        try:
            await self._shared.store.create_chat(row, first)
        finally:
            self._creating.discard(row.id)
        chat = self._chats.get(row.id)
        if chat is None:  # otherwise a notification of the store came first
            chat = self._chats[row.id] = Chat(row, self._shared)
        if first is not None:
            self._shared.counters.entries += 1
            await asyncio.create_task(chat.follow(1), context=permits.outside())
        self._shared.note(row.id)
        return chat

    async def delete(self, id: str) -> None:
        """Stop the run of a chat, and delete the chat.

        Raises:
            NoSuchChat: there is none of this id.
            StoreFailed: it cannot be deleted. The run is stopped nevertheless.
        """
        chat = self.require(id)
        del self._chats[id]
        try:
            await chat.delete()
        except (ChatError, *STORE_ERRORS):
            with contextlib.suppress(*STORE_ERRORS):
                await self.add(chat.row)
            raise
        finally:
            self._shared.note(id)

    async def close(self) -> None:
        """Kill the runs, and mark their turns as cut off."""
        await asyncio.gather(*(chat.close() for chat in self))

    # --- appends, creations, changes and deletions by others ---

    async def follow(self, subscription: Subscription) -> None:
        """Make chats apply entries that they did not append, until the store is closed."""
        try:
            while True:
                news = await subscription.next()
                numbers = dict.fromkeys(self._chats, MAX_NUMBER) if news.all else news.chats
                for id, last in numbers.items():
                    chat = self._chats.get(id)
                    if chat is not None and chat.log.live.is_behind(last) and not chat.skips():
                        self._start(chat.follow(last))
                if self._shared.this_node.by_jobs:
                    for id in await self._changed(news):
                        self._start(self.read_row(id))
        except StoreClosed:
            pass
        finally:
            subscription.close()

    async def _changed(self, news: News) -> Collection[str]:
        """Return the ids of the chats whose row may have changed."""
        if not news.all:
            return news.changed
        rows: list[ChatRow] = []
        with contextlib.suppress(StoreFailed):  # the store notifies again when it is back
            rows = await self._rows()
        return {*self._chats, *(row.id for row in rows)}

    async def read_row(self, id: str) -> None:
        """Take up a chat that another node created, changed or deleted."""
        try:
            if id in self._chats:
                await self._chats[id].read_row()
            else:
                await self.add(await self._shared.store.get_chat(id))
        except UnknownChat:
            gone = self._chats.pop(id, None)
            if gone is not None:
                await gone.drop()
        except STORE_ERRORS:
            pass  # the store notifies again when it is back
        self._shared.row_changed(id)

    async def taken_up(self, id: str) -> Chat | None:
        """Return a chat, after reading it from the store if it is not here yet; None if there is none."""
        if id not in self._chats:
            await self.read_row(id)
        return self._chats.get(id)

    async def fresh_log(self, id: str) -> ChatLog:
        """Return the log of a chat with all entries of other nodes, also those that this node was not notified of yet.

        Raises:
            NoSuchChat: there is none of this id.
            StoreFailed: the store cannot be read.
        """
        log = self.require(id).log
        if self._shared.this_node.by_jobs:
            with contextlib.suppress(UnknownChat):
                await log.follow((await self._shared.store.summary(id, limit=1)).last)
        return log

    async def add(self, row: ChatRow) -> None:
        """Take up a chat of the store, unless it is here already.

        Raises:
            StoreFailed: the store cannot be read.
        """
        if row.id not in self._chats:
            chat = self._chats[row.id] = Chat(row, self._shared)
            try:
                await chat.recover()
            finally:
                self._order.note(row.id)

    async def _rows(self) -> list[ChatRow]:
        rows: list[ChatRow] = []
        while page := await self._shared.store.list_chats(after=rows[-1].id if rows else ""):
            rows += page
        return rows


def _note_failure(creating: asyncio.Task[Chat]) -> None:
    """Read the error of a task, which its caller has got as well, or is no longer there to get."""
    if not creating.cancelled():
        creating.exception()
