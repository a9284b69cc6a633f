"""A check of an event log against everything that `EventLog` promises, in one line of a test.

async def test_my_log() -> None:
    await check_log(lambda: MyLog.open("somewhere"))
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from penstock.chat.store.protocol import Ahead, Conflict, EventLog, Row, RowTooLarge, Trimmed, tail
from penstock.errors import UsageError

Open = Callable[[], AbstractAsyncContextManager[EventLog]]
"""Opens the log, each time the same one."""

Check = Callable[[Open, str], Coroutine[Any, Any, None]]

PATIENCE = 30
"""Seconds after which what should come does not."""

HOSTILE = (b"", b"\n", b"\0", b"\xff\xfe", b"'; --", b'{"type":"replied"}', b"x" * 100_000)
WRITERS, TAILS, EACH = 4, 8, 15


async def check_log(make: Open, checks: Sequence[Check] | None = None) -> None:
    """Check all promises, or some of `CHECKS`.

    `make` opens one and the same log at each call; it is used in chats of random names.

    Raises:
        AssertionError: a promise is broken; the message says which.
    """
    for check in CHECKS if checks is None else checks:
        try:
            async with asyncio.timeout(PATIENCE * 2):
                await check(make, f"check-{os.urandom(6).hex()}")
        except TimeoutError:
            raise AssertionError(f"{check.__name__}: it never came to an end") from None
        except AssertionError as broken:
            raise AssertionError(f"{check.__name__}: {broken}") from broken
        except Exception as error:
            raise AssertionError(f"{check.__name__}: the log raised {error!r}") from error


async def rows_are_kept(make: Open, chat: str) -> None:
    """Numbers begin at 1 and have no gap; the bytes are those that were given."""
    async with make() as log:
        _same("last of a chat that is not there", await log.last(chat), 0)
        _same("read of a chat that is not there", await log.read(chat), [])
        given = list(HOSTILE)
        _same("append of several", await log.append(chat, given, after=0), len(HOSTILE))
        given[0] = b"changed by the caller afterwards"
        _same("append of one", await log.append(chat, [b"one more"], after=len(HOSTILE)), len(HOSTILE) + 1)
        await _holds(log, chat, [*HOSTILE, b"one more"])
        for row in await log.read(chat):
            _require(isinstance(row, Row) and type(row.at) is int and row.at >= 0, f"{row!r:.80} is no Row")


async def stale_writers_are_fenced(make: Open, chat: str) -> None:
    """An append that names another number than the last changes nothing, and tells the real one."""
    async with make() as log:
        for number in range(3):
            await log.append(chat, [b"%d" % number], after=number)
        for after in (0, 2, 4, 1000):
            for rows in ([b"stale"], []):
                refused = await _raises(Conflict, log.append(chat, rows, after=after))
                _same("the last number that a Conflict tells", refused.last, 3)
        refused = await _raises(Conflict, log.append(f"{chat}-new", [b"a"], after=1))
        _same("the last number of a new chat in a Conflict", refused.last, 0)
        _same("an append of nothing", await log.append(chat, [], after=3), 3)
        await _holds(log, chat, [b"0", b"1", b"2"])


async def appends_are_whole(make: Open, chat: str) -> None:
    """The largest row is taken; a larger one is not, nor is anything that came with it."""
    async with make() as log:
        largest = b"x" * log.max_row_bytes
        await log.append(chat, [largest, b"small"], after=0)
        await _raises(RowTooLarge, log.append(chat, [b"before", largest + b"x", b"behind"], after=2))
        _same("last", await log.last(chat), 2)
        await _holds(log, chat, [largest, b"small"])


async def pages_follow(make: Open, chat: str) -> None:
    """A read begins behind the number that it names, and has no more than its limit."""
    async with make() as log:
        data = [b"%d" % number for number in range(1, 31)]
        await log.append(chat, data, after=0)
        for after, limit in itertools.product((0, 1, 7, 29, 30), (1, 2, 10, 500)):
            rows = await log.read(chat, after=after, limit=limit)
            _require(len(rows) <= limit, f"a read of at most {limit} gave {len(rows)}")
            _require(bool(rows) == (after < 30), f"a read after {after} of 30 gave {len(rows)} rows")
            expected = [(number, b"%d" % number) for number in range(after + 1, after + 1 + len(rows))]
            _same(f"read after {after}", [(row.number, row.data) for row in rows], expected)


async def chats_are_apart(make: Open, chat: str) -> None:
    """What is done in one chat is not seen in another, however alike their names are."""
    async with make() as log:
        names = [chat, f"{chat}/in", f"{chat}.in", f"{chat}_", chat.upper(), f"{chat}1"]
        for number, name in itertools.product(range(3), names):
            await log.append(name, [f"{name} {number}".encode()], after=number)
        await log.trim(chat, 3)
        for name in names[1:]:
            await _holds(log, name, [f"{name} {number}".encode() for number in range(3)])


async def trimmed_rows_are_told(make: Open, chat: str) -> None:
    """What was trimmed is gone, and told; all other numbers stay, and none is given twice."""
    async with make() as log:
        await log.append(chat, [b"%d" % number for number in range(1, 11)], after=0)
        for upto, first in ((0, 1), (4, 5), (2, 5), (4, 5), (5, 6)):
            await log.trim(chat, upto)
            _same(f"last after trim {upto}", await log.last(chat), 10)
            for after in range(first - 1):
                trimmed = await _raises(Trimmed, log.read(chat, after=after))
                _same("the first number that Trimmed tells", trimmed.first, first)
            await _holds(log, chat, [b"%d" % number for number in range(first, 11)], after=first - 1)
        await log.trim(chat, 10)
        _same("last where all is trimmed", await log.last(chat), 10)
        _same("the first number where all is trimmed", (await _raises(Trimmed, log.read(chat))).first, 11)
        _same("read at the end where all is trimmed", await log.read(chat, after=10), [])
    async with make() as log:
        await _raises(Conflict, log.append(chat, [b"anew"], after=0))
        _same("append where all was trimmed", await log.append(chat, [b"11"], after=10), 11)
        await _holds(log, chat, [b"11"], after=10)


async def numbers_ahead_are_refused(make: Open, chat: str) -> None:
    """A number that was never given is told, with the last that was."""
    async with make() as log:
        await log.append(chat, [b"1", b"2"], after=0)
        for number in (3, 1000):
            _same("the last number that Ahead tells", (await _raises(Ahead, log.read(chat, after=number))).last, 2)
            _same("the last number that Ahead tells", (await _raises(Ahead, log.trim(chat, number))).last, 2)
        await _raises(Ahead, log.read(f"{chat}-new", after=1))
        await _raises(Ahead, log.trim(f"{chat}-new", 1))
        await _holds(log, chat, [b"1", b"2"])


async def nonsense_is_refused(make: Open, chat: str) -> None:
    """Names and numbers that cannot be are the caller's error."""
    async with make() as log:
        for name in ("", "/a", "../a", "a b", "a\n", "ü", "a" * 201, "a\0"):
            await _raises(UsageError, log.append(name, [b"x"], after=0))
            await _raises(UsageError, log.read(name))
            await _raises(UsageError, log.last(name))
            await _raises(UsageError, log.trim(name, 0))
        nonsense: Any = [True, "1", None, 1.0, -1, 2**63]
        for number in nonsense:
            await _raises(UsageError, log.append(chat, [b"x"], after=number))
            await _raises(UsageError, log.read(chat, after=number))
            await _raises(UsageError, log.read(chat, limit=0 if number is True else number))
            await _raises(UsageError, log.trim(chat, number))
        rows: Any
        for rows in (b"ab", "ab", ["ab"], [b"a", None], [bytearray(b"a")]):
            await _raises(UsageError, log.append(chat, rows, after=0))
        _same("last after nothing but nonsense", await log.last(chat), 0)


