"""The index of the chats: what it keeps, over restarts, failures and rewriting."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from penstock.chat.errors import NoSuchChat
from penstock.chat.service.heartbeat import Heartbeat
from penstock.chat.service.index import SPARE_ROWS, STREAM, Card, Chat, Directory, Gone, Index
from penstock.chat.store.protocol import LogFailed
from penstock.chat.store.sqlite import SqliteLog

if TYPE_CHECKING:
    from conftest import Place


def known(index: Index) -> tuple[Any, ...]:
    """All that it knows."""
    return dict(index.chats), dict(index.trusted)


def test_it_keeps_what_was_put(place: Place) -> None:
    """Chats, directories and what is gone are as they were, for whoever opens it."""

    async def use() -> None:
        async with await place.open() as log:
            index = await Index.open(log)
            chat = Chat("a", "claude", "/x", 5)
            whole = replace(
                chat, id="b", title="t", session_id="s", heartbeat=Heartbeat(5, "x", None, False), allow="all"
            )
            for item in (
                chat,
                whole,
                replace(chat, title="new"),
                Directory("/x", 7),
                Chat("c", "pi", "/", 1),
                Gone("c"),
            ):
                await index.put(item)
            assert known(index) == ({"a": replace(chat, title="new"), "b": whole}, {"/x": 7})
            assert known(await Index.open(log)) == known(index)

    asyncio.run(use())


def test_a_long_one_is_rewritten(place: Place) -> None:
    """However often a chat changes, the stream stays short, and nothing is lost."""

    async def use() -> None:
        async with await place.open() as log:
            index = await Index.open(log)
            await index.put(Directory("/x", 7))
            await index.put(Chat("b", "claude", "/x", 1))
            for number in range(5 * SPARE_ROWS):
                await index.put(Chat("a", "claude", "/x", 5, title=str(number)))
            last = await log.last(STREAM)
            rows = [number for number in range(last) if await kept(log, number)]
            assert len(rows) <= 2 * SPARE_ROWS
            again = await Index.open(log)
            assert known(again) == known(index)
            assert again.chats["a"].title == str(5 * SPARE_ROWS - 1)
            await again.put(Gone("a"))
            assert [*(await Index.open(log)).chats] == ["b"]

    async def kept(log: SqliteLog, number: int) -> bool:
        try:
            return bool(await log.read(STREAM, after=number, limit=1))
        except Exception:
            return False

    asyncio.run(use())


def test_rows_of_a_newer_version_are_left(place: Place) -> None:
    """A row that is not understood is passed over, and never rewritten away."""

    async def use() -> None:
        async with await place.open() as log:
            await log.append(STREAM, [b'{"type":"hologram"}', b"\xff"], after=0)
            index = await Index.open(log)
            for number in range(3 * SPARE_ROWS):
                await index.put(Chat("a", "claude", "/x", number))
            assert (await log.read(STREAM, limit=1))[0].data == b'{"type":"hologram"}'

    asyncio.run(use())


class Lying:
    """A log that makes an append and says that it failed, or fails without making it."""

    def __init__(self, log: SqliteLog, makes: bool) -> None:
        self._log = log
        self._makes = makes
        self.fails = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def append(self, chat: str, rows: Sequence[bytes], *, after: int) -> int:
        if not self.fails:
            return await self._log.append(chat, rows, after=after)
        if self._makes:
            await self._log.append(chat, rows, after=after)
        raise LogFailed("the disk is full")


@pytest.mark.parametrize("makes", [True, False])
def test_a_failure_is_told_and_overcome(place: Place, makes: bool) -> None:
    """After an append that failed, made or not, the index is what the log is."""

    async def use() -> None:
        async with await place.open() as real:
            log = Lying(real, makes)
            index = await Index.open(log)
            await index.put(Chat("a", "claude", "/x", 1))
            log.fails = True
            with pytest.raises(LogFailed):
                await index.put(Chat("b", "claude", "/x", 2))
            log.fails = False
            await index.put(Chat("c", "claude", "/x", 3))
            assert [*index.chats] == (["a", "b", "c"] if makes else ["a", "c"])
            assert known(await Index.open(real)) == known(index)

    asyncio.run(use())


def test_puts_at_the_same_time_are_all_kept(place: Place) -> None:
    """Who puts while another does waits, and neither is lost."""

    async def use() -> None:
        async with await place.open() as log:
            index = await Index.open(log)
            await asyncio.gather(*(index.put(Chat(f"c{number}", "claude", "/x", number)) for number in range(30)))
            assert len((await Index.open(log)).chats) == 30

    asyncio.run(use())


def test_a_session_that_could_not_be_kept_is_kept_later(place: Place) -> None:
    """The chat goes on with it at once; the next change that can be kept keeps both."""

    async def use() -> None:
        async with await place.open() as real:
            log = Lying(real, makes=False)
            index = await Index.open(log)
            card = Card(Chat("a", "claude", "/x", 1), index)
            log.fails = True
            await card.keep_session("s1")
            assert card.chat.session_id == "s1"
            with pytest.raises(LogFailed):
                await card.change(lambda chat: replace(chat, title="t"))
            assert card.chat.title is None
            log.fails = False
            await card.change(lambda chat: chat)
            assert (await Index.open(real)).chats["a"].session_id == "s1"

    asyncio.run(use())


def test_a_deleted_chat_does_not_change(place: Place) -> None:
    """A change that comes while a chat is deleted does not bring it back."""

    async def use() -> None:
        async with await place.open() as log:
            index = await Index.open(log)
            card = Card(Chat("a", "claude", "/x", 1), index)
            both = asyncio.gather(
                card.change(lambda chat: replace(chat, deleted=True)),
                card.change(lambda chat: replace(chat, title="t")),
                return_exceptions=True,
            )
            assert isinstance((await both)[1], NoSuchChat)
            await card.keep_session("s")
            assert index.chats["a"] == Chat("a", "claude", "/x", 1, deleted=True)
            await card.forget()
            assert (await Index.open(log)).chats == {}

    asyncio.run(use())
