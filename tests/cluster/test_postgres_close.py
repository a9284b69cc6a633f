"""A store in PostgreSQL is closed while its server is away, or does not answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from signal import SIGINT

import pytest
from machines import Cluster
from slow_network import Proxy
from waiting import until

from penstock.chat.store.postgres.store import PostgresStore
from penstock.chat.store.protocol import StoreClosed, StoreFailed
from penstock.chat.store.rows import ChatRow

pytestmark = pytest.mark.slow

SECONDS = 3.0
"""Seconds in which a store is closed here: it takes less than one where nothing else is at work, and took seven."""


def _hold(proxy: Proxy) -> None:
    proxy.hold("to server", "to client")


def _end(proxy: Proxy) -> None:
    proxy.close()


@pytest.mark.parametrize("lose", [_hold, _end], ids=["silent", "refused"])
@pytest.mark.parametrize("wait", [0.0, 1.5], ids=["at once", "later"])
def test_a_store_is_closed_without_its_server(
    database: str, proxy: Proxy, lose: Callable[[Proxy], None], wait: float
) -> None:
    """Calls that wait for a server that does not answer fail when the store is closed, and it is closed soon."""

    async def check() -> None:
        store = await PostgresStore.open(proxy.url(database))
        await store.create_chat(ChatRow("a", "claude", "/", 1))
        await store.append("a", [b"1"], after=0, at=1)
        lose(proxy)
        calls = [
            asyncio.create_task(store.append("a", [b"2"], after=1, at=1)),
            asyncio.create_task(store.append("a", [b"3"], after=2, at=1)),
            asyncio.create_task(store.submit("a", b"4", at=1)),
            asyncio.create_task(store.read("a")),
        ]
        await asyncio.sleep(wait)
        began = time.monotonic()
        await store.close()
        took = time.monotonic() - began
        found = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(it, StoreFailed | StoreClosed) for it in found), found
        assert took < SECONDS

    asyncio.run(check())


@pytest.mark.parametrize("lose", [_hold, _end], ids=["silent", "refused"])
def test_a_node_ends_without_its_server(cluster: Cluster, proxy: Proxy, lose: Callable[[Proxy], None]) -> None:
    """Ctrl-C ends a node with its agents although its database does not answer."""
    machine = cluster.machine("a", url=proxy.url(cluster.url))
    machine.prompt(machine.chat("stuck"), "hi")
    until(cluster.left_over, "the agent works")
    lose(proxy)
    assert machine.end(SIGINT) == 128 + SIGINT
    until(lambda: not cluster.left_over(), "the agent has ended")


def test_calls_that_wait_are_finished(database: str) -> None:
    """What waits when a store is closed is made, as long as the server answers, and is there afterwards."""

    async def check() -> None:
        store = await PostgresStore.open(database)
        await store.create_chat(ChatRow("a", "claude", "/", 1))
        calls = [asyncio.create_task(store.append("a", [b"%d" % n], after=n, at=1)) for n in range(200)]
        await asyncio.sleep(0)
        await store.close()
        assert await asyncio.gather(*calls) == [*range(1, 201)]
        async with await PostgresStore.open(database) as again:
            assert (await again.read("a")).last == 200

    asyncio.run(check())
