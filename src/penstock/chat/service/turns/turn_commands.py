"""Lists of commands that the agent offers in one turn: the ones that the chat keeps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from penstock import events as ev

MAX_LISTS = 8
"""Number of lists that are kept as soon as they come. Of more, the newest one is kept at the end of the run."""


class TurnCommands:
    """Filter of the events of a run: it leaves out lists that equal the one that the chat has."""

    def __init__(self, kept: Callable[[], Awaitable[list[ev.AgentCommand]]]) -> None:
        """`kept`: returns the list that the chat has."""
        self._read = kept
        self._kept: list[ev.AgentCommand] | None = None  # not read yet
        self._waiting: ev.CommandsChanged | None = None
        self._count = 0

    async def take(self, events: Sequence[ev.Event]) -> list[ev.Event]:
        """Return the events to keep.

        Raises:
            StoreFailed: the store cannot be read.
        """
        taken: list[ev.Event] = []
        for event in events:
            if isinstance(event, ev.CommandsChanged):
                self._waiting = event
                if self._count < MAX_LISTS:
                    taken += await self._changed()
                continue
            if isinstance(event, ev.RunEnded):
                taken += await self._changed()
            taken.append(event)
        return taken

    async def _changed(self) -> list[ev.Event]:
        """Return the list that waits, if it differs from the one that the chat has."""
        event, self._waiting = self._waiting, None
        if event is None:
            return []
        if self._kept is None:
            self._kept = await self._read()
        if event.commands == self._kept:
            return []
        self._kept = event.commands
        self._count += 1
        return [event]
