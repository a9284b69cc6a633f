"""List of the chats, as each reader may see it: all of them, in pages, and those of other programs."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from penstock.chat.history.entries import OWNER
from penstock.chat.history.frames import TurnView
from penstock.chat.people.persons import OWNING, Person
from penstock.chat.service.chats.chat_order import Key, key_of
from penstock.chat.service.chats.chat_view import ChatView, view_of
from penstock.chat.service.chats.chats import Chats
from penstock.chat.service.shared import Shared
from penstock.chat.store.rows import ChatRow

Sees = Callable[[ChatRow], bool]
"""Function that returns whether somebody may see a chat."""


def everything(chat: ChatRow) -> bool:
    """Return True: for one who sees all chats."""
    return True


class ListedChats:
    """Chats of this process, the one used last first."""

    def __init__(self, chats: Chats, shared: Shared) -> None:
        self._chats = chats
        self._this_node = shared.this_node
        self._watchers = shared.list_watchers

    def all(self, sees: Sees = everything, *, person: Person = OWNING) -> list[ChatView]:
        """Return the chats that a person who `sees` them may see, the one used last first."""
        found = [chat for chat in self._chats.newest_first() if sees(chat.row)]
        return [view_of(chat, self._this_node, person) for chat in found]

    def ids(self, sees: Sees = everything) -> set[str]:
        """Return the ids of the chats that one who `sees` them may see."""
        return {chat.row.id for chat in self._chats if sees(chat.row)}

    def page(
        self,
        sees: Sees = everything,
        *,
        before: Key | None = None,
        limit: int,
        known: str = "",
        person: Person = OWNING,
    ) -> tuple[list[ChatView], Key | None]:
        """Return a page of the chats that a person who `sees` them may see, and where the next one begins, or None.

        A page has the `limit` chats that were used last, before the time and id in `before`. The first one also has
        those that ask, work or are pinned, and the chat `known`, however old they are; the pages in which they belong
        have them again.
        """
        rest = (chat for chat in self._chats.newest_first(before) if sees(chat.row))
        page = list(islice(rest, limit))
        following = key_of(page[-1]) if next(rest, None) is not None else None
        if before is None and following is not None:
            shown = {chat.row.id for chat in page}
            asked_for = self._chats.get(known)
            wanted = {chat.row.id: chat for chat in [*self._chats.wanted(), *([asked_for] if asked_for else [])]}
            page += [chat for id, chat in wanted.items() if id not in shown and sees(chat.row)]
        return [view_of(chat, self._this_node, person) for chat in page], following

    def watch(self, call: Callable[[str], None]) -> None:
        """Call this with the id of each chat that a list may show in another way from now on, or no longer."""
        self._watchers.append(call)

    def unwatch(self, call: Callable[[str], None]) -> None:
        """Stop calling it."""
        if call in self._watchers:
            self._watchers.remove(call)

    def foreign(self, prefix: str, *, depth: int = 0, person: str = OWNER) -> list[tuple[ChatRow, TurnView | None]]:
        """Return a person's chats whose foreign id begins with this, each with its newest turn; the newest chat first.

        They are those that were asked for at this depth. The turn is as it was last read: it may have gone on at
        another node.
        """
        asked_by = (person, depth)
        found = [it for it in self._chats if (it.row.foreign_id or "").startswith(prefix)]
        found = [it for it in found if (it.row.person, it.row.depth) == asked_by]
        found.sort(key=lambda it: (it.row.created_at, it.row.id), reverse=True)
        return [(chat.row, chat.log.live.newest) for chat in found]
