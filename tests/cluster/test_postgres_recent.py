"""Entries that are read ahead: which chats, what a read gets of them, and when they are too old."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.chat.store.postgres import recent
from penstock.chat.store.postgres.recent import Recent
from penstock.chat.store.postgres.store import PostgresStore
from penstock.chat.store.protocol import PAGE_ENTRIES, Page, StoredEntry
from penstock.chat.store.rows import ChatRow

pytestmark = pytest.mark.slow


def _rows(chat: str, first: int, last: int) -> list[tuple[str, int, int, int, bytes]]:
    return [(chat, last, number, 1, b"%d" % number) for number in range(first, last + 1)]


def _entries(first: int, last: int) -> list[StoredEntry]:
    return [StoredEntry(number, 1, b"%d" % number) for number in range(first, last + 1)]


def test_a_chat_that_was_read_to_its_end_is_read_ahead() -> None:
    """Only chats that were read to their end are read ahead, from there on, and the next reads get it."""
    ahead = Recent()
    ahead.read("a", Page(_entries(1, 2), 2), 0)
    ahead.read("b", Page(_entries(1, 2), 9), 0)
    assert ahead.wanted(["a", "b", "c"]) == {"a": 2}
    ahead.put({"a": 2}, _rows("a", 3, 5))
    assert ahead.page("a", 1, 9) is None
    assert ahead.page("a", 2, 2) == Page(_entries(3, 4), 5)
    assert ahead.page("a", 4, 9) == Page(_entries(5, 5), 5)
    assert ahead.page("a", 5, 9) is None, "that there is nothing is never answered from memory"
    assert ahead.wanted(["a"]) == {"a": 5}


def test_a_slow_reader_gets_more_at_once() -> None:
    """What is read ahead before anyone reads it is added to the page; once that is full, the chat is left alone."""
    ahead = Recent()
    ahead.read("a", Page([], 0), 0)
    ahead.put(ahead.wanted(["a"]), _rows("a", 1, 3))
    assert ahead.wanted(["a"]) == {"a": 3}
    ahead.put({"a": 3}, _rows("a", 4, 4))
    assert ahead.page("a", 0, 9) == Page(_entries(1, 4), 4)
    ahead.put(ahead.wanted(["a"]), _rows("a", 5, 4 + PAGE_ENTRIES))
    assert ahead.wanted(["a"]) == {}
    assert ahead.page("a", 4, 9) is None


def test_a_page_from_before_an_own_append_is_not_used() -> None:
    """A process that has appended never reads a page that ends before its own entry."""
    ahead = Recent()
    ahead.read("a", Page([], 0), 0)
    wanted = ahead.wanted(["a"])
    ahead.wrote("a", 4)
    ahead.put(wanted, _rows("a", 1, 3))
    assert ahead.page("a", 0, 9) is None
    ahead.read("a", Page([], 0), 0)
    ahead.put(ahead.wanted(["a"]), _rows("a", 1, 3))
    ahead.wrote("a", 4)
    assert ahead.page("a", 0, 9) is None


def test_a_chat_that_changed_is_forgotten() -> None:
    """A chat that may have been deleted is read from the database, and a page with a gap is not used."""
    ahead = Recent()
    ahead.read("a", Page([], 0), 0)
    ahead.put(ahead.wanted(["a"]), _rows("a", 1, 3))
    ahead.forget(["a"])
    assert ahead.page("a", 0, 9) is None
    ahead.read("a", Page([], 0), 0)
    ahead.put(ahead.wanted(["a"]), _rows("a", 3, 5))
    assert ahead.page("a", 0, 9) is None


def test_few_chats_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more chats than are followed, those that were read longest ago are dropped."""
    monkeypatch.setattr(recent, "MAX_FOLLOWED", 2)
    ahead = Recent()
    for chat in "abac":
        ahead.read(chat, Page([], 0), 0)
    assert ahead.wanted("abc") == {"a": 0, "c": 0}


def test_a_lost_notification_is_found_by_the_poll(database: str) -> None:
    """Entries, rows and deletions of which no notification came are found within a poll."""

    async def check() -> None:
        one, two = await PostgresStore.open(database), await PostgresStore.open(database)
        async with asyncio.timeout(30), one, two:
            await one.create_chat(ChatRow("a", "claude", "/", 1))
            await two.read("a")
            subscription = two.subscribe()
            await one.database.fetch(
                "WITH made AS (INSERT INTO entries (chat, number, at, data) SELECT key, last + 1, 1, 'x' FROM heads) "
                "UPDATE heads SET last = last + 1"
            )
            while (await subscription.next()).chats.get("a") != 1:
                pass
            assert (await two.read("a")).entries == [StoredEntry(1, 1, b"x")]
            await one.database.fetch("UPDATE heads SET version = version + 1")
            while "a" not in (await subscription.next()).changed:
                pass
            await one.database.fetch("DELETE FROM heads")
            while "a" not in (await subscription.next()).changed:
                pass

    asyncio.run(check())


def test_followers_read_what_was_read_ahead(database: str) -> None:
    """The entries of many chats are read by few statements at the node that follows them."""

    async def check() -> None:
        chats = [f"chat-{number}" for number in range(50)]
        async with asyncio.timeout(60), await PostgresStore.open(database) as one:
            for chat in chats:
                await one.create_chat(ChatRow(chat, "claude", "/", 1))
            two = await PostgresStore.open(database)
            for chat in chats:
                await two.read(chat)
            subscription = two.subscribe()
            statements: list[str] = []
            fetch = two.database.fetch

            async def counted(query: Any, *words: Any, **options: Any) -> list[tuple[Any, ...]]:
                statements.append(query)
                return await fetch(query, *words, **options)

            two.database.fetch = counted  # type: ignore[method-assign]
            await asyncio.gather(*(one.append(chat, [b"1"], after=0, at=1) for chat in chats))
            waiting = {*chats}
            while waiting:
                for chat in (await subscription.next()).chats:
                    if (await two.read(chat)).entries:
                        waiting.discard(chat)
            await two.close()
            assert len(statements) < len(chats) / 2

    asyncio.run(check())
