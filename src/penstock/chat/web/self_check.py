"""Check of uvicorn before the first connection: a stream must leave the server byte by byte as it was written.

`Connection` extends a protocol of uvicorn that is not part of its public interface, and writes chunks past it. The
range in `pyproject.toml` names the versions that are tested; this check finds other installed versions.
"""

from __future__ import annotations

import asyncio

import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from penstock.chat.web.connections import Connection, Connections
from penstock.errors import UsageError

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
BODY = b"5\r\nfirst\r\n6\r\nsecond\r\n5\r\nthird\r\n0\r\n\r\n"
"""Body of the response: three chunks, the second one written past the layers between."""

SECONDS = 30.0
"""Time limit in seconds; the check takes less than a millisecond, and a busy machine may let it wait."""


class _Memory(asyncio.Transport):
    """Transport without a network that keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self._is_closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        self._is_closing = True

    def abort(self) -> None:
        self._is_closing = True

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0


async def check_uvicorn() -> None:
    """Send a stream through the installed uvicorn and compare its bytes.

    Raises:
        UsageError: they differ, or uvicorn lacks something that `Connection` uses.
    """
    transport = _Memory()
    problem: Exception | None = None
    try:
        async with asyncio.timeout(SECONDS):
            await _send_stream(transport)
    except Exception as error:  # another version of uvicorn may raise any exception
        problem = error
    if problem is not None or transport.written.partition(b"\r\n\r\n")[2] != BODY:
        raise UsageError(
            f"uvicorn {uvicorn.__version__} does not send streams as Penstock writes them",
            expected="a version that Penstock allows",
            help="install Penstock again, in an environment of its own",
        ) from problem


async def _send_stream(transport: _Memory) -> None:
    ended = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        state = scope["state"]
        try:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"first", "more_body": True})
            if not state["flow"].write_paused:
                state["write_chunk"](b"second")
            await send({"type": "http.response.body", "body": b"third", "more_body": False})
        finally:
            ended.set()

    config = uvicorn.Config(app, ws="none", lifespan="off", log_config=None, access_log=False)
    connection = Connection(Connections(), config=config, server_state=ServerState(), app_state={})
    connection.connection_made(transport)
    connection.data_received(REQUEST)
    await ended.wait()
    connection.check_limits(connection.loop.time())
    connection.connection_lost(None)
