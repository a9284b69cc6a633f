"""Search of one service: by words of titles, prompts, replies, commands and paths, newest first, a page at a time."""

from __future__ import annotations

import asyncio
from collections import Counter

import msgspec

from penstock.chat.errors import Invalid, TooMany
from penstock.chat.store.protocol import ChatStore
from penstock.chat.store.search import MAX_KEY, TITLE, Kind, Reader, StoredHit, context_of
from penstock.chat.store.words import Term, parse

MAX_QUERY_CHARS = 200
"""Maximum characters of a search; longer input is a text, not a search."""

PAGE_HITS = 20
"""Number of hits of one page."""

MAX_WAITING = 4
"""Searches of one person that may wait: a page begins one at a pause of its user, and needs the newest alone."""


class Mark(msgspec.Struct, frozen=True):
    """Place in a text, in Unicode code points."""

    start: int
    end: int


class Hit(msgspec.Struct, frozen=True):
    """Turn, or title of a chat, that a search has found."""

    chat: str
    title: str | None
    """Title of the chat."""
    turn: int | None
    """Number of the turn; null if the title was found."""
    kind: Kind
    """Text in which most of the words are: `title`, `prompt`, `reply`, `commands` or `paths`."""
    text: str
    """Part of that text around the words."""
    marks: list[Mark]
    """Places of the words in `text`; of many the first."""
    at: int
    """Time at which the turn ended, or the chat was made, in milliseconds since 1970."""
    agent: str
    cwd: str
    archived: bool
    person: str
    """Person to whom the chat belongs."""


class SearchResult(msgspec.Struct, frozen=True):
    """Page of what a search has found, newest first."""

    hits: list[Hit]
    complete: bool
    """False if there was no time to look at everything."""
    next: str | None
    """Value of `cursor` for the next page; null if there is none."""


class Search:
    """Searches of one service, one at a time: no person waits for more than one search of each other person."""

    def __init__(self, store: ChatStore) -> None:
        self._store = store
        self._lock = asyncio.Lock()
        self._locks: dict[str, asyncio.Lock] = {}  # of the persons who search now
        self._waiting: Counter[str] = Counter()

    async def find(self, query: str, reader: Reader, *, before: int = MAX_KEY, limit: int = PAGE_HITS) -> SearchResult:
        """Return what has all words of a query, of the chats that the reader may see.

        Raises:
            Invalid: the query is empty, or too long.
            TooMany: the person has too many searches at once.
            StoreFailed: the store cannot be read.
        """
        if not query.strip() or len(query) > MAX_QUERY_CHARS:
            raise Invalid("this cannot be searched for", expected=f"1 to {MAX_QUERY_CHARS} characters")
        terms = parse(query)
        person = reader.person
        if self._waiting[person] > MAX_WAITING:
            raise TooMany("you have too many searches at once", help="wait for one of them")
        self._waiting[person] += 1
        try:
            async with self._locks.setdefault(person, asyncio.Lock()), self._lock:
                found = await self._store.search(terms, reader, before=before, limit=limit + 1)
        finally:
            self._waiting[person] -= 1
            if not self._waiting[person]:
                del self._waiting[person], self._locks[person]
        hits = found.hits[:limit]
        is_page = len(found.hits) > limit or (bool(hits) and not found.is_complete)
        shown = await asyncio.to_thread(lambda: [_shown(hit, terms) for hit in hits])
        return SearchResult(shown, found.is_complete, str(hits[-1].key) if is_page else None)


def _shown(hit: StoredHit, terms: list[Term]) -> Hit:
    kind, text, marks = context_of(hit.texts, terms)
    turn = None if hit.turn == TITLE else hit.turn
    facts = (hit.at, hit.agent, hit.cwd, hit.archived, hit.person)
    return Hit(hit.chat, hit.chat_title, turn, kind, text, [Mark(*it) for it in marks], *facts)
