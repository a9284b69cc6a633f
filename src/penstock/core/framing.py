r"""Framing: bytes to lines.

A line ends with `\n` and with nothing else: JSON strings carry raw U+2028, U+2029 and U+0085, at which
`str.splitlines` would break. Chunks are never stripped nor decoded, so the places at which they are cut have no effect.
"""

from __future__ import annotations

from typing import NamedTuple

MAX_LINE_BYTES = 64 * 1024 * 1024
"""Bytes of the longest line that is read; a longer one is skipped to its end and reported. Screenshots make lines of
some MiB, complete histories of some ten; other readers of these streams failed at 64 KiB, 1 MiB, 10 MiB and 64 MB."""

HEAD_BYTES = 256
"""Bytes that are kept of a line that is too long."""


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
        self._pending = bytearray()
        self._skipped = 0  # bytes of the current line, once it is known to be too long

    def feed(self, data: bytes) -> list[bytes | Oversized]:
        """Return the lines that `data` completes: regions, with lines that are too long between them."""
        end = data.rfind(b"\n") + 1
        if not end:
            self._hold(data)
            return []
        tail = data[end:]
        regions: list[bytes | Oversized] = []
        if self._skipped:
            first, _, whole = data[:end].partition(b"\n")
            regions.append(Oversized(bytes(self._pending), self._skipped + len(first)))
        else:
            whole = b"".join((self._pending, memoryview(data)[:end]))
        self._pending = bytearray()
        self._skipped = 0
        regions.extend(self._measured(whole) if len(whole) > self._limit else [whole] if whole else [])
        self._hold(tail)
        return regions

    def close(self) -> list[bytes | Oversized]:
        """Return the tail: a last line without a newline, if there is one."""
        held, skipped = bytes(self._pending), self._skipped
        self._pending = bytearray()
        self._skipped = 0
        return [Oversized(held, skipped)] if skipped else [held] if held else []

    def _hold(self, data: bytes) -> None:
        if self._skipped:
            self._skipped += len(data)
        elif len(self._pending) + len(data) > self._limit:
            self._skipped = len(self._pending) + len(data)
            self._pending = bytearray((bytes(self._pending[:HEAD_BYTES]) + data[:HEAD_BYTES])[:HEAD_BYTES])
        else:
            self._pending += data

    def _measured(self, region: bytes) -> list[bytes | Oversized]:
        """Split a region that is larger than a line may be into its lines."""
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
