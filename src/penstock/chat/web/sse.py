"""Stream of one client: server-sent events over one response, which it owns to its end.

Pull, never push: frames are made only after the client has read the last send.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from starlette.types import Receive, Scope, Send

from penstock.chat.web.broadcast import DELETED, GOODBYE, ChatClient, Step, Watch, WatchedLog, Watches, store_event
from penstock.errors import TransportError

PING_SECONDS = 15.0
"""Seconds of silence before a ping is sent: proxies end a connection that is silent for half a minute or longer."""

SEND_SECONDS = 30.0
"""Seconds after which a client that reads nothing is dropped. A live client reconnects with its number."""

PIECE_BYTES = 64 * 1024
"""Bytes of one send: the connection buffers no more than this, however large a snapshot is."""

RETRY_MS, SOON_MS = 1000, 500
"""Milliseconds before a client reconnects: after a lost connection, and after the server's closing frame."""

HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store, no-transform"),
    (b"x-accel-buffering", b"no"),
]
"""Headers of a stream: a proxy between may neither cache, nor compress, nor buffer it."""

HELLO = b": ok\n"
PING = b": ping\n"
"""Comment lines in the block of the next frame.

A blank line after them would end a block without data, which many readers pass on as an event with empty data:
httpx-sse once it has an id, fetch-event-source always.
"""
RETRY = b"retry: %d\n" % RETRY_MS
"""Line of the first frame with the milliseconds before a client reconnects."""
CLOSING_FRAME = b"retry: %d\n" % SOON_MS + GOODBYE


def _unwatched(expel: Callable[[], None], dismiss: Callable[[], None]) -> AbstractContextManager[None]:
    """Return the context of a stream that everybody may see."""
    return nullcontext()


