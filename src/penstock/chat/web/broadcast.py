"""Clients of the chats: one watch for each chat that has clients. Documents and loops are watched in the same way.

The chat's worker has the one timeline; a watch requests frames from it. A client is a number, that of the last entry
that it has seen, and an event that wakes it; the frames that it missed are computed when it can accept more.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

import msgspec

from penstock.chat.errors import NoSuchChat, NoSuchRun, ShuttingDown
from penstock.chat.history import frames
from penstock.chat.runs.timeline import RunFrame
from penstock.chat.service.chats.chat_view import ListFrame
from penstock.chat.service.log.chat_log import STORE_ERRORS
from penstock.chat.service.service import Service
from penstock.chat.turn import Assistant
from penstock.chat.web.errors import RateLimited
from penstock.chat.web.metrics import Metrics
from penstock.errors import TransportError

MAX_CLIENTS = 2_000
"""Number of streams at once, of all chats. One costs about 30 KB, and one of the process's open files."""

PACE_SECONDS = 0.1
"""Seconds between two frames in which a reply only grows: as often as an eye can follow."""

LINGER_SECONDS = 15.0
"""Seconds for which a chat is still watched after its last client left: a client that reloads the page soon returns."""

MAX_KEPT = 32
"""Number of encoded steps that are kept for other clients. Most clients of a chat have seen the same."""

_ID = re.compile(rb"^id: ([0-9]+)$", re.MULTILINE)
"""Pattern of the line with the number of an event: JSON has no line ends."""

_encoder = msgspec.json.Encoder()
_log = logging.getLogger("penstock.gateway")


GROWING = (Assistant, frames.AssistantDelta)
"""Frames of a reply that is being written."""


StreamFrame = RunFrame | ListFrame
"""Frame of any stream."""


class Step(NamedTuple):
    """Encoded frames that bring a client up to date."""

    data: bytes
    frames: int
    parts: tuple[tuple[int | None, int | None, bytes], ...] = ()
    """The frames as JSON, each with its number and the time of that entry, for a stream of several chats."""


class WatchedTimeline(Protocol):
    """Timeline of a watched chat, document or loop."""

    number: int
    deleted: bool

    def start(self) -> Sequence[tuple[int, StreamFrame]]:
        """Return the frames that a new client needs, each with the number that it covers."""
        ...

    def frames(self, after: int, *, deltas: bool = False) -> Sequence[tuple[int, StreamFrame]] | None:
        """Return the frames that bring a client from entry `after` up to date; None if it needs those of `start`."""
        ...

    def time_of(self, number: int) -> int | None:
        """Return the time of the entry of a number, in milliseconds since 1970; None if it is unknown."""
        ...


class WatchedLog(Protocol):
    """Log of a chat, a document or a loop."""

    @property
    def shown(self) -> WatchedTimeline | None:
        """Return its timeline, if it was read and all of it is stored."""
        ...

    async def open(self) -> object:
        """Read it."""
        ...

    def watch(self, watcher: Callable[[bool], None], /) -> None:
        """Call `watcher` whenever the timeline has changed, with True if clients should see it at once."""
        ...

    def unwatch(self, watcher: Callable[[bool], None], /) -> None:
        """Stop calling `watcher`."""
        ...


class Flow(Protocol):
    """Flow control of a connection."""

    @property
    def write_paused(self) -> bool:
        """Return whether a send waits until the client has read more."""
        ...


