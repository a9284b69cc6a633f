"""The list of chats as something that is watched: what changes in it for one person."""

from __future__ import annotations

import time
from collections.abc import Callable

from penstock.chat.errors import NoSuchChat
from penstock.chat.people.persons import OWNING, Person
from penstock.chat.service.chats.chat_list import Sees
from penstock.chat.service.chats.chat_view import ChatView, ListChanged, Listed, ListFrame, Unlisted
from penstock.chat.service.service import Service

MAX_KEPT = 10_000
"""Number of chats whose last change is kept for a client that returns; one that lacks more asks for the list again."""


class ListTimeline:
    """Changes of the list, numbered in memory.

    The first number is the time, so a client that returns with a number of an earlier timeline asks for the list again.
    """

    deleted = False

    def __init__(self) -> None:
        self.number: int = time.time_ns() // 1000
        self._begin = self.number
        self._changes: dict[str, tuple[int, Listed | Unlisted]] = {}  # the oldest change first

    def show(self, id: str, change: Listed | Unlisted) -> bool:
        """Note what has become of a chat; return whether that is new."""
        before = self._changes.get(id)
        if before is not None and before[1] == change:
            return False
        self.number += 1
        self._changes.pop(id, None)
        self._changes[id] = (self.number, change)
        if len(self._changes) > MAX_KEPT:
            oldest = next(iter(self._changes))
            self._begin = self._changes.pop(oldest)[0]
        return True

    def start(self) -> list[tuple[int, ListFrame]]:
        """Return the frame for a new client: it asks for the list."""
        return [(self.number, ListChanged())]

    def time_of(self, number: int) -> None:
        """Return None: its numbers are never those of another list."""

    def frames(self, after: int, *, deltas: bool = False) -> list[tuple[int, ListFrame]] | None:
        """Return the changes after a number; None if they are unknown."""
        if not self._begin <= after <= self.number:
            return None
        return [change for change in self._changes.values() if change[0] > after]


class ListLog:
    """Log of the changes that a person sees who sees these chats."""

    def __init__(self, service: Service, sees: Sees, person: Person = OWNING) -> None:
        self.shown: ListTimeline | None = None
        """The changes, once it is open."""
        self._service = service
        self._sees = sees
        self._person = person
        self._known: set[str] = set()
        """Ids of chats that clients may have in their lists: no other is named to them."""
        self._watchers: list[Callable[[bool], None]] = []

    async def open(self) -> ListTimeline:
        """Begin to note changes."""
        self._service.chat_list.watch(self._changed)
        self._known = self._service.chat_list.ids(self._sees)
        self.shown = ListTimeline()
        return self.shown

    def watch(self, watcher: Callable[[bool], None]) -> None:
        """Call `watcher` whenever something has changed."""
        self._watchers.append(watcher)

    def unwatch(self, watcher: Callable[[bool], None]) -> None:
        """Stop calling `watcher`; stop noting changes with the last one."""
        self._watchers.remove(watcher)
        if not self._watchers:
            self._service.chat_list.unwatch(self._changed)

    def _changed(self, id: str) -> None:
        """Note what has become of a chat."""
        if self.shown is None:
            return
        view = self._view(id)
        if view is None and id not in self._known:
            return
        if view is None:
            self._known.discard(id)
            is_new = self.shown.show(id, Unlisted(id))
        else:
            self._known.add(id)
            is_new = self.shown.show(id, Listed(view))
        if is_new:
            for watcher in [*self._watchers]:
                watcher(True)

    def _view(self, id: str) -> ChatView | None:
        try:
            return self._service.chat(id, self._person) if self._sees(self._service.row(id)) else None
        except NoSuchChat:
            return None