async def bells_ring_once(make: Open, chat: str) -> None:
    """A bell that was taken rings for the next row; one that is taken behind it is silent."""
    async with make() as log:
        first, other = log.bell(chat), log.bell(chat)
        await log.append(chat, [b"1"], after=0)
        for bell in (first, other):
            await _soon(bell.wait(), "a bell that was taken before an append")
        for _ in range(50):  # a bell may come for nothing, but not always: a tail would never rest
            if not log.bell(chat).is_set():
                break
            await asyncio.sleep(0.05)
        else:
            raise AssertionError("a bell rings though nothing was appended")
        later = log.bell(chat)
        await log.append(chat, [b"2"], after=1)
        await _soon(later.wait(), "a bell that was taken between two appends")


async def writers_race(make: Open, chat: str) -> None:
    """Of several writers at one number one wins, and each row that was acknowledged has its place, once."""
    async with make() as log:
        kept: dict[int, bytes] = {}

        async def write(who: int) -> None:
            for turn in range(EACH):
                data, after = b"%d %d" % (who, turn), await log.last(chat)
                while True:
                    try:
                        number = await log.append(chat, [data], after=after)
                    except Conflict as stale:
                        after = stale.last
                        continue
                    _require(number == after + 1 and number not in kept, f"number {number} was given twice")
                    kept[number] = data
                    break

        await asyncio.gather(*map(write, range(WRITERS)))
        _same("last", await log.last(chat), WRITERS * EACH)
        await _holds(log, chat, [kept[number] for number in sorted(kept)])


