"""Indexing of turns that have ended and of titles, in the background, so that a search finds their words.

The store has the queue of what is to be indexed. A new or a rebuilt index is a full queue: it needs no code of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

from penstock.chat.service.log.chat_log import STORE_ERRORS
from penstock.chat.service.log.searchable import searchable_texts
from penstock.chat.service.log.stored_turns import decoded_views
from penstock.chat.store.protocol import ChatStore, StoreClosed, Subscription, UnknownChat
from penstock.chat.store.search import TITLE, SearchTexts, Unindexed

BATCH = 16
"""Turns and titles that are indexed together: their changes are one transaction."""

PAUSE_SECONDS = 0.02
"""Seconds between two batches, in which others use the store."""

GATHER_SECONDS = 0.2
"""Seconds for which changes are gathered before they are indexed."""

POLL_SECONDS = 60.0
"""Seconds after which the queue is read without a notification: what nodes that are gone left in it is due then."""

_log = logging.getLogger("penstock.service")


class Indexer:
    """Worker that empties the queue of the store."""

    def __init__(self, store: ChatStore, home: str | None) -> None:
        """`home`: name of this node, which leaves the chats of other nodes to them."""
        self._store = store
        self._home = home

    async def run(self) -> None:
        """Index what waits, and what comes, until the store is closed."""
        subscription = self._store.subscribe()
        try:
            while True:
                try:
                    while items := await self._store.list_unindexed(limit=BATCH, home=self._home):
                        await asyncio.gather(*map(self._index, items))
                        await asyncio.sleep(PAUSE_SECONDS)
                except StoreClosed:
                    return
                except STORE_ERRORS:
                    pass  # what was not indexed is still in the queue
                await _changed(subscription)
                await asyncio.sleep(GATHER_SECONDS)
        except StoreClosed:
            pass
        finally:
            subscription.close()

    async def _index(self, item: Unindexed) -> None:
        texts, at = None, 0
        try:
            texts, at = await self._texts(item)
        except UnknownChat:
            return  # it was deleted, and its place in the queue with it
        except STORE_ERRORS:
            raise
        except Exception:
            _log.exception("turn %d of the chat %s cannot be searched", item.turn, item.chat)
        await self._store.index(item, texts, at=at)

    async def _texts(self, item: Unindexed) -> tuple[SearchTexts | None, int]:
        """Return the texts of a turn or title with their time; no texts if the turn has not ended, or is not read."""
        chat = await self._store.get_chat(item.chat)
        if item.turn == TITLE:
            return SearchTexts(title=chat.title or ""), chat.created_at
        rows = await self._store.list_turns(item.chat, before=item.turn + 1, limit=1)
        views = decoded_views(rows)
        if not views or rows[0].turn != item.turn or not rows[0].last:
            return None, 0
        return await searchable_texts(self._store, item.chat, chat.cwd, views[0]), rows[0].at


async def _changed(subscription: Subscription) -> None:
    """Wait until rows of chats may have changed, as they do when a turn ends; not for ever.

    Raises:
        StoreClosed: the store was closed.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(POLL_SECONDS):
            while True:
                news = await subscription.next()
                if news.changed or news.all:
                    return
