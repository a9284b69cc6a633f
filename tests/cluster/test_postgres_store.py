"""The store in PostgreSQL: what any store promises, jobs, claims, and several nodes."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec
import psycopg
import pytest
from msgspec.structs import replace
from postgres import Server

from penstock.chat.errors import NotAllowed
from penstock.chat.store import permits
from penstock.chat.store.columns import POSTGRES, columns
from penstock.chat.store.conformance import CHECKS, Check, check_store
from penstock.chat.store.postgres.migrate import ROWS, SchemaTooOld, migrate, migrations
from penstock.chat.store.postgres.store import PostgresStore
from penstock.chat.store.protocol import (
    ChatStore,
    Claimed,
    Conflict,
    Fenced,
    LeaseLost,
    StoreClosed,
    StoreFailed,
    UnknownChat,
)
from penstock.chat.store.rows import Attachment, ChatChanges, ChatRow, TurnRow
from penstock.chat.store.search import Reader, SearchTexts, key_of
from penstock.chat.store.words import parse
from penstock.errors import UsageError

pytestmark = pytest.mark.slow

SMALL = 200_000
"""Bytes of the largest entry: a check of the limit writes one."""


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_database_passes(database: str, check: Check) -> None:
    """The store in PostgreSQL keeps each promise of a store."""

    @asynccontextmanager
    async def make() -> AsyncIterator[ChatStore]:
        async with await PostgresStore.open(database, max_entry_bytes=SMALL) as store:
            yield store

    asyncio.run(check_store(make, [check]))


# --- jobs, claims ---


async def _jobs(store: PostgresStore) -> list[tuple[object, ...]]:
    return await store.database.fetch(
        "SELECT queue_name, task_name, lock, queueing_lock, args, status::text FROM procrastinate_jobs ORDER BY id"
    )


def test_a_prompt_and_its_job_are_one(database: str) -> None:
    """The job of a turn is queued for the chat's home with the turn's entry, once, and not without it."""

    async def check() -> None:
        async with await PostgresStore.open(database) as store:
            await store.create_chat(ChatRow("a", "claude", "/", 1, home="node-1"))
            await store.create_chat(ChatRow("b", "claude", "/", 1))
            await store.submit("a", b"stop", at=1)
            await store.submit("b", b"prompt", at=1, turn=1)
            for _ in range(2):
                await store.submit("a", b"prompt", at=1, after=1, key="k", turn=1)
            with pytest.raises(Conflict):
                await store.submit("a", b"prompt", at=1, after=1, turn=2)
            job = ("node-1", "penstock.turn", "a", "a/1", {"chat": "a", "turn": 1}, "todo")
            assert await _jobs(store) == [job]
            await store.delete_chat("a")
            assert await _jobs(store) == []

    asyncio.run(check())


def test_summaries_are_read_together(database: str) -> None:
    """Each caller gets the summary of its chat, or its own error; many are read by few statements."""
    names = [f"chat-{number}" for number in range(120)]
    statements: list[str] = []

    async def check() -> None:
        async with await PostgresStore.open(database) as store:
            for number, name in enumerate(names):
                await store.create_chat(ChatRow(name, "claude", "/", 1))
                await store.append(name, [b"1", b"2"], after=0, at=1, turns=[TurnRow(1, 1, 2, number, b"view")])
            fetch = store.database.fetch

            async def counted(query: Any, *rest: Any, **more: Any) -> Any:
                statements.append(query)
                return await fetch(query, *rest, **more)

            store.database.fetch = counted  # type: ignore[method-assign]
            calls = [asyncio.create_task(store.summary(name, limit=1)) for name in [*names, "none", *names[:3]]]
            await asyncio.sleep(0)
            calls[5].cancel()
            found = await asyncio.gather(*calls, return_exceptions=True)
            assert isinstance(found.pop(5), asyncio.CancelledError)
            assert isinstance(found.pop(len(names) - 1), UnknownChat)
            numbers = [number for number in range(len(names)) if number != 5]
            assert found == [(2, 2, [TurnRow(1, 1, 2, number, b"view")]) for number in [*numbers, 0, 1, 2]]
            assert len(statements) == 3
            empty = await asyncio.gather(store.summary(names[0], limit=9), store.summary(names[0], limit=1))
            assert empty[0] == empty[1]
        with pytest.raises(StoreClosed):
            await store.summary(names[0], limit=1)

    asyncio.run(check())


def test_turns_of_one_moment_are_indexed_at_several_nodes(database: str) -> None:
    """Rows of the index with the same key are all added, whichever nodes add them at once."""
    names = (f"chat-{number}" for number in itertools.count())
    alike = list(itertools.islice((name for name in names if key_of(name, 0, 1) & 0xFFFF == 7), 24))

    async def check() -> None:
        async with AsyncExitStack() as stack:
            stores = [await stack.enter_async_context(await PostgresStore.open(database)) for _ in range(3)]
            for name in alike:
                await stores[0].create_chat(ChatRow(name, "claude", "/", 1, title="alike"))
            waiting = await stores[0].list_unindexed(limit=99)
            assert len(waiting) == len(alike)
            works = (
                stores[place % 3].index(item, SearchTexts(title="alike"), at=1) for place, item in enumerate(waiting)
            )
            await asyncio.gather(*works)
            assert await stores[0].list_unindexed(limit=99) == []
            hits, _ = await stores[1].search(parse("alike"), Reader("owner", is_owner=True), limit=99)
            assert {hit.chat for hit in hits} == {*alike}

    asyncio.run(check())


def test_the_queue_of_the_index_is_divided_by_nodes_that_live(database: str) -> None:
    """A node gets the turns of its own chats, and those of a node that is gone once they have waited for a minute."""

    async def check() -> None:
        async with await PostgresStore.open(database) as store:
            for home in ("one", "two", None):
                await store.create_chat(ChatRow(f"of-{home}", "claude", "/", 1, title="words", home=home))

            async def waiting() -> list[list[str]]:
                found = [await store.list_unindexed(limit=9, home=home) for home in ("one", "two", None)]
                return [sorted(item.chat for item in items) for items in found]

            every = ["of-None", "of-one", "of-two"]
            assert await waiting() == [["of-None", "of-one"], ["of-None", "of-two"], every]  # nobody lives, it is new
            await _lease(store, "one", 60)
            await _lease(store, "two", 60)
            await store.database.fetch("UPDATE unindexed SET since = now() - interval '2 minutes'", {})
            assert await waiting() == [["of-None", "of-one"], ["of-None", "of-two"], every]
            await store.database.fetch("UPDATE nodes SET seen = now() - interval '2 minutes' WHERE id = 'two'", {})
            assert await waiting() == [every, ["of-None", "of-two"], every]

    asyncio.run(check())


async def _lease(store: PostgresStore, node: str, seconds: float) -> uuid.UUID:
    """Give a node a lease of a new incarnation."""
    incarnation = uuid.uuid4()
    await store.database.fetch(
        "INSERT INTO nodes (id, incarnation, seen, ttl) VALUES (%(id)s, %(incarnation)s, clock_timestamp(), "
        "make_interval(secs => %(seconds)s)) ON CONFLICT (id) DO UPDATE SET incarnation = excluded.incarnation, "
        "seen = excluded.seen, ttl = excluded.ttl",
        {"id": node, "incarnation": incarnation, "seconds": seconds},
    )
    return incarnation


def test_a_claim_holds_as_long_as_the_lease(database: str) -> None:
    """While the claimant's lease holds, nobody else claims its chat; after the lease or the release anyone does."""

    async def check() -> None:
        async with await PostgresStore.open(database) as store:
            await store.create_chat(ChatRow("a", "claude", "/", 1))
            one, two = await _lease(store, "one", 60), await _lease(store, "two", 60)
            with pytest.raises(LeaseLost):
                await store.claim("a", "one", incarnation=two)
            first = await store.claim("a", "one", incarnation=one)
            with pytest.raises(Claimed, match="'one'"):
                await store.claim("a", "two", incarnation=two)
            again = await store.claim("a", "one", incarnation=one)
            await store.release("a", first)
            with pytest.raises(Claimed):
                await store.claim("a", "two", incarnation=two)
            await store.release("a", again)
            second = await store.claim("a", "two", incarnation=two)
            await _lease(store, "two", 60)
            third = await store.claim("a", "one", incarnation=one)
            assert first < again < second < third
            with pytest.raises(Fenced):
                await store.append("a", [b"late"], after=0, at=1, epoch=second)

    asyncio.run(check())


