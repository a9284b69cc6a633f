"""One watch for each chat that somebody looks at: the event log, folded once for all of its viewers.

A viewer is a number, of the last row that it was told of, and an event that wakes it; what it missed is computed when
it can take more.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Iterator
from typing import NamedTuple, Protocol

import msgspec

from penstock.chat.errors import Ending, NoSuchChat
from penstock.chat.history import entries
from penstock.chat.history import frames as views
from penstock.chat.history.frames import Frame
from penstock.chat.history.timeline import Thread
from penstock.chat.store.protocol import Ahead, EventLog, LogClosed, LogFailed, Trimmed, pages
from penstock.chat.web.errors import TooManyRequests
from penstock.chat.web.metrics import Metrics

MAX_VIEWERS = 2_000
"""Streams at once, of all chats. One costs about 30 KB, and a place among the process's open files."""

GROWTH_SECONDS = 0.1
"""Text is told to grow at most ten times a second: as often as an eye can follow."""

LINGER_SECONDS = 15.0
"""A chat is still watched so long after its last viewer left: one that reloads its page comes right back."""

MAX_KEPT = 32
"""Encoded steps that are kept for other viewers. Most viewers of a chat stand at one place."""

POLL_SECONDS = 5.0
"""How long a watch waits for a bell that was lost: a log of this process loses none."""

RESTARTS = 3
"""So often a watch begins anew where rows were trimmed before it read them; then its viewers do."""

_encoder = msgspec.json.Encoder()
_log = logging.getLogger("penstock.gateway")


GROWING = (views.Assistant, views.AssistantDelta)


class Step(NamedTuple):
    """What leads a viewer on, as it is sent."""

    data: bytes
    frames: int


class Threads(Protocol):
    """Who has the chats."""

    async def thread(self, id: str) -> Thread:
        """A thread of this chat, of which only older rows are taken.

        Raises:
            NoSuchChat: there is none.
        """
        ...


class Viewer:
    """One stream. `wake` is set when there may be more for it to do."""

    def __init__(self) -> None:
        self.wake = asyncio.Event()
        self.wake.set()
        self.gone = False
        """Nobody reads it any more."""
        self.sending: asyncio.Timeout | None = None
        """The time limit of what is being sent."""

    def leave(self) -> None:
        """Nobody reads it any more."""
        self.gone = True
        self.wake.set()

    def expel(self) -> None:
        """It may see no more: what waits to be taken by it is not waited for."""
        self.leave()
        self.end_sending(asyncio.get_running_loop().time())

    def end_sending(self, at: float) -> None:
        """What is being sent has time until then."""
        if self.sending is not None and not self.sending.expired():
            self.sending.reschedule(at)


class Watch:
    """A chat, for all who look at it. `Watches.enter` gives it."""

    def __init__(self, chat: str, threads: Threads, log: EventLog, growth: float) -> None:
        self.chat = chat
        self.viewers: set[Viewer] = set()
        self.ready = False
        """All rows are read that were there when the watch began: nobody was told of later ones."""
        self.over = False
        """There will be nothing more: the chat is deleted."""
        self.failed = False
        """The log could not be read; who comes back begins a new watch."""
        self._threads = threads
        self._log = log
        self._growth = growth
        self._thread = Thread()
        self._told_at = -growth
        self._later: asyncio.TimerHandle | None = None
        self._kept: dict[tuple[int | None, bool], Step] = {}
        self._kept_number = 0
        self._task = asyncio.create_task(self._run(), name="penstock watch")

    @property
    def number(self) -> int:
        """The last row that can be told."""
        return self._thread.number

    def step(self, cursor: int | None, *, deltas: bool) -> Step:
        """What leads a viewer from row `cursor` to now; None, and one who cannot be led: the snapshot."""
        if self._kept_number != self.number or len(self._kept) >= MAX_KEPT:
            self._kept.clear()
            self._kept_number = self.number
        key = (cursor, deltas)
        found = self._kept.get(key)
        if found is None:
            told = self._thread.frames(cursor, deltas=deltas) if cursor is not None else None
            if told is None:
                snapshot = self._thread.snapshot()
                told = [(snapshot.number, snapshot)]
            found = self._kept[key] = encode(told)
        return found

    async def close(self) -> None:
        """Stop reading."""
        if self._later is not None:
            self._later.cancel()
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    # --- reading ---

    async def _run(self) -> None:
        try:
            for _ in range(RESTARTS):
                with contextlib.suppress(Trimmed, Ahead):  # a shorter log, or one that was trimmed: read it anew
                    await self._read()
                    return
            self.failed = True
        except NoSuchChat:
            self.over = True
        except (LogFailed, LogClosed, Ending) as error:
            self.failed = True
            _log.warning("a chat cannot be read: %s", error)
        except Exception:
            self.failed = True
            _log.exception("a bug: the watch of a chat ended")
        finally:
            self._tell()

    async def _read(self) -> None:
        self.ready = False
        self._kept.clear()
        self._thread = thread = await self._threads.thread(self.chat)
        there = await self._log.last(self.chat)
        if thread.number >= there:
            self._begin()
        async for page in pages(self._log, self.chat, after=thread.number, poll=POLL_SECONDS):
            at_once = thread.take(entries.decode(page))
            self.over = thread.deleted
            if not self.ready and thread.number >= there:
                self._begin()
            elif self.ready:
                self._tell_soon(at_once)
            if self.over:
                return

    def _begin(self) -> None:
        self.ready = True
        self._tell()

    def _tell_soon(self, at_once: bool) -> None:
        loop = asyncio.get_running_loop()
        if at_once or loop.time() - self._told_at >= self._growth:
            self._tell()
        elif self._later is None:
            self._later = loop.call_at(self._told_at + self._growth, self._tell)

    def _tell(self) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later = None
        self._told_at = asyncio.get_running_loop().time()
        for viewer in self.viewers:
            viewer.wake.set()


