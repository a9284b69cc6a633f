"""uvicorn, with an end that its streams are told of: SIGTERM to exit takes less than a second.

uvicorn waits for its connections before it tells the application anything, so open streams would keep it for ever.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from penstock.chat.web.broadcast import MAX_VIEWERS
from penstock.chat.web.middleware import Middleware
from penstock.chat.web.security import MAX_HEADER_BYTES

DRAIN_SECONDS = 0.3
"""For what is being sent to a viewer when the server ends; who takes it more slowly comes back for it."""

BACKSTOP_SECONDS = 2
"""Requests that are not over by then are cancelled."""

GREETING_SECONDS = 20.0
"""A connection that has not asked for anything by then is none of a browser or a program."""

MAX_CONNECTIONS = MAX_VIEWERS + 500
"""More are told that the server is busy."""

BACKLOG = 512


class Connection(H11Protocol):
    """One connection. What it answers can end it at once: `scope["state"]["abort"]`.

    `scope["state"]["flow"]` tells whether a send would wait for the client.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """As uvicorn's."""
        super().connection_made(transport)
        self.app_state = {**self.app_state, "abort": transport.abort, "flow": self.flow}
        self.loop.call_later(GREETING_SECONDS, self._hang_up)

    def _hang_up(self) -> None:
        if getattr(self, "cycle", None) is None:
            self.transport.abort()


class Server(uvicorn.Server):
    """Serves the gateway until it is told to end."""

    def __init__(
        self,
        app: Middleware,
        end: Callable[[], Awaitable[None]],
        *,
        ready: Callable[[], None] = lambda: None,
        **options: Any,
    ) -> None:
        """`ready` is called when it can be asked, and told to end.

        `end` is called once, when it begins to end, beside what it still sends. `options` are uvicorn's.
        """
        config = uvicorn.Config(
            app,
            http=Connection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # it believes nobody, so it tells no address of anybody
            backlog=BACKLOG,
            limit_concurrency=MAX_CONNECTIONS,
            timeout_graceful_shutdown=BACKSTOP_SECONDS,
            h11_max_incomplete_event_size=MAX_HEADER_BYTES,
            **options,
        )
        super().__init__(config)
        self.ended_by: int | None = None
        """The signal that ended it."""
        self._app = app
        self._end = end
        self._ready = ready
        self._ending: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to end, or, told so again, end."""
        if self.ended_by is not None:
            os._exit(128 + sig)  # the log is safe whenever it ends, and agents have their guards
        self.ended_by = sig
        self.should_exit = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self.drain)

    def drain(self) -> None:
        """Tell the viewers, and begin to end."""
        self.should_exit = True
        if self._ending is None:
            self._app.watches.drain(DRAIN_SECONDS)
            self._ending = asyncio.ensure_future(self._end())

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn's."""
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn's, and then all that the gateway had is closed."""
        self.drain()
        await super().shutdown(sockets)
        assert self._ending is not None
        await self._ending
        await self._app.watches.close()
