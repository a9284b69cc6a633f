"""Subscription that a store of this package gives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from penstock.chat.store.protocol import News, StoreClosed


class StoreSubscription:
    """Notifications of one store: of several appends the last numbers are kept, so none are lost."""

    def __init__(self, ended: Callable[[StoreSubscription], None]) -> None:
        self._ended = ended
        self._chats: dict[str, int] = {}
        self._rows: set[str] = set()
        self._all = False
        self._changed = asyncio.Event()
        self._closed = False

    async def next(self) -> News:
        """As `Subscription.next`."""
        await self._changed.wait()
        if self._closed:
            raise StoreClosed
        self._changed.clear()
        chats, self._chats = self._chats, {}
        rows, self._rows = self._rows, set()
        all, self._all = self._all, False
        return News(chats, all, frozenset(rows))

    def add(self, news: News) -> None:
        """Notify the subscriber."""
        self._chats.update(news.chats)
        self._rows |= news.changed
        self._all = self._all or news.all
        self._changed.set()

    def close(self) -> None:
        """As `Subscription.close`."""
        self._closed = True
        self._changed.set()
        self._ended(self)
