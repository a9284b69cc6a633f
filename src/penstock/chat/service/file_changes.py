"""Files that the turns of chats changed, for clients that see the chat."""

from __future__ import annotations

import asyncio

from penstock.chat.errors import NoSuchTurn
from penstock.chat.history.changes import ChangesFold, FileChanges, take_turn
from penstock.chat.service.chats.chats import Chats
from penstock.chat.service.log.chat_log import ChatLog

MAX_TURNS = 50
"""Number of turns of a chat whose changes are joined: the newest, as many as a snapshot has."""


class TurnChanges:
    """Changes of the chats of one service."""

    def __init__(self, chats: Chats) -> None:
        self._chats = chats

    async def of_turn(self, id: str, turn: int) -> FileChanges:
        """Return the files that a turn has changed so far.

        Raises:
            NoSuchChat, NoSuchTurn: there is none, or it is no longer kept.
            StoreFailed: the store cannot be read.
        """
        directory = self._chats.require(id).row.cwd
        fold = ChangesFold(directory, diffs=True)
        is_over = await _take(await self._chats.fresh_log(id), turn, fold)
        return await asyncio.to_thread(fold.changes, directory, whole=is_over)

    async def of_chat(self, id: str) -> FileChanges:
        """Return the files that the newest turns of a chat have changed so far.

        Turns that an earlier version of Penstock has summed up are left out.

        Raises:
            NoSuchChat: there is none of this id.
            StoreFailed: the store cannot be read.
        """
        directory = self._chats.require(id).row.cwd
        fold = ChangesFold(directory, diffs=True)
        log = await self._chats.fresh_log(id)
        turns, has_earlier = await log.turns(None, MAX_TURNS)
        is_whole = True
        for view in turns:
            if view.changed is not None or view.found or not (view.finalized or view.state == "queued"):
                try:
                    is_whole = await _take(log, view.turn, fold) and is_whole
                except NoSuchTurn:  # its entries are no longer kept, or those of the whole chat
                    has_earlier = True
        return await asyncio.to_thread(fold.changes, directory, whole=is_whole, earlier=has_earlier)


async def _take(log: ChatLog, turn: int, fold: ChangesFold) -> bool:
    """Apply the entries of one turn; return whether its run is over."""
    view, rows = await log.turn(turn)
    await asyncio.to_thread(take_turn, fold, rows)
    return view.finalized