class Watches:
    """All watches of a server, and all viewers."""

    def __init__(
        self,
        threads: Threads,
        log: EventLog,
        metrics: Metrics,
        *,
        max_viewers: int = MAX_VIEWERS,
        growth: float = GROWTH_SECONDS,
        linger: float = LINGER_SECONDS,
    ) -> None:
        """`growth` and `linger` are in seconds."""
        self.ending = False
        """The server is about to end."""
        self.metrics = metrics
        self.max_viewers = max_viewers
        self._threads = threads
        self._log = log
        self._growth = growth
        self._linger = linger
        self._watches: dict[str, Watch] = {}
        self._leaving: dict[str, asyncio.TimerHandle] = {}
        self._viewers: set[Viewer] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self._end = math.inf

    @contextlib.contextmanager
    def enter(self, chat: str) -> Iterator[tuple[Watch, Viewer]]:
        """Look at a chat, for as long as the context lasts.

        Raises:
            Ending: the server is about to end.
            TooManyRequests: there are as many viewers as there may be.
        """
        if self.ending:
            raise Ending
        if len(self._viewers) >= self.max_viewers:
            raise TooManyRequests("there are too many viewers", 5, f"at most {self.max_viewers:,} streams at once")
        watch = self._watches.get(chat)
        if watch is None or watch.failed or watch.over:
            watch = self._watches[chat] = Watch(chat, self._threads, self._log, self._growth)
            self.metrics.watches = len(self._watches)
        if timer := self._leaving.pop(chat, None):
            timer.cancel()
        viewer = Viewer()
        watch.viewers.add(viewer)
        self._viewers.add(viewer)
        self.metrics.viewers = len(self._viewers)
        try:
            yield watch, viewer
        finally:
            watch.viewers.discard(viewer)
            self._viewers.discard(viewer)
            self.metrics.viewers = len(self._viewers)
            if not watch.viewers:
                self._leave(watch)

    def drain(self, seconds: float) -> None:
        """The server is about to end: viewers are told, and have `seconds` for what is being sent to them."""
        self.ending = True
        self._end = asyncio.get_running_loop().time() + seconds
        for viewer in self._viewers:
            viewer.wake.set()
            viewer.end_sending(self._end)

    def until(self, seconds: float) -> float:
        """When something that may take so long has to be over, by the clock of the loop."""
        return min(asyncio.get_running_loop().time() + seconds, self._end)

    async def close(self) -> None:
        """End all watches."""
        self.ending = True
        for timer in self._leaving.values():
            timer.cancel()
        await asyncio.gather(*(watch.close() for watch in self._watches.values()), *self._closing)
        self._watches.clear()

    def _leave(self, watch: Watch) -> None:
        current = self._watches.get(watch.chat) is watch
        if current and not (watch.failed or watch.over or self.ending):
            loop = asyncio.get_running_loop()
            self._leaving[watch.chat] = loop.call_later(self._linger, self._forget, watch)
        else:
            self._forget(watch)

    def _forget(self, watch: Watch) -> None:
        if self._watches.get(watch.chat) is watch:
            del self._watches[watch.chat]
            self.metrics.watches = len(self._watches)
            self._leaving.pop(watch.chat, None)
        closing = asyncio.get_running_loop().create_task(watch.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)


def encode(told: list[tuple[int, Frame]]) -> Step:
    """Frames as server-sent events.

    Who comes back with a number has seen all up to it. So of the frames of one row the last alone has the number, and
    none has one that stands before text: that may have begun to grow before it, and is told once, as it is now.
    """
    parts: list[bytes] = []
    text = max((place for place, (_, frame) in enumerate(told) if isinstance(frame, GROWING)), default=0)
    for place, (number, frame) in enumerate(told):
        if place >= text and (place + 1 == len(told) or told[place + 1][0] != number):
            parts.append(b"id: %d\n" % number)
        parts.append(event(frame))
    return Step(b"".join(parts), len(told))


def event(frame: Frame) -> bytes:
    """One frame, without a number."""
    tag = str(frame.__struct_config__.tag)
    return b"event: %b\ndata: %b\n\n" % (tag.encode(), escaped(_encoder.encode(frame)))


def escaped(data: bytes) -> bytes:
    """JSON without the three characters that many readers of lines, in error, take for the end of one."""
    if b"\xe2\x80\xa8" in data:
        data = data.replace(b"\xe2\x80\xa8", rb"\u2028")
    if b"\xe2\x80\xa9" in data:
        data = data.replace(b"\xe2\x80\xa9", rb"\u2029")
    if b"\xc2\x85" in data:
        data = data.replace(b"\xc2\x85", rb"\u0085")
    return data


GOODBYE = event(views.Goodbye())
DELETED = event(views.Deleted())