def test_one_of_many_claims_wins(database: str) -> None:
    """Of several nodes that claim a chat at once, one gets it."""

    async def check() -> None:
        async with await PostgresStore.open(database) as store:
            await store.create_chat(ChatRow("a", "claude", "/", 1))
            nodes = {f"node-{number}": await _lease(store, f"node-{number}", 60) for number in range(8)}
            claims = [store.claim("a", node, incarnation=incarnation) for node, incarnation in nodes.items()]
            found = await asyncio.gather(*claims, return_exceptions=True)
            assert sum(isinstance(it, int) for it in found) == 1
            assert sum(isinstance(it, Claimed) for it in found) == 7

    asyncio.run(check())


# --- several nodes ---


def test_another_node_is_notified(database: str) -> None:
    """A subscriber at another node is notified of entries and of rows, and reads what was written."""

    async def check() -> None:
        async with await PostgresStore.open(database) as one, await PostgresStore.open(database) as two:
            subscription = two.subscribe()
            row = ChatRow("a", "claude", "/", 1)
            await one.create_chat(row)
            async with asyncio.timeout(30):
                while "a" not in (await subscription.next()).changed:
                    pass
            assert await two.get_chat("a") == row
            await one.append("a", [b"1"], after=0, at=1)
            async with asyncio.timeout(30):
                while (await subscription.next()).chats.get("a") != 1:
                    pass
            assert [entry.data for entry in (await two.read("a")).entries] == [b"1"]
            await two.submit("a", b"2", at=2, after=1)
            with pytest.raises(Conflict):
                await one.append("a", [b"stale"], after=1, at=1)

    asyncio.run(check())


