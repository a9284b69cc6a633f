"""Who is measured: Penstock, and other readers of the same bytes."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Iterable

import msgspec

from penstock.agents import registry
from penstock.sinks.text.sink import TextSink
from penstock.stream import Stream

try:
    from claude_agent_sdk._internal.message_parser import parse_message
    from claude_agent_sdk._internal.transport.subprocess_cli import _parse_stdout_line
except ImportError:
    parse_message = _parse_stdout_line = None

HAS_SDK = parse_message is not None

Work = Callable[[], object]


def penstock(agent: str, chunks: Iterable[bytes]) -> Stream:
    """The whole core and the plain text sink, fed as from a pipe, as `penstock read` does it for a log.

    The rendered text is dropped.
    """
    stream, sink = Stream(agent), TextSink("none")
    stream.joins_deltas = True
    for chunk in chunks:
        sink.render(stream.feed(chunk))
    sink.render(stream.close())
    sink.close()
    return stream


def core(agent: str, chunks: Iterable[bytes]) -> None:
    """The same without a sink."""
    stream = Stream(agent)
    for chunk in chunks:
        stream.feed(chunk)
    stream.close()


def loads(lines: Iterable[bytes]) -> None:
    for line in lines:
        json.loads(line)


def typed(agent: str, lines: Iterable[bytes]) -> None:
    """Penstock's own wire model, decoded and thrown away."""
    decode = msgspec.json.Decoder(registry.make(agent).wire).decode
    for line in lines:
        try:
            decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass


def sdk(lines: Iterable[bytes]) -> None:
    """claude-agent-sdk's reader of lines, as it reads a process: text, JSON, its message classes."""
    for line in lines:
        data = _parse_stdout_line(line.decode())
        if data is not None:
            parse_message(data)


def measured(works: dict[str, Work], rounds: int) -> dict[str, float]:
    """The best time of each in seconds. They take turns, so that a slow moment of the machine hits all."""
    best = dict.fromkeys(works, float("inf"))
    for _ in range(rounds):
        for name, work in works.items():
            gc.collect()
            start = time.perf_counter()
            work()
            best[name] = min(best[name], time.perf_counter() - start)
    return best