class ChatClient:
    """Client of one stream. `wake` is set when there may be more to send."""

    def __init__(self) -> None:
        self.wake: asyncio.Event = asyncio.Event()
        self.wake.set()
        self.gone: bool = False
        """True if the client has gone, or may see no more."""
        self.dismissed: bool = False
        """True if the client has to ask another node: it gets the closing frame, and nothing more."""
        self.sending: asyncio.Timeout | None = None
        """Time limit of the send in progress."""
        self.flow: Flow | None = None
        """Flow control of its connection, if the server provides it."""
        self.sent_at: float = asyncio.get_running_loop().time()
        """Time of the event loop, in seconds, at which something was last sent."""
        self.is_silent = False
        """True if the connection was idle so long that a proxy may end it."""
        self.ticking: asyncio.TimerHandle | None = None
        self.push: Callable[[Watch], bool] = lambda watch: False
        """Function that sends what is new at once; it returns False if the task of the stream has to be woken."""

    def stop_ticking(self) -> None:
        """Cancel the timer that checks for silence."""
        if self.ticking is not None:
            self.ticking.cancel()

    def leave(self) -> None:
        """Mark the client as gone, and wake its stream."""
        self.gone = True
        self.wake.set()

    def expel(self) -> None:
        """End the stream of a client that may see no more, without waiting for the send in progress."""
        self.leave()
        self.end_sending(asyncio.get_running_loop().time())

    def dismiss(self) -> None:
        """End the stream of a client with the closing frame: this node does not know whether it may see more."""
        if not self.dismissed:
            self.dismissed = True
            self.wake.set()
            self.end_sending(asyncio.get_running_loop().time())

    def end_sending(self, at: float) -> None:
        """Set the time limit of the send in progress, by the clock of the event loop."""
        if self.sending is not None and not self.sending.expired():
            self.sending.reschedule(at)


class Watch:
    """Watch of one chat, document or loop for all of its clients. `Watches.enter` makes it."""

    def __init__(self, name: str, log: Callable[[], WatchedLog], pace: float) -> None:
        self.name = name
        self.clients: dict[ChatClient, int] = {}
        """Clients, each with the number of times that it follows what is watched."""
        self.over: bool = False
        """True if the chat is deleted, so that nothing more will come."""
        self.failed: bool = False
        """True if reading the chat failed; a client that returns begins a new watch."""
        self._make_log = log
        self._pace = pace
        self._log: WatchedLog | None = None
        self._timeline: WatchedTimeline | None = None  # timeline of the kept steps
        self._notified_at = -pace
        self._later: asyncio.TimerHandle | None = None
        self._kept: dict[tuple[int | None, bool], Step] = {}
        self._kept_number = 0
        self._task = asyncio.create_task(self._open(), name="penstock watch")

    @property
    def ready(self) -> bool:
        """Return whether the chat can be shown: it has been read, and all that it shows is stored."""
        return self._task.done() and self._log is not None and self._log.shown is not None

    async def opened(self) -> None:
        """Wait until it has been read, or cannot be."""
        await asyncio.wait([self._task])

    @property
    def number(self) -> int:
        """Number of the last entry that can be shown; the watch must be `ready`."""
        return self._shown().number

    def time_of(self, number: int) -> int | None:
        """Return the time of the entry of a number; None if it is unknown. The watch must be `ready`."""
        return self._shown().time_of(number)

    def step(self, cursor: int | None, *, deltas: bool) -> Step:
        """Return the frames that bring a client from `cursor` up to date; the snapshot if it is None or unknown."""
        timeline = self._shown()
        if timeline is not self._timeline or self._kept_number != timeline.number or len(self._kept) >= MAX_KEPT:
            self._kept.clear()
            self._timeline, self._kept_number = timeline, timeline.number
        key = (cursor, deltas)
        found = self._kept.get(key)
        if found is None:
            missed = timeline.frames(cursor, deltas=deltas) if cursor is not None else None
            if missed is None:
                missed = timeline.start()
            found = self._kept[key] = encode(missed, timeline.time_of)
        return found

    async def close(self) -> None:
        """Stop watching."""
        if self._later is not None:
            self._later.cancel()
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        if self._log is not None:
            self._log.unwatch(self._changed)
            self._log = None

    def _shown(self) -> WatchedTimeline:
        timeline = self._log.shown if self._log is not None else None
        assert timeline is not None
        return timeline

    async def _open(self) -> None:
        try:
            log = self._make_log()
            log.watch(self._changed)
            self._log = log
            await log.open()
        except (NoSuchChat, NoSuchRun):
            self.over = True
        except STORE_ERRORS as error:
            self.failed = True
            _log.warning("a chat cannot be read: %s", error)
        except Exception:
            self.failed = True
            _log.exception("a bug: the watch of a chat ended")
        finally:
            asyncio.get_running_loop().call_soon(self._notify)  # when the task is done

    def _changed(self, at_once: bool) -> None:
        """Wake the clients, at once or at the pace of growing text. They get the state at the time when they wake."""
        if self._log is not None and self._log.shown is not None:
            self.over = self._log.shown.deleted
        loop = asyncio.get_running_loop()
        if at_once or loop.time() - self._notified_at >= self._pace:
            self._notify()
        elif self._later is None:
            self._later = loop.call_at(self._notified_at + self._pace, self._notify)

    def _notify(self) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later = None
        self._notified_at = asyncio.get_running_loop().time()
        for client in self.clients:
            if not client.push(self):
                client.wake.set()


