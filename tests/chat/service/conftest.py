"""What the tests of the service share: a home for chats, agents that play recordings, and a judge of the entries."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from waiting import PATIENCE, is_alive, no_hang

from penstock import events as ev
from penstock.chat.history.entries import (
    Answered,
    Edited,
    Moved,
    Numbered,
    Prompted,
    Released,
    SentNow,
    SteerRequested,
    StopRequested,
    TurnBegan,
    TurnEnded,
    decode,
)
from penstock.chat.history.frames import TurnView
from penstock.chat.service.service import Service
from penstock.chat.store.protocol import ChatStore
from penstock.chat.store.sqlite import SqliteStore
from penstock.config import settings
from penstock.run import lifecycle

TESTS = Path(__file__).parents[2]
RECORDINGS = TESTS / "recordings"
SCRIPTED = TESTS / "support" / "scripted.py"
PEER = TESTS / "support" / "acp_peer.py"

SHORT = lifecycle.Limits(
    reply_grace=0.2, work_grace=0.2, exit_grace=0.2, ask=0.5, interrupt=0.2, terminate=0.2, step=0.1
)


class Queue:
    """The turns that wait, told a second time: lists of numbers, and no views."""

    def __init__(self) -> None:
        self.waiting: list[int] = []
        self.held: set[int] = set()
        self.sent: list[int] = []
        """Those that go before the others, in the order in which they were sent."""

    def take(self, what: object, running: int) -> bool:
        """Follow an entry; return whether it was one of the queue."""
        match what:
            case Prompted(turn=turn, now=now):
                if self.held & {*self.waiting} and not now:
                    self.held.add(turn)
                self.waiting.append(turn)
                if now:
                    self.first(turn)
            case SentNow(turn=turn):
                if turn in self.waiting:
                    self.first(turn)
            case Moved(turns=turns):
                named = [it for it in turns if it in self.waiting]
                self.waiting = named + [it for it in self.waiting if it not in turns]
                self.sent = []
            case StopRequested(turn=turn):
                self.held |= {*self.waiting} if running and turn in (None, running) else set()
            case Released(turn=last):
                self.held = {it for it in self.held if it > last}
            case _:
                return isinstance(what, Edited | SteerRequested)
        return True

    def first(self, turn: int) -> None:
        """Put a turn before the others, but after those that were put there before."""
        self.sent = [it for it in self.sent if it != turn and it in self.waiting]
        self.waiting.remove(turn)
        self.waiting.insert(max([self.waiting.index(it) + 1 for it in self.sent], default=0), turn)
        self.sent.append(turn)
        self.held.discard(turn)

    def begin(self, turn: int) -> None:
        """The next turn begins."""
        ready = [it for it in self.waiting if it not in self.held]
        assert turn == ready[0], "turns begin in their order, once, and none that a stop holds back"
        self.waiting.remove(turn)


class Home:
    """A store, a directory to work in, and a configuration of agents."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work = folder / "work"
        self.work.mkdir()
        self.prompts = folder / "prompts"
        self.path = folder / "chats.db"
        self._agents: dict[str, str] = {}
        self.tables = ""
        """More of the configuration."""
        self.scripted("scripted", "claude/text.nopartial", "--speed=0")

    def scripted(self, name: str, recording: str | Path, *arguments: str, adapter: str = "claude") -> None:
        """Configure an agent that plays a recording."""
        place = str(RECORDINGS / recording)
        more = [f"--prompts={self.prompts}", "--resume={session_id}", "--model={model}", *arguments]
        self.configure(name, [sys.executable, "-S", str(SCRIPTED), place, *more], f'adapter = "{adapter}"')

    def peer(self, name: str = "peer", *arguments: str) -> None:
        """Configure the agent that speaks ACP and asks."""
        self.configure(name, [sys.executable, str(PEER), *arguments], 'protocol = "acp"')

    def configure(self, name: str, command: list[str], more: str = "") -> None:
        """Configure an agent."""
        self._agents[name] = f"command = {json.dumps(command)}\n{more}"

    def lines(self, name: str, lines: list[Any]) -> Path:
        """A recording of a test's own, which still needs a real one's shape."""
        path = self.folder / f"{name}.ndjson"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return path

    @property
    def config(self) -> settings.Config:
        """What is configured."""
        return settings.load({"PENSTOCK_CONFIG": str(self.config_file), "PENSTOCK_SANDBOX": "off"})

    @property
    def config_file(self) -> Path:
        """The file that says so."""
        path = self.folder / "penstock-test.toml"
        tables = "".join(f"[agents.{name}]\n{said}\n" for name, said in self._agents.items())
        path.write_text(self.tables + tables)
        return path

    @asynccontextmanager
    async def store(self, **options: Any) -> AsyncIterator[SqliteStore]:
        """The store."""
        async with await SqliteStore.open(self.path, **options) as store:
            yield store

    async def open(self, store: ChatStore, **options: Any) -> Service:
        """The service over a store; its directory is trusted."""
        given: dict[str, Any] = {
            "roots": [self.work],
            "config": self.config,
            "default_agent": "scripted",
            "run_limits": SHORT,
            "data": self.folder,
        }
        service = await Service.open(store, **given | options)
        await service.places.trust(self.work)
        return service

    @asynccontextmanager
    async def service(self, **options: Any) -> AsyncIterator[Service]:
        """The service over the store of this home, from its start to its end."""
        async with self.store() as store:
            service = await self.open(store, **options)
            try:
                yield service
            finally:
                await service.close()

    def asked(self) -> list[str]:
        """The prompts that agents were given, in their order."""
        return [run["prompt"] for run in self.runs()]

    def runs(self) -> list[dict[str, Any]]:
        """What scripted agents noted of their runs."""
        if not self.prompts.exists():
            return []
        return [json.loads(line) for line in self.prompts.read_text().splitlines()]

    def left_over(self) -> list[int]:
        """The agents that still live."""
        return [run["pid"] for run in self.runs() if is_alive(run["pid"])]

    async def rows(self, chat: str, store: ChatStore | None = None) -> list[Numbered]:
        """All entries of a chat; without a store, from the file."""
        if store is None:
            async with self.store() as store:
                return await self.rows(chat, store)
        found: list[Numbered] = []
        while entries := (await store.read(chat, after=found[-1].number if found else 0)).entries:
            found += decode(entries)
        return found

    @staticmethod
    async def settled(service: Service, chat: str) -> list[TurnView]:
        """The turns of a chat, once it has nothing more to do."""
        async with asyncio.timeout(PATIENCE):
            while True:
                turns, _ = await service.turns(chat, limit=1000)
                if all(turn.finalized for turn in turns):
                    return turns
                await asyncio.sleep(0.005)

    @staticmethod
    def judge(rows: list[Numbered]) -> None:
        """The grammar of `penstock.chat.history.entries`, told a second time.

        Raises:
            AssertionError: the rows do not keep it.
        """
        queue = Queue()
        last, running = 0, 0
        for place, row in enumerate(rows, 1):
            assert row.number == place
            what = row.what
            if isinstance(what, Prompted):
                assert what.turn == last + 1
                last = what.turn
            if isinstance(what, Prompted | SentNow):
                assert what.stops in (None, running)
            if queue.take(what, running):
                continue
            if isinstance(what, TurnBegan):
                assert running == 0, "a turn began while another ran"
                queue.begin(what.turn)
                running = what.turn
            elif isinstance(what, TurnEnded):
                if what.turn == running:
                    running = 0
                else:
                    queue.waiting.remove(what.turn)
            elif isinstance(what, Answered):
                assert 1 <= what.turn <= last
            else:
                assert what is not None
                assert running, "an event that belongs to no turn"
                if isinstance(what, ev.Notice) and what.code == "user" and what.steer is not None:
                    queue.waiting = [it for it in queue.waiting if str(it) != what.steer]
                running = 0 if isinstance(what, ev.RunEnded) else running


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home for chats."""
    return Home(tmp_path)


_no_hang = pytest.fixture(autouse=True)(no_hang)
