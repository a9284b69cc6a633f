"""Search of chats: what is indexed of a turn and of a chat, and what a search returns of it.

A row of the index is one turn, or, as turn 0, the title of a chat. Turns and titles that are to be
indexed wait in a queue of the database, which its triggers fill in the transaction of the change: nothing is missed
by a crash, and a new index is made by filling the queue with everything.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Literal, NamedTuple, get_args

import msgspec

from penstock.chat.store import words
from penstock.chat.store.words import MAX_WORDS, Term, shortened, words_of

TITLE = 0
"""Number, in place of a turn's, of the row that has the title of a chat."""

SEARCH_SECONDS = 2.0
"""Seconds after which a search returns what it has: a page waits for it while its user types."""

MAX_KEY = 2**58
"""Number above the keys of all rows."""

CONTEXT_CHARS = 200
"""Maximum characters of a text around the words, as a hit shows it."""

BEFORE_CHARS = 60
"""Characters of those that are before the first of the words."""

MAX_MARKS = 20
"""Words that are marked in one context."""

Kind = Literal["title", "prompt", "reply", "commands", "paths"]
"""Text in which the words of a search were found."""

KINDS: tuple[Kind, ...] = get_args(Kind)


class Reader(NamedTuple):
    """Person for whom a statement reads: it leaves out the chats that the person may not see."""

    person: str
    is_owner: bool = False
    """True for one who sees all chats."""
    share: str | None = None
    """Id of a share, of whose chat alone is read, while the store has it; None: what the person sees is read."""


class SearchTexts(msgspec.Struct, frozen=True):
    """Texts of one row of the index."""

    title: str = ""
    prompt: str = ""
    reply: str = ""
    commands: str = ""
    """Commands, patterns and addresses that the agent called tools with, one a line."""
    paths: str = ""
    """Paths of the files that it read or changed, one a line."""

    def bounded(self) -> SearchTexts:
        """Return the beginnings of the texts that are indexed. No database keeps a NUL or half a character."""
        return SearchTexts(*(shortened(_kept(getattr(self, kind)), MAX_WORDS[kind]) for kind in KINDS))


def _kept(text: str) -> str:
    return text.replace("\0", " ").encode("utf-8", "replace").decode("utf-8")


class Unindexed(NamedTuple):
    """Turn or title that is to be indexed."""

    chat: str
    turn: int
    """Number of the turn; `TITLE` for the title of the chat."""
    mark: int
    """Number of its place in the queue: another one if it changes again."""


class StoredHit(NamedTuple):
    """Row of the index that a search found, with what a list shows of its chat."""

    key: int
    """Key of the row: the newest have the largest."""
    chat: str
    turn: int
    at: int
    """Time of the turn's end, or at which the chat was made, in milliseconds since 1970."""
    chat_title: str | None
    agent: str
    cwd: str
    archived: bool
    person: str
    texts: SearchTexts


class StoredHits(NamedTuple):
    """Result of a search, newest first."""

    hits: list[StoredHit]
    is_complete: bool
    """False if there was no time to look at everything: there may be more, older ones."""


def key_of(chat: str, turn: int, at: int) -> int:
    """Return the key of a row of the index, by which rows are in the order of their times."""
    return min(at, 2**41) << 16 | zlib.crc32(f"{chat}/{turn}".encode()) & 0xFFFF


# --- the databases ---


def folded(text: str) -> str:
    """Return the words of a text as the index of SQLite gets them."""
    return " ".join(word.text for word in words_of(text))


def fts_query(terms: list[Term]) -> str:
    """Return a search as SQLite reads it. The words have letters and digits only, so none of them is syntax."""
    return " AND ".join(f'"{" ".join(term.words)}"{" *" if term.is_prefix else ""}' for term in terms)


def tsquery(terms: list[Term]) -> str:
    """Return a search as PostgreSQL reads it."""
    return " & ".join(f"({' <-> '.join(_lexemes(term))})" for term in terms)


def _lexemes(term: Term) -> Iterator[str]:
    *firsts, last = term.words
    for word in firsts:
        yield f"'{word}'"
    yield f"'{last}'{':*' if term.is_prefix else ''}"


def tsvector(texts: SearchTexts) -> str:
    """Return the words of texts with their places as PostgreSQL reads them. No term reaches over two texts."""
    places: dict[str, list[int]] = {}
    place = 0
    for kind in KINDS:
        for word in words_of(getattr(texts, kind)):
            place += 1
            places.setdefault(word.text, []).append(place)
        place += 2
    return " ".join(f"'{word}':{','.join(map(str, found))}" for word, found in places.items())


# --- what is shown of a row ---


class Context(NamedTuple):
    """Part of a text around the words that were found."""

    kind: Kind
    text: str
    marks: list[tuple[int, int]]
    """Where the words begin and end in `text`, in characters."""


def context_of(texts: SearchTexts, terms: list[Term]) -> Context:
    """Return the part of the text that has most of the terms, the first of them if several have as many."""
    places = {kind: words.find(getattr(texts, kind), terms) for kind in KINDS}
    kind = max(KINDS, key=lambda kind: len({place.term for place in places[kind]}))
    text: str = getattr(texts, kind)
    start = _start(text, places[kind][0].start if places[kind] else 0)
    end = min(len(text), start + CONTEXT_CHARS)
    marks: list[tuple[int, int]] = []
    for place in places[kind]:
        if place.end <= end and (not marks or place.start - start >= marks[-1][1]):
            marks.append((place.start - start, place.end - start))
    return Context(kind, text[start:end], marks[:MAX_MARKS])


def _start(text: str, first: int) -> int:
    """Return where the context of a place begins: in commands and paths with its line, else after a white space."""
    least = max(0, first - BEFORE_CHARS)
    if least == 0:
        return 0
    line = text.rfind("\n", least, first)
    if line >= 0:
        return line + 1
    return next((place + 1 for place in range(least, first) if text[place].isspace()), least)