class Watches:
    """All watches of a server, and all of its clients."""

    def __init__(
        self,
        service: Service,
        metrics: Metrics,
        *,
        max_clients: int = MAX_CLIENTS,
        pace: float = PACE_SECONDS,
        linger: float = LINGER_SECONDS,
    ) -> None:
        """`pace` and `linger` are in seconds."""
        self.ending: bool = False
        """True if the server is shutting down."""
        self.metrics = metrics
        self.max_clients = max_clients
        self._service = service
        self._pace = pace
        self._linger = linger
        self._watches: dict[str, Watch] = {}
        self._leaving: dict[str, asyncio.TimerHandle] = {}
        self._clients: set[ChatClient] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self._end = math.inf
        service.store_state.watch(self._store_changed)

    @property
    def store_failure(self) -> TransportError | None:
        """Reason why the store cannot keep anything; None if it can."""
        return self._service.store_state.failure

    def _store_changed(self) -> None:
        for client in self._clients:
            client.wake.set()

    @contextlib.contextmanager
    def enter(self, name: str, log: Callable[[], WatchedLog] | None = None) -> Iterator[tuple[Watch, ChatClient]]:
        """Add a client to the watch of a chat, or of another `log` with this name, for the duration of the context.

        Raises:
            ShuttingDown: the server is shutting down.
            RateLimited: the limit of clients is reached.
        """
        with self.connect() as client, self.follow(client, name, log) as watch:
            yield watch, client

    @contextlib.contextmanager
    def connect(self) -> Iterator[ChatClient]:
        """Add a client for the duration of the context.

        Raises:
            ShuttingDown: the server is shutting down.
            RateLimited: the limit of clients is reached.
        """
        if self.ending:
            raise ShuttingDown
        if len(self._clients) >= self.max_clients:
            raise RateLimited("there are too many clients", 5, f"at most {self.max_clients:,} streams at once")
        client = ChatClient()
        self._clients.add(client)
        self.metrics.clients = len(self._clients)
        try:
            yield client
        finally:
            self._clients.discard(client)
            self.metrics.clients = len(self._clients)

    @contextlib.contextmanager
    def follow(self, client: ChatClient, name: str, log: Callable[[], WatchedLog] | None = None) -> Iterator[Watch]:
        """Add a client to the watch of a chat, or of another `log` with this name, for the duration of the context."""
        watch = self._watches.get(name)
        if watch is None or watch.failed or watch.over:
            watch = self._watches[name] = Watch(name, log or (lambda: self._service.log(name).live), self._pace)
            self.metrics.watches = len(self._watches)
        if timer := self._leaving.pop(name, None):
            timer.cancel()
        watch.clients[client] = watch.clients.get(client, 0) + 1
        try:
            yield watch
        finally:
            watch.clients[client] -= 1
            if not watch.clients[client]:
                del watch.clients[client]
            if not watch.clients:
                self._leave(watch)

    async def number(self, name: str, log: Callable[[], WatchedLog]) -> int | None:
        """Return the number after which a client that comes soon follows a `log`; None if it cannot.

        Changes are noted from now on, until the last client has left for `linger` seconds.
        """
        if self.ending:
            return None
        with self.follow(ChatClient(), name, log) as watch:
            await watch.opened()
            return watch.number if watch.ready else None

    def clients(self, name: str) -> int:
        """Return the number of clients that watch a chat now."""
        watch = self._watches.get(name)
        return len(watch.clients) if watch is not None else 0

    def drain(self, seconds: float) -> None:
        """Begin to shut down: clients get a goodbye, and have `seconds` to read what is being sent to them."""
        self.ending = True
        self._end = asyncio.get_running_loop().time() + seconds
        for client in self._clients:
            client.wake.set()
            client.end_sending(self._end)

    def until(self, seconds: float) -> float:
        """Return the deadline for something that may take `seconds`, by the clock of the event loop."""
        return min(asyncio.get_running_loop().time() + seconds, self._end)

    async def close(self) -> None:
        """End all watches."""
        self.ending = True
        for timer in self._leaving.values():
            timer.cancel()
        await asyncio.gather(*(watch.close() for watch in self._watches.values()), *self._closing)
        self._watches.clear()

    def _leave(self, watch: Watch) -> None:
        current = self._watches.get(watch.name) is watch
        if current and not (watch.failed or watch.over or self.ending):
            loop = asyncio.get_running_loop()
            self._leaving[watch.name] = loop.call_later(self._linger, self._forget, watch)
        else:
            self._forget(watch)

    def _forget(self, watch: Watch) -> None:
        if self._watches.get(watch.name) is watch:
            del self._watches[watch.name]
            self.metrics.watches = len(self._watches)
            self._leaving.pop(watch.name, None)
        closing = asyncio.get_running_loop().create_task(watch.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)


