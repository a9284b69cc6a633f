"""Models that the programs of agents list. Each is asked at most once an hour, however many clients want to know."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event

from penstock.agents._models import AgentModel

FRESH_SECONDS = 3600.0
"""Seconds for which a list counts, also an empty one: models seldom change, and a program takes seconds."""
MAX_ASKED = 2
"""Programs that are asked at once; others wait for their turn."""

Ask = Callable[[str, Callable[[], bool]], list[AgentModel]]
"""Function that returns the models of an agent, and stops early once the second argument returns True. It blocks."""


class ModelLists:
    """Lists of the models of agents, kept in memory."""

    def __init__(self, ask: Ask, clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._clock = clock
        self._lists: dict[str, tuple[float, asyncio.Task[list[AgentModel]]]] = {}
        self._stopped = Event()
        self._threads = ThreadPoolExecutor(MAX_ASKED, thread_name_prefix="penstock models")

    async def of(self, agent: str) -> list[AgentModel]:
        """Return the models that an agent lists; none if its program cannot say. It may take half a minute.

        Who gives up waiting does not end the question, whose answer others may wait for.
        """
        until, task = self._lists.get(agent, (0.0, None))
        if task is None or (task.done() and self._clock() >= until):
            task = asyncio.create_task(self._found(agent))
            self._lists[agent] = (self._clock() + FRESH_SECONDS, task)
        return await asyncio.shield(task)

    async def _found(self, agent: str) -> list[AgentModel]:
        if self._stopped.is_set():
            return []
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, self._ask, agent, self._stopped.is_set)
        except Exception:  # whatever is wrong with a program, a chat can be begun without its list
            return []

    def close(self) -> None:
        """End the programs that are asked, soon, and ask no more."""
        self._stopped.set()
        self._threads.shutdown(wait=False, cancel_futures=True)
