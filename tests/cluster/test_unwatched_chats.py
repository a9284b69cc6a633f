"""Chats that run at one node and that nobody watches at another: what the other reads, and what its list shows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from penstock import events as ev
from penstock.chat.history.entries import Prompted, TurnBegan, TurnEnded
from penstock.chat.service.chats.chat_view import ChatView
from penstock.chat.service.counters import Counters
from penstock.chat.service.log.chat_log import ChatLog
from penstock.chat.service.nodes import ThisNode
from penstock.chat.service.service import Service
from penstock.chat.store.postgres.recent import READ_AHEAD
from penstock.chat.store.postgres.statements import READ
from penstock.chat.store.postgres.store import PostgresStore
from penstock.chat.store.protocol import clock
from penstock.chat.store.rows import ChatRow
from penstock.config.settings import Config

pytestmark = pytest.mark.slow

CHATS = 20
STEPS = 40
"""Appends of each chat's turn."""
PACE = 0.05
"""Seconds between two appends of a turn."""

A: dict[str, Any] = {"agent": "claude"}
QUESTION = ev.QuestionAsked("q", "May I?", True, "tool", [ev.Option("y", "Yes", "allow_once")], **A)
END = ev.RunEnded("ok", "done", 1, **A)


class Nodes:
    """The home of some chats, as far as it writes entries, and another node that only serves."""

    def __init__(self, home: PostgresStore, other: PostgresStore, service: Service) -> None:
        self.home = home
        self.service = service
        self.read = 0
        """Entries that the other node has read."""
        self._fetch = other.database.fetch
        other.database.fetch = self._counted  # type: ignore[method-assign]

    async def _counted(self, query: Any, values: Any = None, **options: Any) -> list[tuple[Any, ...]]:
        rows = await self._fetch(query, values or {}, **options)
        self.read += len(rows) if query in (READ, READ_AHEAD) else 0
        return rows

    async def chat(self, name: str) -> ChatLog:
        """A chat with a turn that has begun."""
        row = ChatRow(name, "claude", "/", 1, home="home")
        await self.home.create_chat(row)
        log = ChatLog(self.home, row, Counters(), now=clock)
        await log.submit(lambda timeline: Prompted(1, "hi"))
        await log.write(lambda timeline: [TurnBegan(1, "claude", "/"), ev.BlockStarted(1, "text", **A)])
        return log

    async def shows(self, name: str, is_so: Callable[[ChatView], bool]) -> None:
        """Wait until the other node's list shows something of a chat."""
        async with asyncio.timeout(30):
            while not any(view.id == name and is_so(view) for view in self.service.chat_list.all()):
                await asyncio.sleep(0.02)


@asynccontextmanager
async def nodes(database: str) -> AsyncIterator[Nodes]:
    """Both nodes, on one database."""
    async with await PostgresStore.open(database) as home, await PostgresStore.open(database) as other:
        this_node = ThisNode(name="other", by_jobs=True)
        service = await Service.open(other, roots=[], config=Config(), this_node=this_node)
        yield Nodes(home, other, service)
        await service.close()


async def _write(log: ChatLog, steps: int = STEPS) -> None:
    for step in range(steps):
        await log.write(lambda timeline: [ev.Delta(1, "text", f" step {step}", **A)])  # noqa: B023
        await asyncio.sleep(PACE)


def _reply(steps: int) -> str:
    return "".join(f" step {step}" for step in range(steps))


def test_a_run_that_nobody_watches_is_not_read(database: str) -> None:
    """A node reads few entries of runs that nobody watches there, and its list shows their states, turns and ends."""

    async def check() -> None:
        async with nodes(database) as both:
            logs = [await both.chat(f"chat-{number}") for number in range(CHATS)]
            for log in logs:
                await both.shows(log.id, lambda view: view.state == "running" and view.turns == 1)
            await asyncio.gather(*map(_write, logs))
            for log in logs:
                await log.write(lambda timeline: [END])
                await both.shows(log.id, lambda view: view.state == "idle" and view.turns == 1)
            assert both.read < CHATS * STEPS / 2
            (view,), _ = await both.service.turns("chat-0")
            assert (view.outcome, view.finalized) == ("ok", True)

    asyncio.run(check())


def test_the_list_shows_a_question(database: str) -> None:
    """A question of a run that nobody watches is in the list of another node, until it is answered from there."""

    async def check() -> None:
        async with nodes(database) as both:
            log = await both.chat("a")
            await both.shows("a", lambda view: view.state == "running")
            await _write(log, 5)
            await log.write(lambda timeline: [QUESTION])
            await both.shows("a", lambda view: view.asks)
            assert await both.service.answer("a", "q", "Yes") == 1
            await both.shows("a", lambda view: not view.asks)
            await log.follow(99)
            assert not (await log.open()).questions
            await _write(log, 5)
            await log.write(lambda timeline: [END])
            await both.shows("a", lambda view: view.state == "idle" and not view.asks)

    asyncio.run(check())


def test_the_next_turn_is_listed(database: str) -> None:
    """A prompt that came during a turn that nobody watches is read when that turn ends, and its turn is shown."""

    async def check() -> None:
        async with nodes(database) as both:
            log = await both.chat("a")
            await both.shows("a", lambda view: view.state == "running")
            await _write(log, 5)
            await log.submit(lambda timeline: Prompted(2, "more"))
            await log.write(lambda timeline: [END])
            await both.shows("a", lambda view: view.state == "queued" and view.turns == 2)
            await log.write(lambda timeline: [TurnBegan(2, "claude", "/")])
            await both.shows("a", lambda view: view.state == "running")
            await log.write(lambda timeline: [TurnEnded(2, "cut_off", "lost")])
            await both.shows("a", lambda view: view.state == "idle")
            assert [view.outcome for view in (await both.service.turns("a"))[0]] == ["ok", "cut_off"]

    asyncio.run(check())


def test_a_watch_begins_in_the_middle(database: str) -> None:
    """Whoever begins to watch a run that was not read sees all of it, and what comes then; so does a single request."""

    async def check() -> None:
        async with nodes(database) as both:
            log = await both.chat("a")
            await both.shows("a", lambda view: view.state == "running")
            await _write(log, 5)
            seen = both.service.log("a").live
            async with asyncio.timeout(30):
                while (await both.service.turns("a"))[0][0].reply != _reply(5):
                    await asyncio.sleep(PACE)
            await _write(log, 5)
            changes = asyncio.Event()
            watcher = lambda at_once: changes.set()  # noqa: E731
            seen.watch(watcher)
            timeline = await seen.open()
            await _write(log, 5)
            last = (await log.open()).number
            async with asyncio.timeout(30):
                while timeline.number < last:
                    changes.clear()
                    await changes.wait()
            assert timeline.turns[1].reply == _reply(5) * 3
            seen.unwatch(watcher)
            read = both.read
            await _write(log, STEPS)
            assert both.read - read < STEPS / 2
            await log.write(lambda timeline: [END])
            await both.shows("a", lambda view: view.state == "idle")

    asyncio.run(check())
