"""How much of the past is kept: by whole turns, so that what stays can be read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from penstock.chat.service.ledger import Ledger
from penstock.chat.store.protocol import LogFailed

AGAIN_SECONDS = 3600.0
"""How often what is too old is dropped."""


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """How much is kept. None: all of it."""

    expired: Callable[..., Awaitable[dict[str, int]]]
    """As `SqliteLog.expired`."""
    max_age_ms: int | None = None
    max_bytes: int | None = None

    async def retain(self, ledgers: Mapping[str, Ledger]) -> dict[str, int]:
        """Drop what is too old or too much, of the chats with these ids; gives the row up to which, for each.

        Raises:
            LogFailed: the log cannot be read or trimmed.
        """
        trimmed = {}
        for id, upto in (await self.expired(max_age_ms=self.max_age_ms, max_bytes=self.max_bytes)).items():
            if id in ledgers and (reached := await ledgers[id].trim(upto)):
                trimmed[id] = reached
        return trimmed

    async def again(
        self, retain: Callable[[Retention], Awaitable[Any]], sleep: Callable[[float], Awaitable[None]]
    ) -> None:
        """Do so again and again, whatever the log says."""
        while True:
            try:
                await retain(self)
            except LogFailed:
                pass  # next time
            await sleep(AGAIN_SECONDS)
