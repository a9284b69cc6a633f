"""Run of a turn that is about to begin, made while the chat's timeline is free.

That takes tens of milliseconds, in which files are looked at and a confined run is tried: it happens in a thread, so
that other chats go on. Meanwhile the chat may change; then the run no longer fits, and another is made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from penstock.chat.history.frames import TurnView
from penstock.chat.service.agents.attached import PlacedFile
from penstock.chat.service.shared import MakeRun
from penstock.chat.store.rows import ChatRow
from penstock.run.run import Run


class PlannedRun:
    """Run of one turn, and what it was made for."""

    def __init__(self, chat: ChatRow, view: TurnView, most: float | None, earlier: Sequence[TurnView]) -> None:
        """`most`: limit of its cost. `earlier`: the turns before it."""
        self.run: Run | Exception = RuntimeError("the run was not made yet")
        """The run, not started, or why there is none."""
        self._wanted = (chat, view.turn, view.prompt, most)
        self._files = [*(view.attachments or ())]
        self._earlier = earlier

    def fits(self, chat: ChatRow, view: TurnView, most: float | None) -> bool:
        """Return whether the turn is still the one that it was made for, in the same state of the chat."""
        return self._wanted == (chat, view.turn, view.prompt, most)

    async def make(self, make: MakeRun, placed: Mapping[str, PlacedFile | Exception], before: str | None) -> None:
        """Make the run. `placed`: its files, or why they are missing; `before`: as of `Starter.run`."""
        chat, _, prompt, most = self._wanted
        try:
            self.run = await asyncio.to_thread(make, chat, prompt, most, self._found(placed), self._earlier, before)
        except Exception as error:
            self.run = error

    def _found(self, placed: Mapping[str, PlacedFile | Exception]) -> list[PlacedFile]:
        found = []
        for file in self._files:
            it = placed[file.id]
            if isinstance(it, Exception):
                raise it
            found.append(it)
        return found
