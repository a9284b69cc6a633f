"""The lists of models that clients get: how often a program is asked, and for whom."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from penstock.agents._models import AgentModel
from penstock.chat.service.agents.models import EMPTY_SECONDS, FRESH_SECONDS, MAX_ASKED, ModelLists

MODELS = [AgentModel("m1", ["low"])]


class Asked:
    """What stands for the programs. They answer once `go` is set."""

    def __init__(self, pause: float = 0.005) -> None:
        self.pause = pause
        self.names: list[str] = []
        self.go = threading.Event()
        self.answer: Callable[[], list[AgentModel]] = lambda: MODELS
        self.at_once = self.most = 0
        self._lock = threading.Lock()

    def __call__(self, agent: str, is_stopped: Callable[[], bool]) -> list[AgentModel]:
        """Answer."""
        with self._lock:
            self.names.append(agent)
            self.at_once += 1
            self.most = max(self.most, self.at_once)
        while not self.go.wait(self.pause):
            if is_stopped():
                break
        with self._lock:
            self.at_once -= 1
        return self.answer()


def test_several_clients_wait_for_one_program() -> None:
    """Whoever asks while a program runs gets its answer; who gives up waiting takes it from nobody."""

    async def script() -> None:
        asked = Asked()
        lists = ModelLists(asked)
        waiting = [asyncio.create_task(lists.of("codex")) for _ in range(20)]
        impatient = asyncio.create_task(lists.of("codex"))
        await asyncio.sleep(0)
        impatient.cancel()
        asked.go.set()
        assert await asyncio.gather(*waiting) == [MODELS] * 20
        assert await lists.of("codex") == MODELS
        assert asked.names == ["codex"]
        lists.close()

    asyncio.run(script())


def test_how_long_a_list_counts() -> None:
    """A list counts for an hour, and an empty one for half a minute: after a login there are models."""

    async def script() -> None:
        asked, now = Asked(), 0.0
        asked.go.set()
        lists = ModelLists(asked, lambda: now)
        nothing: list[AgentModel] = []
        for answer, seconds in ((MODELS, FRESH_SECONDS), (nothing, EMPTY_SECONDS), (MODELS, FRESH_SECONDS)):
            asked.answer = lambda answer=answer: answer  # type: ignore[misc]
            before = len(asked.names)
            assert await lists.of("codex") == answer
            now += seconds - 1
            assert await lists.of("codex") == answer
            assert len(asked.names) == before + 1
            now += 1
        lists.close()

    asyncio.run(script())


def test_the_time_of_a_list_begins_with_its_answer() -> None:
    """A program that takes long to say nothing is not asked again at once."""

    async def script() -> None:
        asked, now = Asked(), 0.0

        def slow() -> list[AgentModel]:
            nonlocal now
            now += 10 * EMPTY_SECONDS
            return []

        asked.answer = slow
        asked.go.set()
        lists = ModelLists(asked, lambda: now)
        assert await lists.of("codex") == await lists.of("codex") == []
        assert asked.names == ["codex"]
        lists.close()

    asyncio.run(script())


@pytest.mark.parametrize("error", [OSError("full"), ValueError("odd"), RecursionError()])
def test_a_program_that_cannot_be_asked(error: Exception) -> None:
    """It has no models, and is not asked at each request."""

    async def script() -> None:
        asked = Asked()
        asked.go.set()

        def fail() -> list[AgentModel]:
            raise error

        asked.answer = fail
        lists = ModelLists(asked, lambda: 0.0)
        assert [await lists.of("codex") for _ in range(3)] == [[], [], []]
        assert asked.names == ["codex"]
        lists.close()

    asyncio.run(script())


async def many(asked: Asked, lists: ModelLists) -> list[asyncio.Task[list[AgentModel]]]:
    """Ask for the models of many agents, and wait until as many programs are asked as may be at once."""
    waiting = [asyncio.create_task(lists.of(f"a{it}")) for it in range(3 * MAX_ASKED)]
    while asked.at_once < MAX_ASKED:
        await asyncio.sleep(0.005)
    return waiting


def test_few_programs_are_asked_at_once() -> None:
    """Many names take few threads, and each gets its answer."""

    async def script() -> None:
        asked = Asked()
        lists = ModelLists(asked)
        waiting = await many(asked, lists)
        asked.go.set()
        assert await asyncio.gather(*waiting) == [MODELS] * len(waiting)
        assert asked.most == MAX_ASKED
        lists.close()

    asyncio.run(script())


def test_a_server_that_ends() -> None:
    """The programs are ended, those that wait for their turn are not asked, and neither is any later."""

    async def script() -> None:
        asked = Asked(pause=0)  # they end at once
        lists = ModelLists(asked)
        waiting = await many(asked, lists)
        lists.close()
        await asyncio.wait(waiting, timeout=60)
        assert all(it.done() for it in waiting)
        assert len(asked.names) == MAX_ASKED
        assert await lists.of("later") == []
        assert len(asked.names) == MAX_ASKED

    for _ in range(10):
        asyncio.run(script())
