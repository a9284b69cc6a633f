"""Recordings as other versions, proxies and broken pipes might give them, and bytes that mean nothing.

Seeded, and small in a normal run. `PENSTOCK_SOAK=1` reads four times as many lines; any number over all cases:

    PENSTOCK_FUZZ_LINES=2000000 pytest tests/fuzz

`PENSTOCK_FUZZ_SEED` (a number, 0 without it) starts elsewhere.
"""

from __future__ import annotations

import itertools
import json
import os
import random
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from effort import at_most

from penstock.core.normalizer.outcome import Exit
from penstock.events import RunEnded, encode
from penstock.stream import Stream
from penstock.testing import verify
from penstock.testing.conformance import mutate

if TYPE_CHECKING:
    from conftest import Recording

LINES = int(os.environ.get("PENSTOCK_FUZZ_LINES") or at_most(20_000, 400_000))
"""Lines over all tests of this file."""

SEED = int(os.environ.get("PENSTOCK_FUZZ_SEED", "0"))
MAX_LINES = 400
"""Of one recording: the rest of a long one is more of the same."""

NOISE = [
    b"npm warn deprecated something@1.0.0",
    b"Reading additional input from stdin...",
    b"",
    b"   ",
    b"\r",
    b"\xff\xfe\x00",
    b'{"type":',
    b"]",
    b"null",
    b"12",
    b'"text"',
    b"\x1b[2J\x1b]0;title\x07",
    b"\xef\xbb\xbf{}",
    b'{"type":"a_kind_of_next_year","text":"hello"}',
    b'{"type":["list"],"message":{"content":7}}',
    b'{"type":"text","type":"message"}',
    b'{"n":NaN,"type":"message"}',
    b"[" * 5000,
    b'{"a":' * 700 + b"1" + b"}" * 700,
    b'{"type":"message","content":' + b"[" * 600 + b'"\\ud83d"' + b"]" * 600 + b"}",
    b'{"type":"assistant","message":{"id":"m1","content":[{"type":"hologram","text":"t"}]}}',
]

Lines = list[bytes]
Mutation = Callable[[Lines, random.Random], Lines]


def changed_fields(lines: Lines, rng: random.Random) -> Lines:
    """Unknown fields, nulls, other types, new kinds of events and blocks, lines cut short."""
    return [mutate(line, rng) if rng.random() < 0.4 else line for line in lines]


def every_null(lines: Lines, rng: random.Random) -> Lines:
    """One field, wherever it stands, is null from now on."""
    names = sorted({name for line in lines for name in _names(line)})
    if not names:
        return lines
    gone = rng.choice(names).encode()
    return [_null(line, gone.decode()) for line in lines]


def duplicated(lines: Lines, rng: random.Random) -> Lines:
    """Lines come twice, at once or later."""
    out = list(lines)
    for line in rng.sample(lines, min(len(lines), 12)):
        out.insert(rng.randrange(len(out) + 1), line)
    return out


