"""Values of another type than a reader knows: they are left out, and the run says so."""

from __future__ import annotations

import threading
from typing import Any

import msgspec
import pytest

from penstock.core import misfits
from penstock.core.decoding import fit
from penstock.core.health import MAX_UNKNOWN_KINDS, Health
from penstock.stream import Stream


class Part(msgspec.Struct):
    """Part of a line."""

    size: int = 0
    words: list[str] = []


class Line(msgspec.Struct, tag="line"):
    """Line of a wire."""

    part: Part | None = None
    parts: list[Part] = []
    is_error: bool = False


@pytest.fixture(autouse=True)
def nothing_noted() -> None:
    """Begin without notes of other tests."""
    misfits.take()


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ({"is_error": {"value": True}}, {"line.is_error": 1}),
        ({"part": [1]}, {"line.part": 1}),
        ({"part": {"size": {}, "words": ["a", [], "b"]}}, {"Part.size": 1, "an element of a list": 1}),
        ({"parts": [{"size": {}}, {}]}, {"Part.size": 1}),
        ({"is_error": None, "part": None}, {}),
        ({"part": {"size": "3"}, "more": [1]}, {}),
    ],
)
def test_what_does_not_fit_is_noted(value: dict[str, Any], names: dict[str, int]) -> None:
    """A field of another type is noted by its name; null, a number in quotes and a new field are no news."""
    assert isinstance(fit({"type": "line", **value}, Line), Line)
    assert misfits.take() == names
    assert misfits.take() == {}


def test_types_are_noted() -> None:
    """A value without a name is noted by its type and the expected one."""
    for value in ("3", [3], {"a": 3}, True, None, (3,)):
        misfits.note_type(value, "a number")
    kinds = ("a text", "a list", "an object", "a boolean", "a value")
    assert misfits.take() == {f"{kind} for a number": 1 for kind in kinds}


def test_the_names_are_bounded() -> None:
    """No more than a few names are kept, by the notes of a thread and by the health of a run."""
    health = Health()
    for part in range(3):
        for number in range(misfits.MAX_NAMES):
            misfits.note(f"{part} {number}")
            misfits.note(f"{part} {number}")
        misfits.note("one more")
        noted = misfits.take()
        assert len(noted) == misfits.MAX_NAMES
        health.count_misfits(noted)
    assert len(health.misfits) == MAX_UNKNOWN_KINDS
    assert {*health.misfits.values()} == {2}
    many = "128 values had a type that Penstock does not read, or were missing (0 0, 0 1, 0 2, 0 3, 0 4)"
    assert health.warnings == [many]


def test_threads_do_not_share_notes() -> None:
    """What one run reads is not in the health of a run in another thread."""
    found: list[dict[str, int]] = []
    misfits.note("here")
    reader = threading.Thread(target=lambda: found.append(misfits.take()))
    reader.start()
    reader.join()
    assert found == [{}]
    assert misfits.take() == {"here": 1}


def test_a_stream_counts_its_own() -> None:
    """The health has what the stream has read, however its bytes are cut, and not what other work left behind."""
    whole = b'{"type":"result","subtype":"success","is_error":[true],"result":"Done.","usage":{"input_tokens":"7"}}\n'
    misfits.note("of other work")
    once, piecewise = Stream("claude"), Stream("claude")
    once.feed(whole)
    misfits.note("of other work")
    for byte in whole[:-1]:
        piecewise.feed(bytes([byte]))
    once.close()
    piecewise.close()  # the last line has no newline
    assert once.health.misfits == piecewise.health.misfits == {"result.is_error": 1, "a text for a number": 1}
    assert "2 values had a type that" in once.health.warnings[0]


@pytest.mark.parametrize(
    ("said", "shown", "is_noted"),
    [
        (b"a\xffb", "a\ufffdb", True),
        (b"a\xef\xbf\xbdb", "a\ufffdb", False),
        (b"a\xef\xbf\xbd\0b", "a\ufffd\0b", False),
        (b"a\0b", "a\0b", False),
    ],
)
def test_bytes_that_are_not_text(said: bytes, shown: str, is_noted: bool) -> None:
    """They are shown as U+FFFD, with a warning; a U+FFFD that the agent has printed is its own."""
    stream = Stream("ollama")
    line = b'{"model":"m","message":{"role":"assistant","content":"' + said + b'"},"done":true}\n'
    events = stream.feed(b'{"model":"m","message":{"role":"assistant","content":""}}\n' + line) + stream.close()
    assert events[-1].reply == shown  # type: ignore[union-attr]
    assert stream.health.misfits == ({"text that is not UTF-8": 1} if is_noted else {})
    assert bool(stream.health.warnings) == is_noted
    assert feed_noise(b"caf\xe9\n") == {}


def feed_noise(line: bytes) -> dict[str, int]:
    """The misfits of a line that is no JSON: what a program prints beside its stream may be in any encoding."""
    stream = Stream("ollama")
    stream.feed(line)
    stream.close()
    return stream.health.misfits
