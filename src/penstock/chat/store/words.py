"""Words of texts and of searches: the one division of text that both stores index and the hits are marked by.

A word is a run of letters and digits, without case and accents; a Chinese or Japanese character is a word of its own.
Everything else separates words, so the words of a search are never syntax of a database.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

MAX_WORD_CHARS = 64
"""Characters of a word that count: longer ones are no words of a language, and a database limits their size."""

MAX_WORDS = {"title": 500, "prompt": 5_000, "reply": 6_000, "commands": 2_000, "paths": 1_500}
"""Words of each text that are indexed: PostgreSQL keeps the places of 16,383 words in one row."""

MAX_TEXT_CHARS = 100_000
"""Characters of a text that are indexed and kept beside the index: what a person may remember is rarely further on."""

MIN_PREFIX_CHARS = 2
"""Characters of an unfinished word that is found by its beginning: fewer are the beginning of most words."""

_CHARACTER = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(f"[{_CHARACTER}]|(?:[^\\W_{_CHARACTER}][\u0300-\u036f]*)+")
_ASCII_WORD = re.compile("[A-Za-z0-9]+")
_PIECE = re.compile(r'"([^"]*)"?|(\S+)')


class Word(NamedTuple):
    """Word of a text, with its place there."""

    start: int
    end: int
    text: str
    """The word as it is compared."""


class Term(NamedTuple):
    """Words that follow each other in what is found."""

    words: tuple[str, ...]
    is_prefix: bool
    """True if the last word is only the beginning of one: somebody may still be typing it."""


def words_of(text: str) -> Iterator[Word]:
    """Yield the words of a text in their order."""
    if text.isascii():
        for found in _ASCII_WORD.finditer(text):
            yield Word(found.start(), found.end(), found[0][:MAX_WORD_CHARS].lower())
        return
    for found in _WORD.finditer(text):
        if word := _folded(found[0]):
            yield Word(found.start(), found.end(), word[:MAX_WORD_CHARS])


def _folded(word: str) -> str:
    if word.isascii():
        return word.lower()
    parts = unicodedata.normalize("NFKD", word.casefold())
    return "".join(character for character in parts if character.isalnum()).casefold()


def shortened(text: str, most: int) -> str:
    """Return the beginning of a text that has at most so many words; it can be shorter than the limit of characters."""
    text = text[:MAX_TEXT_CHARS]
    for number, word in enumerate(words_of(text)):
        if number == most:
            return text[: word.start]
    return text


def parse(query: str) -> list[Term]:
    """Return the terms of a search, all of which a text must have; none if it has no letters or digits.

    Words in quotes follow each other, and so do words that are joined by other characters, as in a path. The last word
    is found by its beginning, unless it is in quotes.
    """
    terms = []
    for piece in _PIECE.finditer(query):
        quoted, plain = piece.groups()
        words = tuple(word.text for word in words_of(quoted if plain is None else plain))
        if words:
            terms.append(Term(words, plain is not None))
    return [
        term._replace(is_prefix=term.is_prefix and term is terms[-1] and len(term.words[-1]) >= MIN_PREFIX_CHARS)
        for term in terms
    ]


class TermMatch(NamedTuple):
    """Place of a term in a text."""

    start: int
    end: int
    term: Term


def find(text: str, terms: list[Term]) -> list[TermMatch]:
    """Return the places of the terms in a text, in their order; they may overlap."""
    words = [*words_of(text)]
    by_word: dict[str, list[Term]] = {}
    for term in terms:
        by_word.setdefault("" if term.is_prefix and len(term.words) == 1 else term.words[0], []).append(term)
    found = []
    for nth, word in enumerate(words):
        for term in (*by_word.get(word.text, ()), *by_word.get("", ())):
            if _is_at(words, nth, term):
                found.append(TermMatch(word.start, words[nth + len(term.words) - 1].end, term))
    return found


def _is_at(words: list[Word], nth: int, term: Term) -> bool:
    texts = [word.text for word in words[nth : nth + len(term.words)]]
    if len(texts) < len(term.words) or texts[:-1] != [*term.words[:-1]]:
        return False
    return texts[-1].startswith(term.words[-1]) if term.is_prefix else texts[-1] == term.words[-1]
