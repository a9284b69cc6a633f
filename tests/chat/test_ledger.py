"""One chat by its log: checkpoints beside it, pages of turns, and what may be dropped."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

from penstock import events as ev
from penstock.chat.errors import NoSuchTurn
from penstock.chat.history.entries import Entry, Prompted, TurnBegan, TurnEnded
from penstock.chat.history.frames import Checkpoint, TurnView
from penstock.chat.history.timeline import Thread
from penstock.chat.service.checkpoints import Checkpoints
from penstock.chat.service.ledger import Ledger
from penstock.chat.store.protocol import LogFailed
from penstock.chat.store.sqlite import SqliteLog

if TYPE_CHECKING:
    from conftest import Place


class Poor:
    """A log that fails to append to checkpoints while it is told to, with the append made or not."""

    def __init__(self, log: SqliteLog) -> None:
        self._log = log
        self.fails = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def append(self, chat: str, rows: Sequence[bytes], *, after: int) -> int:
        if not self.fails or not chat.endswith("/turns"):
            return await self._log.append(chat, rows, after=after)
        if self.fails == "after":
            await self._log.append(chat, rows, after=after)
        raise LogFailed("the disk is full")


def run(turn: int) -> list[Entry | ev.Event]:
    """A turn that begins and ends."""
    return [TurnBegan(turn, "a", "/"), ev.RunEnded(agent="a", outcome="ok", reply=f"reply {turn}", rounds=1)]


async def write(ledger: Ledger, *rows: Entry | ev.Event) -> Thread:
    """Append these."""
    async with ledger.writing:
        thread = await ledger.current()
        await ledger.append(thread, rows)
    return thread


async def tangle(ledger: Ledger) -> None:
    """Four turns, of which the last was taken back before the second began."""
    await write(ledger, Prompted(1, "p"))
    await write(ledger, *run(1))
    await write(ledger, Prompted(2, "p"), Prompted(3, "p"), Prompted(4, "p"))
    await write(ledger, TurnEnded(4, "cancelled"))
    await write(ledger, *run(2))
    await write(ledger, *run(3))


def test_only_whole_turns_are_dropped(place: Place) -> None:
    """Never where a turn waited, and never the newest turn, whenever it was over."""

    async def use() -> None:
        async with await place.open() as log:
            ledger = Ledger(log, "c", lambda thread: None)
            await tangle(ledger)
            assert await ledger.trim(2) == 0
            assert await ledger.trim(11) == 3
            assert [view.turn for view in (await ledger.turns(None, 10))[0]] == [2, 3, 4]
            again = Ledger(log, "c", lambda thread: None)
            assert await again.is_over()
            assert again.newest is not None
            assert again.newest.turn == 4
            thread = await write(again, Prompted(5, "p"))
            assert max(thread.turns) == 5
            await write(again, *run(5))
            assert await again.trim(10) == 0
            assert await again.trim(11) == 11
            assert [view.turn for view in (await again.turns(None, 10))[0]] == [5]
            with pytest.raises(NoSuchTurn):
                await again.turn(3)
            assert len((await again.turn(5))[1]) == 3

    asyncio.run(use())


@pytest.mark.parametrize("fails", ["before", "after"])
def test_checkpoints_that_failed_are_kept_later(place: Place, fails: str) -> None:
    """The log of the chat goes on; the turns stand in a later checkpoint, and whoever opens it sees all of them."""

    async def use() -> None:
        async with await place.open() as real:
            log = Poor(real)
            ledger = Ledger(log, "c", lambda thread: None)
            log.fails = fails
            for turn in (1, 2, 3):
                await write(ledger, Prompted(turn, "p"), *run(turn))
                assert ledger.rest()
                assert ledger.thread is not None, "it is needed until there is a checkpoint"
            log.fails = ""
            await write(ledger, Prompted(4, "p"), *run(4))
            assert ledger.rest()
            assert ledger.thread is None
            again = Ledger(real, "c", lambda thread: None)
            assert await again.is_over()
            views, earlier = await again.turns(None, 10)
            assert [(view.turn, view.message) for view in views] == [(turn, f"reply {turn}") for turn in (1, 2, 3, 4)]
            assert not earlier
            fresh = await again.fresh()
            assert [view.turn for view in fresh.snapshot().turns] == [1, 2, 3, 4]

    asyncio.run(use())


def test_a_checkpoint_is_kept_once(place: Place) -> None:
    """One that was kept although the log said that it failed is not kept again."""

    async def use() -> None:
        async with await place.open() as real:
            log = Poor(real)
            checkpoints = Checkpoints(log, "c")
            log.fails = "after"
            await checkpoints.keep(Checkpoint(5, [TurnView(1, "p", last=5)]))
            assert not checkpoints.kept
            log.fails = ""
            await checkpoints.keep(None)
            assert checkpoints.kept
            await checkpoints.keep(Checkpoint(9, [TurnView(2, "p", last=9)]))
            assert [it.number for _, it in await checkpoints.newest(10)] == [5, 9]

    asyncio.run(use())


def test_without_checkpoints_all_is_read(place: Place) -> None:
    """They spare rows and nothing else: with none of them, or with one that cannot be read, the chat is the same."""

    async def use() -> None:
        async with await place.open() as log:
            for chat, spoilt in (("none", 6), ("some", 1), ("all", 0)):
                poor = Poor(log)
                ledger = Ledger(poor, chat, lambda thread: None)
                poor.fails = "before" if spoilt == 6 else ""
                await tangle(ledger)
                if spoilt == 1:
                    stream = f"{chat}/turns"
                    await log.append(stream, [b'{"number": "of a newer kind"}'], after=await log.last(stream))
                again = Ledger(log, chat, lambda thread: None)
                await again.is_over()
                async with again.writing:
                    thread = await again.current()
                views = (await again.turns(None, 10))[0]
                assert [(view.turn, view.outcome) for view in views] == [
                    (1, "ok"),
                    (2, "ok"),
                    (3, "ok"),
                    (4, "cancelled"),
                ]
                assert thread.number == 11

    asyncio.run(use())
