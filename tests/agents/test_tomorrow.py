"""A stand-in for the next version of each agent: values of other types, wrappers, other orders, ids that are gone.

The changes are drawn with fixed seeds. Whatever a version prints, a person must see no wire format as the reply, and no
success without a word that text may be missing.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from effort import at_most

from penstock.core.health import Health
from penstock.events import BlockEnded, RunEnded
from penstock.stream import Stream
from penstock.testing.verify import verify

if TYPE_CHECKING:
    from conftest import Recording

ROUNDS = at_most(1, 12)
"""Draws for each recording and each way."""
MAX_LINES = 100
"""Longest recording that is changed: in the others there is more of the same."""

Line = Any
Way = Callable[[list[Line], random.Random], list[Line]]


def fields_of(value: Any, found: list[tuple[dict[str, Any], str]]) -> list[tuple[dict[str, Any], str]]:
    """Return all fields at any depth, each with the object that has it."""
    if isinstance(value, dict):
        for key, inner in value.items():
            found.append((value, key))
            fields_of(inner, found)
    elif isinstance(value, list):
        for inner in value:
            fields_of(inner, found)
    return found


def retyped(value: Any) -> Any:
    """Return a value of another type that a newer version could print in its place."""
    match value:
        case str():
            return [{"type": "text_v2", "text": value}]
        case bool():
            return {"value": value}
        case int() | float():
            return str(value)
        case list():
            return {"items": value}
        case dict():
            return [value]
    return {}


def other_types(lines: list[Line], rng: random.Random) -> list[Line]:
    """One field has another type, wherever it stands."""
    name = rng.choice(sorted({key for _, key in fields_of(lines, [])}))
    for holder, key in fields_of(lines, []):
        if key == name:
            holder[key] = retyped(holder[key])
    return lines


def unknown_blocks(lines: list[Line], rng: random.Random) -> list[Line]:
    """Content blocks of an unknown kind stand beside those that are known."""
    new = {"type": "hologram", "hologram": {"text": "This is not said."}, "url": "https://example.org"}
    for holder, key in fields_of(lines, []):
        value = holder[key]
        if key in ("content", "parts") and isinstance(value, list) and value and isinstance(value[0], dict):
            value.insert(rng.randrange(len(value) + 1), new)
    return lines


def wrapped(lines: list[Line], rng: random.Random) -> list[Line]:
    """Each line is in an envelope."""
    name = rng.choice(["event", "data", "payload", "message", "frame"])
    return [{"version": 2, "seq": index, name: line} for index, line in enumerate(lines)]


def swapped(lines: list[Line], rng: random.Random) -> list[Line]:
    """Two neighbours of different kinds change places: of two pieces of a text, nothing else says which comes first."""
    shapes = [shape(line) for line in lines]
    places = [at for at in range(len(lines) - 1) if shapes[at] != shapes[at + 1]]
    if places:
        at = rng.choice(places)
        lines[at : at + 2] = reversed(lines[at : at + 2])
    return lines


def shape(line: Line) -> set[tuple[str, str]]:
    """Return what a line says of its kind."""
    return {
        (key, holder[key])
        for holder, key in fields_of(line, [])
        if key in ("type", "subtype", "method", "sessionUpdate", "role", "kind") and isinstance(holder[key], str)
    }


def without_ids(lines: list[Line], rng: random.Random) -> list[Line]:
    """One kind of id is gone."""
    names = sorted({key for _, key in fields_of(lines, []) if key.lower().endswith("id")})
    if names:
        gone = rng.choice(names)
        for holder, key in fields_of(lines, []):
            if key == gone:
                del holder[key]
    return lines


WAYS: dict[str, Way] = {way.__name__: way for way in (other_types, unknown_blocks, wrapped, swapped, without_ids)}


def run(agent: str, lines: list[Line]) -> tuple[RunEnded, list[str], Health]:
    """Return the end of a run, all texts that are shown, and the health; the contract holds and no adapter fails."""
    stream = Stream(agent)
    events = [*stream.feed(msgspec.json.Encoder().encode_lines(lines)), *stream.close()]
    assert verify(events) == []
    assert stream.health.adapter_errors == 0
    end = events[-1]
    assert isinstance(end, RunEnded)
    texts = [it.text for it in events if isinstance(it, BlockEnded) and it.kind == "text"]
    return end, texts, stream.health


def looks_like_a_wire(text: str) -> bool:
    """Return whether a text contains lines or values as agents print them, and not the words of a model."""
    return any(sign in text for sign in ('{"type":', '"text_v2"', '{"version":', '"hologram"', "{'type'"))


def letters(text: str) -> Counter[str]:
    """Return how often each character is in a text, without white space."""
    return Counter("".join(text.split()))


def wrong(way: str, before: RunEnded, end: RunEnded, texts: list[str], health: Health) -> str | None:
    """Return what is wrong in what is shown; None if nothing is.

    A piece that changed places with the result of a tool or of a sub-agent belongs to another round: it is shown all
    the same.
    """
    if looks_like_a_wire(end.reply) and not looks_like_a_wire(before.reply):
        return f"the reply is a wire format: {end.reply[:200]}"
    if any(map(looks_like_a_wire, texts)) and not looks_like_a_wire(before.reply):
        return f"a text is a wire format: {[it[:200] for it in texts if looks_like_a_wire(it)]}"
    if "This is not said." in end.reply:
        return "the reply has text of an unknown block"
    noticed = health.warnings or health.checks or health.drift or end.outcome != "ok"
    if end.outcome == "ok" and not end.reply:
        return "a success without a reply"
    if letters(before.reply) - letters("".join(texts) if way == "swapped" else end.reply) and not noticed:
        return f"the reply lost text, and nothing says so: {end.reply[:200]}"
    return None


@pytest.mark.sample(10)
@pytest.mark.parametrize("way", WAYS)
def test_a_version_of_tomorrow_shows_nothing_wrong(way: str, recording: Recording) -> None:
    """In each draw: no wire format as the reply, and no silent loss of text."""
    lines: list[Line] = msgspec.json.Decoder().decode_lines(recording.data) if recording.data else []
    if not 0 < len(lines) <= MAX_LINES:
        return
    before, _, _ = run(recording.agent, lines)
    for number in range(ROUNDS):
        seed = f"{way} {recording.name} {number}"
        changed = WAYS[way](msgspec.json.decode(msgspec.json.encode(lines)), random.Random(seed))
        problem = wrong(way, before, *run(recording.agent, changed))
        assert problem is None, f"{seed}: {problem}"
