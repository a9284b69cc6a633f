"""Ways to feed the bytes of a recording to a stream.

Each takes a fresh `Stream`, feeds it the bytes, closes it and returns all events; `stream.health` holds the
counters afterwards. The events must not depend on how the bytes are cut (contract rule 9).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from penstock.core.normalizer.outcome import Exit
from penstock.events import Event
from penstock.stream import Stream


def whole(stream: Stream, data: bytes, exit: Exit | None = None) -> list[Event]:
    """Feed all bytes in one piece."""
    return [*stream.feed(data), *stream.close(exit)]


def bytewise(stream: Stream, data: bytes, exit: Exit | None = None) -> list[Event]:
    """Feed one byte at a time."""
    return chunked(stream, data, (1,), exit)


def chunked(stream: Stream, data: bytes, sizes: Iterable[int], exit: Exit | None = None) -> list[Event]:
    """Feed pieces of the given sizes in bytes, in turn and again from the first.

    Raises:
        ValueError: `sizes` is empty, or has a piece of less than one byte.
    """
    sizes = list(sizes)
    if not sizes or min(sizes) < 1:
        raise ValueError("sizes must name at least one size, none below 1 byte")
    events: list[Event] = []
    at = 0
    for size in itertools.cycle(sizes):
        if at >= len(data):
            break
        events += stream.feed(data[at : at + size])
        at += size
    events += stream.close(exit)
    return events


def cut(stream: Stream, data: bytes, at: int, exit: Exit | None = None) -> list[Event]:
    """Feed only the first `at` bytes, then the end: a killed agent, a broken pipe."""
    return whole(stream, data[:at], exit)


def cut_points(data: bytes, count: int) -> list[int]:
    """Return about `count` useful indices at which to cut, spread over `data`, each less than its length.

    In turn they are after a line end, before one, inside a line, and inside a character of several bytes.
    """
    points: set[int] = set()
    for number in range(count):
        near = len(data) * (number + 1) // (count + 1)
        line_end = data.find(b"\n", near)
        way = number % 4
        if way < 2 and line_end >= 0:
            points.add(line_end + 1 - way)
        elif way == 3:
            points.add(_inside_character(data, near))
        else:
            points.add(near)
    return sorted(point for point in points if 0 <= point < len(data))


def _inside_character(data: bytes, near: int) -> int:
    for at in range(near, min(near + 100_000, len(data))):
        if data[at] & 0xC0 == 0x80:
            return at
    return near
