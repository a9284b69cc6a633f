"""Turns and titles of chats are found by their words."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from waiting import PATIENCE, until_true

from penstock.chat.errors import Invalid, TooMany
from penstock.chat.service.chats.search import MAX_QUERY_CHARS, MAX_WAITING, Hit, Search, SearchResult
from penstock.chat.service.service import Service
from penstock.chat.store import search_tables
from penstock.chat.store.protocol import ChatStore
from penstock.chat.store.search import Reader, StoredHits
from penstock.chat.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from chat.service.conftest import Home

OWNER = Reader("owner", is_owner=True)


async def indexed(store: ChatStore) -> None:
    """Wait until nothing waits to be indexed."""
    async with asyncio.timeout(PATIENCE):
        while await store.list_unindexed(limit=1):
            await asyncio.sleep(0.01)


def shown(found: SearchResult) -> list[tuple[str, int | None, str, list[str]]]:
    """What was found: the chat, the turn, the kind of text, and the words that are marked."""
    return [(hit.chat, hit.turn, hit.kind, [hit.text[it.start : it.end] for it in hit.marks]) for hit in found.hits]


@pytest.mark.slow
def test_turns_are_found_by_what_was_said_and_done(home: Home) -> None:
    """By words of the prompt, the reply, a command and a path, of any turn; the newest first; the title at once."""
    home.scripted("tools", "claude/tools", "--speed=0")

    async def use() -> None:
        async with home.store() as store:
            service = await home.open(store)
            one = (await service.create(agent="scripted")).id
            two = (await service.create(agent="tools")).id
            await service.prompt(one, "x " * 80 + "the NEEDLE\n  in Straße, 100% _sure_")
            await home.settled(service, one)
            await service.prompt(two, "a needle in it")
            turns = await home.settled(service, two)
            reply = turns[0].message.split()[-1].strip(".!")
            await indexed(store)

            async def find(words: str) -> list[tuple[str, int | None, str, list[str]]]:
                return shown(await service.find(words, OWNER))

            assert await find("needle in") == [
                (two, 1, "prompt", ["needle", "in"]),
                (one, 1, "prompt", ["NEEDLE", "in"]),
                (two, None, "title", ["needle", "in"]),
            ]
            assert await find("needle strasse") == [(one, 1, "prompt", ["NEEDLE", "Straße"])]
            assert await find("100%") == [(one, 1, "prompt", ["100"])]
            assert (two, 1, "reply") in [it[:3] for it in await find(f'"{reply}"')]
            assert await find('"echo hi && ls"') == [(two, 1, "commands", ["echo hi && ls"])]
            assert await find("demo/notes.txt") == [(two, 1, "paths", ["demo/notes.txt"])]
            assert await find("_") == await find("nothing of it") == []
            (hit,) = (await service.find('"100 sure"', OWNER)).hits
            assert isinstance(hit, Hit)
            assert (hit.agent, hit.cwd, hit.archived, hit.person) == ("scripted", str(home.work), False, "owner")
            assert len(hit.text) <= 200

            await service.change(one, title="The pelican")
            await indexed(store)
            assert await find("pelican") == [(one, None, "title", ["pelican"])]
            await service.delete(two)
            assert [it[0] for it in await find("needle")] == [one]
            for wrong in ("", "  \n", "x" * (MAX_QUERY_CHARS + 1)):
                with pytest.raises(Invalid):
                    await service.find(wrong, OWNER)
            await service.close()

    asyncio.run(use())


def test_pages_follow_each_other(home: Home) -> None:
    """Each page goes on after the one before, and the last has no next."""

    async def use() -> None:
        async with home.store() as store:
            service = await home.open(store)
            ids = [(await service.create(agent="scripted", title=f"needle {nth}")).id for nth in range(5)]
            await indexed(store)
            found: list[str] = []
            before: list[str] = []
            while True:
                given: dict[str, Any] = {"before": int(before[-1])} if before else {}
                page = await service.find("needle", OWNER, limit=2, **given)
                assert page.complete
                found += [hit.chat for hit in page.hits]
                if page.next is None:
                    break
                before.append(page.next)
            assert sorted(found) == sorted(ids)
            assert len(before) == 2
            await service.close()

    asyncio.run(use())


def test_an_index_that_is_missing_is_made_again(home: Home) -> None:
    """A file without the index, or with one of another version, has all words again after a start."""

    async def use() -> None:
        async with home.service() as service:
            chat = (await service.create(agent="scripted")).id
            await service.prompt(chat, "a needle")
            await home.settled(service, chat)
        lost: list[list[str]] = [
            [f"DROP TABLE {search_tables.INDEX}"],
            [f"ALTER TABLE {search_tables.INDEX} RENAME TO words_0"],
            [f"DROP TABLE {name}" for name in (search_tables.INDEX, "texts", "unindexed")]
            + [f"DROP TRIGGER {name}" for name in ("turn_ended", "turn_gone", "chat_made", "chat_named", "chat_gone")],
        ]
        for statements in lost:
            with closing(sqlite3.connect(home.path)) as file:
                for statement in statements:
                    file.execute(statement)
                file.commit()
            async with home.store() as store:
                service = await home.open(store)
                await indexed(store)
                assert [hit.turn for hit in (await service.find("needle", OWNER)).hits] == [1, None]
                await service.close()
        with closing(sqlite3.connect(home.path)) as file:
            assert not file.execute("SELECT 1 FROM sqlite_master WHERE name LIKE 'words_0%'").fetchall()

    asyncio.run(use())


def test_deleted_words_are_not_in_the_file(home: Home) -> None:
    """The texts of a chat that is deleted are not kept beside it."""

    async def use() -> None:
        async with home.store() as store:
            service = await home.open(store)
            chat = (await service.create(agent="scripted")).id
            await service.prompt(chat, "a needle")
            await home.settled(service, chat)
            await indexed(store)
            await service.delete(chat)
            await service.close()
        with closing(sqlite3.connect(home.path)) as file:
            assert file.execute("SELECT count(*) FROM texts").fetchone() == (0,)
            assert (
                file.execute(
                    f"SELECT rowid FROM {search_tables.INDEX} WHERE {search_tables.INDEX} MATCH 'needle'"
                ).fetchall()
                == []
            )

    asyncio.run(use())


def test_a_search_ends_in_time(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has no more time returns what it has, and says that there may be more."""

    async def use() -> None:
        async with home.store() as store:
            service = await home.open(store)
            for nth in range(20):
                await service.create(agent="scripted", title=f"needle {nth}")
            await indexed(store)
            monkeypatch.setattr(search_tables, "PROGRESS_STEPS", 1)
            monkeypatch.setattr(search_tables, "SEARCH_SECONDS", -1.0)
            assert (await service.find("needle", OWNER)).complete is False
            monkeypatch.undo()
            found = await service.find("needle", OWNER)
            assert (len(found.hits), found.complete) == (20, True)
            await service.close()

    asyncio.run(use())


