"""Chats as files: their turns in order, read from the store piece by piece."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from penstock.chat.errors import NoSuchTurn
from penstock.chat.history.details import details_of
from penstock.chat.history.export.parts import TurnToExport, is_exported
from penstock.chat.history.frames import TurnView
from penstock.chat.service.chats.chats import Chats
from penstock.chat.store.protocol import StoreFailed, Trimmed

EXPORTED_TURNS = 100
"""Number of turns that are read at once for a file."""


class Exports:
    """Chats of one service as files."""

    def __init__(self, chats: Chats) -> None:
        self._chats = chats

    async def turns(self, id: str, *, with_details: bool) -> AsyncIterator[TurnToExport]:
        """Yield the turns of a chat for a file, the oldest first; with what their agents did, if wanted.

        Turns that are asked for meanwhile are left out.

        Raises:
            NoSuchChat: there is none of this id.
            StoreFailed: its turns cannot be read.
        """
        newest = self._chats.require(id).log.live.newest
        for first in range(1, newest.turn + 1 if newest is not None else 1, EXPORTED_TURNS):
            log = await self._chats.fresh_log(id)
            found, _ = await log.turns(first + EXPORTED_TURNS, EXPORTED_TURNS)
            for view in found:
                if view.turn >= first and is_exported(view):  # turns may be missing, so a page may reach back
                    yield await self._with_details(id, view) if with_details else TurnToExport(view)

    async def _with_details(self, id: str, view: TurnView) -> TurnToExport:
        try:
            _, rows = await (await self._chats.fresh_log(id)).turn(view.turn)
        except (NoSuchTurn, StoreFailed, Trimmed) as error:
            return TurnToExport(view, gap=f"they cannot be read: {error}")
        details = await asyncio.to_thread(details_of, view, rows)
        is_at_work = view.state == "completed" and not details.whole
        return TurnToExport(view, details.items, "the agent's program has not ended yet" if is_at_work else "")