def encode(missed: Sequence[tuple[int, StreamFrame]], time_of: Callable[[int], int | None] = lambda _: None) -> Step:
    """Encode frames as server-sent events.

    A client that returns with a number has seen everything up to it. Therefore, of the frames of one entry, only the
    last has the number. No frame before text has one: the text may have begun to grow before that frame, and it is sent
    once, as it is now.
    """
    parts: list[tuple[int | None, int | None, bytes]] = []
    data: list[bytes] = []
    text = max((place for place, (_, frame) in enumerate(missed) if isinstance(frame, GROWING)), default=0)
    for place, (number, frame) in enumerate(missed):
        is_last = place + 1 == len(missed) or missed[place + 1][0] != number
        covers = number if place >= text and is_last else None
        if covers is not None:
            data.append(b"id: %d\n" % covers)
        parts.append((covers, None if covers is None else time_of(covers), escaped(_encoder.encode(frame))))
        data.append(_block(frame, parts[-1][2]))
    return Step(b"".join(data), len(missed), tuple(parts))


def with_times(step: Step) -> Step:
    """Return the same frames; each number in an `id` is followed by the time of its entry, as far as it is known."""
    times = {number: at for number, at, _ in step.parts if at is not None}

    def timed(found: re.Match[bytes]) -> bytes:
        at = times.get(int(found[1]))
        return found[0] if at is None else b"%b-%d" % (found[0], at)

    return step._replace(data=_ID.sub(timed, step.data))


def event(frame: StreamFrame) -> bytes:
    """Encode one frame, without a number."""
    return _block(frame, escaped(_encoder.encode(frame)))


def _block(frame: StreamFrame, data: bytes) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (str(frame.__struct_config__.tag).encode(), data)


def placed(place: int, name: str, parts: Iterable[tuple[int | None, int | None, bytes]]) -> bytes:
    """Encode frames for a stream of several chats: each in an envelope with its place, chat, number and time."""
    begin = b'event: frame\ndata: {"place":%d,"chat":"%b"' % (place, name.encode())
    return b"".join(
        b"".join(
            [
                begin,
                b"" if number is None else b',"number":%d' % number,
                b"" if at is None else b',"at":%d' % at,
                b',"frame":',
                frame,
                b"}\n\n",
            ]
        )
        for number, at, frame in parts
    )


def escaped(data: bytes) -> bytes:
    """Return JSON with the three characters escaped that many readers of lines wrongly treat as line ends."""
    if b"\xe2\x80\xa8" in data:
        data = data.replace(b"\xe2\x80\xa8", rb"\u2028")
    if b"\xe2\x80\xa9" in data:
        data = data.replace(b"\xe2\x80\xa9", rb"\u2029")
    if b"\xc2\x85" in data:
        data = data.replace(b"\xc2\x85", rb"\u0085")
    return data


def store_event(failure: TransportError | None) -> bytes:
    """Encode the frame for a store that fails, or works again."""
    if failure is None:
        return event(frames.StoreChanged(works=True))
    return event(frames.StoreChanged(works=False, reason=failure.what, help=failure.help))


GOODBYE = event(frames.Goodbye())
DELETED = event(frames.Deleted())
END_OF_CHAT = {kind: _encoder.encode(kind()) for kind in (frames.Deleted, frames.Missing, frames.Goodbye)}
"""Frames as JSON with which a chat ends in a stream of several, by their kind."""
