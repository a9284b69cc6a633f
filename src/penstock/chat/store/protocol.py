"""The event log of the chats: what a log must do, whatever holds it.

A log keeps the events of each chat as bytes, numbered 1, 2, 3, … without a gap. Everything that is shown later (a turn,
a page, a protocol) is a pure function of these rows: what is not in the log has not happened.

::

    UsageError
    ├── Conflict      someone else appended meanwhile: `last` is where the chat stands
    ├── Trimmed       the rows asked for were trimmed: `first` is the first that is kept
    ├── Ahead         the number asked for was never given: `last` is where the chat stands
    ├── RowTooLarge   nothing was appended
    └── LogClosed     the log was closed
    TransportError
    └── LogFailed     the disk is full, the file is damaged, …: what was acknowledged stays
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple, Protocol
from weakref import WeakValueDictionary

from penstock.errors import TransportError, UsageError

PAGE_ROWS = 500
"""Rows of one read, where nothing else is said."""

MAX_ROW_BYTES = 16 * 1024 * 1024
"""The largest row, where nothing else is said."""

POLL_SECONDS = 1.0
"""How long a tail waits for a bell that may have been lost."""

CHAT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,199}")
"""The names that a chat may have. Any store can hold them as a key."""


class Row(NamedTuple):
    """One event of a chat."""

    number: int
    """From 1, without a gap."""
    at: int
    """When it was appended: milliseconds since 1970, by the clock of the log, which may step back."""
    data: bytes
    """The event, byte for byte as it was appended."""


class Conflict(UsageError):
    """The chat does not end where the writer believed: nothing was appended.

    A writer that did not expect this is stale, and has to stop; `last` is the chat's real last number.
    """

    def __init__(self, chat: str, after: int, last: int) -> None:
        self.chat, self.after, self.last = chat, after, last
        super().__init__(
            f"nothing was appended to the chat {chat!r}: its last event is {last}, not {after}",
            way_out="read what came, and append after it",
        )


class Trimmed(UsageError):
    """Rows that were asked for are no longer kept; `first` is the first that is, or will be."""

    def __init__(self, chat: str, after: int, first: int) -> None:
        self.chat, self.after, self.first = chat, after, first
        super().__init__(
            f"the chat {chat!r} no longer has its event {after + 1}: what came before {first} was trimmed",
            way_out=f"read after {first - 1}",
        )


class Ahead(UsageError):
    """A number was named that the chat has not reached; `last` is its last one.

    Whoever knows such a number has it from another log, or from one that was since restored from a backup.
    """

    def __init__(self, chat: str, number: int, last: int) -> None:
        self.chat, self.number, self.last = chat, number, last
        super().__init__(f"the chat {chat!r} has no event {number}: its last one is {last}", way_out="read it anew")


class RowTooLarge(UsageError):
    """A row is larger than the log takes. Nothing was appended."""

    def __init__(self, size: int, limit: int) -> None:
        self.size, self.limit = size, limit
        super().__init__(f"an event of {size:,} bytes is too large for the log", expected=f"at most {limit:,} bytes")


class LogClosed(UsageError):
    """The log was closed, and does nothing more."""

    def __init__(self) -> None:
        super().__init__("the event log is closed")


class LogFailed(TransportError):
    """What holds the log failed. Everything that was acknowledged before stays.

    An `append` that failed so was most likely not made; `last` knows. `lasting`: it will not get better by itself,
    and the log takes nothing more.
    """

    def __init__(self, what: str, *, expected: str = "", way_out: str = "", lasting: bool = False) -> None:
        self.lasting = lasting
        super().__init__(what, expected=expected, way_out=way_out)


class EventLog(Protocol):
    """A log of events. `penstock.chat.store.conformance.check_log` says whether one keeps these promises.

    All of it belongs to one event loop. Chats are names as `CHAT` has them; a chat begins with its first row. All raise
    `UsageError` for a name or a number that cannot be, `LogFailed` where the store fails, and `LogClosed`.
    """

    @property
    def max_row_bytes(self) -> int:
        """The size of the largest row that `append` takes."""
        ...

    async def append(self, chat: str, rows: Sequence[bytes], *, after: int) -> int:
        """Append all rows, or none, if `after` is the chat's last number (0 for a new chat); gives the new last number.

        When it returns, the rows are kept: a crash or a power cut does not take them. No rows: only the check is made.
        Who cancels it has to ask `last` whether it was made.

        Raises:
            Conflict: the chat ends elsewhere.
            RowTooLarge: one of the rows is.
        """
        ...

    async def read(self, chat: str, *, after: int = 0, limit: int = PAGE_ROWS) -> list[Row]:
        """The rows from number `after + 1` on: at most `limit`, at least one where there is one.

        Fewer than `limit` do not mean that there are no more: a read of large rows ends early.

        Raises:
            Trimmed: row `after + 1` was trimmed.
            Ahead: `after` is past the last row.
        """
        ...

    def bell(self, chat: str) -> asyncio.Event:
        """An event that is set soon after the next row was appended: a hint, which may be lost or come for nothing.

        Each bell rings once. Take it before a read, and nothing that comes after the read is missed.
        """
        ...

    async def trim(self, chat: str, upto: int) -> None:
        """Drop the rows up to and with number `upto`, for good. Numbers stay as they are, and are never given again.

        Raises:
            Ahead: `upto` is past the last row.
        """
        ...

    async def last(self, chat: str) -> int:
        """The chat's last number, trimmed or not; 0 for a chat that has none."""
        ...


