"""Loops for programs: begin one, follow its rows, and read its result.

async with Loop("PROMPT.md", Settings(work=RoleAgents(agents=("AGENT",)), checks=("make test",))) as loop:
async for row in loop:
print(row)
print(loop.result.status, loop.result.state.head)
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Self

import msgspec

from penstock.config import settings as configuration
from penstock.config.data import data_directory
from penstock.errors import UsageError
from penstock.events import Event
from penstock.loop.engine import Engine
from penstock.loop.loops import begin_loop
from penstock.loop.rows import JournalRow, Settings
from penstock.loop.state import LoopState
from penstock.loop.steps import RunAgent
from penstock.run.run import Run


class LoopResult(msgspec.Struct, frozen=True):
    """Result of a loop."""

    status: int
    """Exit status, as that of `penstock loop`."""
    state: LoopState


class Loop:
    """One loop, in a thread of its own. Leaving the block before its end stops it; it can be resumed later.

    Args:
        prompt: file of the prompt, in the repository.
        settings: agents, checks, reviewers and budget.
        name: name of the loop and its branch; by default one is made of the prompt's name.
        data: the data directory; by default that of the command line.
        trust: whether the project's own configuration may start programs.

    Raises:
        UsageError: the loop cannot begin. It is raised when the block is entered.
    """

    def __init__(
        self,
        prompt: str | os.PathLike[str],
        settings: Settings,
        *,
        name: str | None = None,
        data: str | os.PathLike[str] | None = None,
        trust: bool = False,
    ) -> None:
        self._prompt = Path(prompt)
        self._settings = settings
        self._name = name
        self._data = None if data is None else Path(data)
        self._trust = trust
        self._rows: asyncio.Queue[JournalRow | None] = asyncio.Queue()
        self._status: int | None = None
        self._error: BaseException | None = None

    @property
    def result(self) -> LoopResult:
        """Result of the loop.

        Raises:
            UsageError: it has not ended.
        """
        if self._status is None:
            raise UsageError("the loop has no result yet", expected="to be read to its end first")
        return LoopResult(self._status, self._engine.state)

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._journal = begin_loop(data_directory(self._data), self._prompt, self._settings, self._name)
        self._engine = Engine(self._journal, configuration.load(), self, trust=self._trust)
        self._thread = threading.Thread(target=self._run, name=f"penstock {self._journal.folder.name}", daemon=True)
        self._thread.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._thread.is_alive():
            self._engine.stop()
        await asyncio.to_thread(self._thread.join)
        self._journal.close()

    async def __aiter__(self) -> AsyncIterator[JournalRow]:
        while (row := await self._rows.get()) is not None:
            yield row
        if self._error is not None:
            raise self._error

    def row(self, row: JournalRow, state: LoopState) -> None:
        """Receive a row and the `state` after it, in the thread of the engine."""
        self._put(row)

    def events(self, step: RunAgent, run: Run, events: list[Event]) -> None:
        """Receive events of the `run` that a `step` started, in the thread of the engine; a subclass may use them."""

    def _run(self) -> None:
        try:
            self._status = self._engine.run()
        except BaseException as error:
            self._error = error
        finally:
            self._put(None)

    def _put(self, row: JournalRow | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._rows.put_nowait, row)
        except RuntimeError:
            pass  # the event loop is closed: no task waits any more
