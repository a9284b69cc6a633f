"""Streams of any size, in the words of real agents. Each is an iterable of chunks, made before the clock runs.

The shapes are those of the recordings in `tests/recordings`; what grows is what is measured.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

CHUNK = 64 * 1024  # what one read of a pipe gives at most
LANE = {"session_id": "5c1a0000-0000-4000-8000-000000000000", "parent_tool_use_id": None}
UUID = {"uuid": "7d1b0000-0000-4000-8000-000000000000"}
PI_FACTS = {
    "api": "openai-completions",
    "provider": "bench",
    "model": "bench-model",
    "usage": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0},
    "stopReason": "stop",
    "timestamp": 1700000000000,
}


def line(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def words(count: int) -> list[str]:
    """Pieces like a model's: some end a line, some are not ASCII."""
    ends = (" ", " ", " ", ", ", " ", "é ", " ", ".\n", " 長", " ")
    return [f"word{number % 1000:03d}{ends[number % len(ends)]}" for number in range(count)]


def chunked(data: bytes) -> list[bytes]:
    return [data[at : at + CHUNK] for at in range(0, len(data), CHUNK)]


def _event(event: dict[str, object]) -> bytes:
    return line({"type": "stream_event", "event": event, **LANE, **UUID})


def _delta(kind: str, key: str, text: str, index: int = 0) -> bytes:
    return _event({"type": "content_block_delta", "index": index, "delta": {"type": kind, key: text}})


def _opening(message_id: str) -> bytes:
    usage = {"input_tokens": 10, "output_tokens": 1}
    message = {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": "bench",
        "content": [],
        "usage": usage,
    }
    return _event({"type": "message_start", "message": message}) + _event(
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    )


def _whole(message_id: str, content: list[object]) -> bytes:
    message = {"id": message_id, "role": "assistant", "model": "bench", "content": content}
    return line({"type": "assistant", "message": message, **LANE, **UUID})


def _closing(stop_reason: str) -> bytes:
    return (
        _event({"type": "content_block_stop", "index": 0})
        + _event({"type": "message_delta", "delta": {"stop_reason": stop_reason}, "usage": {"output_tokens": 9}})
        + _event({"type": "message_stop"})
    )


def _init() -> bytes:
    return line({"type": "system", "subtype": "init", "model": "bench", "tools": ["Bash"], "cwd": "/demo", **LANE})


def _result(text: str) -> bytes:
    facts = {"duration_ms": 1, "duration_api_ms": 1, "num_turns": 1}
    return line({"type": "result", "subtype": "success", "is_error": False, "result": text, **facts, **LANE})


class ClaudeDeltas:
    """One message of `count` deltas (a multiple of 1,000, or fewer), repeated whole at its end as claude does.

    A million of them would fill memory as bytes: the same thousand lines come again and again.
    """

    def __init__(self, count: int, *, ascii_only: bool = False) -> None:
        pieces = words(min(count, 1000))
        if ascii_only:
            pieces = [piece.replace("é", "e").replace("長", "x") for piece in pieces]
        self.repeats = count // len(pieces)
        self.count = self.repeats * len(pieces)
        self.lines = self.count + 8
        text = "".join(pieces) * self.repeats
        self.text_chars, self.text_bytes = len(text), len(text.encode())
        self._head = _init() + _opening("msg_1")
        self._body = b"".join(_delta("text_delta", "text", piece) for piece in pieces)
        self.delta_chunks = self.repeats * len(chunked(self._body))
        self._tail = _whole("msg_1", [{"type": "text", "text": text}]) + _closing("end_turn") + _result(text)

    def chunks(self) -> Iterator[bytes]:
        """Chunks of about `CHUNK` bytes, also across lines."""
        yield self._head
        body = chunked(self._body)
        for _ in range(self.repeats):
            yield from body
        yield from chunked(self._tail)

    def split(self) -> Iterator[bytes]:
        """The same, as lines."""
        yield from self._head.splitlines()
        body = self._body.split(b"\n")[:-1]
        for _ in range(self.repeats):
            yield from body
        yield from self._tail.split(b"\n")[:-1]


def claude_rounds(count: int) -> Iterator[bytes]:
    """`count` rounds, each 100 deltas and a tool call with its result: a run that lasts."""
    pieces = words(100)
    yield _init()
    for number in range(count):
        name, call = (
            f"msg_{number}",
            {"type": "tool_use", "id": f"call_{number}", "name": "Bash", "input": {"command": "ls"}},
        )
        yield _opening(name)
        yield b"".join(_delta("text_delta", "text", piece) for piece in pieces)
        yield _whole(name, [{"type": "text", "text": "".join(pieces)}]) + _whole(name, [call]) + _closing("tool_use")
        result = {"type": "tool_result", "tool_use_id": f"call_{number}", "content": "a\nb\n"}
        yield line({"type": "user", "message": {"role": "user", "content": [result]}, **LANE})
    yield _result("done")


def claude_calls(count: int, *, with_calls: bool = True) -> bytes:
    """`count` calls, each with its result; or the results alone, as in a stream that was cut or resumed."""
    made = [_init()]
    for number in range(count):
        call = {"type": "tool_use", "id": f"call_{number}", "name": "Bash", "input": {"command": "ls"}}
        result = {"type": "tool_result", "tool_use_id": f"call_{number}", "content": "a\nb\n"}
        made += [_whole(f"msg_{number}", [call])] * with_calls
        made.append(line({"type": "user", "message": {"role": "user", "content": [result]}, **LANE}))
    made.append(_result("done"))
    return b"".join(made)


def claude_tool_results(line_bytes: int, total_bytes: int) -> list[bytes]:
    """Tool results of about `line_bytes` a line, `total_bytes` together."""
    text = "a line of some file, as long as such lines are\n" * (line_bytes // 47 + 1)
    text = text[:line_bytes]
    made = [_init()]
    for number in range(max(1, total_bytes // line_bytes)):
        result = {"type": "tool_result", "tool_use_id": f"call_{number}", "content": text}
        made.append(line({"type": "user", "message": {"role": "user", "content": [result]}, **LANE}))
    made.append(_result("done"))
    return chunked(b"".join(made))


def pi_snapshots(count: int) -> list[bytes]:
    """`count` updates in Pi's shape: the new text, and twice the whole message so far."""
    facts = {"role": "assistant", **PI_FACTS}
    made = [line({"type": "session", "version": 3, "id": "bench", "cwd": "/demo"}), line({"type": "agent_start"})]
    made.append(line({"type": "message_start", "message": {**facts, "content": []}}))
    text = ""
    for number, piece in enumerate(words(count)):
        text += piece
        message = {**facts, "content": [{"type": "text", "text": text}]}
        for kind in ("text_start", "text_delta") if not number else ("text_delta",):
            new = {"type": kind, "contentIndex": 0, "delta": piece, "partial": message}
            made.append(line({"type": "message_update", "assistantMessageEvent": new, "message": message}))
    made.append(line({"type": "message_end", "message": message}))
    made.append(line({"type": "agent_end", "messages": [message]}))
    return chunked(b"".join(made))


def ccs_snapshots(count: int) -> list[bytes]:
    """`count` snapshots where claude's wire promises deltas: what a proxy does."""
    made = [_init(), _opening("msg_1")]
    text = ""
    for piece in words(count):
        text += piece
        made.append(_delta("text_delta", "text", text))
    made += [_whole("msg_1", [{"type": "text", "text": text}]), _closing("end_turn"), _result(text)]
    return chunked(b"".join(made))


def size(chunks: Iterable[bytes]) -> int:
    return sum(len(chunk) for chunk in chunks)