class SlowStore:
    """Store whose searches wait until they are released."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.gate = asyncio.Event()

    async def search(self, terms: object, reader: Reader, **options: object) -> StoredHits:
        self.order.append(reader.person)
        await self.gate.wait()
        return StoredHits([], True)


def test_many_searches_of_one_person_delay_others_by_one(home: Home) -> None:
    """One who asks again and again is rejected in the end, and meanwhile another person waits for one search only."""

    async def use() -> None:
        store = SlowStore()
        search = Search(store)  # type: ignore[arg-type]
        tasks = [asyncio.create_task(search.find("needle", Reader("ana"))) for _ in range(MAX_WAITING + 1)]
        await until_true(lambda: store.order)
        with pytest.raises(TooMany):
            await search.find("needle", Reader("ana"))
        tasks.append(asyncio.create_task(search.find("needle", Reader("ben"))))
        await asyncio.sleep(0)
        store.gate.set()
        await asyncio.gather(*tasks)
        assert store.order[:3] in (["ana", "ben", "ana"], ["ana", "ana", "ben"])
        assert len(store.order) == MAX_WAITING + 2

    asyncio.run(use())


@pytest.mark.slow
def test_a_turn_that_cannot_be_read_does_not_stop_the_others(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is left out, and what came after it is found."""

    async def use() -> None:
        async with home.store() as store:
            service = await home.open(store)
            one, two = [(await service.create(agent="scripted", title=f"title {nth}")).id for nth in range(2)]
            read = SqliteStore.get_chat

            async def get_chat(self: SqliteStore, chat: str) -> Any:
                if chat == one:
                    raise ValueError("a bug")
                return await read(self, chat)

            monkeypatch.setattr(SqliteStore, "get_chat", get_chat)
            for chat in (one, two):
                await service.prompt(chat, "a needle")
                await home.settled(service, chat)
            await indexed(store)
            assert [hit.chat for hit in (await service.find("needle", OWNER)).hits] == [two]
            await service.close()

    asyncio.run(use())


def test_a_service_opens_while_much_is_to_be_indexed(home: Home) -> None:
    """The start does not wait for the index, and a service that ends leaves what is left for the next one."""

    async def use() -> None:
        async with home.store() as store:
            service: Service = await home.open(store)
            ids = {(await service.create(agent="scripted", title=f"needle {nth}")).id for nth in range(40)}
            await service.close()
            left = await store.list_unindexed(limit=1000)
            assert left
        async with home.store() as store:
            service = await home.open(store)
            await indexed(store)
            found = await service.find("needle", OWNER, limit=50)
            assert {hit.chat for hit in found.hits} == ids
            await service.close()

    asyncio.run(use())
