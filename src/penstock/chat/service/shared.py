"""Objects that all chats of a service share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from penstock.chat.errors import ShuttingDown
from penstock.chat.history.frames import TurnView
from penstock.chat.people.persons import People
from penstock.chat.people.rights import may_begin
from penstock.chat.people.spending import DailySpending
from penstock.chat.service.agents.attached import AttachmentFolders, PlacedFile
from penstock.chat.service.counters import Counters
from penstock.chat.service.limits import ServiceLimits
from penstock.chat.service.nodes import ThisNode
from penstock.chat.service.push import Push
from penstock.chat.service.slots import Slots
from penstock.chat.service.webhooks import Webhooks
from penstock.chat.store.protocol import ChatStore
from penstock.chat.store.rows import ChatRow
from penstock.core.bounded import BoundedDict
from penstock.repo.found_changes import FoundChanges
from penstock.run.history import History
from penstock.run.run import Run
from penstock.run.trace_context import TraceContext

MakeRun = Callable[[ChatRow, str, float | None, Sequence[PlacedFile], Sequence[TurnView], str | None], Run]
"""Function that makes a run of a prompt, with a limit of its cost, attachments, the turns before, and messages of the
chat in which this one has its origin. It is called in a thread, and raises what `Agent.run` raises, or an error for the
caller."""

MAX_TRACES = 1_000
"""Number of turns that wait whose requests belong to a trace; the oldest is forgotten."""


class Shared(msgspec.Struct):
    """Objects that the chats of a service share."""

    store: ChatStore
    limits: ServiceLimits
    run: MakeRun
    now: Callable[[], int]
    """Clock: milliseconds since 1970."""
    history: History | None
    """History that lists the runs; None if none is kept."""
    this_node: ThisNode
    slots: Slots
    """Slots: one for each agent that may be at work."""
    webhooks: Webhooks
    folders: AttachmentFolders
    compare: Callable[[str], FoundChanges] | None = None
    """Function that makes the comparison of a directory before and after a turn; None if there is none."""
    push: Push | None = None
    """Calls to browsers; None if there are none."""
    traces: BoundedDict[tuple[str, int], TraceContext] = msgspec.field(default_factory=lambda: BoundedDict(MAX_TRACES))
    """Traces of the requests that have asked for turns, by chat and turn, until these begin."""
    people: People | None = None
    """Persons of the server; None if everybody may begin turns."""
    spending: DailySpending = msgspec.field(default_factory=DailySpending)
    counters: Counters = msgspec.field(default_factory=Counters)
    leave_tree: Callable[[ChatRow], Awaitable[None]] | None = None
    """Function to call with the row of a chat that was deleted and has a tree."""
    changed: asyncio.Event = msgspec.field(default_factory=asyncio.Event)
    """Event to set when a chat begins or ends something, or gets another heartbeat."""
    list_watchers: list[Callable[[str], None]] = msgspec.field(default_factory=list)
    """Functions to call with the id of a chat whenever lists may show it in another way, or no longer."""
    is_ending: bool = False
    """True if the service is being closed."""

    def may_begin(self, name: str) -> bool:
        """Return whether a person may begin turns now."""
        return self.people is None or may_begin(self.people.find(name))

    def note(self, id: str) -> None:
        """Call those who watch the list: something about this chat has changed."""
        for call in [*self.list_watchers]:
            call(id)

    def row_changed(self, id: str) -> None:
        """Call those who watch the list, and wake what waits for changes, after the row of a chat has changed."""
        self.changed.set()
        self.note(id)

    def require_open(self) -> None:
        """Check that the service is not being closed.

        Raises:
            ShuttingDown: it is.
        """
        if self.is_ending:
            raise ShuttingDown
