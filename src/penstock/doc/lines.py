"""Differences of two texts, line by line, in bounded time."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

MAX_COMPARED_PAIRS = 10_000
"""Pairs of lines that difflib compares between two common lines: it needs time for each pair. A larger part that has no
line that occurs once in both texts counts as replaced as a whole."""

MAX_COMPARED_CHARS = 2_000
"""Characters of a line that are compared to decide whether it is an edited form of another; a paragraph is shorter."""

MIN_SIMILARITY = 0.6
"""Ratio of equal characters from which on a line is an edited form of another, as in `difflib.get_close_matches`."""

CONTEXT_LINES = 3
"""Unchanged lines around each change of a diff, as `diff -u` prints them."""


class LineChange(NamedTuple):
    """Lines `a[a_start:a_end]` and what they are in the other text: `b[b_start:b_end]`."""

    equal: bool
    a_start: int
    a_end: int
    b_start: int
    b_end: int


def split_lines(text: str) -> list[str]:
    r"""Split a text after each `\n`. `str.splitlines` would also split at form feeds and other characters."""
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def without_end(line: str) -> str:
    """Return a line without its line end."""
    return line.rstrip("\r\n")


def without_ends(lines: Sequence[str]) -> list[str]:
    """Return lines without their line ends."""
    return [line.rstrip("\r\n") for line in lines]  # a call for each line would take longer than the work


def compare(a: Sequence[str], b: Sequence[str]) -> list[LineChange]:
    """Compare two lists of lines, without regard to line ends. The changes cover both lists, equal parts included."""
    merged: list[LineChange] = []
    for change in _compare(without_ends(a), without_ends(b), 0, len(a), 0, len(b)):
        if merged and merged[-1].equal == change.equal:
            change = LineChange(change.equal, merged[-1].a_start, change.a_end, merged[-1].b_start, change.b_end)
            merged.pop()
        merged.append(change)
    return merged


def _compare(
    a: Sequence[str], b: Sequence[str], a_start: int, a_end: int, b_start: int, b_end: int
) -> Iterator[LineChange]:
    head = 0
    while a_start + head < a_end and b_start + head < b_end and a[a_start + head] == b[b_start + head]:
        head += 1
    tail = 0
    while (
        a_start + head < a_end - tail and b_start + head < b_end - tail and a[a_end - tail - 1] == b[b_end - tail - 1]
    ):
        tail += 1
    if head:
        yield LineChange(True, a_start, a_start + head, b_start, b_start + head)
    middle = (a_start + head, a_end - tail, b_start + head, b_end - tail)
    if middle[0] < middle[1] and middle[2] < middle[3]:
        yield from _compare_middle(a, b, *middle)
    elif middle[0] < middle[1] or middle[2] < middle[3]:
        yield LineChange(False, *middle)
    if tail:
        yield LineChange(True, a_end - tail, a_end, b_end - tail, b_end)


def _compare_middle(
    a: Sequence[str], b: Sequence[str], a_start: int, a_end: int, b_start: int, b_end: int
) -> Iterator[LineChange]:
    """Compare the parts between lines that occur once in both texts, and small parts without such lines."""
    anchors = _anchors(a, b, a_start, a_end, b_start, b_end)
    if anchors:
        for i, j in [*anchors, (a_end, b_end)]:
            yield from _compare(a, b, a_start, i, b_start, j)
            if i < a_end:
                yield LineChange(True, i, i + 1, j, j + 1)
            a_start, b_start = i + 1, j + 1
    elif (a_end - a_start) * (b_end - b_start) > MAX_COMPARED_PAIRS:
        yield LineChange(False, a_start, a_end, b_start, b_end)
    else:
        matcher = SequenceMatcher(None, a[a_start:a_end], b[b_start:b_end], autojunk=False)
        for tag, i1, i2, j1, j2 in matcher.get_opcodes():
            yield LineChange(tag == "equal", a_start + i1, a_start + i2, b_start + j1, b_start + j2)


def _anchors(
    a: Sequence[str], b: Sequence[str], a_start: int, a_end: int, b_start: int, b_end: int
) -> list[tuple[int, int]]:
    """Return the longest rising sequence of lines that occur once in both parts: the anchors of a patience diff."""
    count_a, count_b = Counter(a[a_start:a_end]), Counter(b[b_start:b_end])
    at_b = {b[j]: j for j in range(b_start, b_end) if count_b[b[j]] == 1}
    pairs = [(i, at_b[a[i]]) for i in range(a_start, a_end) if count_a[a[i]] == 1 and a[i] in at_b]
    ends: list[int] = []  # by length of a rising sequence: the smallest line of b that ends one
    owners: list[int] = []  # the pair of that line
    before: list[int] = []  # by pair: the pair before it in its sequence, or -1
    for number, (_, j) in enumerate(pairs):
        length = bisect_left(ends, j)
        ends[length : length + 1] = [j]
        owners[length : length + 1] = [number]
        before.append(owners[length - 1] if length else -1)
    rising: list[tuple[int, int]] = []
    number = owners[-1] if owners else -1
    while number >= 0:
        rising.append(pairs[number])
        number = before[number]
    return rising[::-1]


def carry(a: Sequence[str], b: Sequence[str], place: int) -> int | None:
    """Return the place in `b` that is after the lines `a[:place]`; None if they are gone.

    Lines that were added at the place are after it. A line before the place that was edited stays before it.
    """
    last = next((index for index in range(place - 1, -1, -1) if a[index].strip()), -1)
    found = _carried_line(a, b, last) if last >= 0 else 0
    if found is None:
        return None
    blank = place - last - 1
    while blank and found < len(b) and not b[found].strip():
        found, blank = found + 1, blank - 1
    return found


def _carried_line(a: Sequence[str], b: Sequence[str], line: int) -> int | None:
    """Return the place in `b` after a line of `a` or its edited form, else after what replaced it."""
    changes = compare(a, b)
    number = next(number for number, change in enumerate(changes) if line < change.a_end)
    change = changes[number]
    if change.equal:
        return change.b_start + line - change.a_start + 1
    for index in range(change.b_start, change.b_end):
        if is_edited(a[line], b[index]):
            return index + 1
    equal = (row for before in changes[:number] if before.equal for row in a[before.a_start : before.a_end])
    return change.b_end if any(row.strip() for row in equal) else None


def is_edited(old: str, new: str) -> bool:
    """Return whether a line is an edited form of another one, or continues it."""
    old, new = old.strip(), new.strip()
    if not new:
        return False
    if new.startswith(old):
        return True
    matcher = SequenceMatcher(None, old[:MAX_COMPARED_CHARS], new[:MAX_COMPARED_CHARS], autojunk=False)
    return matcher.quick_ratio() >= MIN_SIMILARITY and matcher.ratio() >= MIN_SIMILARITY


def unified_diff(a: Sequence[str], b: Sequence[str]) -> str:
    """Return the changes from `a` to `b` as a unified diff without file names; empty if there are none."""
    hunks: list[list[LineChange]] = []
    for change in compare(a, b):
        if change.equal:
            continue
        if hunks and change.a_start - hunks[-1][-1].a_end <= 2 * CONTEXT_LINES:
            hunks[-1].append(change)
        else:
            hunks.append([change])
    return "".join(_hunk(a, b, hunk) for hunk in hunks)


def _hunk(a: Sequence[str], b: Sequence[str], changes: Sequence[LineChange]) -> str:
    first, last = changes[0], changes[-1]
    head = min(CONTEXT_LINES, first.a_start)
    tail = min(CONTEXT_LINES, len(a) - last.a_end)
    sizes = last.a_end - first.a_start + head + tail, last.b_end - first.b_start + head + tail
    rows = [f"@@ -{first.a_start - head + 1},{sizes[0]} +{first.b_start - head + 1},{sizes[1]} @@"]
    position = first.a_start - head
    for change in changes:
        rows += [" " + without_end(line) for line in a[position : change.a_start]]
        rows += ["-" + without_end(line) for line in a[change.a_start : change.a_end]]
        rows += ["+" + without_end(line) for line in b[change.b_start : change.b_end]]
        position = change.a_end
    rows += [" " + without_end(line) for line in a[position : position + tail]]
    return "".join(row + "\n" for row in rows)
