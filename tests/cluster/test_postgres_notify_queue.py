"""The server's queue of notifications is full: what commits, and when others see it.

The queue is really full after 8 GB. What is simulated: `pg_notify` of the test's database makes the transaction fail
when it is committed, with the server's message and code, as the server does then.
"""

from __future__ import annotations

import asyncio
import logging

import pytest

from penstock.chat.store.postgres import connections
from penstock.chat.store.postgres.store import PostgresStore
from penstock.chat.store.protocol import StoreFailed, Submitted
from penstock.chat.store.rows import ChatChanges, ChatRow

pytestmark = pytest.mark.slow

FULL = """
DO $do$ BEGIN
CREATE TABLE sent (channel text, payload text);
CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    RAISE 'too many notifications in the NOTIFY queue' USING ERRCODE = 'program_limit_exceeded';
END $$;
CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON sent DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION fail();
CREATE FUNCTION penstock.pg_notify(text, text) RETURNS void LANGUAGE sql AS 'INSERT INTO penstock.sent VALUES ($1, $2)';
ALTER FUNCTION notify_v1 SET search_path = penstock, pg_catalog;
ALTER FUNCTION procrastinate_notify_queue_job_inserted_v1 SET search_path = penstock, pg_catalog;
END $do$"""
"""Statement that fills the queue: from then on each transaction with a notification fails when it is committed."""

SPACE = "DROP FUNCTION penstock.pg_notify"
"""Statement that makes space in the queue."""


def test_a_full_queue_stops_nothing(database: str, caplog: pytest.LogCaptureFixture) -> None:
    """With a full queue, chats, entries and prompts with jobs are kept, and another node finds them by its poll."""

    async def check() -> None:
        one, two = await PostgresStore.open(database), await PostgresStore.open(database)
        async with asyncio.timeout(30), one, two:
            await one.database.fetch(FULL)
            subscription = two.subscribe()
            await one.create_chat(ChatRow("a", "claude", "/", 1, home="node-1"))
            assert await one.append("a", [b"1", b"2"], after=0, at=1) == 2
            for is_new in (True, False):
                assert await one.submit("a", b"3", at=2, after=2, key="k", turn=1) == Submitted(3, is_new)
            await one.append("a", [b"4"], after=3, at=3, changes=ChatChanges(title="new"))
            while (await subscription.next()).chats.get("a") != 4:
                pass
            assert [entry.data for entry in (await two.read("a")).entries] == [b"1", b"2", b"3", b"4"]
            assert (await two.get_chat("a")).title == "new"
            assert await one.database.fetch("SELECT args FROM procrastinate_jobs") == [({"chat": "a", "turn": 1},)]
            assert await one.database.fetch("SELECT * FROM sent") == []

    with caplog.at_level(logging.WARNING, "penstock.store"):
        asyncio.run(check())
    assert "queue of notifications is full" in caplog.text


def test_notifications_are_sent_again(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that was quiet sends notifications again after some seconds."""
    monkeypatch.setattr(connections, "QUIET_SECONDS", 0.0)

    async def check() -> None:
        async with asyncio.timeout(30), await PostgresStore.open(database) as store:
            await store.database.fetch(FULL)
            await store.create_chat(ChatRow("a", "claude", "/", 1))
            await store.append("a", [b"1"], after=0, at=1)
            await store.database.fetch(SPACE)
            listener = store.database.link()
            await listener.run("LISTEN penstock", {}, 5, 5)
            connection = await listener.open(5)
            await store.append("a", [b"2"], after=1, at=1)
            assert [item.payload async for item in connection.notifies(timeout=20, stop_after=1)] == ["a 2"]
            await listener.close()

    asyncio.run(check())


def test_another_limit_is_an_error(database: str) -> None:
    """A statement that exceeds another limit of the server fails, after one more attempt without notifications."""

    async def check() -> None:
        async with await PostgresStore.open(database) as store:
            with pytest.raises(StoreFailed, match="requested length too large"):
                await store.database.fetch("SELECT repeat('x', 1 << 30)")
            ((quiet,),) = await store.database.fetch("SELECT is_quiet_v1()")
            assert quiet

    asyncio.run(check())
