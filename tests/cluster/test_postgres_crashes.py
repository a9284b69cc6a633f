"""The store in PostgreSQL while processes that append are killed, and while the server is restarted and killed."""

from __future__ import annotations

import asyncio
import collections
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from effort import at_most
from postgres import Server
from waiting import until, until_true

from penstock.chat.store.postgres.connections import Patience
from penstock.chat.store.postgres.store import PostgresStore
from penstock.chat.store.rows import ChatRow

pytestmark = pytest.mark.slow

PROCESSES = 4
CHATS = at_most(6, 50)
ROWS = at_most(1500, PROCESSES * 10_000)
"""Acknowledged entries of all processes, after which they are stopped."""
KILL_ROWS = at_most(150, 400)
"""Acknowledged entries after which the next process is killed."""

LONG = Patience(away=60.0)
"""Seconds of a store that waits for its server as long as the server needs on a machine that is busy."""


class Appender:
    """One process that appends, with all that it printed."""

    def __init__(self, url: str, node: str, chats: list[str], output: Path) -> None:
        self.url, self.node, self.chats, self.output = url, node, chats, output
        self._counted = self._offset = 0
        self.start()

    def start(self) -> None:
        """Start it, once more."""
        program = Path(__file__).parents[1] / "support" / "appender.py"
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, str(program), self.url, self.node, *self.chats], stdout=output
            )

    def kill(self) -> None:
        """Kill it, wherever it is. What it was printing may be cut off in a line, which then does not count."""
        self.process.kill()
        self.process.wait()
        with self.output.open("ab") as output:
            output.write(b"\n")

    def count(self) -> int:
        """The number of lines that it printed. Only those since the last call are read."""
        with self.output.open("rb") as output:
            output.seek(self._offset)
            data = output.read()
        self._offset += len(data)
        self._counted += data.count(b"\n")
        return self._counted

    def acknowledged(self) -> list[tuple[str, int, str]]:
        """The entries that it printed: chat, number and content."""
        words = [line.split(" ", 2) for line in self.output.read_text().splitlines()]
        return [(word[0], int(word[1]), word[2]) for word in words if len(word) == 3 and word[2].count(" ") == 3]


async def _entries(url: str) -> dict[str, list[str]]:
    """All entries of all chats; the store raises an error if one is missing."""
    found: dict[str, list[str]] = {}
    async with await PostgresStore.open(url) as store:
        for row in await store.list_chats():
            entries = found[row.id] = []
            while page := (await store.read(row.id, after=len(entries))).entries:
                entries += [entry.data.decode() for entry in page]
            assert len(entries) == (await store.summary(row.id, limit=1)).last
    return found


async def _create(url: str, chats: list[str]) -> None:
    async with await PostgresStore.open(url) as store:
        for chat in chats:
            await store.create_chat(ChatRow(chat, "claude", "/", 1))


def test_processes_that_are_killed_lose_nothing(database: str, tmp_path: Path) -> None:
    """What killed processes had acknowledged is there, without a gap, and each epoch has one owner."""
    chats = [f"chat-{number}" for number in range(CHATS)]
    asyncio.run(_create(database, chats))
    appenders = [Appender(database, f"node-{number}", chats, tmp_path / f"{number}.txt") for number in range(PROCESSES)]
    choice = random.Random(3)
    try:
        for rows in range(KILL_ROWS, ROWS + 1, KILL_ROWS):
            until(lambda: sum(it.count() for it in appenders) >= rows, f"{rows} entries")  # noqa: B023
            victim = choice.choice(appenders)
            victim.kill()
            victim.start()
    finally:
        for appender in appenders:
            appender.kill()
    entries = asyncio.run(_entries(database))
    for chat, number, data in (it for appender in appenders for it in appender.acknowledged()):
        assert entries[chat][number - 1] == data
    for chat in chats:
        owners = collections.defaultdict(set)
        epochs = []
        for data in entries[chat]:
            node, incarnation, epoch, _ = data.split()
            owners[epoch].add((node, incarnation))
            epochs.append(int(epoch))
        assert all(len(found) == 1 for found in owners.values()), "an epoch has one owner"
        assert epochs == sorted(epochs), "nothing comes behind a later claim"
        assert len({*entries[chat]}) == len(entries[chat]), "nothing is there twice"


class Load(threading.Thread):
    """Appends to chats of one node and follows them at another, until it is stopped."""

    def __init__(self, url: str, chats: list[str]) -> None:
        super().__init__()
        self.url, self.chats = url, chats
        self.made: dict[str, int] = dict.fromkeys(chats, 0)
        self.seen: dict[str, int] = dict.fromkeys(chats, 0)
        self.stopping = False
        self.error: BaseException | None = None

    def run(self) -> None:
        """Run the load in a loop of its own: the thread of the test restarts the server."""
        try:
            asyncio.run(self._run())
        except BaseException as error:
            self.error = error

    async def _run(self) -> None:
        one = await PostgresStore.open(self.url, patience=LONG)
        two = await PostgresStore.open(self.url, patience=LONG)
        async with one, two:
            following = asyncio.create_task(self._follow(two))
            await asyncio.gather(*(self._append(one, chat) for chat in self.chats))
            await until_true(lambda: following.done() or self.seen == self.made)
            following.cancel()
            await asyncio.wait([following])
            if not following.cancelled():
                await following  # it failed

    async def _append(self, store: PostgresStore, chat: str) -> None:
        while not self.stopping:
            data = [b"%d" % (self.made[chat] + 1)]
            self.made[chat] = await store.append(chat, data, after=self.made[chat], at=1)
            await asyncio.sleep(0.002)

    async def _follow(self, store: PostgresStore) -> None:
        subscription = store.subscribe()
        while True:
            await subscription.next()
            for chat in self.chats:
                for entry in (await store.read(chat, after=self.seen[chat])).entries:
                    self.seen[chat] += 1
                    assert (entry.number, entry.data) == (self.seen[chat], b"%d" % self.seen[chat])


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT, signal.SIGKILL], ids=["fast", "immediate", "kill"])
def test_a_restart_of_the_server_is_a_pause(server: Server, database: str, how: signal.Signals) -> None:
    """Under load the server is restarted: no append fails or is lost, none is made twice, and a follower sees all."""
    chats = [f"chat-{number}" for number in range(5)]
    asyncio.run(_create(database, chats))
    load = Load(database, chats)
    load.start()
    try:
        for _ in range(at_most(2, 20)):
            before = dict(load.made)
            until(lambda: load.error or all(load.made[chat] >= before[chat] + 20 for chat in chats), "entries")  # noqa: B023
            server.stop(how)
            time.sleep(random.uniform(0, 0.3))
            server.start()
    finally:
        load.stopping = True
        load.join()
    if load.error is not None:
        raise load.error
    entries = asyncio.run(_entries(database))
    assert {chat: len(found) for chat, found in entries.items()} == load.made == load.seen
    assert all(found == [str(number) for number in range(1, len(found) + 1)] for found in entries.values())
