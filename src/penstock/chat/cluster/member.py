"""This process as a node: it takes a lease, works while it has one, and kills its agents when the lease is over."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from msgspec.structs import replace

from penstock.chat.cluster.jobs import Jobs
from penstock.chat.cluster.nodes import TTL_SECONDS, Lease, NameTaken, described, live_nodes
from penstock.chat.service.log.chat_log import STORE_ERRORS
from penstock.chat.service.nodes import NodeAbout, ThisNode
from penstock.chat.service.service import Service
from penstock.chat.store.postgres.connections import Database
from penstock.chat.store.protocol import StoreClosed, StoreFailed

SWEEP_SECONDS = 2.0
"""Seconds between two searches for chats of lost nodes; with the lease, a turn ends within 12 s of the loss."""

AGAIN_SECONDS = 1.0
"""Seconds between two attempts to take a lease."""

JOIN_SECONDS = TTL_SECONDS + 3
"""Seconds for which a start waits for its name, because the lease of a killed process ends by itself."""

DESCRIBE_SECONDS = 5.0
"""Seconds between two descriptions of this node, and the delay until others see a new agent."""

CLOSING_SECONDS = 1.0
"""Seconds for the end of the jobs, and for that of the lease."""

_log = logging.getLogger("penstock.cluster")


class Member:
    """Membership of this process, from `join` to `close`."""

    def __init__(self, database: Database, this_node: ThisNode, *, works: bool) -> None:
        """Create it. `works` is true if agents work in this process."""
        self._database = database
        self._this_node = this_node
        self._lease = Lease(database, this_node.name, self._about_now)
        self._works = works
        self._about = described()
        self._busy: Callable[[], int] = lambda: 0
        self._running: asyncio.Task[None] | None = None

    async def join(self, waits: Callable[[NameTaken], None]) -> None:
        """Take the lease. `waits` is called if another process has it, which may have died.

        Raises:
            NameTaken: it is alive.
            StoreFailed: the database cannot be used.
        """
        loop = asyncio.get_running_loop()
        end, is_first = loop.time() + JOIN_SECONDS, True
        while True:
            try:
                await self._take()
                return
            except NameTaken as taken:
                if loop.time() >= end:
                    raise
                if is_first:
                    waits(taken)
            is_first = False
            await asyncio.sleep(AGAIN_SECONDS)

    async def start(self, service: Service) -> None:
        """Describe this node to the others, before it answers anybody, and begin to work on its jobs.

        Raises:
            NameTaken: the lease ended while the chats were read, and another process has the name.
        """
        self._busy = lambda: service.node.busy
        await self._describe(service)
        if not await self._lease.publish():
            with contextlib.suppress(StoreFailed):
                await self._take()
        self._running = asyncio.create_task(self._run(service))
        self._running.add_done_callback(_log_failure)

    async def close(self) -> None:
        """End the work, and leave. The runs have been killed before."""
        await asyncio.gather(self._end_work(), self._leave())
        await self._lease.close()

    async def _end_work(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running], timeout=CLOSING_SECONDS)

    async def _leave(self) -> None:
        with contextlib.suppress(StoreFailed, StoreClosed, TimeoutError):
            async with asyncio.timeout(CLOSING_SECONDS):
                await self._lease.leave()

    async def _run(self, service: Service) -> None:
        while True:
            work = asyncio.create_task(self._work(service))
            try:
                await self._lease.hold()
            finally:
                self._this_node.incarnation = None
                await service.node.fence()
                work.cancel()
                await asyncio.wait([work])
                _log_failure(work)
            _log.warning(
                "the lease of this node is over: its agents were killed, and it works again once it has a new one"
            )
            await self._take_again()

    async def _take(self) -> None:
        await self._lease.take()
        self._this_node.incarnation = self._lease.incarnation

    async def _take_again(self) -> None:
        while True:
            await asyncio.sleep(AGAIN_SECONDS)
            with contextlib.suppress(StoreFailed, NameTaken):
                await self._take()
                return

    async def _work(self, service: Service) -> None:
        jobs = Jobs(self._database, self._this_node.name, service.node.run_job)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._sweep_again(service, jobs))
            if self._works:
                group.create_task(self._describe_again(service))
                group.create_task(jobs.run())

    async def _describe_again(self, service: Service) -> None:
        while True:
            await asyncio.sleep(DESCRIBE_SECONDS)
            await self._describe(service)

    async def _describe(self, service: Service) -> None:
        if self._works:
            agents = await asyncio.to_thread(service.agents.listed)
            default = await asyncio.to_thread(service.agents.default)
            names = sorted((agent.name for agent in agents if agent.available), key=lambda name: name != default)
            self._about = described(
                roots=await service.node.roots(),
                agents=names,
                models={agent.name: agent.models for agent in agents if agent.available and agent.models},
                slots=service.limits.max_runs,
            )

    def _about_now(self) -> NodeAbout:
        return replace(self._about, busy=self._busy())

    async def _sweep_again(self, service: Service, jobs: Jobs) -> None:
        """Note which nodes are up, end the turns of lost nodes, and queue turns that wait without a job."""
        while True:
            with contextlib.suppress(StoreFailed):
                self._this_node.live = await live_nodes(self._database)
                for (chat,) in await self._database.fetch(
                    LOST, {"node": self._this_node.name, "incarnation": self._this_node.incarnation}
                ):
                    with contextlib.suppress(*STORE_ERRORS):  # another node was faster
                        await service.node.take_over(chat)
                if waiting := service.node.waiting_turns():
                    await jobs.queue(waiting)
            await asyncio.sleep(SWEEP_SECONDS)


def _log_failure(work: asyncio.Task[None]) -> None:
    if not work.cancelled() and (error := work.exception()) is not None:
        _log.error("a bug: the work of this node ended", exc_info=error)


LOST = """
SELECT id FROM heads
WHERE owner IS NOT NULL
    AND (NOT is_live_v1(owner, incarnation) OR (owner = %(node)s AND incarnation = %(incarnation)s::uuid))
ORDER BY key
"""
"""Statement that finds the chats of lost nodes, and those of this one, of which it may have lost an end."""
