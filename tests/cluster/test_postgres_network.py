"""The store in PostgreSQL through a network that is slow, cuts connections, and passes nothing on in one direction."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from effort import at_most
from slow_network import Direction, Proxy

from penstock.chat.cluster.nodes import remove_node
from penstock.chat.errors import NoSuchNode
from penstock.chat.store.conformance import CHECKS, Check, check_store
from penstock.chat.store.postgres.connections import WORKERS, Patience
from penstock.chat.store.postgres.store import PostgresStore
from penstock.chat.store.protocol import (
    ChatStore,
    Conflict,
    FirstEntry,
    RowChanged,
    StoreFailed,
    Submitted,
    UnknownChat,
)
from penstock.chat.store.rows import ChatChanges, ChatRow, ChatRule, TurnRow
from penstock.errors import UsageError

pytestmark = pytest.mark.slow

SMALL = 200_000
"""Bytes of the largest entry: a check of the limit writes one."""

SHORT = Patience(statement=0.5, connect=0.5, away=1.0)
"""Seconds after which a store gives up, where it is to do so."""

LONG = Patience(statement=0.5, connect=0.5, away=60.0)
"""Seconds of a store that gives up an attempt soon, and the call not at all."""

PATIENCE = 60
"""Seconds in which everything ends, on a machine that is busy."""

CUTS = at_most(10, 400)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_suite_passes_over_a_slow_network(database: str, proxy: Proxy, check: Check) -> None:
    """The store keeps each promise where each packet takes its time."""
    proxy.delay = 0.002

    @asynccontextmanager
    async def make() -> AsyncIterator[ChatStore]:
        async with await PostgresStore.open(proxy.url(database), max_entry_bytes=SMALL) as store:
            yield store

    asyncio.run(check_store(make, [check]))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_suite_passes_while_connections_are_cut(database: str, proxy: Proxy, check: Check) -> None:
    """The store keeps each promise while all of its connections are cut again and again."""

    async def cut() -> None:
        pause = random.Random(check.__name__)
        longer = 1.0  # a busy machine needs more time to connect than lies between the first cuts
        while True:
            await asyncio.sleep(pause.uniform(0.05, 0.15) * longer)
            proxy.cut()
            longer *= 1.03

    @asynccontextmanager
    async def make() -> AsyncIterator[ChatStore]:
        async with await PostgresStore.open(proxy.url(database), max_entry_bytes=SMALL, patience=LONG) as store:
            cutting = asyncio.create_task(cut())
            try:
                yield store
            finally:
                cutting.cancel()
                await asyncio.gather(cutting, return_exceptions=True)

    asyncio.run(check_store(make, [check]))


async def _appears(store: PostgresStore, last: int) -> None:
    """Wait until the chat has this last number, as another connection sees it."""
    while (await store.read("a")).last < last:
        await asyncio.sleep(0.01)


async def _held_back(proxy: Proxy) -> None:
    """Wait until the proxy has held a piece back since the last call."""
    while not proxy.held_back:
        await asyncio.sleep(0.01)
    proxy.held_back = 0


async def _connected(store: PostgresStore) -> None:
    """Make the connections of the next append and of the next other call."""
    await store.append("a", [], after=(await store.read("a")).last, at=1)


def test_a_lost_acknowledgement_is_found_out(database: str, proxy: Proxy) -> None:
    """Each change whose acknowledgement is lost is made once, and its caller gets the result of the first attempt."""

    async def check() -> None:
        direct = await PostgresStore.open(database)
        store = await PostgresStore.open(proxy.url(database), patience=LONG)
        async with asyncio.timeout(PATIENCE), direct, store:
            await store.create_chat(ChatRow("a", "claude", "/", 1, home="n"))
            turn = TurnRow(1, 1, 3, 5, b"view")
            for call, last in (
                (lambda: store.append("a", [b"1", b"2", b"3"], after=0, at=5, turns=[turn]), 3),
                (lambda: store.submit("a", b"4", at=5, after=3), 4),
                (lambda: store.submit("a", b"5", at=5, key="k", turn=1), 5),
            ):
                await _connected(store)
                proxy.hold("to client")
                made = asyncio.ensure_future(call())
                await _appears(direct, last)
                proxy.cut()
                proxy.hold()
                assert await made in (last, Submitted(last, True))
            assert [entry.data for entry in (await store.read("a")).entries] == [b"1", b"2", b"3", b"4", b"5"]
            assert await store.list_turns("a", limit=9) == [turn]
            assert len(await direct.database.fetch("SELECT id FROM procrastinate_jobs")) == 1

    asyncio.run(check())


@pytest.mark.parametrize("first", [None, FirstEntry(b"prompt", 1, turn=1)], ids=["alone", "with its first turn"])
def test_a_chat_whose_acknowledgement_is_lost(database: str, proxy: Proxy, first: FirstEntry | None) -> None:
    """It is made once, also if its row has changed since: its turn begins at its home before the second attempt.

    A chat that is not the same, but has its id, is an error after a lost attempt too.
    """

    async def check() -> None:
        direct = await PostgresStore.open(database)
        store = await PostgresStore.open(proxy.url(database), patience=LONG)
        async with asyncio.timeout(PATIENCE), direct, store:
            assert await store.list_chats() == []  # the connection of the next call is made
            proxy.hold("to client")
            making = asyncio.ensure_future(store.create_chat(ChatRow("a", "claude", "/", 1, home="n"), first))
            while not await direct.list_chats():
                await asyncio.sleep(0.01)
            await _held_back(proxy)
            await direct.update_chat("a", ChatChanges(title="its title", session_id="s", pinned=True, spent=0.5))
            await direct.mark_read("ana", {"a": 1})
            proxy.cut()
            proxy.hold()
            await making
            assert (await store.get_chat("a")).title == "its title"
            assert (await store.read("a")).last == (0 if first is None else 1)
            assert await store.list_chats()
            proxy.hold("to server")
            making = asyncio.ensure_future(store.create_chat(ChatRow("a", "claude", "/", 2, home="n"), first))
            await _held_back(proxy)
            proxy.cut()
            proxy.hold()
            with pytest.raises(UsageError, match="there is a chat"):
                await making

    asyncio.run(check())


def test_read_marks_whose_acknowledgement_is_lost(database: str, proxy: Proxy) -> None:
    """The caller gets the chats that the first attempt marked, so that it can notify whoever sees them."""

    async def check() -> None:
        direct = await PostgresStore.open(database)
        store = await PostgresStore.open(proxy.url(database), patience=LONG)
        async with asyncio.timeout(PATIENCE), direct, store:
            await store.create_chat(ChatRow("a", "claude", "/", 1))
            await store.get_chat("a")  # the connection of the next call is made
            proxy.hold("to client")
            marking = asyncio.ensure_future(store.mark_read("ana", {"a": 3}))
            while (await direct.get_chat("a")).reads != {"ana": 3}:
                await asyncio.sleep(0.01)
            proxy.cut()
            proxy.hold()
            assert await marking == ["a"]

    asyncio.run(check())


def test_a_chat_that_is_not_there_is_not_deleted(database: str, proxy: Proxy) -> None:
    """Its deletion is an error after a lost attempt too; that of a chat that was there is none."""

    async def check() -> None:
        direct = await PostgresStore.open(database)
        store = await PostgresStore.open(proxy.url(database), patience=LONG)
        async with asyncio.timeout(PATIENCE), direct, store:
            await store.create_chat(ChatRow("a", "claude", "/", 1))
            await store.get_chat("a")  # the connection of the next call is made
            proxy.hold("to server")
            deleting = asyncio.ensure_future(store.delete_chat("none"))
            await _held_back(proxy)
            proxy.cut()
            proxy.hold()
            with pytest.raises(UnknownChat):
                await deleting
            await store.delete_chat("a")
            with pytest.raises(UnknownChat):
                await store.delete_chat("a")

    asyncio.run(check())


def test_a_node_that_is_not_there_is_not_removed(database: str, proxy: Proxy) -> None:
    """Its removal is an error after a lost attempt too; that of a node that was there is none."""

    async def check() -> None:
        direct = await PostgresStore.open(database)
        store = await PostgresStore.open(proxy.url(database), patience=LONG)
        async with asyncio.timeout(PATIENCE), direct, store:
            await direct.database.fetch(
                """INSERT INTO nodes (id, incarnation, seen, ttl, about)
                VALUES ('gone', gen_random_uuid(), clock_timestamp(), interval '0', '{}')"""
            )
            assert await store.list_chats() == []  # the connection of the next call is made
            proxy.hold("to server")
            removing = asyncio.ensure_future(remove_node(store.database, "none"))
            await _held_back(proxy)
            proxy.cut()
            proxy.hold()
            with pytest.raises(NoSuchNode):
                await removing
            assert await remove_node(store.database, "gone") == (0, 0)
            with pytest.raises(NoSuchNode):
                await remove_node(store.database, "gone")

    asyncio.run(check())


def test_a_lost_acknowledgement_behind_which_others_appended(database: str, proxy: Proxy) -> None:
    """An append that was made is recognized behind later entries, and one that was not made is a conflict."""

    async def check() -> None:
        direct = await PostgresStore.open(database)
        store = await PostgresStore.open(proxy.url(database), patience=LONG)
        async with asyncio.timeout(PATIENCE), direct, store:
            await store.create_chat(ChatRow("a", "claude", "/", 1))
            await _connected(store)
            proxy.hold("to client")
            made = asyncio.ensure_future(store.append("a", [b"1"], after=0, at=5))
            await _appears(direct, 1)
            await direct.append("a", [b"2"], after=1, at=5)
            proxy.cut()
            proxy.hold()
            assert await made == 1
            await _connected(store)
            proxy.hold("to server")
            lost = asyncio.ensure_future(store.append("a", [b"mine"], after=2, at=5))
            await asyncio.sleep(0)
            await direct.append("a", [b"other"], after=2, at=5)
            proxy.cut()
            proxy.hold()
            with pytest.raises(Conflict):
                await lost

    asyncio.run(check())


def test_a_lost_acknowledgement_of_changed_rules(database: str, proxy: Proxy) -> None:
    """Rules that were compared and set are recognized; those that another writer has set since are a conflict."""
    mine, other = ChatRule("a", "make a", "ana"), ChatRule("b", "make b", "ben")

    async def check() -> None:
        direct = await PostgresStore.open(database)
        store = await PostgresStore.open(proxy.url(database), patience=LONG)
        async with asyncio.timeout(PATIENCE), direct, store:
            await store.create_chat(ChatRow("a", "claude", "/", 1))
            for known, rules, later in (([], [mine], None), ([mine], [], [other])):
                await _connected(store)
                proxy.hold("to client")
                made = asyncio.ensure_future(store.update_chat("a", ChatChanges(rules=rules, title="t"), rules=known))
                while (await direct.get_chat("a")).rules != rules:
                    await asyncio.sleep(0.01)
                if later is not None:
                    await direct.update_chat("a", ChatChanges(rules=later))
                proxy.cut()
                proxy.hold()
                if later is None:
                    assert (await made).rules == rules
                else:
                    with pytest.raises(RowChanged):
                        await made
                    assert (await store.get_chat("a")).rules == later

    asyncio.run(check())


WAYS: list[tuple[Direction, ...]] = [("to server",), ("to client",), ("to server", "to client")]


@pytest.mark.parametrize("ways", WAYS, ids=" and ".join)
def test_nothing_hangs_where_nothing_passes(database: str, proxy: Proxy, ways: tuple[Direction, ...]) -> None:
    """While packets of a direction are lost, each call fails after a while; afterwards all calls work again."""

    async def check() -> None:
        store = await PostgresStore.open(proxy.url(database), patience=SHORT)
        async with asyncio.timeout(PATIENCE), store:
            await store.create_chat(ChatRow("a", "claude", "/", 1))
            await store.append("a", [b"1"], after=0, at=1)
            proxy.hold(*ways)
            calls = (
                *(store.append("a", [b"2"], after=1, at=1), store.submit("a", b"3", at=1, key="k"), store.read("a")),
                *(store.claim("a", "n"), store.list_chats(), store.update_chat("a", ChatChanges(title="t"))),
                *(store.list_expired(before=1, max_bytes=1), store.list_directories()),
            )
            for outcome in await asyncio.gather(*calls, return_exceptions=True):
                assert isinstance(outcome, StoreFailed), outcome
            proxy.cut()
            proxy.hold()
            last = (await store.read("a")).last
            assert await store.append("a", [b"last"], after=last, at=1) == last + 1

    asyncio.run(check())


def test_calls_work_as_soon_as_the_server_is_back(database: str, proxy: Proxy) -> None:
    """After it was away for long, no call fails because its own connection is of the time before."""

    async def check() -> None:
        store = await PostgresStore.open(proxy.url(database), patience=SHORT)
        async with asyncio.timeout(PATIENCE), store:
            await store.create_chat(ChatRow("a", "claude", "/", 1))
            await store.append("a", [b"1"], after=0, at=1)
            await asyncio.gather(*(store.list_turns("a", limit=1) for _ in range(WORKERS)))
            proxy.hold("to server", "to client")
            with pytest.raises(StoreFailed):
                await store.summary("a", limit=1)
            await asyncio.sleep(SHORT.away)
            proxy.cut()
            proxy.hold()
            calls = [store.get_chat("a") for _ in range(WORKERS)]
            assert [found.id for found in await asyncio.gather(*calls)] == ["a"] * WORKERS
            assert await store.append("a", [b"2"], after=1, at=1) == 2

    asyncio.run(check())


def test_a_subscriber_is_notified_after_each_cut(database: str, proxy: Proxy) -> None:
    """A subscriber whose connection is cut, or passes nothing on, is notified of every entry nevertheless."""

    async def check() -> None:
        direct = await PostgresStore.open(database)
        store = await PostgresStore.open(proxy.url(database), patience=LONG)
        async with asyncio.timeout(PATIENCE), direct, store:
            subscription = store.subscribe()
            await direct.create_chat(ChatRow("a", "claude", "/", 1))
            for number in range(6):
                if number % 2:
                    proxy.cut()
                else:
                    proxy.hold("to client")
                await direct.append("a", [b"%d" % number], after=number, at=1)
                if number % 2 == 0:
                    await asyncio.sleep(0.1)
                    proxy.cut()
                    proxy.hold()
                while (await subscription.next()).chats.get("a", 0) <= number:
                    pass
                assert (await store.read("a", after=number)).entries[0].data == b"%d" % number

    asyncio.run(check())


def test_a_subscriber_is_notified_again_after_a_cut(database: str, proxy: Proxy) -> None:
    """What it was notified of it may have failed to read: once the server is back, it is notified of all chats."""

    async def check() -> None:
        async with asyncio.timeout(PATIENCE), await PostgresStore.open(proxy.url(database), patience=LONG) as store:
            subscription = store.subscribe()
            await store.create_chat(ChatRow("a", "claude", "/", 1))
            await store.append("a", [b"1"], after=0, at=1)
            while not (await subscription.next()).chats:
                pass
            proxy.cut()
            news = await subscription.next()
            assert (dict(news.chats), set(news.changed)) == ({"a": 1}, {"a"})

    asyncio.run(check())


def test_two_writers_through_cuts(database: str, proxy: Proxy) -> None:
    """Two nodes that append to one chat through cuts have each acknowledged entry in its place, once, and no gap."""

    async def write(store: PostgresStore, name: bytes, kept: dict[int, bytes]) -> None:
        after = 0
        for number in range(CUTS * 5):
            data = name + b" %d" % number
            while True:
                try:
                    after = await store.append("a", [data], after=after, at=number)
                    break
                except Conflict as stale:
                    after = stale.last
            assert after not in kept
            kept[after] = data

    async def check() -> None:
        url = proxy.url(database)
        one, two = await PostgresStore.open(url, patience=LONG), await PostgresStore.open(url, patience=LONG)
        async with asyncio.timeout(PATIENCE * 3), one, two:
            await one.create_chat(ChatRow("a", "claude", "/", 1))
            kept: dict[int, bytes] = {}
            writing = asyncio.gather(write(one, b"one", kept), write(two, b"two", kept))
            pause = random.Random(1)
            while not writing.done():
                await asyncio.sleep(pause.uniform(0.03, 0.1))
                proxy.cut()
            await writing
            found: dict[int, bytes] = {}
            while page := (await one.read("a", after=len(found))).entries:
                found |= {entry.number: entry.data for entry in page}
            assert found == kept
            assert sorted(found) == [*range(1, CUTS * 10 + 1)]

    asyncio.run(check())


def test_what_is_wrong_is_not_tried_again(database: str, proxy: Proxy) -> None:
    """An error of the caller comes at once, from a store that waits for its server for a minute."""

    async def check() -> None:
        async with await PostgresStore.open(proxy.url(database), patience=LONG) as store:
            with pytest.raises(UnknownChat):
                await store.read("none")
            with pytest.raises(UsageError, match="NUL"):
                await store.create_chat(ChatRow("a", "claude", "/", 1, title="a\0b"))
            with pytest.raises(UsageError, match="characters"):
                await store.create_chat(ChatRow("a", "claude", "/\udc80", 1))

    asyncio.run(check())
