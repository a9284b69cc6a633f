"""uvicorn with a shutdown that notifies its streams: from SIGTERM to exit takes less than a second.

uvicorn waits for its connections before it notifies the application, so open streams would keep it alive for ever.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from types import FrameType
from typing import Any

import uvicorn

from penstock.chat.web.broadcast import MAX_CLIENTS
from penstock.chat.web.connections import MAX_STRANGERS, Connection, Connections
from penstock.chat.web.middleware import Middleware
from penstock.chat.web.security import MAX_HEADER_BYTES
from penstock.chat.web.self_check import check_uvicorn

DRAIN_SECONDS = 0.3
"""Seconds to finish the sends in progress when the server shuts down; a slower client reconnects for the rest."""

BACKSTOP_SECONDS = 2
"""Seconds after which requests that are still running are cancelled."""

MAX_CONNECTIONS = MAX_CLIENTS + 500 + MAX_STRANGERS
"""Number of connections at once; for more, the response is that the server is busy."""

BACKLOG = 512


class Server(uvicorn.Server):
    """Server of the gateway that runs until a signal ends it."""

    def __init__(
        self,
        app: Middleware,
        end: Callable[[], Awaitable[None]],
        *,
        ready: Callable[[], None] = lambda: None,
        **options: Any,
    ) -> None:
        """`ready` is called when the server accepts requests and handles signals.

        `end` is called once, when the shutdown begins, while responses are still sent. `options` are uvicorn's.
        """
        config = uvicorn.Config(
            app,
            http=partial(Connection, Connections()),  # type: ignore[arg-type]  # uvicorn only calls it
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # no client is trusted, so forwarded addresses are ignored
            backlog=BACKLOG,
            limit_concurrency=MAX_CONNECTIONS,
            timeout_graceful_shutdown=BACKSTOP_SECONDS,
            h11_max_incomplete_event_size=MAX_HEADER_BYTES,
            **options,
        )
        super().__init__(config)
        self.ended_by: int | None = None
        """Number of the signal that ended the server."""
        self._app = app
        self._end = end
        self._ready = ready
        self._ending: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin the shutdown at the first signal; exit at once at the second."""
        if self.ended_by is not None:
            os._exit(128 + sig)  # the log is safe at any exit, and agents have their guards
        self.ended_by = sig
        self.should_exit: bool = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self.drain)

    def drain(self) -> None:
        """Notify the clients and begin the shutdown."""
        self.should_exit = True
        if self._ending is None:
            self._app.watches.drain(DRAIN_SECONDS)
            self._ending = asyncio.ensure_future(self._end())

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start as uvicorn does, then call `ready`.

        Raises:
            UsageError: this version of uvicorn would change the bytes of a stream.
        """
        await check_uvicorn()
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Shut down as uvicorn does, then close everything that the gateway holds."""
        self.drain()
        await super().shutdown(sockets)
        assert self._ending is not None
        await self._ending
        await self._app.watches.close()
