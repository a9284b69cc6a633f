"""Check of an adapter against recordings of its agent, in one line of a test.

def test_my_agent() -> None:
    check_adapter(MyAgent, [path.read_bytes() for path in recordings])
"""

from __future__ import annotations

import copy
import random
import types
import typing
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from penstock.adapter import Adapter
from penstock.core.decoding import has_empty_value
from penstock.core.health import Health
from penstock.events import BlockEnded, Event, Unknown, encode
from penstock.stream import ADAPTER_FAILED, Stream
from penstock.testing import feeds
from penstock.testing.verify import verify
from penstock.updates import Traits

Make = Callable[[], Adapter]

MAX_BYTEWISE = 300_000
"""Bytes of the largest recording that is fed one byte at a time; larger ones are fed in a few odd sizes."""

ODD_SIZES = (7, 4093, 1, 65_537)
MUTATIONS = 3
"""Number of mutated copies of each recording."""


def check_adapter(make: Make, recordings: Iterable[bytes]) -> None:
    """Check what Penstock promises of every adapter.

    `make` returns a new adapter at each call; `recordings` are the agent's outputs, as bytes.

    Raises:
        AssertionError: a promise is broken; the message names it, and the recording.
    """
    check_attributes(make())
    spoke = False
    number = 0
    for number, data in enumerate(recordings, 1):
        where = f"recording {number}"
        events, health = _run(make, data)
        _require_clean(events, health, where)
        spoke = spoke or any(isinstance(event, BlockEnded) and event.kind == "text" for event in events)
        _require(not health.parse_errors, f"{where}: {health.parse_errors} lines could not be parsed")
        _require(not health.unknown_events, f"{where}: kinds that are not handled: {health.unknown_kinds}")
        _check_chunks(make, data, events, where)
        _check_cuts(make, data, where)
        _check_mutations(make, data, where)
    _require(number > 0, "no recordings were given")
    _require(spoke, "no recording gave a single block of text: does `read` understand this agent?")


def check_attributes(adapter: Adapter) -> None:
    """Check that `name`, `traits`, `wire` and `read` exist and are valid.

    Raises:
        AssertionError: one of them is missing or invalid.
    """
    who = type(adapter).__name__
    name = getattr(adapter, "name", None)
    _require(isinstance(name, str) and name.isprintable() and bool(name), f"{who}.name must be a name: {name!r}")
    _require(isinstance(getattr(adapter, "traits", None), Traits), f"{who}.traits must be a penstock.updates.Traits")
    _require(callable(getattr(adapter, "read", None)), f"{who}.read must be a method")
    _require(hasattr(adapter, "wire"), f"{who}.wire must say what a line is decoded to")
    try:
        msgspec.json.Decoder(adapter.wire)
    except TypeError as error:
        raise AssertionError(f"{who}.wire is not a type that msgspec can decode: {error}") from error
    for struct in _structs(adapter.wire):
        for field in msgspec.structs.fields(struct):
            has_value = not field.required or has_empty_value(field.type)
            what = f"{who}.wire: {struct.__name__}.{field.name} has no default, and its type no empty value"
            _require(has_value, what)


def mutate(line: bytes, rng: random.Random) -> bytes:
    """Return a line as another version of the agent, or a broken one, might print it; `rng` decides how."""
    way = rng.randrange(8)
    if way == 0:
        return line[: rng.randrange(len(line) + 1)]
    if way == 1:
        return line + b"\n" + line
    if way == 2:
        return (
            rng.choice([b"npm notice new version\n", b"{}\n", b"[]\n", b"null\n", b'{"type":{}}\n', b"\xff\n"]) + line
        )
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return line
    if not isinstance(value, dict):
        return line
    for _ in range(rng.randint(1, 3)):
        _mutate_somewhere(value, rng)
    return msgspec.json.encode(value)


def _mutate_somewhere(value: dict[str, Any], rng: random.Random) -> None:
    holder: Any = value
    key: Any = rng.choice(list(holder)) if holder else "type"
    while holder and rng.random() < 0.75:
        inner = holder[key] if isinstance(holder, list) else holder.get(key)
        if isinstance(inner, dict) and inner:
            holder, key = inner, rng.choice(list(inner))
        elif isinstance(inner, list) and inner:
            holder, key = inner, rng.randrange(len(inner))
        else:
            break
    way = rng.randrange(6)
    if isinstance(holder, dict) and way == 0:
        holder.pop(key, None)
    elif isinstance(holder, dict) and way == 1:
        holder[f"new_{rng.randrange(9)}"] = {"of": ["a", "later", "version"]}
    elif way == 2:
        holder[key] = None
    else:
        holder[key] = copy.deepcopy(rng.choice(_STRANGE))  # a later mutation may reach into it


_STRANGE: list[Any] = [
    *("", "text", "a_new_kind", "x" * 300, "error", "tool_use"),
    *(0, -1, 7, 2**63 - 1, 1.5, 1e308, True, False),
    *(
        [],
        [[]],
        ["a"],
        {},
        {"type": "text"},
        {"type": "a_new_kind", "text": "t"},
        [{"type": "text", "text": "t"}],
        [None],
    ),
]


def _run(make: Make, data: bytes) -> tuple[list[Event], Health]:
    stream = Stream(make())
    return feeds.whole(stream, data), stream.health


def _check_chunks(make: Make, data: bytes, events: list[Event], where: str) -> None:
    sizes = (1,) if len(data) <= MAX_BYTEWISE else ODD_SIZES
    again = feeds.chunked(Stream(make()), data, sizes)
    _require(encode(again) == encode(events), f"{where}: in pieces it gives other events than whole")


def _check_cuts(make: Make, data: bytes, where: str) -> None:
    for at in feeds.cut_points(data, 8):
        stream = Stream(make())
        _require_clean(feeds.cut(stream, data, at), stream.health, f"{where}, cut after {at} bytes")


def _check_mutations(make: Make, data: bytes, where: str) -> None:
    lines = data.split(b"\n")[:2000]
    for seed in range(MUTATIONS):
        rng = random.Random(seed)
        mutated = b"\n".join(mutate(line, rng) if rng.random() < 0.3 else line for line in lines)
        events, health = _run(make, mutated)
        _require_clean(events, health, f"{where}, mutated with seed {seed}")


def _require_clean(events: list[Event], health: Health, where: str) -> None:
    errors = [it for it in events if isinstance(it, Unknown) and (it.text or "").startswith(ADAPTER_FAILED)]
    first = "".join(f"; {it.text}, with the line {it.raw[:200]}" for it in errors[:1])
    _require(not health.adapter_errors, f"{where}: `read` raised {health.adapter_errors} times{first}")
    found = verify(events)
    _require(not found, f"{where}: {len(found)} violations of the contract, first: {found[0] if found else ''}")


def _require(holds: bool, message: str) -> None:
    # No `assert` statement: this must hold under `python -O` too.
    if not holds:
        raise AssertionError(message)


def _structs(kind: Any) -> list[type[msgspec.Struct]]:
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        return [struct for option in typing.get_args(kind) for struct in _structs(option)]
    return [kind] if isinstance(kind, type) and issubclass(kind, msgspec.Struct) else []