# --- tables ---


@pytest.mark.parametrize("key", ["starred", "key", "ctid", 'title" = NULL --'])
def test_a_key_without_a_column_is_an_error(database: str, key: str) -> None:
    """A row or a change with a key that the table does not have is rejected by name, and changes nothing."""

    async def check() -> None:
        async with await PostgresStore.open(database) as store:
            row = ChatRow("a", "claude", "/", 1)
            await store.create_chat(row)
            for statement in ("SELECT update_chat_v1('a', %(row)s::jsonb)", "SELECT put_row_v1(9, %(row)s::jsonb)"):
                with pytest.raises(StoreFailed) as failed:
                    await store.database.fetch(statement, {"row": json.dumps({"title": "t", key: 1})})
                assert f"a chat has no column {key}" in str(failed.value)
            assert await store.get_chat("a") == row

    asyncio.run(check())


def test_a_database_without_tables_is_rejected(server: Server) -> None:
    """A store in a database without its tables is an error that names the command that makes them."""
    with pytest.raises(SchemaTooOld, match="no tables"):
        asyncio.run(PostgresStore.open(server.empty()))


def test_tables_are_made_once(server: Server) -> None:
    """Several nodes that make the tables at once make them once, and a second time does nothing."""
    url = server.empty()

    async def check() -> None:
        made = await asyncio.gather(*(migrate(url) for _ in range(4)))
        assert sorted(map(len, made)) == [0, 0, 0, len(migrations())]
        await (await PostgresStore.open(url)).close()

    asyncio.run(check())


def test_a_database_of_another_version(database: str) -> None:
    """A database with the tables of a newer version can be used, and one that lacks a migration cannot."""

    async def check() -> None:
        async with await PostgresStore.open(database) as store:
            await store.database.fetch("INSERT INTO migrations (number, name) VALUES (9999, 'later')")
            await (await PostgresStore.open(database)).close()
            await store.database.fetch("DELETE FROM migrations WHERE number > 1")
            with pytest.raises(SchemaTooOld, match="migration 1"):
                await PostgresStore.open(database)

    asyncio.run(check())


def test_a_database_gets_the_columns_that_it_lacks(database: str) -> None:
    """A database from before some fields is not used until `migrate` adds them; its chats have the defaults then."""

    async def check() -> None:
        async with await PostgresStore.open(database) as store:
            await store.create_chat(ChatRow("a", "claude", "/", 1, home="node-1"))
            await store.database.fetch("ALTER TABLE chats DROP COLUMN allow, DROP COLUMN person")
            await store.database.fetch("ALTER TABLE browsers DROP COLUMN person")
            with pytest.raises(SchemaTooOld, match=r"lacks columns: chats.allow, chats.person, browsers.person"):
                await PostgresStore.open(database)
        assert await migrate(database) == ["chats.allow", "chats.person", "browsers.person"]
        assert await migrate(database) == []
        async with await PostgresStore.open(database) as store:
            assert await store.get_chat("a") == ChatRow("a", "claude", "/", 1, home="node-1")
            assert (await store.update_chat("a", ChatChanges(allow="all"))).allow == "all"

    asyncio.run(check())


