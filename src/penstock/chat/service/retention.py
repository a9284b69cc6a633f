"""The end of old turns: those that are too old or too many are dropped from the store."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable

from penstock.chat.service.chats.chats import Chats
from penstock.chat.service.limits import RETAIN_SECONDS, Retention
from penstock.chat.store.protocol import ChatStore, StoreFailed


class OldTurns:
    """Turns of the chats of one service that exceed limits."""

    def __init__(
        self, store: ChatStore, chats: Chats, now: Callable[[], int], sleep: Callable[[float], Awaitable[None]]
    ) -> None:
        """`now` returns milliseconds since 1970; `sleep` waits for a number of seconds."""
        self._store = store
        self._chats = chats
        self._now = now
        self._sleep = sleep

    async def drop(self, retention: Retention) -> dict[str, int]:
        """Drop the oldest turns of all chats that exceed the limits; return the last dropped entry of each chat.

        Of several nodes, each drops those of the chats whose home it is.

        Turns are dropped as a whole, and each chat keeps its newest.

        Raises:
            StoreFailed: the store cannot be read or trimmed.
        """
        before = None if retention.max_age_ms is None else max(0, self._now() - retention.max_age_ms)
        trimmed = {}
        for id, upto in (await self._store.list_expired(before=before, max_bytes=retention.max_bytes)).items():
            chat = self._chats.get(id)
            if chat is not None and chat.is_home and (reached := await chat.log.trim(upto)):
                trimmed[id] = reached
        return trimmed

    async def drop_again(self, retention: Retention) -> None:
        """Drop them again and again."""
        while True:
            with contextlib.suppress(StoreFailed):  # the next call tries again
                await self.drop(retention)
            await self._sleep(RETAIN_SECONDS)
