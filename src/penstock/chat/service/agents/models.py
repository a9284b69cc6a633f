"""Models that the programs of agents list.

Each is asked at most once an hour if it has a list, and else every half a minute, however many clients want to know.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event

from penstock.agents._models import AgentModel

FRESH_SECONDS = 3600.0
"""Seconds for which a list counts: models seldom change, and a program takes seconds."""
EMPTY_SECONDS = 30.0
"""Seconds for which an empty list counts: the program may list its models once somebody has logged in."""
MAX_ASKED = 2
"""Programs that are asked at once; others wait for their turn."""

Ask = Callable[[str, Callable[[], bool]], list[AgentModel]]
"""Function that returns the models of an agent, and stops early once the second argument returns True. It blocks."""


class ModelLists:
    """Lists of the models of agents, kept in memory."""

    def __init__(self, ask: Ask, clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._clock = clock
        self._asked: dict[str, asyncio.Task[list[AgentModel]]] = {}
        self._until: dict[str, float] = {}  # for which the last answer counts
        self._stopped = Event()
        self._threads = ThreadPoolExecutor(MAX_ASKED, thread_name_prefix="penstock models")

    async def of(self, agent: str) -> list[AgentModel]:
        """Return the models that an agent lists; none if its program cannot say. It may take half a minute.

        Who gives up waiting does not end the question, whose answer others may wait for.
        """
        task = self._asked.get(agent)
        if task is None or (task.done() and self._clock() >= self._until.get(agent, 0.0)):
            task = self._asked[agent] = asyncio.create_task(self._found(agent))
        return await asyncio.shield(task)

    async def _found(self, agent: str) -> list[AgentModel]:
        found: list[AgentModel] = []
        try:
            if not self._stopped.is_set():
                loop = asyncio.get_running_loop()
                found = await loop.run_in_executor(self._threads, self._ask, agent, self._stopped.is_set)
        except Exception:  # whatever is wrong with a program, a chat can be begun without its list
            pass
        self._until[agent] = self._clock() + (FRESH_SECONDS if found else EMPTY_SECONDS)
        return found

    def close(self) -> None:
        """End the programs that are asked, soon, and ask no more."""
        # In this order: a program that ends would otherwise leave its thread to the next one.
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._stopped.set()