def test_chats_from_before_read_marks_count_as_read(database: str) -> None:
    """In a database that gets the marks, all have read the turns that there are."""

    async def check() -> None:
        async with await PostgresStore.open(database) as store:
            await store.create_chat(ChatRow("a", "claude", "/", 1))
            await store.append("a", [b"1"], after=0, at=1, turns=[TurnRow(turn, 1, 1, 1, b"{}") for turn in (1, 2)])
            await store.database.fetch("ALTER TABLE chats DROP COLUMN reads")
            for call in ("mark_read_v1", "forget_reader_v1"):
                await store.database.fetch(f"DROP FUNCTION {call}")
            await store.database.fetch("DELETE FROM migrations WHERE number = 10")
        assert await migrate(database) == ["0010 reads"]
        async with await PostgresStore.open(database) as store:
            assert (await store.get_chat("a")).reads == {"": 2}
            assert await store.mark_read("ana", {"a": 1}) == ["a"]
            assert (await store.get_chat("a")).reads == {"": 2, "ana": 1}

    asyncio.run(check())


def test_a_node_of_the_version_before_works_on(database: str) -> None:
    """A store that is open while a column is added works on: chats keep its value, and new ones get the default."""

    async def check() -> None:
        async with await PostgresStore.open(database) as store:
            await store.create_chat(ChatRow("a", "claude", "/", 1))
            await store.get_chat("a")
            await store.append("a", [b"1"], after=0, at=1, changes=ChatChanges(title="t"))
            await store.database.fetch("ALTER TABLE chats ADD COLUMN later text NOT NULL DEFAULT 'none'")
            await store.database.fetch("UPDATE chats SET later = 'kept'")
            await store.append(
                "a", [b"2"], after=1, at=1, turns=[TurnRow(1, 1, 2, 1, b"v")], changes=ChatChanges(title="u")
            )
            await store.create_chat(ChatRow("b", "claude", "/", 1))
            assert await store.list_chats() == [
                ChatRow("a", "claude", "/", 1, title="u"),
                ChatRow("b", "claude", "/", 1),
            ]
            found = await store.database.fetch("SELECT later FROM chats ORDER BY key")
            assert found == [("kept",), ("none",)]
            row = msgspec.json.encode(ChatRow("b", "claude", "/", 1)).decode()
            again = await store.database.fetch("SELECT create_chat_v1('b', %(row)s::jsonb, true)", {"row": row})
            assert again == [(True,)]  # made by an attempt whose acknowledgement was lost

    asyncio.run(check())


def test_the_columns_are_those_of_the_structs(database: str) -> None:
    """Each field has a column of its type, which has a default if the field has one."""

    async def check() -> None:
        async with await PostgresStore.open(database) as store:
            found = await store.database.fetch(
                "SELECT table_name, column_name, data_type, is_nullable = 'YES', column_default IS NOT NULL "
                "FROM information_schema.columns WHERE table_schema = 'penstock'"
            )
        present = {(table, name): rest for table, name, *rest in found}
        for table, (row, elsewhere) in ROWS.items():
            for column in columns(row):
                if column.name != elsewhere:
                    kind = POSTGRES[column.kind].removesuffix(' COLLATE "C"')
                    has_default = column.can_be_added and column.default is not None
                    assert present[table, column.name] == [kind, column.is_nullable, has_default], (table, column)

    asyncio.run(check())


def test_the_tables_of_another_program(database: str) -> None:
    """A database whose migrations have other names is neither used nor changed."""

    async def check() -> None:
        async with await PostgresStore.open(database) as store:
            await store.database.fetch("UPDATE migrations SET name = 'calls' WHERE number = 2")
        for call in (migrate(database), PostgresStore.open(database)):
            with pytest.raises(UsageError, match=r"migration 2 is 'calls'.*'store'"):
                await call

    asyncio.run(check())


# --- appends of several nodes ---


