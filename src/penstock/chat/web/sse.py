"""The stream of one viewer: server-sent events over one response, which it owns to its end.

Pull, never push: nothing is made for a viewer before it took what came last.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from starlette.types import Receive, Scope, Send

from penstock.chat.web.broadcast import DELETED, GOODBYE, ChatClient, Step, Watch, Watches

PING_SECONDS = 15.0
"""So often at least something is sent: proxies end a connection that is silent for half a minute or longer."""

SEND_SECONDS = 30.0
"""A viewer that takes nothing for so long is dropped. It comes back with its number, if it is alive."""

PIECE_BYTES = 64 * 1024
"""What is sent at once: what the connection may hold of it is of this size, however large a snapshot is."""

RETRY_MS, SOON_MS = 1000, 500
"""How soon a viewer comes back: where the connection was lost, and where the server said that it ends."""

HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store, no-transform"),
    (b"x-accel-buffering", b"no"),
]
"""A proxy between may neither keep, nor pack, nor gather it."""

HELLO = b": ok\n"
PING = b": ping\n"
"""Lines of the block of the next frame. A blank line behind them would end a block without data, which many readers
hand on as an event whose data is empty: httpx-sse once it has an id, fetch-event-source always."""
RETRY = b"retry: %d\n" % RETRY_MS
"""How soon to come back, a line of the first frame."""
CLOSING_FRAME = b"retry: %d\n" % SOON_MS + GOODBYE


class EventStream:
    """An ASGI response: the frames of a chat after row `after`, and all that come."""

    def __init__(
        self,
        watches: Watches,
        chat: str,
        *,
        after: int | None,
        deltas: bool,
        ping: float = PING_SECONDS,
        patience: float = SEND_SECONDS,
        watched: Callable[[Callable[[], None]], AbstractContextManager[None]] = lambda _: nullcontext(),
    ) -> None:
        """`ping` and `patience` are in seconds: of silence, and for a viewer that takes nothing.

        `watched` gives a context in which it calls what it is given as soon as this viewer may see no more.
        """
        self._watches = watches
        self._chat = chat
        self._after = after
        self._deltas = deltas
        self._ping = ping
        self._patience = patience
        self._watched = watched

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the chat is deleted, the server ends, nobody reads it any more, or its reader is signed out.

        Raises:
            Ending, TooManyRequests: nothing is sent.
        """
        with self._watches.enter(self._chat) as (watch, viewer), self._watched(viewer.expel):
            listening = asyncio.create_task(_listen(receive, viewer))
            viewer.flow = scope.get("state", {}).get("flow")
            self._tick(viewer)
            try:
                await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
                await self._send(send, viewer, HELLO)
                await self._view(watch, viewer, send)
                await self._send(send, viewer, b"", more=False)
            except TimeoutError:
                self._watches.metrics.dropped += 1
                await _hang_up(scope, listening)
            finally:
                viewer.stop_ticking()
                listening.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await listening

    async def _view(self, watch: Watch, viewer: ChatClient, send: Send) -> None:
        cursor, metrics = self._after, self._watches.metrics
        first = RETRY
        while not viewer.gone:
            viewer.wake.clear()
            # What ends the stream is asked for before, so that nothing is missed that was there by then.
            ending = self._watches.ending or watch.failed
            step = Step(b"", 0)
            if watch.ready and cursor != watch.number:
                step = watch.step(cursor, deltas=self._deltas)
                cursor = watch.number
            if step.data:
                metrics.frames += step.frames
                await self._send(send, viewer, first + step.data)
                first = b""
            if watch.over and (not watch.ready or cursor == watch.number):
                if not watch.ready:  # it was deleted before it could be looked at
                    await self._send(send, viewer, first + DELETED)
                return
            if ending:
                await self._send(send, viewer, CLOSING_FRAME if self._watches.ending else b"")
                return
            await viewer.wake.wait()
            if viewer.is_silent:
                await self._send(send, viewer, PING)

    def _tick(self, viewer: ChatClient) -> None:
        """Wake the viewer if nothing was sent for so long. One timer for a stream: a timer for each wait costs more."""
        loop = asyncio.get_running_loop()
        viewer.is_silent = loop.time() - viewer.sent_at >= self._ping
        if viewer.is_silent:
            viewer.wake.set()
        at = loop.time() if viewer.is_silent else viewer.sent_at
        viewer.ticking = loop.call_at(at + self._ping, self._tick, viewer)

    async def _send(self, send: Send, viewer: ChatClient, data: bytes, *, more: bool = True) -> None:
        """Send it piece by piece.

        Raises:
            TimeoutError: a piece was not taken.
        """
        for start in range(0, len(data) or 1, PIECE_BYTES):
            if start and viewer.gone:
                return
            message = {"type": "http.response.body", "body": data[start : start + PIECE_BYTES], "more_body": more}
            if viewer.flow is not None and not viewer.flow.write_paused:
                await send(message)  # the connection takes it without waiting: no time limit is needed
                continue
            try:
                async with asyncio.timeout_at(self._watches.until(self._patience)) as viewer.sending:
                    await send(message)
            finally:
                viewer.sending = None
        viewer.sent_at, viewer.is_silent = asyncio.get_running_loop().time(), False
        self._watches.metrics.bytes += len(data)


async def _listen(receive: Receive, viewer: ChatClient) -> None:
    """Notice at once when the viewer goes: between two frames nothing else would."""
    while (await receive())["type"] != "http.disconnect":
        pass
    viewer.leave()


async def _hang_up(scope: Scope, listening: asyncio.Task[None]) -> None:
    """End the connection without waiting for what a viewer has not taken, which may be for ever."""
    abort: Callable[[], None] | None = scope.get("state", {}).get("abort")
    if abort is not None:
        abort()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                await asyncio.shield(listening)