async def pages(
    log: EventLog, chat: str, *, after: int = 0, limit: int = PAGE_ROWS, poll: float = POLL_SECONDS
) -> AsyncIterator[list[Row]]:
    """The rows of a chat after a number, those to come as well, in lists as they come. It has no end: leave it.

    Raises:
        Trimmed: rows were trimmed that it had not read yet.
        Ahead: `after` is past the last row.
    """
    while True:
        bell = log.bell(chat)  # before the read: what is appended between the two still rings it
        if rows := await log.read(chat, after=after, limit=limit):
            after = rows[-1].number
            yield rows
            continue
        try:
            async with asyncio.timeout(poll):
                await bell.wait()
        except TimeoutError:
            pass  # a bell may be lost; a row is not


async def tail(
    log: EventLog, chat: str, *, after: int = 0, limit: int = PAGE_ROWS, poll: float = POLL_SECONDS
) -> AsyncIterator[Row]:
    """As `pages`, row by row."""
    async for rows in pages(log, chat, after=after, limit=limit, poll=poll):
        for row in rows:
            yield row


class Bells:
    """The bells of a log, for those who write one. One event loop."""

    def __init__(self) -> None:
        # Weak: a chat that nobody listens to has none.
        self._bells: WeakValueDictionary[str, asyncio.Event] = WeakValueDictionary()

    def take(self, chat: str) -> asyncio.Event:
        """The bell that rings next."""
        return self._bells.setdefault(chat, asyncio.Event())

    def ring(self, chat: str) -> None:
        """Wake all who took it; who takes one now waits for the next ring."""
        if bell := self._bells.pop(chat, None):
            bell.set()


# --- the same checks for every log ---


def check_chat(chat: str) -> None:
    """The name of a chat can be one.

    Raises:
        UsageError: it cannot.
    """
    if not isinstance(chat, str) or not CHAT.fullmatch(chat):
        shown = repr(chat)
        raise UsageError(
            f"{shown if len(shown) <= 60 else shown[:60] + '…'} is no name of a chat",
            expected="1 to 200 of the characters A-Z a-z 0-9 . _ / -, a letter or digit first",
        )


def check_number(name: str, number: int, least: int = 0) -> None:
    """A number can be one of an event.

    Raises:
        UsageError: it cannot.
    """
    if type(number) is not int or not least <= number < 2**63:
        raise UsageError(f"{name} cannot be {number!r}", expected=f"a whole number from {least} on")


def check_rows(rows: Sequence[bytes], max_row_bytes: int) -> list[bytes]:
    """The rows of an append, copied, so that no one can change them any more.

    Raises:
        RowTooLarge: one of them is.
        UsageError: they are no bytes.
    """
    if isinstance(rows, bytes | bytearray | memoryview | str):
        raise UsageError("rows cannot be a single value", expected="a list of bytes")
    copied = list(rows)
    for row in copied:
        if not isinstance(row, bytes):
            raise UsageError(f"a row cannot be of the type {type(row).__name__}", expected="bytes")
        if len(row) > max_row_bytes:
            raise RowTooLarge(len(row), max_row_bytes)
    return copied