def test_nodes_that_append_to_the_same_chats_do_not_deadlock(database: str) -> None:
    """Groups of appends lock their chats in the same order at all nodes, in whatever order the calls came."""
    chats, rounds = [f"chat-{number}" for number in range(40)], 30

    async def append_all(store: PostgresStore, chance: random.Random) -> None:
        async def append(chat: str) -> None:
            after = 0
            for _ in range(rounds):
                try:
                    after = await store.append(chat, [b"entry"], after=after, at=1)
                except Conflict as conflict:
                    after = conflict.last

        await asyncio.gather(*map(append, chance.sample(chats, len(chats))))

    async def check() -> None:
        async with AsyncExitStack() as stack:
            stores = [await stack.enter_async_context(await PostgresStore.open(database)) for _ in range(4)]
            await asyncio.gather(*(stores[0].create_chat(ChatRow(chat, "claude", "/", 1)) for chat in chats))
            # So many others that the server looks each chat up by itself, in the order of the call.
            await stores[0].database.fetch(
                "INSERT INTO heads (id) SELECT 'other-' || number FROM generate_series(1, 5000) AS number"
            )
            await stores[0].database.fetch("ANALYZE heads")
            await asyncio.gather(*(append_all(store, random.Random(nth)) for nth, store in enumerate(stores)))
        async with await PostgresStore.open(database) as store:  # a connection counts at its end
            found = await store.database.fetch(
                "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
            )
        assert found == [(0,)]

    asyncio.run(check())


# --- permits ---

BLOCKED = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"


@pytest.mark.parametrize("change", ["submit", "submit with a key", "update", "rules", "attach", "detach"])
def test_a_chat_becomes_private_while_a_change_waits(database: str, change: str) -> None:
    """A change that waits for the one which makes the chat private is not made, whatever it has seen before."""
    kept = Attachment("one", "a", "a", "text/plain", 1, 5)

    async def check() -> None:
        async with (
            await PostgresStore.open(database) as store,
            await psycopg.AsyncConnection.connect(database, options="-c search_path=penstock") as other,
        ):
            row = ChatRow("a", "claude", "/", 1, person="ana", visibility="team")
            await store.create_chat(row)
            await store.put_attachment(kept, b"x", unsent_before=0)
            calls: dict[str, Callable[[], Awaitable[object]]] = {
                "submit": lambda: store.submit("a", b"1", at=1, after=0),
                "submit with a key": lambda: store.submit("a", b"1", at=1, key="k", turn=1),
                "update": lambda: store.update_chat("a", ChatChanges(title="t")),
                "rules": lambda: store.update_chat("a", ChatChanges(title="t"), rules=[]),
                "attach": lambda: store.put_attachment(replace(kept, id="two"), b"x", unsent_before=0),
                "detach": lambda: store.delete_attachment("a", "one"),
            }
            await other.execute("SELECT update_chat_v1('a', '{\"visibility\": \"private\"}')")
            with permits.acting(lambda: Reader("ben")):
                made = asyncio.ensure_future(calls[change]())
            async with asyncio.timeout(60):
                while not (await store.database.fetch(BLOCKED))[0][0]:
                    await asyncio.sleep(0.02)
            await other.commit()
            with pytest.raises(UnknownChat):
                await made
            assert await store.get_chat("a") == replace(row, visibility="private")
            assert (await store.summary("a", limit=1)).last == 0
            assert await store.list_attachments("a") == [kept]

    asyncio.run(check())


def test_a_person_who_is_removed_while_the_database_is_away(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The right is checked before each attempt: a change that waits is not made if the right ended meanwhile."""
    asked: list[int] = []

    def permit() -> Reader:
        asked.append(1)
        if len(asked) > 1:
            raise NotAllowed("ben was removed")
        return Reader("ben", is_owner=True)

    async def check() -> None:
        async with await PostgresStore.open(database) as store:
            await store.create_chat(ChatRow("a", "claude", "/", 1))
            first = store.database._idle[-1]
            await first.open(5)
            real = first.run

            async def cut(*given: Any) -> list[tuple[Any, ...]]:
                first.cut()  # before the statement is sent
                return await real(*given)

            monkeypatch.setattr(first, "run", cut)
            with permits.acting(permit), pytest.raises(NotAllowed):
                await store.submit("a", b"1", at=1)
            assert len(asked) == 2
            assert (await store.summary("a", limit=1)).last == 0

    asyncio.run(check())
