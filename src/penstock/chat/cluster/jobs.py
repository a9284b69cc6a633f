"""Jobs of one node: procrastinate gives it the turns of its chats.

A job names a turn; the entries show what is left to do. A lost or repeated job does no harm: a turn that waits without
a job gets a new one, and a turn that has begun is never begun again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from weakref import WeakSet

import psycopg
import psycopg_pool
from procrastinate import App, PsycopgConnector
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import DeleteJobCondition
from procrastinate.worker import Worker

from penstock.chat.store.postgres.connections import Database, cut
from penstock.chat.store.protocol import StoreClosed, StoreFailed

TASK = "penstock.turn"
"""Name of the task of every job, which the store writes as well."""

CONCURRENCY = 1000
"""Jobs of one node at once: one for each of its chats. How many agents are at work is limited by slots."""

FETCH_SECONDS = 0.25
"""Seconds between two searches for jobs whose notification was lost."""

POOL_SECONDS = 5.0
"""Seconds for a connection of the pool; after that the worker ends, and is started anew."""

POOL_CONNECTIONS = 3
"""Connections of procrastinate for its statements, besides the one that listens."""

ENDING_SECONDS = 0.2
"""Seconds for a worker to end before its connections are cut: it waits for the answers of the server."""

AGAIN_SECONDS = 1.0
"""Seconds until a worker that ended is started anew."""

_log = logging.getLogger("penstock.cluster")


class Jobs:
    """Jobs of this node, from `run` until it is cancelled."""

    def __init__(self, database: Database, node: str, work: Callable[[str, int], Awaitable[None]]) -> None:
        """Create it. `work` runs the turns of a chat up to and with one."""
        self._database = database
        self._node = node
        self._work = work
        self._worker: Worker | None = None
        self._connections: WeakSet[psycopg.AsyncConnection[Any]] = WeakSet()
        self._left: set[str] = set()  # chats in which a turn waited and no job worked, when this was last looked at
        self._turns: dict[asyncio.Future[None], str] = {}  # with their chats; the loop of asyncio keeps no task itself

    async def run(self) -> None:
        """Work on the node's jobs, until cancelled. The worker is started anew whenever it ends."""
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().set_exception_handler(_handle)  # procrastinate has such tasks without a database
        while not task.cancelling():  # a worker whose end fails replaces the cancellation by its own error
            app = self._app()
            try:
                await app.open_async()
                await self._run_worker(app)
            except (ConnectorException, psycopg_pool.PoolTimeout, StoreFailed) as error:
                _log.warning("the worker of the jobs ended, and is started again: %s", error)
            except StoreClosed:
                return
            finally:
                await app.close_async()
            await asyncio.sleep(AGAIN_SECONDS)

    async def queue(self, turns: Sequence[tuple[str, int]]) -> None:
        """Queue jobs for turns that wait without one, and drop abandoned jobs.

        Raises:
            StoreFailed: it is tried again.
        """
        worker = self._worker
        if worker is not None and worker.worker_id is not None:
            await self._database.fetch(DROP, {"node": self._node, "worker": worker.worker_id})
            before, self._left = self._left, {chat for chat, _ in turns} - {*self._turns.values()}
            if left := before & self._left:  # not a job that begins or ends just now
                await self._database.fetch(DROP_LEFT, {"node": self._node, "chats": [*left]})
            for chat, turn in turns:
                await self._database.fetch(QUEUE, {"node": self._node, "task": TASK, "chat": chat, "turn": turn})

    def _app(self) -> App:
        parameters = self._database.parameters
        connector = PsycopgConnector(
            kwargs=parameters,
            timeout=POOL_SECONDS,
            min_size=1,
            max_size=POOL_CONNECTIONS,
            reconnect_timeout=POOL_SECONDS,
            configure=self._note,
        )
        app = App(connector=connector)
        app.task(name=TASK)(self._turn)
        return app

    async def _note(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self._connections.add(connection)

    def _cut(self) -> None:
        for connection in self._connections:
            cut(connection)

    async def _run_worker(self, app: App) -> None:
        await self._database.fetch(DROP, {"node": self._node, "worker": 0})
        self._worker = Worker(
            app,
            queues=[self._node],
            name=self._node,
            concurrency=CONCURRENCY,
            fetch_job_polling_interval=FETCH_SECONDS,
            shutdown_graceful_timeout=0,  # turns continue without their job
            delete_jobs=DeleteJobCondition.ALWAYS,
            install_signal_handlers=False,
        )
        running: asyncio.Future[None] = asyncio.ensure_future(self._worker.run())  # type: ignore[no-untyped-call]
        running.add_done_callback(_retrieve)
        try:
            await asyncio.wait([running])
        finally:
            self._worker = None
            for end in (running.cancel, self._cut, running.cancel):
                if not running.done():
                    end()
                    await asyncio.wait([running], timeout=ENDING_SECONDS)
        running.result()

    async def _turn(self, chat: str, turn: int) -> None:
        """Run a turn in a task of its own: it does not end with the worker."""
        task = asyncio.ensure_future(self._work(chat, turn))
        self._turns[task] = chat
        task.add_done_callback(self._turns.pop)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(task)


def _retrieve(done: asyncio.Future[None]) -> None:
    if not done.cancelled():
        done.exception()  # nothing else reads it if this node ends


def _handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log what a task has raised that nothing else reads, but for jobs that could not be ended: that does no harm."""
    if not isinstance(context.get("exception"), ConnectorException):
        loop.default_exception_handler(context)


DROP = """
DELETE FROM procrastinate_jobs
WHERE queue_name = %(node)s AND status = 'doing' AND worker_id IS DISTINCT FROM %(worker)s::bigint
"""
"""Statement that drops the jobs of other workers of the queue: only one lives, that of the lease."""

DROP_LEFT = """
DELETE FROM procrastinate_jobs WHERE queue_name = %(node)s AND status = 'doing' AND lock = ANY (%(chats)s::text[])
"""
"""Statement to drop finished jobs that a restored backup has brought back: jobs of chats without a running one."""

QUEUE = """
SELECT procrastinate_defer_jobs_v1(ARRAY[ROW(
    %(node)s, %(task)s, 0, %(chat)s, %(chat)s || '/' || %(turn)s,
    jsonb_build_object('chat', %(chat)s::text, 'turn', %(turn)s::bigint), NULL
)::procrastinate_job_to_defer_v1])
WHERE NOT EXISTS (SELECT FROM procrastinate_jobs WHERE lock = %(chat)s AND status IN ('todo', 'doing'))
"""
