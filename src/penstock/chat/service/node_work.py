"""Work of this process as one of several nodes: its jobs, turns of lost nodes, and the end of its lease."""

from __future__ import annotations

import asyncio
import contextlib

from penstock.chat.service.agents.workspaces import Workspaces
from penstock.chat.service.chats.chats import Chats
from penstock.chat.service.shared import Shared
from penstock.chat.store.protocol import StoreFailed, UnknownChat


class NodeWork:
    """Requests of the other nodes to this one."""

    def __init__(self, chats: Chats, shared: Shared, workspaces: Workspaces) -> None:
        self._chats = chats
        self._shared = shared
        self._workspaces = workspaces

    async def find(self, chat: str) -> None:
        """Take up a chat that this node was not notified of yet: a client may have created it at another just now.

        Raises:
            StoreFailed: the store cannot be read.
        """
        if self._shared.this_node.by_jobs and chat not in self._chats:
            with contextlib.suppress(UnknownChat):
                await self._chats.add(await self._shared.store.get_chat(chat))

    # --- turns ---

    async def run_job(self, chat: str, turn: int) -> None:
        """Run a chat's queued turns up to and including this one. Return at once if it no longer waits."""
        here = await self._chats.taken_up(chat)
        if here is None:
            return
        if here.row.source not in self._workspaces.trusted:
            with contextlib.suppress(StoreFailed):  # the turn ends with an error, as in a directory that is not trusted
                await self._workspaces.read_again()
        await here.run_job(turn)

    def waiting_turns(self) -> list[tuple[str, int]]:
        """Return the chats of this node in which a turn waits and nothing works, with the newest of these turns."""
        return [
            (chat.row.id, chat.waiting_upto) for chat in self._chats if chat.is_home and chat.waiting and not chat.works
        ]

    async def take_over(self, chat: str) -> None:
        """End the turn of a node that was lost, and release its chat.

        Raises:
            Claimed: another node was faster.
            StoreFailed: as `Chat.take_over`.
        """
        here = await self._chats.taken_up(chat)
        if here is not None:
            await here.take_over()

    async def fence(self) -> None:
        """Kill the runs of this node, and forget its claims: its lease is over. On return, no agent works."""
        await asyncio.gather(*(chat.fence() for chat in self._chats))

    # --- facts that this node publishes ---

    @property
    def busy(self) -> int:
        """Number of slots in use."""
        return self._shared.slots.used

    async def roots(self) -> list[str]:
        """Return the paths of the roots, and read again which directories are trusted: others may have added some."""
        with contextlib.suppress(StoreFailed):
            await self._workspaces.read_again()
        return [str(root) for root in self._workspaces.roots]
