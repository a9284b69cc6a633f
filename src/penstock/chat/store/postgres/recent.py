"""Entries that are read ahead, for the chats that somebody follows here: one statement for all of them.

A chat is followed once it was read to its end. What is read ahead is a page that the next read gets from memory; if
nobody reads it for half a second, or until it is full, the chat is no longer followed. "Nothing new" is never
answered from memory.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from penstock.chat.store.protocol import PAGE_ENTRIES, Page, StoredEntry

MAX_FOLLOWED = 2000
"""Chats that are followed at most; the least recently read one is dropped."""

READ_AHEAD_BYTES = 1024 * 1024
"""Bytes of one chat that are read ahead: a reader that is further behind reads by itself."""

UNREAD_SECONDS = 0.5
"""Seconds for which what was read ahead waits for a reader; one that follows the chat reads within milliseconds."""

READ_AHEAD = """SELECT g.id, h.last, e.number, e.at, e.data
    FROM unnest(%(ids)s::text[], %(afters)s::bigint[]) AS g (id, after) JOIN heads AS h ON h.id = g.id
    CROSS JOIN LATERAL (
        SELECT number, at, data, sum(octet_length(data)) OVER (ORDER BY number) - octet_length(data) AS before FROM (
            SELECT number, at, data FROM entries WHERE chat = h.key AND number > g.after
            ORDER BY number LIMIT %(limit)s
        ) AS page
    ) AS e WHERE before < %(bytes)s ORDER BY g.id, e.number"""


@dataclass(slots=True)
class Followed:
    """Chat that somebody follows."""

    after: int
    """Number up to which it was read."""
    floor: int = 0
    """Last number that this process appended: a page that does not reach it is too old."""
    page: Page | None = None
    """Entries behind `after`."""
    since: float = 0.0
    """Time since which there is a page."""

    @property
    def is_unread(self) -> bool:
        """Return whether read-ahead should pause: the page is old, or full."""
        if self.page is not None and time.monotonic() - self.since > UNREAD_SECONDS:
            return True
        entries = [] if self.page is None else self.page.entries
        return len(entries) >= PAGE_ENTRIES or sum(len(entry.data) for entry in entries) >= READ_AHEAD_BYTES


class Recent:
    """Chats that are followed, and what was read ahead of them."""

    def __init__(self) -> None:
        self._chats: dict[str, Followed] = {}

    def read(self, chat: str, page: Page, after: int) -> None:
        """Follow a chat, if it was read to its end."""
        end = page.entries[-1].number if page.entries else after
        if end >= page.last:
            self._follow(chat, end)

    def wrote(self, chat: str, last: int) -> None:
        """Continue behind entries that this process appended, and that no reader of it reads back."""
        followed = self._chats.get(chat)
        if followed is not None:
            followed.floor = last
            if followed.page is not None and followed.page.last < last:
                followed.page = None
            if followed.page is None:
                followed.after = last

    def forget(self, chats: Iterable[str]) -> None:
        """Do not follow chats, as they may have been deleted or trimmed."""
        for chat in chats:
            self._chats.pop(chat, None)

    def page(self, chat: str, after: int, limit: int) -> Page | None:
        """Return the entries after a number, if some of them were read ahead."""
        followed = self._chats.get(chat)
        if followed is None or followed.page is None:
            return None
        skipped = after - followed.after
        entries = followed.page.entries[skipped : skipped + limit] if skipped >= 0 else []
        if not entries:
            return None
        page = Page(entries, followed.page.last)
        self.read(chat, page, after)
        return page

    def wanted(self, chats: Iterable[str]) -> dict[str, int]:
        """Return those of the chats with news that are read ahead, with the numbers up to which they were read."""
        wanted: dict[str, int] = {}
        for chat in chats:
            followed = self._chats.get(chat)
            if followed is None:
                continue
            if followed.page is None:
                wanted[chat] = followed.after
            elif followed.is_unread:
                del self._chats[chat]
            else:
                wanted[chat] = followed.page.entries[-1].number
        return wanted

    def values(self, wanted: dict[str, int]) -> dict[str, Any]:
        """Return the values of `READ_AHEAD`."""
        return {"ids": [*wanted], "afters": [*wanted.values()], "limit": PAGE_ENTRIES, "bytes": READ_AHEAD_BYTES}

    def put(self, wanted: dict[str, int], rows: Iterable[tuple[Any, ...]]) -> None:
        """Keep the rows of `READ_AHEAD` for the next reads."""
        pages: dict[str, Page] = {}
        for id, last, number, at, data in rows:
            entries = pages.setdefault(id, Page([], last)).entries
            if number == wanted[id] + len(entries) + 1:  # a chat that was trimmed meanwhile is read by its reader
                entries.append(StoredEntry(number, at, data))
        for chat, page in pages.items():
            followed = self._chats.get(chat)
            if followed is None or page.last < followed.floor or not page.entries:
                continue
            if followed.page is None and followed.after == wanted[chat]:
                followed.page, followed.since = page, time.monotonic()
            elif followed.page is not None and followed.page.entries[-1].number == wanted[chat]:
                followed.page = Page(followed.page.entries + page.entries, page.last)

    def _follow(self, chat: str, after: int) -> None:
        floor = self._chats.pop(chat, Followed(0)).floor
        self._chats[chat] = Followed(after, floor)
        if len(self._chats) > MAX_FOLLOWED:
            del self._chats[next(iter(self._chats))]
