"""Words that changed within the lines of a diff.

A line that was removed and the line that took its place are compared if they have most of their text in common. Other
lines are new as a whole, and marks in them would only distract.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain, groupby
from operator import itemgetter

MAX_COMPARED_CHARS = 400
"""Characters of the longest line that is compared. Nobody reads a longer one word by word."""
MAX_PAIRS = 4_000
"""Pairs of words that are compared in two lines, between their common beginning and end: an agent chooses the lines."""

Part = tuple[bool, str]
"""Whether a piece of a line has changed, and its text."""

_WORD = re.compile(r"[\w\x80-\U0010ffff]+|\s+|.")  # other scripts are not divided: their characters may join


def changed_words(lines: Sequence[str]) -> dict[int, list[Part]]:
    """Return the parts of the lines of a diff in which only some words changed, without their signs, by line number.

    Lines are compared in order if as many lines are added as were removed right before them.
    """
    found = {}
    for removed, added in _replaced(lines):
        if parts := _compared(lines[removed][1:], lines[added][1:]):
            found[removed], found[added] = parts
    return found


def _replaced(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the numbers of each removed line and the line that took its place."""
    removed: list[int] = []
    added: list[int] = []
    for number, line in enumerate(chain(lines, [" "])):
        sign = line[:1]
        if sign == "\\":  # a note about the line before it
            continue
        if added and sign != "+":
            if len(added) == len(removed):
                yield from zip(removed, added, strict=True)
            removed, added = [], []
        if sign == "-":
            removed.append(number)
        elif sign == "+":
            added.append(number)
        else:
            removed = []


def _compared(old: str, new: str) -> tuple[list[Part], list[Part]] | None:
    """Return the parts of two lines; None if they differ in most of their text."""
    if max(len(old), len(new)) > MAX_COMPARED_CHARS:
        return None
    before, after = _WORD.findall(old), _WORD.findall(new)
    start = end = 0
    shorter = min(len(before), len(after))
    while start < shorter and before[start] == after[start]:
        start += 1
    while end < shorter - start and before[-1 - end] == after[-1 - end]:
        end += 1
    was, now = [True] * len(before), [True] * len(after)
    was[:start] = now[:start] = [False] * start
    was[len(was) - end :] = now[len(now) - end :] = [False] * end
    for i, j in _common(before[start : len(before) - end], after[start : len(after) - end]):
        was[start + i] = now[start + j] = False
    common = sum(len(word) for word, changed in zip(before, was, strict=True) if not changed and not word.isspace())
    total = sum(len(word) for word in before + after if not word.isspace())
    if 4 * common <= total:
        return None
    return _parts(before, was), _parts(after, now)


def _common(before: Sequence[str], after: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the places of the words that both have in this order: those with the most characters altogether."""
    if len(before) * len(after) > MAX_PAIRS:
        return
    best = [[0] * (len(after) + 1) for _ in range(len(before) + 1)]
    for i in reversed(range(len(before))):
        for j in reversed(range(len(after))):
            if before[i] == after[j]:
                best[i][j] = best[i + 1][j + 1] + len(before[i])
            else:
                best[i][j] = max(best[i + 1][j], best[i][j + 1])
    i = j = 0
    while i < len(before) and j < len(after):
        if before[i] == after[j]:
            yield i, j
            i, j = i + 1, j + 1
        elif best[i + 1][j] >= best[i][j + 1]:
            i += 1
        else:
            j += 1


def _parts(words: Sequence[str], changed: Sequence[bool]) -> list[Part]:
    """Return words in as few parts as possible."""
    together = groupby(zip(changed, words, strict=True), key=itemgetter(0))
    return [(is_changed, "".join(word for _, word in pairs)) for is_changed, pairs in together]
