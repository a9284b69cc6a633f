r"""Framing: bytes to lines.

Only `\n` ends a line: JSON strings may contain raw U+2028, U+2029 and U+0085, at which `str.splitlines` would split.
Chunks are never stripped or decoded, so it does not matter where they are cut.
"""

from __future__ import annotations

from typing import NamedTuple

MAX_LINE_BYTES = 64 * 1024 * 1024
"""Bytes of the longest line that is read; a longer one is skipped to its end and reported. Screenshots make lines of
several MiB, complete histories lines of tens of MiB. Other readers of these streams failed at 64 KiB, 1 MiB, 10 MiB and
64 MB."""

HEAD_BYTES = 256
"""Number of bytes kept of an overlong line."""

LONG_BYTES = 1024 * 1024
"""Bytes of the largest region that is decoded at once, since all of its events are in memory together. A longer line is
a region of its own."""

SMALL_BYTES = 4096
"""Bytes from which a piece is kept without being copied; smaller ones are joined, since each costs an object."""


class Oversized(NamedTuple):
    """Line of `size` bytes, of which only the first `HEAD_BYTES` were kept."""

    head: bytes
    size: int


class Framer:
    """Splitter of bytes into regions of complete lines, each with its newline; the last may lack it.

    A region is not split further: a fast decoder takes all its lines at once. `lines_of` splits it.
    """

    def __init__(self, limit: int = MAX_LINE_BYTES) -> None:
        self._limit = limit
        self._pending: list[bytes | bytearray] = []  # pieces of the current line, joined once
        self._size = 0  # bytes of the current line
        self._skips = False  # the current line is too long: only its head is kept

    def feed(self, data: bytes) -> list[bytes | Oversized]:
        """Return the lines that `data` completes: regions, with lines that are too long between them."""
        end = data.rfind(b"\n") + 1
        if not end:
            self._hold(data)
            return []
        # A long line is a region of its own, which need not be split.
        first = data.find(b"\n") + 1 if self._skips or self._size > LONG_BYTES else end
        regions: list[bytes | Oversized] = []
        if self._skips:
            regions.append(Oversized(b"".join(self._pending), self._size + first - 1))
        else:
            regions += self._measured(b"".join((*self._pending, memoryview(data)[:first])))
        self._pending, self._size, self._skips = [], 0, False
        regions += self._measured(data[first:end])
        self._hold(data[end:])
        return regions

    def close(self) -> list[bytes | Oversized]:
        """Return the tail: a last line without a newline, if there is one."""
        held, size, skips = b"".join(self._pending), self._size, self._skips
        self._pending, self._size, self._skips = [], 0, False
        return [Oversized(held, size)] if skips else [held] if held else []

    def _hold(self, data: bytes) -> None:
        if not data:
            return
        self._size += len(data)
        if self._skips:
            return
        if self._size > self._limit:
            self._skips = True
            self._pending = [b"".join((*self._pending, data[:HEAD_BYTES]))[:HEAD_BYTES]]
        elif len(data) >= SMALL_BYTES:
            self._pending.append(data)
        elif self._pending and type(self._pending[-1]) is bytearray:
            self._pending[-1] += data
        else:
            self._pending.append(bytearray(data))

    def _measured(self, region: bytes) -> list[bytes | Oversized]:
        """Return a region whole, or split into its lines if one of them may be too long."""
        if len(region) <= self._limit:
            return [region] if region else []
        lines = lines_of(region)
        return [line + b"\n" if len(line) <= self._limit else Oversized(line[:HEAD_BYTES], len(line)) for line in lines]


def lines_of(region: bytes) -> list[bytes]:
    """Return the lines of a region without their newlines.

    They may be blank or end with a carriage return: decoding handles that.
    """
    lines = region.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return lines
