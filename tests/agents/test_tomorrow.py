"""A stand-in for the next version of each agent: values of other types, wrappers, other orders, ids that are gone.

The changes are drawn with fixed seeds. Whatever a version prints, a person must see no wire format as the reply. If a
text, a failed call, a cause or a figure of the usage is lost, the run must not end well without a warning.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pytest
from effort import at_most

from penstock.events import BlockEnded, RunEnded, ToolReturned, Usage
from penstock.stream import Stream
from penstock.testing.verify import verify

if TYPE_CHECKING:
    from conftest import Recording

RECORDINGS = Path(__file__).parents[1] / "recordings"
ROUNDS = at_most(1, 12)
"""Draws for each recording and each way."""
MAX_LINES = 100
"""Lines of the longest recording that is changed as a whole; of the others, a window of lines is."""
ROUNDS_OF_LONG = at_most(2, 8)
"""Draws for each place in each longer recording, and each way."""
WINDOW = 12
"""Lines of a window."""
PLACES = {"front": 0.1, "middle": 0.5, "end": 1.0}
"""Places of a window in a recording, as parts of it that end with the window."""

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


class Seen(NamedTuple):
    """What a person sees of a run, and what could be lost of it."""

    end: RunEnded
    texts: list[str]
    failed: int
    """Calls that are shown as failed, or without a mark of success."""
    causes: dict[str, int]
    is_noticed: bool
    """The run warns, or has not ended well."""


def run(agent: str, data: bytes) -> Seen:
    """Return what is seen of a run; the contract holds and no adapter fails."""
    stream = Stream(agent)
    events = [*stream.feed(data), *stream.close()]
    assert verify(events) == []
    assert stream.health.adapter_errors == 0
    end = events[-1]
    assert isinstance(end, RunEnded)
    texts = [it.text for it in events if isinstance(it, BlockEnded) and it.kind == "text"]
    results = [it for it in events if isinstance(it, ToolReturned)]
    failed = sum(it.failed or not (it.complete and it.status_reported) for it in results)
    is_noticed = bool(stream.health.warnings) or end.outcome != "ok"
    return Seen(end, texts, failed, dict(stream.health.causes), is_noticed)


def looks_like_a_wire(text: str) -> bool:
    """Return whether a text contains lines or values as agents print them, and not the words of a model."""
    return any(sign in text for sign in ('{"type":', '"text_v2"', '{"version":', '"hologram"', "{'type'"))


def letters(text: str) -> Counter[str]:
    """Return how often each character is in a text, without white space."""
    return Counter("".join(text.split()))


def figures(end: RunEnded) -> dict[str, float]:
    """Return the figures of the usage that are shown."""
    used = end.usage or Usage()
    found = {"input": used.input_tokens, "output": used.output_tokens, "cost": end.cost_usd}
    return {name: value for name, value in found.items() if value}


def losses(way: str, before: Seen, after: Seen) -> Iterator[str]:
    """Yield what a person does not see any more.

    A piece that changed places with the result of a tool or of a sub-agent belongs to another round: it is shown all
    the same.
    """
    if letters(before.end.reply) - letters("".join(after.texts) if way == "swapped" else after.end.reply):
        yield "text"
    if after.failed < before.failed:
        yield "a failed call"
    if any(after.causes.get(cause, 0) < count for cause, count in before.causes.items()):
        yield "a cause"
    known = figures(after.end)
    if any(known.get(name, 0) < value for name, value in figures(before.end).items()):
        yield "usage"


def wrong(way: str, before: Seen, after: Seen) -> str | None:
    """Return what is wrong in what is shown; None if nothing is."""
    end = after.end
    if looks_like_a_wire(end.reply) and not looks_like_a_wire(before.end.reply):
        return f"the reply is a wire format: {end.reply[:200]}"
    if any(map(looks_like_a_wire, after.texts)) and not looks_like_a_wire(before.end.reply):
        return f"a text is a wire format: {[it[:200] for it in after.texts if looks_like_a_wire(it)]}"
    if "This is not said." in end.reply:
        return "the reply has text of an unknown block"
    if end.outcome == "ok" and not end.reply:
        return "a success without a reply"
    if not after.is_noticed and (lost := [*losses(way, before, after)]):
        return f"no word of what is lost: {', '.join(lost)}"
    return None


def lines_of(recording: Recording) -> list[Line]:
    """Return the decoded lines of a recording."""
    return msgspec.json.Decoder().decode_lines(recording.data) if recording.data else []


def encoded(lines: list[Line]) -> bytes:
    """Return lines as an agent prints them."""
    return msgspec.json.Encoder().encode_lines(lines)


@pytest.mark.sample(10)
@pytest.mark.parametrize("way", WAYS)
def test_a_version_of_tomorrow_shows_nothing_wrong(way: str, recording: Recording) -> None:
    """In each draw: no wire format as the reply, and no silent loss."""
    lines = lines_of(recording)
    if not 0 < len(lines) <= MAX_LINES:
        return
    before = run(recording.agent, encoded(lines))
    for number in range(ROUNDS):
        seed = f"{way} {recording.name} {number}"
        changed = WAYS[way](msgspec.json.decode(msgspec.json.encode(lines)), random.Random(seed))
        problem = wrong(way, before, run(recording.agent, encoded(changed)))
        assert problem is None, f"{seed}: {problem}"


LONG = [
    path.parent.relative_to(RECORDINGS).as_posix()
    for path in sorted(RECORDINGS.glob("*/*/input.ndjson"))
    if path.read_bytes().count(b"\n") > MAX_LINES
]


def around(place: str, count: int, rng: random.Random) -> slice:
    """Return a window of lines near a place in a recording of so many lines."""
    end = round(PLACES[place] * count)
    end = min(count, max(WINDOW, end + (0 if place == "end" else rng.randrange(WINDOW))))
    return slice(end - WINDOW, end)


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", LONG)
def test_a_change_in_a_long_run_shows_nothing_wrong(name: str, place: str) -> None:
    """The same if a few lines near the front, in the middle or at the end of a long run are changed."""
    agent = msgspec.json.decode((RECORDINGS / name / "expected.json").read_bytes())["agent"]
    lines = (RECORDINGS / name / "input.ndjson").read_bytes().splitlines(keepends=True)
    before = run(agent, b"".join(lines))
    for way, number in product(WAYS, range(ROUNDS_OF_LONG)):
        seed = f"{way} {name} {place} {number}"
        rng = random.Random(seed)
        window = around(place, len(lines), rng)
        changed = encoded(WAYS[way]([msgspec.json.decode(line) for line in lines[window]], rng))
        data = b"".join([*lines[: window.start], changed, *lines[window.stop :]])
        problem = wrong(way, before, run(agent, data))
        assert problem is None, f"{seed}: {problem}"
