"""The conformance suite: right logs pass it, and each wrong one is rejected for what is wrong with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from penstock.chat.store import conformance
from penstock.chat.store.conformance import CHECKS, check_log
from penstock.chat.store.protocol import (
    Ahead,
    Bells,
    Conflict,
    EventLog,
    Row,
    RowTooLarge,
    Trimmed,
    check_chat,
    check_number,
    check_rows,
)


class MemoryLog:
    """The least log that keeps the promises."""

    max_row_bytes = 200_000

    def __init__(self) -> None:
        self.rows: dict[str, list[Row]] = {}
        self.first: dict[str, int] = {}
        self.bells = Bells()

    def ends(self, chat: str) -> int:
        return len(self.rows.get(chat, ()))

    async def append(self, chat: str, rows: Sequence[bytes], *, after: int) -> int:
        check_chat(chat)
        check_number("after", after)
        copied = check_rows(rows, self.max_row_bytes)
        await asyncio.sleep(0)
        if after != self.ends(chat):
            raise Conflict(chat, after, self.ends(chat))
        for data in copied:
            self.rows.setdefault(chat, []).append(Row(self.ends(chat) + 1, 0, data))
        self.bells.ring(chat)
        return self.ends(chat)

    async def read(self, chat: str, *, after: int = 0, limit: int = 500) -> list[Row]:
        check_chat(chat)
        check_number("after", after)
        check_number("limit", limit, 1)
        await asyncio.sleep(0)
        if after > self.ends(chat):
            raise Ahead(chat, after, self.ends(chat))
        if after + 1 < self.first.get(chat, 1):
            raise Trimmed(chat, after, self.first[chat])
        return self.rows.get(chat, [])[after : after + limit]

    def bell(self, chat: str) -> asyncio.Event:
        return self.bells.take(chat)

    async def trim(self, chat: str, upto: int) -> None:
        check_chat(chat)
        check_number("upto", upto)
        if upto > self.ends(chat):
            raise Ahead(chat, upto, self.ends(chat))
        self.first[chat] = max(upto + 1, self.first.get(chat, 1))

    async def last(self, chat: str) -> int:
        check_chat(chat)
        return self.ends(chat)


def opener(log: EventLog) -> conformance.Open:
    """Opens one and the same log."""

    @asynccontextmanager
    async def make() -> AsyncIterator[EventLog]:
        yield log

    return make


def test_the_file_passes(place: Any) -> None:
    """The log in a SQLite file keeps all promises."""

    @asynccontextmanager
    async def make() -> AsyncIterator[EventLog]:
        async with await place.open() as log:
            yield log

    asyncio.run(check_log(make))


def test_a_log_in_memory_passes() -> None:
    """Nothing is asked that only a file can do."""
    asyncio.run(check_log(opener(MemoryLog())))


# --- logs that are wrong ---


class FromZero(MemoryLog):
    """Begins at 0."""

    async def read(self, chat: str, **where: Any) -> list[Row]:
        return [row._replace(number=row.number - 1) for row in await super().read(chat, **where)]


class NoFence(MemoryLog):
    """Lets everyone append."""

    async def append(self, chat: str, rows: Sequence[bytes], *, after: int) -> int:
        check_number("after", after)
        return await super().append(chat, rows, after=self.ends(chat))


class LaxFence(MemoryLog):
    """Refuses only what is behind."""

    async def append(self, chat: str, rows: Sequence[bytes], *, after: int) -> int:
        return await super().append(chat, rows, after=self.ends(chat) if after > self.ends(chat) else after)


class WrongLast(MemoryLog):
    """Refuses, and tells another number than the last."""

    async def append(self, chat: str, rows: Sequence[bytes], *, after: int) -> int:
        try:
            return await super().append(chat, rows, after=after)
        except Conflict as stale:
            raise Conflict(chat, after, stale.last + 1) from stale


class EmptyUnchecked(MemoryLog):
    """Does not look where there is nothing to write."""

    async def append(self, chat: str, rows: Sequence[bytes], *, after: int) -> int:
        return await super().append(chat, rows, after=after) if rows else after


class Racing(MemoryLog):
    """Looks first and writes later."""

    async def append(self, chat: str, rows: Sequence[bytes], *, after: int) -> int:
        if after == self.ends(chat):
            await asyncio.sleep(0)
            after = self.ends(chat)
        data = self.rows.setdefault(chat, [])
        if after != len(data):
            raise Conflict(chat, after, len(data))
        data += [Row(after + number, 0, row) for number, row in enumerate(rows, 1)]
        return len(data)


class Halves(MemoryLog):
    """Writes what fits of an append that is too large."""

    async def append(self, chat: str, rows: Sequence[bytes], *, after: int) -> int:
        try:
            return await super().append(chat, rows, after=after)
        except RowTooLarge:
            await super().append(chat, [row for row in rows if len(row) <= self.max_row_bytes], after=after)
            raise


class Cuts(MemoryLog):
    """Cuts a long row instead of refusing it."""

    async def append(self, chat: str, rows: Sequence[bytes], *, after: int) -> int:
        return await super().append(chat, [row[: self.max_row_bytes] for row in rows], after=after)


class Strips(MemoryLog):
    """Gives other bytes than it was given."""

    async def read(self, chat: str, **where: Any) -> list[Row]:
        return [row._replace(data=row.data.strip()) for row in await super().read(chat, **where)]


class Folds(MemoryLog):
    """Takes upper and lower case for the same chat."""

    def ends(self, chat: str) -> int:
        return super().ends(chat.lower())

    async def append(self, chat: str, rows: Sequence[bytes], *, after: int) -> int:
        return await super().append(chat.lower(), rows, after=after)

    async def read(self, chat: str, **where: Any) -> list[Row]:
        return await super().read(chat.lower(), **where)


class NoLimit(MemoryLog):
    """Gives more than was asked for."""

    async def read(self, chat: str, *, after: int = 0, limit: int = 500) -> list[Row]:
        check_number("limit", limit, 1)
        return await super().read(chat, after=after, limit=500)


class Inclusive(MemoryLog):
    """Gives the row that the reader has as well."""

    async def read(self, chat: str, *, after: int = 0, limit: int = 500) -> list[Row]:
        rows = await super().read(chat, after=after, limit=limit)
        return rows and self.rows[chat][max(0, after - 1) : max(0, after - 1) + limit]


class SkipsLarge(MemoryLog):
    """Leaves out what is large."""

    async def read(self, chat: str, **where: Any) -> list[Row]:
        return [row for row in await super().read(chat, **where) if len(row.data) < 100_000]


class SilentTrim(MemoryLog):
    """Goes on at the first row that is left, and tells no one."""

    async def read(self, chat: str, *, after: int = 0, limit: int = 500) -> list[Row]:
        try:
            return await super().read(chat, after=after, limit=limit)
        except Trimmed as trimmed:
            return await super().read(chat, after=trimmed.first - 1, limit=limit)


class KeepsTrimmed(MemoryLog):
    """Trims nothing."""

    async def trim(self, chat: str, upto: int) -> None:
        check_chat(chat)
        check_number("upto", upto)
        if upto > self.ends(chat):
            raise Ahead(chat, upto, self.ends(chat))


class TrimsOneMore(MemoryLog):
    """Trims a row too many."""

    async def trim(self, chat: str, upto: int) -> None:
        await super().trim(chat, upto)
        self.first[chat] += 1


class Untrims(MemoryLog):
    """Brings back what was trimmed."""

    async def trim(self, chat: str, upto: int) -> None:
        self.first.pop(chat, None)
        await super().trim(chat, upto)


class StartsAnew(MemoryLog):
    """Forgets a chat whose rows are all gone."""

    async def trim(self, chat: str, upto: int) -> None:
        await super().trim(chat, upto)
        if upto and upto == self.ends(chat):
            del self.rows[chat], self.first[chat]


class SilentAhead(MemoryLog):
    """Tells no one that a number is none."""

    async def read(self, chat: str, **where: Any) -> list[Row]:
        try:
            return await super().read(chat, **where)
        except Ahead:
            return []


class Lenient(MemoryLog):
    """Takes any name."""

    async def last(self, chat: str) -> int:
        return self.ends(chat)


class Dumb(MemoryLog):
    """A bell that never rings."""

    def bell(self, chat: str) -> asyncio.Event:
        return asyncio.Event()


class Shrill(MemoryLog):
    """A bell that always rings."""

    def bell(self, chat: str) -> asyncio.Event:
        bell = asyncio.Event()
        bell.set()
        return bell


class Swaps(MemoryLog):
    """Gives rows in another order."""

    async def read(self, chat: str, **where: Any) -> list[Row]:
        return (await super().read(chat, **where))[::-1]


class Torn(MemoryLog):
    """Can be cancelled between two rows."""

    async def append(self, chat: str, rows: Sequence[bytes], *, after: int) -> int:
        last = await super().append(chat, [], after=after)
        check_rows(rows, self.max_row_bytes)
        for row in rows:
            last = await super().append(chat, [row], after=last)
        return last


WRONG = [
    (FromZero, "rows_are_kept"),
    (NoFence, "stale_writers_are_fenced"),
    (LaxFence, "stale_writers_are_fenced"),
    (WrongLast, "stale_writers_are_fenced"),
    (EmptyUnchecked, "stale_writers_are_fenced"),
    (Racing, "writers_race"),
    (Halves, "appends_are_whole"),
    (Cuts, "appends_are_whole"),
    (Strips, "rows_are_kept"),
    (Folds, "chats_are_apart"),
    (NoLimit, "pages_follow"),
    (Inclusive, "pages_follow"),
    (SkipsLarge, "rows_are_kept"),
    (SilentTrim, "trimmed_rows_are_told"),
    (KeepsTrimmed, "trimmed_rows_are_told"),
    (TrimsOneMore, "trimmed_rows_are_told"),
    (Untrims, "trimmed_rows_are_told"),
    (StartsAnew, "trimmed_rows_are_told"),
    (SilentAhead, "numbers_ahead_are_refused"),
    (Lenient, "nonsense_is_refused"),
    (Dumb, "bells_ring_once"),
    (Shrill, "bells_ring_once"),
    (Swaps, "pages_follow"),
    (Torn, "cancelled_appends_are_whole"),
]
"""Wrong logs, and the check that is there for what is wrong with each."""


@pytest.mark.parametrize(("wrong", "check"), WRONG, ids=[wrong.__name__ for wrong, _ in WRONG])
def test_a_wrong_log_is_rejected(wrong: type[MemoryLog], check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each wrong log fails the check that is there for it, and so the suite."""
    monkeypatch.setattr(conformance, "PATIENCE", 2)
    [found] = [known for known in CHECKS if known.__name__ == check]
    with pytest.raises(AssertionError, match=check):
        asyncio.run(check_log(opener(wrong()), [found]))


def test_a_log_that_forgets_is_rejected() -> None:
    """A log that is opened again without its last row fails the check that opens it again."""
    log = MemoryLog()

    @asynccontextmanager
    async def make() -> AsyncIterator[EventLog]:
        yield log
        for rows in log.rows.values():
            del rows[-1:]

    with pytest.raises(AssertionError, match="opening again"):
        asyncio.run(check_log(make, [conformance.a_new_log_has_all]))


def test_every_check_rejects_something() -> None:
    """No check is there that every log passes."""
    others = {"a_new_log_has_all", "tails_have_no_gap"}  # tested apart, and below
    assert {check for _, check in WRONG} | others == {check.__name__ for check in CHECKS}


def test_tails_need_every_row() -> None:
    """The check of the tails fails where a row is left out when a reader is in the middle."""

    class Gap(MemoryLog):
        async def read(self, chat: str, *, after: int = 0, limit: int = 500) -> list[Row]:
            rows = await super().read(chat, after=after, limit=limit)
            return rows[1:] if after >= 20 and len(rows) > 1 else rows

    with pytest.raises(AssertionError, match="the next row of a tail"):
        asyncio.run(check_log(opener(Gap()), [conformance.tails_have_no_gap]))
