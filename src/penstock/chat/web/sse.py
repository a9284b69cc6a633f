"""Stream of one client: server-sent events over one response, which it owns to its end.

Pull, never push: frames are made only after the client has read the last send.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

from starlette.types import Receive, Scope, Send

from penstock.chat.history import frames
from penstock.chat.people.persons import Person
from penstock.chat.web.broadcast import (
    DELETED,
    END_OF_CHAT,
    GOODBYE,
    ChatClient,
    Step,
    Watch,
    WatchedLog,
    Watches,
    placed,
    store_event,
    with_times,
)
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


Watched = Callable[[Callable[[], None], Callable[[], None]], AbstractContextManager[None]]
"""Function that makes a context in which its first argument is called as soon as a client may see no more, and its
second one if the client has to use another node."""

Seen = Callable[[Callable[[], None], Callable[[Person], bool]], AbstractContextManager[None]]
"""Function that makes a context: its first argument is called once the second one returns False for the person."""


def _unwatched(expel: Callable[[], None], dismiss: Callable[[], None]) -> AbstractContextManager[None]:
    """Return the context of a stream that everybody may see."""
    return nullcontext()


class FollowedLog(NamedTuple):
    """What a stream follows, and from where on."""

    watch: str
    """Id of a chat, or name of what `log` returns."""
    after: int | None
    log: Callable[[], WatchedLog] | None = None
    name: str = ""
    """Name in the envelope of each frame, in a stream of several chats."""
    sees: Callable[[Person], bool] | None = None
    """Function that returns whether a person may still see it, in a stream of several chats."""
    is_missing: bool = False
    """True if it does not exist, or its client may not see it."""
    at: int | None = None
    """Time of the entry `after`, by which it is known to be the one that the client has seen; None: it is."""
    is_timed: bool = False
    """True if each `id` has the time of its entry, in a stream of one chat."""


class StreamPlace:
    """One of the chats that a stream follows."""

    def __init__(self, index: int, followed: FollowedLog, *, is_named: bool) -> None:
        self.followed = followed
        self.cursor: int | None = followed.after
        """The last entry that was sent."""
        self.at: int | None = followed.at
        """Time of this entry, if it is known."""
        self.watch: Watch
        self.is_open: bool = True
        """True if more may come."""
        self.is_expelled: bool = followed.is_missing
        """True if its client may not see it, or no longer."""
        self.is_named = is_named
        self._index = index

    def compare(self) -> None:
        """Forget the cursor if the entry of its number is not the one that the client has seen: after a restore."""
        if self.at is None or self.cursor is None:
            return
        if self.watch.time_of(self.cursor) not in (None, self.at):
            self.cursor = None

    def news(self, *, deltas: bool) -> Step:
        """Return the frames after the cursor, as this stream has them, and move the cursor."""
        self.compare()
        step = self.watch.step(self.cursor, deltas=deltas)
        self.cursor = self.watch.number
        self.at = self.watch.time_of(self.cursor)
        if self.is_named and step.data:
            return Step(placed(self._index, self.followed.name, step.parts), step.frames)
        return with_times(step) if self.followed.is_timed else step

    def end(self, kind: type[frames.Deleted | frames.Missing | frames.Goodbye]) -> bytes:
        """Mark it as ended, and return the frame that says so; a stream of one chat has only `Deleted`."""
        self.is_open = False
        if self.is_named:
            return placed(self._index, self.followed.name, [(None, None, END_OF_CHAT[kind])])
        return DELETED if kind is frames.Deleted else b""


class EventStream:
    """ASGI response: the frames of a chat after an entry, and all that follow. Those of several are in envelopes."""

    def __init__(
        self,
        watches: Watches,
        followed: Sequence[FollowedLog],
        *,
        is_named: bool = False,
        deltas: bool,
        ping: float = PING_SECONDS,
        patience: float = SEND_SECONDS,
        watched: Watched = _unwatched,
        seen: Seen | None = None,
    ) -> None:
        """`ping` and `patience` are in seconds: of silence before a ping, and for a client that reads nothing.

        `is_named`: it may follow several chats, and stays when one of them ends. `watched` is for the whole stream,
        `seen` for each of its chats.
        """
        self._watches = watches
        self._places = [StreamPlace(index, it, is_named=is_named) for index, it in enumerate(followed)]
        self._is_named = is_named
        self._is_waiting = False
        """True while the task waits for frames after the first: then `_push` may send them."""
        self._write_chunk: Callable[[bytes], None] | None = None
        self._deltas = deltas
        self._failure: TransportError | None = None
        """Failure of the store that the client knows of."""
        self._needs_store = any(it.log is None for it in followed)
        self._ping = ping
        self._patience = patience
        self._watched = watched
        self._seen = seen
        self._client: ChatClient | None = None
        self._sending: StreamPlace | None = None
        """Place whose frames are being sent."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the chat is deleted, the server shuts down, the client disconnects, or its browser is signed out.

        Raises:
            ShuttingDown: the server is shutting down; nothing is sent.
            RateLimited: there are too many streams; nothing is sent.
        """
        with contextlib.ExitStack() as stack:
            client = stack.enter_context(self._watches.connect())
            self._enter(stack, client)
            listening = asyncio.create_task(_listen(receive, client))
            state = scope.get("state", {})
            client.flow = state.get("flow")
            is_chunked = scope.get("http_version") == "1.1" and scope.get("method") == "GET"
            self._write_chunk = state.get("write_chunk") if is_chunked else None
            self._tick(client)
            try:
                await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
                await self._send(send, client, HELLO)
                await self._view(client, send)
                await self._send(send, client, b"", more=False)
            except TimeoutError:
                self._watches.metrics.dropped += 1
                await hang_up(scope, listening)
            finally:
                client.stop_ticking()
                listening.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await listening

    def _enter(self, stack: contextlib.ExitStack, client: ChatClient) -> None:
        """Begin to follow all places, and to look whether the client may see them."""
        stack.enter_context(self._watched(client.expel, client.dismiss))
        for place in self._places:
            if place.is_expelled:
                continue
            place.watch = stack.enter_context(self._watches.follow(client, place.followed.watch, place.followed.log))
            if self._seen is not None and place.followed.sees is not None:
                expel = functools.partial(self._expel, place, client)
                stack.enter_context(self._seen(expel, place.followed.sees))

    def _expel(self, place: StreamPlace, client: ChatClient) -> None:
        """End a place that the client may no longer see; what of it is being sent now ends with the whole stream."""
        place.is_expelled = True
        if self._sending is place:
            client.expel()
        client.wake.set()

    async def _view(self, client: ChatClient, send: Send) -> None:
        first = RETRY
        self._client, client.push = client, self._push
        while not client.gone:
            client.wake.clear()
            # The condition that ends the stream is read first, so that no frame that existed by then is missed.
            is_goodbye = self._watches.ending or client.dismissed
            failed = [place for place in self._places if not place.is_expelled and place.watch.failed]
            for place in self._places:
                for step in self._news(place, client, is_failed=place in failed):
                    if step.data:
                        self._watches.metrics.frames += step.frames
                        self._sending = place
                        await self._send(send, client, first + step.data)
                        self._sending = None
                        first = b""
            data = self._store_news()
            if data:
                await self._send(send, client, first + data)
                first = b""
            is_over = not self._is_named and not self._places[0].is_open
            if is_goodbye and not (is_over and not failed):
                await self._send(send, client, CLOSING_FRAME)
            if is_goodbye or is_over:
                return
            self._is_waiting = not first
            await client.wake.wait()
            self._is_waiting = False
            if client.is_silent:
                await self._send(send, client, PING)

    def _news(self, place: StreamPlace, client: ChatClient, *, is_failed: bool) -> Iterator[Step]:
        """Yield what is new at a place; each is made when the one before was sent."""
        if not place.is_open:
            return
        if place.is_expelled:
            yield Step(place.end(frames.Missing), 1)
            return
        watch = place.watch
        if watch.ready:
            place.compare()
        if watch.ready and not client.dismissed and place.cursor != watch.number:
            yield place.news(deltas=self._deltas)
        if watch.over and (not watch.ready or place.cursor == watch.number):
            if watch.ready:
                place.is_open = False  # its last frame says so
            else:  # deleted before it could be read
                yield Step(place.end(frames.Deleted), 1)
        elif is_failed:
            yield Step(place.end(frames.Goodbye), 1)

    def _store_news(self) -> bytes:
        """Return the frame for a change of the store's state that the client does not know of, if its chat needs it."""
        failure = self._watches.store_failure if self._needs_store else None
        if failure is self._failure:
            return b""
        self._failure = failure
        return store_event(failure)

    def _push(self, watch: Watch) -> bool:
        """Send new frames while the task waits, if the connection accepts them at once; return whether nothing is left.

        Waking the task and passing each layer of the server costs several times as much as this.
        """
        client = self._client
        if self._write_chunk is None or client is None or not self._is_waiting or client.wake.is_set():
            return False
        if client.flow is None or client.flow.write_paused or watch.over or watch.failed or not watch.ready:
            return False
        places = [place for place in self._places if place.is_open and not place.is_expelled and place.watch is watch]
        before = [(place.cursor, place.at) for place in places]
        try:
            steps = [place.news(deltas=self._deltas) for place in places]
        except Exception:
            steps = None  # a bug, which the task raises as well, where it ends this stream alone
        if steps is None or sum(len(step.data) for step in steps) > PIECE_BYTES:
            for place, (cursor, at) in zip(places, before, strict=True):
                place.cursor, place.at = cursor, at
            return False
        for step in steps:
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