class EventStream:
    """ASGI response: the frames of a chat after entry `after`, and all that follow."""

    def __init__(
        self,
        watches: Watches,
        name: str,
        *,
        after: int | None,
        deltas: bool,
        log: Callable[[], WatchedLog] | None = None,
        ping: float = PING_SECONDS,
        patience: float = SEND_SECONDS,
        watched: Callable[[Callable[[], None], Callable[[], None]], AbstractContextManager[None]] = _unwatched,
    ) -> None:
        """`ping` and `patience` are in seconds: of silence before a ping, and for a client that reads nothing.

        `name` is the id of a chat, or the name of what `log` returns. `watched` returns a context in which its first
        argument is called as soon as this client may see no more, and its second one if it has to use another node.
        """
        self._watches = watches
        self._name = name
        self._log = log
        self._cursor = after  # the last entry that was sent
        self._is_waiting = False
        """True while the task waits for frames after the first: then `_push` may send them."""
        self._write_chunk: Callable[[bytes], None] | None = None
        self._deltas = deltas
        self._failure: TransportError | None = None
        """Failure of the store that the client knows of."""
        self._ping = ping
        self._patience = patience
        self._watched = watched

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the chat is deleted, the server shuts down, the client disconnects, or its browser is signed out.

        Raises:
            ShuttingDown: the server is shutting down; nothing is sent.
            RateLimited: there are too many streams; nothing is sent.
        """
        with self._watches.enter(self._name, self._log) as (watch, client), self._watched(client.expel, client.dismiss):
            listening = asyncio.create_task(_listen(receive, client))
            state = scope.get("state", {})
            client.flow = state.get("flow")
            is_chunked = scope.get("http_version") == "1.1" and scope.get("method") == "GET"
            self._write_chunk = state.get("write_chunk") if is_chunked else None
            self._tick(client)
            try:
                await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
                await self._send(send, client, HELLO)
                await self._view(watch, client, send)
                await self._send(send, client, b"", more=False)
            except TimeoutError:
                self._watches.metrics.dropped += 1
                await hang_up(scope, listening)
            finally:
                client.stop_ticking()
                listening.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await listening

    async def _view(self, watch: Watch, client: ChatClient, send: Send) -> None:
        first = RETRY
        client.push = lambda: self._push(watch, client)
        while not client.gone:
            client.wake.clear()
            # The condition that ends the stream is read first, so that no frame that existed by then is missed.
            is_goodbye = self._watches.ending or client.dismissed
            ending = is_goodbye or watch.failed
            step = Step(b"", 0)
            if watch.ready and not client.dismissed and self._cursor != watch.number:
                step = watch.step(self._cursor, deltas=self._deltas)
                self._cursor = watch.number
            if step.data:
                self._watches.metrics.frames += step.frames
                await self._send(send, client, first + step.data)
                first = b""
            data = self._store_news()
            if data:
                await self._send(send, client, first + data)
                first = b""
            if watch.over and (not watch.ready or self._cursor == watch.number):
                if not watch.ready:  # deleted before it could be read
                    await self._send(send, client, first + DELETED)
                return
            if ending:
                await self._send(send, client, CLOSING_FRAME if is_goodbye else b"")
                return
            self._is_waiting = not first
            await client.wake.wait()
            self._is_waiting = False
            if client.is_silent:
                await self._send(send, client, PING)

    def _store_news(self) -> bytes:
        """Return the frame for a change of the store's state that the client does not know of, if its chat needs it."""
        failure = self._watches.store_failure if self._log is None else None
        if failure is self._failure:
            return b""
        self._failure = failure
        return store_event(failure)

    def _push(self, watch: Watch, client: ChatClient) -> bool:
        """Send new frames while the task waits, if the connection accepts them at once; return whether nothing is left.

        Waking the task and passing each layer of the server costs several times as much as this.
        """
        if self._write_chunk is None or not self._is_waiting or client.wake.is_set():
            return False
        if client.flow is None or client.flow.write_paused or watch.over or watch.failed or not watch.ready:
            return False
        try:
            step = watch.step(self._cursor, deltas=self._deltas)
        except Exception:
            return False  # a bug, which the task raises as well, where it ends this stream alone
        if len(step.data) > PIECE_BYTES:
            return False
        self._cursor = watch.number
        if step.data:
            self._write_chunk(step.data)
            self._note(client, step.data)
            self._watches.metrics.frames += step.frames
        return True

    def _tick(self, client: ChatClient) -> None:
        """Wake the client after `ping` seconds of silence. A stream has one timer: a timer for each wait costs more."""
        loop = asyncio.get_running_loop()
        client.is_silent = loop.time() - client.sent_at >= self._ping
        if client.is_silent:
            client.wake.set()
        at = loop.time() if client.is_silent else client.sent_at
        client.ticking = loop.call_at(at + self._ping, self._tick, client)

    async def _send(self, send: Send, client: ChatClient, data: bytes, *, more: bool = True) -> None:
        """Send `data` piece by piece.

        Raises:
            TimeoutError: the client did not read a piece in time.
        """
        for start in range(0, len(data) or 1, PIECE_BYTES):
            if start and client.gone:
                return
            message = {"type": "http.response.body", "body": data[start : start + PIECE_BYTES], "more_body": more}
            if client.flow is not None and not client.flow.write_paused:
                await send(message)  # the connection accepts it without waiting: no time limit is needed
                continue
            try:
                async with asyncio.timeout_at(self._watches.until(self._patience)) as client.sending:
                    await send(message)
            finally:
                client.sending = None
        self._note(client, data)

    def _note(self, client: ChatClient, data: bytes) -> None:
        client.sent_at, client.is_silent = asyncio.get_running_loop().time(), False
        self._watches.metrics.bytes += len(data)


async def _listen(receive: Receive, client: ChatClient) -> None:
    """Detect at once that the client disconnects: between two frames nothing else would."""
    while (await receive())["type"] != "http.disconnect":
        pass
    client.leave()


async def hang_up(scope: Scope, listening: asyncio.Task[None]) -> None:
    """End the connection without waiting until the client has read the rest, which may never happen."""
    abort: Callable[[], None] | None = scope.get("state", {}).get("abort")
    if abort is not None:
        abort()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                await asyncio.shield(listening)
