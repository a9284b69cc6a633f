"""Order of the chats by their last use, kept as they change: a page of the list costs what is in it, not all chats."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping

from penstock.chat.service.chats.chat import Chat

Key = tuple[int, str]
"""Time of the last use of a chat, and its id."""

REBUILT_FROM = 0.1
"""Share of the chats that have changed from which all are sorted again."""


def key_of(chat: Chat) -> Key:
    """Return the place of a chat among the others."""
    return chat.used_at, chat.row.id


def is_wanted(chat: Chat) -> bool:
    """Return whether a chat is in the first page of the list, however long it was not used."""
    return chat.row.pinned or chat.asks or chat.state != "idle"


class ChatOrder:
    """Chats in the order of their last use. `note` has to be called when one of them is added, changes or is gone."""

    def __init__(self, chats: Mapping[str, Chat]) -> None:
        """`chats` are those that there are at any time, by id."""
        self._chats = chats
        self._keys: dict[str, Key] = {}
        self._sorted: list[Key] = []  # the one used last is the last one
        self._wanted: set[str] = set()
        self._changed: set[str] = set()

    def note(self, id: str) -> None:
        """Note that a chat may have changed."""
        self._changed.add(id)

    def newest_first(self, before: Key | None = None) -> Iterator[Chat]:
        """Yield the chats, the one used last first: all, or those before one."""
        self._settle()
        end = len(self._sorted) if before is None else bisect_left(self._sorted, before)
        for at in range(end - 1, -1, -1):
            chat = self._chats.get(self._sorted[at][1])
            if chat is not None:
                yield chat

    def wanted(self) -> list[Chat]:
        """Return the chats that are in the first page at any time, the one used last first."""
        self._settle()
        found = [chat for id in self._wanted if (chat := self._chats.get(id)) is not None]
        return sorted(found, key=key_of, reverse=True)

    def _settle(self) -> None:
        """Put those that have changed where they belong."""
        changed, self._changed = self._changed, set()
        if len(changed) > REBUILT_FROM * len(self._sorted):
            self._keys = {id: key_of(chat) for id, chat in self._chats.items()}
            self._sorted = sorted(self._keys.values())
            self._wanted = {id for id, chat in self._chats.items() if is_wanted(chat)}
            return
        for id in changed:
            before, chat = self._keys.pop(id, None), self._chats.get(id)
            if before is not None:
                del self._sorted[bisect_left(self._sorted, before)]
            self._wanted.discard(id)
            if chat is not None:
                self._keys[id] = key_of(chat)
                insort(self._sorted, self._keys[id])
                if is_wanted(chat):
                    self._wanted.add(id)
