"""Patterns of paths, matched without git, so that no file of a work tree influences the result.

`*`, `?` and `[…]` do not match a slash, and `**` matches any number of directories. If the last part of a pattern has
no such sign, it also matches everything below a directory with that name. A part is always matched as plain text too,
since files may be named `[id].ts`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from fnmatch import translate

MANY = "**"
"""Part of a pattern that matches any number of directories."""

_ESCAPED = re.compile(r"\\(.)")
_SIGNS = re.compile(r"[*?\[]")

Places = frozenset[tuple[int, int]]
"""Progress of the patterns along a path: pairs of the number of a pattern and that of its next part."""


class PathPatterns:
    """Patterns of paths. Walk a tree with `start` and `step`, or ask `matches` for one path.

    Args:
        patterns: patterns, with slashes between their parts, from the top.
        ignores_case: whether names that differ by case or by composed characters mean the same file, as on macOS.
    """

    def __init__(self, patterns: Iterable[str], *, ignores_case: bool = False) -> None:
        self._ignores_case = ignores_case
        self._rules = [
            tuple(_Part(self._folded(part)) for part in _parts(pattern)) for pattern in dict.fromkeys(patterns)
        ]
        self._rules = [rule for rule in self._rules if rule]

    def __bool__(self) -> bool:
        """Return whether there are patterns."""
        return bool(self._rules)

    @property
    def start(self) -> Places:
        """Places before the first part of a path."""
        return frozenset(place for number in range(len(self._rules)) for place in self._with_skipped(number, 0))

    def step(self, places: Places, name: str) -> Places:
        """Return the places after one more part of a path; an empty set if nothing below it can match."""
        name = self._folded(name)
        found: set[tuple[int, int]] = set()
        for number, at in places:
            rule = self._rules[number]
            if at == len(rule):
                if not rule[-1].has_signs or rule[-1].is_many:
                    found.add((number, at))
            elif rule[at].is_many:
                found.update(self._with_skipped(number, at))
                if at + 1 == len(rule):
                    found.add((number, at + 1))
            elif rule[at].matches(name):
                found.update(self._with_skipped(number, at + 1))
        return frozenset(found)

    def is_match(self, places: Places) -> bool:
        """Return whether the path that led to these places matches."""
        return any(at == len(self._rules[number]) for number, at in places)

    def matches(self, path: str) -> bool:
        """Return whether a path matches."""
        places = self.start
        for part in _parts(path):
            places = self.step(places, part)
            if not places:
                return False
        return self.is_match(places)

    def _with_skipped(self, number: int, at: int) -> Iterable[tuple[int, int]]:
        """Yield a place, and the places after it that need no further part, since `**` may match no directory."""
        rule = self._rules[number]
        yield number, at
        while at < len(rule) - 1 and rule[at].is_many:
            at += 1
            yield number, at

    def _folded(self, name: str) -> str:
        return unicodedata.normalize("NFC", name).casefold() if self._ignores_case else name


def _parts(path: str) -> list[str]:
    """Return the parts of a path or a pattern, without those that stay in the same place."""
    return [part for part in path.split("/") if part not in ("", ".")]


class _Part:
    """One part of a pattern."""

    def __init__(self, text: str) -> None:
        self.is_many = text == MANY
        self.has_signs = _SIGNS.search(text) is not None
        self._text = text
        self._shape = re.compile(translate(_ESCAPED.sub(r"[\1]", text).replace("[^", "[!")))

    def matches(self, name: str) -> bool:
        return name == self._text or self._shape.match(name) is not None