async def tails_have_no_gap(make: Open, chat: str) -> None:
    """Many tails, from many places, at rows that come meanwhile: each has all, in order, once."""
    async with make() as log:
        total = 5 * EACH
        await log.append(chat, [b"%d" % number for number in range(1, EACH + 1)], after=0)

        async def follow(after: int) -> None:
            expected = after
            async for row in tail(log, chat, after=after, limit=1 + after % 5):
                expected += 1
                _same("the next row of a tail", (row.number, row.data), (expected, b"%d" % expected))
                if expected == total:
                    return

        async def write() -> None:
            last = EACH
            while last < total:
                await asyncio.sleep(0)
                count = min(1 + last % 3, total - last)
                rows = [b"%d" % number for number in range(last + 1, last + count + 1)]
                last = await log.append(chat, rows, after=last)

        await _soon(asyncio.gather(write(), *map(follow, range(TAILS))), "the last row of a tail")


async def cancelled_appends_are_whole(make: Open, chat: str) -> None:
    """An append that is cancelled is made, or is not; the next goes on from `last`."""
    async with make() as log:
        kept: list[bytes] = []
        for turn in range(EACH):
            rows = [b"%d %d" % (turn, number) for number in range(3)]
            task = asyncio.ensure_future(log.append(chat, rows, after=len(kept)))
            for _ in range(turn % 5):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            try:
                await log.append(chat, rows, after=len(kept))
            except Conflict as made:
                _same("the last number after a cancelled append", made.last, len(kept) + len(rows))
            kept += rows
        await _holds(log, chat, kept)


async def a_new_log_has_all(make: Open, chat: str) -> None:
    """What one that is closed acknowledged, the next one has."""
    async with make() as log:
        await log.append(chat, [b"1", b"2", b"3"], after=0)
        await log.trim(chat, 1)
    async with make() as log:
        _same("last after opening again", await log.last(chat), 3)
        _same("Trimmed after opening again", (await _raises(Trimmed, log.read(chat))).first, 2)
        await _raises(Conflict, log.append(chat, [b"stale"], after=0))
        await log.append(chat, [b"4"], after=3)
        await _holds(log, chat, [b"2", b"3", b"4"], after=1)


CHECKS: tuple[Check, ...] = (
    rows_are_kept,
    stale_writers_are_fenced,
    appends_are_whole,
    pages_follow,
    chats_are_apart,
    trimmed_rows_are_told,
    numbers_ahead_are_refused,
    nonsense_is_refused,
    bells_ring_once,
    writers_race,
    tails_have_no_gap,
    cancelled_appends_are_whole,
    a_new_log_has_all,
)
"""The promises, one by one. Each is given a log and the name of a chat that is new."""


async def _holds(log: EventLog, chat: str, data: list[bytes], after: int = 0) -> None:
    """The chat has exactly these rows behind a number."""
    found: list[Row] = []
    while len(found) <= len(data) and (rows := await log.read(chat, after=after + len(found))):
        found += rows
    _same("numbers", [row.number for row in found], list(range(after + 1, after + 1 + len(data))))
    _require([row.data for row in found] == data, "the bytes that were read are not those that were appended")


async def _raises(kind: type[Any], call: Awaitable[Any]) -> Any:
    try:
        given = await call
    except kind as error:
        return error
    except Exception as error:
        raise AssertionError(f"expected {kind.__name__}, but it raised {error!r}") from error
    raise AssertionError(f"expected {kind.__name__}, but it gave {given!r:.80}")


async def _soon(call: Awaitable[Any], what: str) -> None:
    try:
        async with asyncio.timeout(PATIENCE):
            await call
    except TimeoutError:
        raise AssertionError(f"{what} never came") from None


def _same(what: str, found: object, expected: object) -> None:
    _require(found == expected, f"{what}: {found!r:.200}, and should be {expected!r:.200}")


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise AssertionError(otherwise)
