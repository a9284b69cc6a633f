"""Lines to wire events: what the fast pass rejects is read leniently, and what neither can read is malformed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from penstock.core import misfits
from penstock.core.decoding import (
    MAX_NESTING,
    MAX_NOISE_CHARS,
    Decoded,
    Decoder,
    MalformedLine,
    Noise,
    excerpt,
    fit,
    half_formed,
    well_formed,
    well_formed_values,
)
from penstock.core.framing import Oversized


class Said(msgspec.Struct, tag="said"):
    """A wire event with a value of each kind."""

    text: str = ""
    count: int = 7
    parts: list[int] = []
    by: Person | None = None
    note: str | None = None


class Person(msgspec.Struct):
    """An object inside an event."""

    name: str = "nobody"


class Done(msgspec.Struct, tag="done"):
    """Another wire event."""

    ok: bool = True


class Full(msgspec.Struct, tag="full"):
    """A wire event with values that have to be there."""

    text: str
    by: Owner
    parts: list[int]
    size: int | str
    note: str = "none"


class Owner(msgspec.Struct):
    """An object that has to be there, with a field that has to be in it."""

    age: int


WIRE = Said | Done | Full
DECODER = Decoder(WIRE)


def slow(line: str | bytes) -> list[Decoded | Noise | MalformedLine]:
    """The second pass over a line."""
    return DECODER.slow(line.encode() if isinstance(line, str) else line)


def lenient(event: Any) -> Decoded:
    """An event of a line that was not clean JSON."""
    return Decoded(event, lenient=True)


@pytest.mark.parametrize("line", ["", "  \t\r", "\0\0", "\ufeff"])
def test_a_blank_line_is_nothing(line: str) -> None:
    """Blank lines, and those of NUL bytes or a byte order mark alone, have no event."""
    assert slow(line) == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('{"type":"said","count":"many"}', [Decoded(Said(), lenient=False)]),
        ('{"type":"new","n":1}', [Decoded({"type": "new", "n": 1}, lenient=False)]),
        ('[{"type":"done"}]', [Decoded([{"type": "done"}], lenient=False)]),
        ('\ufeff{"type":"done"}', [lenient(Done())]),
        ('{"type":"said","text":"a\tb"}', [lenient(Said("a\tb"))]),
        (b'{"type":"said","text":"\xff"}', [lenient(Said("\ufffd"))]),
        ('{"type":"done"} {"type":"said","text":"x"}', [lenient(Done()), lenient(Said("x"))]),
        ('note: {"type":"done"}', [Noise("note:"), lenient(Done())]),
        ('note: {"type":"done"', [Noise('note: {"type":"done"')]),
        ("npm {notice} x", [Noise("npm {notice} x")]),
        ("12", [Noise("12")]),
        ("word " * 1000, [Noise(("word " * 1000)[:MAX_NOISE_CHARS])]),
    ],
)
def test_the_second_pass(line: str | bytes, expected: list[Any]) -> None:
    """What the fast pass rejects is read as far as it can be; text before the JSON, or without any, is noise."""
    assert slow(line) == expected


@pytest.mark.parametrize(
    ("line", "reason", "before"),
    [
        ('{"type":', "no valid JSON", 0),
        ('{"type":"done"} x', "no valid JSON", 1),
        ('{"type":"done"} 12', "no JSON object at column 18", 1),
        ('{"a":' * (MAX_NESTING + 1) + "NaN" + "}" * (MAX_NESTING + 1), "nested too deeply", 0),
        ('{"a":' * 200_000, "nested too deeply", 0),
    ],
)
def test_what_neither_pass_can_read(line: str, reason: str, before: int) -> None:
    """A broken line is malformed, with a reason and its beginning; the events before the break count."""
    *events, broken = slow(line)
    assert len(events) == before
    assert isinstance(broken, MalformedLine)
    assert reason in broken.reason
    assert broken.excerpt == excerpt(line.encode())


def test_a_line_that_is_too_long() -> None:
    """A line that the framer skipped is malformed, with its size."""
    assert DECODER.slow(Oversized(b"{", 70_000_000)) == [MalformedLine("the line is too long: 70,000,000 bytes", "{")]


@pytest.mark.parametrize(("line", "shown"), [(b"abc", "abc"), (b"abcdef", "abcd…"), (b"x" * 99, "xxxx…")])
def test_an_excerpt_is_marked_if_it_is_cut(line: bytes, shown: str) -> None:
    """An excerpt has at most so many characters, and a mark if the line has more."""
    assert excerpt(line, 4) == shown


@pytest.mark.parametrize(
    ("text", "well", "half"),
    [
        ("plain", "plain", "plain"),
        ("é😀", "é😀", "é😀"),
        ("\ud83d\ude00", "😀", "😀"),
        ("a\ud83d", "a\ufffd", "a\ud83d"),
        ("\ude00b", "\ufffdb", "\ude00b"),
        ("a\ud83db", "a\ufffdb", "a\ufffdb"),
        ("\ude00", "\ufffd", "\ude00"),
    ],
)
def test_surrogates(text: str, well: str, half: str) -> None:
    """Pairs are joined and lone halves replaced; `half_formed` leaves those at the ends to the adjacent text."""
    assert well_formed(text) == well
    assert half_formed(text) == half


def test_every_text_of_a_value_is_made_well_formed() -> None:
    """Texts in lists, in objects, their keys and structs are repaired; a NaN becomes null, other values stay."""
    value = {"\ud83d": ["a\ud83d", 1, 1.5, True, None, float("nan")], "by": Person("\ude00")}
    assert well_formed_values(value) == {"\ufffd": ["a\ufffd", 1, 1.5, True, None, None], "by": Person("\ufffd")}


@pytest.mark.parametrize(
    ("value", "kind", "fitted"),
    [
        ({"type": "said", "text": 12, "count": []}, WIRE, Said("12")),
        ({"type": "said", "parts": [1, "x", 3]}, WIRE, Said(parts=[1, 3])),
        ({"type": "said", "by": {"name": []}, "note": 1.5}, WIRE, Said(by=Person(), note="1.5")),
        ({"type": "said", "by": "Ann", "note": {}}, WIRE, Said()),
        ({"type": "other"}, WIRE, {"type": "other"}),
        ("text", WIRE, "text"),
        ({"name": []}, int | Person, Person()),
        ({"name": []}, int | str, {"name": []}),
        ({"name": []}, dict[str, int], {"name": []}),
        ([1], Person, [1]),
    ],
)
def test_values_that_do_not_fit_become_defaults(value: Any, kind: Any, fitted: Any) -> None:
    """A value of another type is its default; an object of another kind, or no object at all, stays as it is."""
    assert fit(value, kind) == fitted


@pytest.mark.parametrize(
    ("value", "fitted", "noted"),
    [
        ({"text": "a", "by": {"age": 3}, "parts": [1]}, Full("a", Owner(3), [1], 2), []),
        ({"by": {"age": 3}, "parts": [1]}, Full("", Owner(3), [1], 2), ["full.text"]),
        ({"text": None, "by": {}, "parts": None}, Full("", Owner(0), [], 2), ["Owner.age", "full.parts", "full.text"]),
        ({"text": "a", "by": "me", "note": None}, Full("a", Owner(0), [], 2), ["Owner.age", "full.by", "full.parts"]),
        ({"text": "a", "by": {"age": 3}, "parts": [], "size": {}}, Full("a", Owner(3), [], None), ["full.size"]),  # type: ignore[arg-type]
    ],
)
def test_a_field_without_a_default_has_to_be_there(value: dict[str, Any], fitted: Full, noted: list[str]) -> None:
    """Without it the line is read all the same, with an empty value, which is noted by the field's name."""
    misfits.take()
    [found] = DECODER.slow(msgspec.json.encode({"type": "full", "size": 2, **value}))
    assert found == Decoded(fitted, lenient=False)
    assert sorted(misfits.take()) == noted
