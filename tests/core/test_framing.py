"""Bytes to lines: however they are cut, and with lines that are too long."""

from __future__ import annotations

import pytest

from penstock.core import framing
from penstock.core.framing import HEAD_BYTES, Framer, Oversized, lines_of

LIMIT = 300
"""Bytes of the longest line here: more than are kept of one that is too long."""
LONG = b"0123456789" * 40


def framed(*chunks: bytes) -> list[bytes | Oversized]:
    """The lines of these chunks, from a framer of short lines; regions are split."""
    framer = Framer(LIMIT)
    found: list[bytes | Oversized] = []
    for regions in (*map(framer.feed, chunks), framer.close()):
        for region in regions:
            found.extend([region] if isinstance(region, Oversized) else lines_of(region))
    assert framer.close() == []
    return found


WHOLE = b"one\n" + LONG + b"\ntwo\n\nlast"


@pytest.mark.parametrize("size", [1, 2, 7, 150, 299, 301, 1000])
def test_lines_do_not_depend_on_the_cuts(size: int) -> None:
    """Lines are the same however the bytes are cut; one that is too long is reported with its beginning and size."""
    chunks = [WHOLE[at : at + size] for at in range(0, len(WHOLE), size)]
    assert framed(*chunks) == [b"one", Oversized(LONG[:HEAD_BYTES], 400), b"two", b"", b"last"]


@pytest.mark.parametrize("size", [1, 3, 4, 5, 30, 150, 299, 301, 1000])
def test_a_long_line_is_a_region_of_its_own(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """A line that is not too long, but is held for some reads, comes alone: nothing splits it from what follows."""
    monkeypatch.setattr(framing, "LONG_BYTES", 20)
    monkeypatch.setattr(framing, "SMALL_BYTES", 4)
    data = b"one\n" + LONG[:250] + b"\ntwo\nthree\n" + LONG + b"\nend"
    chunks = [data[at : at + size] for at in range(0, len(data), size)]
    assert framed(*chunks) == [b"one", LONG[:250], b"two", b"three", Oversized(LONG[:HEAD_BYTES], 400), b"end"]
    framer = Framer(LIMIT)
    assert framer.feed(LONG[:100]) == []
    assert framer.feed(LONG[100:150] + b"\na\nb\nc") == [LONG[:150] + b"\n", b"a\nb\n"]


def test_a_last_line_that_is_too_long() -> None:
    """A line that is too long and has no end is reported when the stream closes."""
    assert framed(b"a\n", LONG[:200], LONG[200:], LONG) == [b"a", Oversized(LONG[:HEAD_BYTES], 800)]


def test_the_end_of_a_skipped_line_alone() -> None:
    """A chunk that has only the end of a skipped line makes no empty region besides."""
    framer = Framer(LIMIT)
    assert framer.feed(LONG) == []
    assert framer.feed(b"x\n") == [Oversized(LONG[:HEAD_BYTES], 401)]
    assert framer.feed(b"ok\n") == [b"ok\n"]