def reordered(lines: Lines, rng: random.Random) -> Lines:
    """Neighbours change places, and a few lines travel far."""
    out = list(lines)
    for _ in range(max(1, len(out) // 10)):
        at = rng.randrange(len(out))
        line = out.pop(at)
        out.insert(max(0, at + rng.randint(-4, 4)) if rng.random() < 0.8 else rng.randrange(len(out) + 1), line)
    return out


def lost(lines: Lines, rng: random.Random) -> Lines:
    """Lines are missing."""
    return [line for line in lines if rng.random() > 0.15]


def noisy(lines: Lines, rng: random.Random) -> Lines:
    """Other lines stand between."""
    out: Lines = []
    for line in lines:
        if rng.random() < 0.2:
            out.append(rng.choice(NOISE))
        out.append(line)
    return out


def all_at_once(lines: Lines, rng: random.Random) -> Lines:
    """One after the other, all of these."""
    for way in (changed_fields, duplicated, reordered, lost, noisy):
        lines = way(lines, rng) or lines
    return lines


WAYS: dict[str, Mutation] = {
    "changed_fields": changed_fields,
    "every_null": every_null,
    "duplicated": duplicated,
    "reordered": reordered,
    "lost": lost,
    "noisy": noisy,
    "all_at_once": all_at_once,
}


def _names(line: bytes) -> Iterator[str]:
    try:
        values: list[Any] = [json.loads(line)]
    except (ValueError, RecursionError):
        return
    while values:
        value = values.pop()
        if isinstance(value, dict):
            yield from value
            values.extend(value.values())
        elif isinstance(value, list):
            values.extend(value)


def _null(line: bytes, name: str) -> bytes:
    def walk(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: None if key == name else walk(inner) for key, inner in value.items()}
        return [walk(inner) for inner in value] if isinstance(value, list) else value

    try:
        return json.dumps(walk(json.loads(line))).encode()
    except (ValueError, RecursionError):
        return line


def check(agent: str, data: bytes, rng: random.Random, seed: str) -> None:
    """The invariants: no exception, a clean judgement, one end, events that can be written."""
    stream = Stream(agent)
    events = []
    at = 0
    while at < len(data):
        size = rng.choice([1, 50, 5000, 1_000_000])
        events += stream.feed(data[at : at + size])
        at += size
    events += stream.close(rng.choice([None, Exit(code=0), Exit(code=1, stderr="no"), Exit(signal=15)]))
    assert verify(events) == [], seed
    assert [type(event) for event in events].count(RunEnded) == 1, seed
    assert isinstance(events[-1], RunEnded)
    assert stream.health.adapter_errors == 0, seed
    encode(events)


@pytest.mark.parametrize("way", WAYS)
def test_mutated_recordings(way: str, recordings: list[Recording]) -> None:
    """Whatever happens to a recording, the contract holds."""
    some = [recording for recording in recordings if recording.data]
    left = LINES * 0.8 / len(WAYS)
    for number in itertools.count(SEED):
        seed = f"{way} {number}"
        rng = random.Random(seed)
        recording = some[number % len(some)] if number - SEED < len(some) else rng.choice(some)
        lines = recording.data.split(b"\n")
        start = 0 if len(lines) <= MAX_LINES or rng.random() < 0.5 else rng.randrange(len(lines) - MAX_LINES)
        lines = WAYS[way](lines[start : start + MAX_LINES], rng)
        check(recording.agent, b"\n".join(lines), rng, f"{seed} {recording.name}")
        left -= len(lines)
        if left <= 0:
            break


@pytest.mark.parametrize("agent", ["auto", "claude", "ccs", "generic", "pi"])
def test_random_bytes(agent: str) -> None:
    """Bytes that mean nothing, and bytes that almost mean something."""
    left = LINES * 0.1 / 5
    for number in itertools.count(SEED):
        rng = random.Random(f"bytes {number}")
        lines = [rng.randbytes(rng.randrange(40)) for _ in range(rng.randrange(1, 30))]
        lines += rng.sample(NOISE, 5)
        rng.shuffle(lines)
        check(agent, b"\n".join(lines), rng, f"bytes {number}")
        left -= len(lines)
        if left <= 0:
            break


def test_flipped_bytes(recordings: list[Recording]) -> None:
    """Recordings with a few bytes changed, lost or added anywhere."""
    some = [recording for recording in recordings if recording.data]
    left = LINES * 0.1
    for number in itertools.count(SEED):
        rng = random.Random(f"flips {number}")
        recording = some[number % len(some)]
        data = bytearray(recording.data[:100_000])
        for _ in range(rng.randrange(1, 40)):
            at = rng.randrange(len(data))
            data[at : at + rng.randrange(3)] = rng.randbytes(rng.randrange(3))
        check(recording.agent, bytes(data), rng, f"flips {number} {recording.name}")
        left -= data.count(b"\n")
        if left <= 0:
            break
