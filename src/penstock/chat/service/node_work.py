"""Work of this process as one of several nodes: its jobs, chats of other nodes, and turns of nodes that were lost."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Collection

from penstock.chat.errors import Invalid, NoSuchNode
from penstock.chat.service.agents.workspaces import Workspace, Workspaces
from penstock.chat.service.chats.chat import Chat
from penstock.chat.service.log.chat_log import STORE_ERRORS, ChatLog
from penstock.chat.service.nodes import ChatPlace, NodeView, Offered
from penstock.chat.service.shared import Shared
from penstock.chat.store.protocol import News, StoreFailed, UnknownChat
from penstock.chat.store.rows import ChatRow


class NodeWork:
    """Part of a service that other nodes ask for."""

    def __init__(self, workers: dict[str, Chat], shared: Shared, workspaces: Workspaces) -> None:
        """Create it. `workers` are those of the service, which this object adds to."""
        self._workers = workers
        self._shared = shared
        self._workspaces = workspaces

    # --- other nodes ---

    @property
    def name(self) -> str | None:
        """Name of this node; None if there is one machine."""
        return self._shared.this_node.name if self._shared.this_node.by_jobs else None

    @property
    def has_lease(self) -> bool:
        """True if this node may work on chats. It always may if there is one machine."""
        return not self._shared.this_node.by_jobs or self._shared.this_node.incarnation is not None

    async def nodes(self) -> list[NodeView]:
        """Return the nodes, in the order of their names; none if there is one machine.

        Raises:
            StoreFailed: the store cannot be read.
        """
        elsewhere = self._shared.this_node.elsewhere
        return await elsewhere.nodes() if elsewhere is not None else []

    async def remove(self, name: str) -> None:
        """Remove a node that is away, as `Elsewhere.remove`.

        Raises:
            NoSuchNode: there is none of this name.
            Conflicting: it is up.
            StoreFailed: the store cannot be reached.
        """
        elsewhere = self._shared.this_node.elsewhere
        if elsewhere is None:
            raise NoSuchNode(name)
        await elsewhere.remove(name)

    async def offered(self) -> Offered | None:
        """Return what other nodes offer for new chats; None if agents work at this one."""
        elsewhere = self._shared.this_node.elsewhere
        return await elsewhere.offered() if elsewhere is not None else None

    async def place(self, home: str | None, agent: str | None, cwd: str | os.PathLike[str] | None) -> ChatPlace | None:
        """Return the place of a new chat at another node, as `Elsewhere.place`; None if it belongs to this one."""
        elsewhere = self._shared.this_node.elsewhere
        if elsewhere is not None:
            return await elsewhere.place(home, agent, None if cwd is None else os.fspath(cwd))
        if home is not None:
            raise Invalid("a chat has a home only if there are several machines")
        return None

    async def trust(self, home: str | None, path: str) -> Workspace | None:
        """Trust a directory of another node, as `Elsewhere.trust`; return None if it belongs to this one."""
        elsewhere = self._shared.this_node.elsewhere
        if elsewhere is not None:
            return await elsewhere.trust(home, path)
        if home is not None:
            raise Invalid("a directory has a home only if there are several machines")
        return None

    # --- chats of other nodes ---

    async def changed(self, news: News) -> Collection[str]:
        """Return the ids of the chats whose row may have changed."""
        if not news.all:
            return news.changed
        rows: list[ChatRow] = []
        with contextlib.suppress(StoreFailed):  # the store notifies again when it is back
            while page := await self._shared.store.list_chats(after=rows[-1].id if rows else ""):
                rows += page
        return {*self._workers, *(row.id for row in rows)}

    def skips(self, worker: Chat) -> bool:
        """Leave the new entries of a chat unread if its turn runs at another node and has no viewer here.

        The home changes the row, or notes a change of it, when a list of chats shows something else.
        """
        skips = not worker.is_home and worker.state == "running" and not worker.log.live.is_watched
        if skips:
            worker.log.live.is_skipping = True
        return skips

    async def read_row(self, chat: str) -> None:
        """Take up a chat that another node created, changed or deleted."""
        try:
            if chat in self._workers:
                worker = self._workers[chat]
                await worker.log.read_row()
                if worker.log.live.is_skipping:
                    await worker.recover()
            else:
                await self._add(await self._shared.store.get_chat(chat))
        except UnknownChat:
            gone = self._workers.pop(chat, None)
            if gone is not None:
                await gone.drop()
        except STORE_ERRORS:
            pass  # the store notifies again when it is back
        self._shared.changed()

    async def find(self, chat: str) -> None:
        """Take up a chat that this node was not notified of yet: a client may have created it at another just now.

        Raises:
            StoreFailed: the store cannot be read.
        """
        if self._shared.this_node.by_jobs and chat not in self._workers:
            with contextlib.suppress(UnknownChat):
                await self._add(await self._shared.store.get_chat(chat))

    async def fresh_log(self, worker: Chat) -> ChatLog:
        """Return the log of a chat, with what other nodes appended, of which this node may not be notified yet.

        Raises:
            StoreFailed: the store cannot be read.
        """
        if self._shared.this_node.by_jobs:
            with contextlib.suppress(UnknownChat):
                await worker.log.follow((await self._shared.store.summary(worker.chat.id, limit=1)).last)
        return worker.log

    async def _add(self, row: ChatRow) -> None:
        if row.id not in self._workers:
            worker = self._workers[row.id] = Chat(row, self._shared)
            await worker.recover()

    # --- turns ---

    async def run_job(self, chat: str, turn: int) -> None:
        """Run a chat's turns that wait, up to and with this one. Return at once if it does not wait any more."""
        worker = await self._worker(chat)
        if worker is None:
            return
        if worker.chat.cwd not in self._workspaces.trusted:
            with contextlib.suppress(StoreFailed):  # the turn ends with an error, as in a directory that is not trusted
                await self._workspaces.read_again()
        await worker.run_job(turn)

    def waiting_turns(self) -> list[tuple[str, int]]:
        """Return the chats of this node in which a turn waits and nothing works, with the newest of these turns."""
        return [
            (id, worker.waiting_upto)
            for id, worker in self._workers.items()
            if worker.is_home and worker.waiting and not worker.works
        ]

    async def take_over(self, chat: str) -> None:
        """End the turn of a node that was lost, and release its chat.

        Raises:
            Claimed: another node was faster.
            StoreFailed: as `Chat.take_over`.
        """
        worker = await self._worker(chat)
        if worker is not None:
            await worker.take_over()

    async def fence(self) -> None:
        """Kill the runs of this node, and forget its claims: its lease is over. On return, no agent works."""
        await asyncio.gather(*(worker.fence() for worker in self._workers.values()))

    async def _worker(self, chat: str) -> Chat | None:
        if chat not in self._workers:
            await self.read_row(chat)
        return self._workers.get(chat)

    # --- what this node publishes ---

    @property
    def busy(self) -> int:
        """Number of slots in use."""
        return self._shared.slots.used

    async def roots(self) -> list[str]:
        """Return the paths of the roots, and read again which directories are trusted: others may have added some."""
        with contextlib.suppress(StoreFailed):
            await self._workspaces.read_again()
        return [str(root) for root in self._workspaces.roots]
