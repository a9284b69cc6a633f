"""Bytes to lines.

A line ends with `\\n` and with nothing else: JSON strings carry raw U+2028, U+2029 and U+0085, at which
`str.splitlines` would break. Chunks are never stripped nor decoded, so where they are cut does not matter.
"""

from __future__ import annotations

from typing import NamedTuple

MAX_LINE_BYTES = 64 * 1024 * 1024
"""A longer line is skipped to its end and reported. Screenshots make lines of some MiB, whole histories of
some ten; other readers of these streams gave up at 64 KiB, 1 MiB, 10 MiB and 64 MB in turn."""

HEAD_BYTES = 256
"""What is kept of a line that is too long."""


class Oversized(NamedTuple):
    """A line of `size` bytes, of which only the first `HEAD_BYTES` were kept."""

    head: bytes
    size: int


class Framer:
    """Cuts bytes into lines, without their `\\n`. Lines may be blank or end with `\\r`: decoding minds that."""

    def __init__(self, limit: int = MAX_LINE_BYTES) -> None:
        self._limit = limit
        self._pending = bytearray()
        self._skipped = 0  # bytes of the current line, once it is known to be too long

    def feed(self, data: bytes) -> list[bytes | Oversized]:
        """The lines that `data` completes."""
        pieces = data.split(b"\n")
        tail = pieces.pop()
        lines: list[bytes | Oversized] = []
        if pieces:
            first = self._complete(pieces[0])
            lines = pieces if len(data) <= self._limit else [self._measured(piece) for piece in pieces]  # type: ignore[assignment]
            lines[0] = first
        self._hold(tail)
        return lines

    def close(self) -> list[bytes | Oversized]:
        """The tail: a last line that was not ended, if there is one."""
        if not self._pending and not self._skipped:
            return []
        return [self._complete(b"")]

    def _hold(self, data: bytes) -> None:
        if self._skipped:
            self._skipped += len(data)
        elif len(self._pending) + len(data) > self._limit:
            self._skipped = len(self._pending) + len(data)
            head = bytes(self._pending[:HEAD_BYTES]) + data[:HEAD_BYTES]
            self._pending = bytearray(head[:HEAD_BYTES])
        else:
            self._pending += data

    def _complete(self, end: bytes) -> bytes | Oversized:
        if not self._pending and not self._skipped:
            return self._measured(end)
        self._hold(end)
        held, skipped = bytes(self._pending), self._skipped
        self._pending = bytearray()
        self._skipped = 0
        return Oversized(held, skipped) if skipped else held

    def _measured(self, line: bytes) -> bytes | Oversized:
        return line if len(line) <= self._limit else Oversized(line[:HEAD_BYTES], len(line))
