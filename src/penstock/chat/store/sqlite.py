"""The event log in a SQLite file: what `append` acknowledged is on the disk.

One process has the file, and one connection in one thread changes it; see `docs/event-log.md`.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from penstock.chat.store import store
from penstock.chat.store.file import caution
from penstock.chat.store.protocol import (
    MAX_ROW_BYTES,
    PAGE_ROWS,
    Bells,
    LogClosed,
    Row,
    check_chat,
    check_number,
    check_rows,
)
from penstock.chat.store.recent import Recent
from penstock.chat.store.store import Readers, Writer
from penstock.errors import UsageError

READERS = 2
"""Threads that read."""

LARGEST_ROW = 512 * 1024 * 1024
"""More than this SQLite may not hold."""


def clock() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class SqliteLog:
    """An `EventLog` in a file. Make it with `SqliteLog.open`; one event loop uses it.

    Not closed, it loses nothing, as it loses nothing in a crash.
    """

    def __init__(self, writer: Writer, *, now: Callable[[], int], max_row_bytes: int) -> None:
        self.path = writer.path
        self.caution = caution()
        """What to tell the user of this version of SQLite, None where there is nothing."""
        self._writer = writer
        self._readers = Readers(writer.path)
        self._pool = ThreadPoolExecutor(READERS, "penstock-log-reader")
        self._bells = Bells()
        self._recent = Recent()
        self._done: deque[tuple[Future[Any], asyncio.Future[Any], Callable[[Any], None] | None]] = deque()
        self._telling = False
        self._now = now
        self._max_row_bytes = max_row_bytes
        self._closing: asyncio.Future[None] | None = None

    @classmethod
    async def open(
        cls,
        path: str | os.PathLike[str],
        *,
        now: Callable[[], int] = clock,
        max_row_bytes: int = MAX_ROW_BYTES,
    ) -> SqliteLog:
        """Open the log in a file, which is made where there is none; its folder is there.

        `now` gives the time of a row, in milliseconds since 1970.

        Raises:
            LogHeld: another process has it.
            LogTooNew: a newer Penstock wrote it.
            UsageError: it is a database, but no log.
            LogFailed: it cannot be opened, written or understood.
        """
        check_number("max_row_bytes", max_row_bytes, 1)
        if max_row_bytes > LARGEST_ROW:
            raise UsageError(f"max_row_bytes cannot be {max_row_bytes:,}", expected=f"at most {LARGEST_ROW:,}")
        try:
            real = Path(os.path.realpath(path))  # two names of one file are one log
        except ValueError as error:  # a NUL
            raise UsageError(f"{str(path)!r} is no name of a file") from error
        writer = await asyncio.to_thread(Writer, real)
        return cls(writer, now=now, max_row_bytes=max_row_bytes)

    async def close(self) -> None:
        """Finish what was asked for, and let go of the file. Again: nothing."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().run_in_executor(None, self._close)
        await asyncio.shield(self._closing)

    async def __aenter__(self) -> SqliteLog:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def max_row_bytes(self) -> int:
        """The size of the largest row that `append` takes."""
        return self._max_row_bytes

    async def append(self, chat: str, rows: Sequence[bytes], *, after: int) -> int:
        """As `EventLog.append`. Appends are made in the order of the calls."""
        check_chat(chat)
        check_number("after", after)
        copied, at = check_rows(rows, self._max_row_bytes), self._now()

        def made(last: int) -> None:
            # Also for a caller who no longer waits: the rows are there.
            if copied:
                self._recent.add(chat, copied, last=last, at=at)
                self._bells.ring(chat)

        last: int = await self._change(partial(store.append, name=chat, rows=copied, after=after, at=at), made)
        return last

    async def read(self, chat: str, *, after: int = 0, limit: int = PAGE_ROWS) -> list[Row]:
        """As `EventLog.read`."""
        check_chat(chat)
        check_number("after", after)
        check_number("limit", limit, 1)
        self._require_open()
        if (recent := self._recent.read(chat, after, limit)) is not None:
            return recent
        rows: list[Row] = await self._look(store.read, chat, after, limit)
        return rows

    def bell(self, chat: str) -> asyncio.Event:
        """As `EventLog.bell`."""
        check_chat(chat)
        self._require_open()
        return self._bells.take(chat)

    async def last(self, chat: str) -> int:
        """As `EventLog.last`."""
        check_chat(chat)
        self._require_open()
        if (recent := self._recent.last(chat)) is not None:
            return recent
        number: int = await self._look(store.last, chat)
        return number

    async def trim(self, chat: str, upto: int) -> None:
        """As `EventLog.trim`. It goes by steps, between which others append; cut off, it has trimmed the oldest."""
        check_chat(chat)
        check_number("upto", upto)
        change = partial(store.trim, name=chat, upto=upto)
        while await self._change(change, lambda _: self._recent.forget(chat)):
            pass

    # --- retention and backup ---

    async def expired(self, *, max_age_ms: int | None = None, max_bytes: int | None = None) -> dict[str, int]:
        """What `retain` would trim: for each such chat, the number up to which."""
        for name, value in (("max_age_ms", max_age_ms), ("max_bytes", max_bytes)):
            if value is not None:
                check_number(name, value)
        before = None if max_age_ms is None else self._now() - max_age_ms
        upto: dict[str, int] = await self._look(store.expired, before, max_bytes)
        return upto

    async def retain(self, *, max_age_ms: int | None = None, max_bytes: int | None = None) -> dict[str, int]:
        """Trim rows older than `max_age_ms`, and the oldest of all until the rest is at most `max_bytes`.

        Gives what was trimmed: for each such chat, the number up to which. The file gets smaller too. It knows nothing
        of turns: who wants whole ones takes `expired`, moves each number to an end of a turn, and calls `trim`.
        """
        trimmed = await self.expired(max_age_ms=max_age_ms, max_bytes=max_bytes)
        for chat, upto in trimmed.items():
            await self.trim(chat, upto)
        while await self._change(store.shrink):
            pass
        return trimmed

    async def backup(self, target: str | os.PathLike[str]) -> None:
        """Write the log as it is now into a new file, which can be opened as a log. Others go on meanwhile.

        Raises:
            UsageError: there is such a file.
            LogFailed: it cannot be written.
        """
        path = Path(os.path.abspath(target))
        if path.exists():
            raise UsageError(f"{str(path)!r} is there already", way_out="name a new file for the backup")
        await self._look(store.backup, path)

    # --- inside ---

    async def _change(self, change: store.Change, made: Callable[[Any], None] | None = None) -> Any:
        """Have it made; `made` is called with its result in the loop, before anybody has it."""
        self._require_open()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        future = self._writer.put(change)

        def tell(done: Future[Any]) -> None:
            self._done.append((done, answer, made))
            if not self._telling:  # one call for all that was committed together
                self._telling = True
                try:
                    loop.call_soon_threadsafe(self._tell)
                except RuntimeError:
                    pass  # the loop is closed, and with it all who listened

        future.add_done_callback(tell)
        try:
            return await answer
        except asyncio.CancelledError:
            future.cancel()  # what has not begun is not made
            raise

    def _tell(self) -> None:
        self._telling = False  # first: what is done from now on calls again
        while self._done:
            done, answer, made = self._done.popleft()
            if done.cancelled():
                continue
            error = done.exception()
            if error is None and made is not None:
                made(done.result())
            if not answer.done():
                if error is None:
                    answer.set_result(done.result())
                else:
                    answer.set_exception(error)

    async def _look(self, what: Callable[..., Any], *arguments: Any) -> Any:
        self._require_open()
        return await asyncio.get_running_loop().run_in_executor(
            self._pool, partial(self._readers.look, what, *arguments)
        )

    def _require_open(self) -> None:
        if self._closing is not None:
            raise LogClosed

    def _close(self) -> None:
        self._pool.shutdown(wait=True)
        self._readers.close()
        self._writer.close()
