"""Requests that clients of other programs' protocols could send, with something odd in them, and what answers have."""

from __future__ import annotations

import json
import random
from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import httpx
from pictures import png

from penstock.chat.web.routes import ADDRESSES

FILE = "data:text/plain;base64," + b64encode(b"a file").decode()
PICTURE = "data:image/png;base64," + b64encode(png()).decode()

OPENAI: dict[str, Any] = {
    "model": "scripted",
    "stream": True,
    "stream_options": {"include_usage": True},
    "messages": [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Hello"},
                {"type": "image_url", "image_url": {"url": PICTURE}},
                {"type": "file", "file": {"filename": "a.txt", "file_data": FILE}},
            ],
        },
    ],
    "n": 1,
    "response_format": {"type": "text"},
    "tool_choice": "auto",
}
UI: dict[str, Any] = {
    "id": "a",
    "trigger": "submit-message",
    "messages": [
        {
            "id": "m",
            "role": "user",
            "parts": [{"type": "text", "text": "Hello"}, {"type": "file", "url": FILE, "filename": "a.txt"}],
        }
    ],
}
APPROVAL: dict[str, Any] = {
    "id": "a",
    "messages": [
        {
            "id": "m",
            "role": "assistant",
            "parts": [
                {"type": "dynamic-tool", "state": "approval-responded", "approval": {"id": "q", "approved": True}}
            ],
        }
    ],
}
AGUI: dict[str, Any] = {
    "threadId": "a",
    "runId": "r",
    "protocolVersion": "1.0",
    "state": {},
    "tools": [],
    "context": [],
    "forwardedProps": {"penstock": {"attach": False}},
    "messages": [
        {"id": "0", "role": "assistant", "content": "Hello"},
        {
            "id": "m",
            "role": "user",
            "content": [
                {"type": "text", "text": "Hello"},
                {
                    "type": "image",
                    "source": {"type": "data", "value": b64encode(png()).decode(), "mimeType": "image/png"},
                },
                {
                    "type": "binary",
                    "mimeType": "text/plain",
                    "data": b64encode(b"a file").decode(),
                    "filename": "a.txt",
                },
            ],
        },
    ],
}
RESUME: dict[str, Any] = {
    **AGUI,
    "resume": [{"interruptId": "q", "status": "resolved", "payload": {"answer": "yes", "approved": True}}],
}
ATTACH: dict[str, Any] = {**AGUI, "forwardedProps": {"penstock": {"attach": True}}}

BODIES: dict[str, list[dict[str, Any]]] = {"/v1": [OPENAI], "/ai": [UI, APPROVAL], "/agui": [AGUI, RESUME, ATTACH]}
"""What a client sends to the addresses that begin so."""

DOORS = [(it.method, it.path) for it in ADDRESSES if it.path.startswith(tuple(BODIES))]
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PURGE")

DEEP = 400
ODD_TEXTS = ("", " ", "\0", "a\0b", "\u202e", "\ufeff", "\ud83d\ude00" * 40)
STRINGS = (*ODD_TEXTS, "-x", "--help", "../../x", "a\nb\r\nc", "x" * 300)
NUMBERS = (0, -1, 1, 2, 0.5, 2**63, 2**70, -(2**70))
SPECIAL: tuple[Any, ...] = (*(None, True, False, *NUMBERS), *([], {}, [[]], [None], {"": None}, {"a": {}}))
RAW = (b"\\ud800", b"\xff\xfe", b"NaN", b"1e999", b"-0", b"\x00", b'"a":1,"a":2', b"]", b"}")
"""What stands in a body of JSON at a random place."""

TYPES = ("application/json", "application/json; charset=utf-16", "text/plain", "", "multipart/form-data; boundary=x")
HEADERS = {
    "content-type": TYPES,
    "content-encoding": ("gzip", "br", "identity"),
    "accept": ("text/html", "application/json", "text/event-stream", "*/*;q=0"),
    "accept-encoding": ("gzip", "identity", "br;q=1.0, *;q=0"),
    "x-penstock-cwd": ("", "/", "..", "relative", "/proc/self/cwd", "/nowhere", "\xe9", "~", "x" * 5000),
    "x-penstock-chat": ("", "c", "../x", "new", "\xff", "x" * 200),
    "x-openwebui-chat-id": ("", "c", "\u00b2"),
    "x-penstock-detail": ("", "full", "final", "all"),
    "idempotency-key": ("", "k", "\xff\xfe", "x" * 5000),
    "x-stainless-retry-count": ("", "0", "1", "-1", "\xb2", "9" * 5000, "1e3"),
    "traceparent": ("", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "00-" + "f" * 32 + "-" + "a" * 16 + "-01", "\xff"),
    "last-event-id": ("", "7", "x"),
    "expect": ("200-ok",),
    "origin": ("null", "http://evil.example", "\xff"),
    "range": ("bytes=0-1",),
}
DETAILS = ("detail=full", "detail=all", "detail=", "detail=full&detail=all")
QUERIES = ("", *DETAILS, "", *("sdk=7", "sdk=5", "sdk=", "sdk=\xb2", "sdk=7&sdk=x"), "", "%00", "%ff=%fe", "live=1")
AGENTS_ASKED = ("scripted", "peer", "nobody", "-x", "%00", "a%2Fb", "x" * 100)
IDS_ASKED = ("a", "nothing", "%00", "a%2Fb", "x" * 200)


class Odd(NamedTuple):
    """A request."""

    method: str
    address: str
    headers: httpx.Headers
    body: bytes


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The keys to each value within another one."""
    yield at
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, it in inner:
        yield from places(it, (*at, key))


def changed(value: Any, at: tuple[Any, ...], by: Callable[[Any], Any]) -> Any:
    """A copy with another value at a place."""
    if not at:
        return by(value)
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[at[0]] = changed(value[at[0]], at[1:], by)
    return copy


def nested(kind: Callable[[Any], Any]) -> Any:
    """Lists or objects in each other."""
    value: Any = 0
    for _ in range(DEEP):
        value = kind(value)
    return value


class Changes:
    """Random changes of a body."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice

    def value(self, value: Any) -> Any:
        """Something else in its place."""
        dice = self.dice
        kind = dice.randrange(6)
        if kind == 0:
            return dice.choice(STRINGS)
        if kind == 1:
            return nested(dice.choice((lambda it: [it], lambda it: {"a": it})))
        if kind == 2 and isinstance(value, list):
            return value * dice.choice((0, 2, 50))
        if kind == 3 and isinstance(value, dict) and value:
            gone = dice.choice(list(value))
            return {key: it for key, it in value.items() if key != gone}
        if kind == 4 and isinstance(value, str):
            at = dice.randint(0, len(value))
            return value[:at] + dice.choice(STRINGS) + value[at:]
        return dice.choice(SPECIAL)

    def body(self, value: Any) -> bytes:
        """A body with up to three changes, of its values or of its bytes."""
        for _ in range(self.dice.choice((0, 1, 1, 1, 2, 3))):
            value = changed(value, self.dice.choice(list(places(value))), self.value)
        data = json.dumps(value, ensure_ascii=self.dice.random() < 0.5).encode("utf-8", "surrogatepass")
        if self.dice.random() < 0.2:
            at = self.dice.randint(0, len(data))
            data = data[:at] + self.dice.choice((b"", *RAW)) + data[at + self.dice.choice((0, 1, 10**9)) :]
        return data


def door_of(address: str) -> str:
    """The protocol of an address, as the beginning of its path."""
    return next(it for it in BODIES if address.startswith(it))


def odd_request(dice: random.Random) -> Odd:
    """One that a client of some protocol could send, with something odd in it, mostly."""
    method, path = dice.choice(DOORS)
    door = door_of(path)
    path = path.replace("{agent}", dice.choice(AGENTS_ASKED)).replace("{foreign}", dice.choice(IDS_ASKED))
    if dice.random() < 0.1:
        path += dice.choice(("/", "//", "/x", "/%00"))
    if dice.random() < 0.15:
        method = dice.choice(METHODS)
    headers = httpx.Headers({"content-type": "application/json"}, encoding="latin-1")
    for _ in range(dice.choice((0, 0, 1, 2))):
        name = dice.choice(list(HEADERS))
        headers[name] = dice.choice(HEADERS[name])
    query = dice.choice(QUERIES)
    body = Changes(dice).body(dice.choice(BODIES[door])) if method != "GET" or dice.random() < 0.1 else b""
    return Odd(method, f"{path}?{query}" if query else path, headers, body)


def check_answer(door: str, answer: httpx.Response) -> bool:
    """It is an error or an end as the protocol has it; return whether the request was taken."""
    is_taken = answer.status_code < 400
    (check_end if is_taken else check_error)(door, answer)
    return is_taken


def check_error(door: str, answer: httpx.Response) -> None:
    """It is an error as the protocol has it, with a sentence."""
    assert answer.status_code < 500, answer.text
    kind = answer.headers["content-type"]
    if answer.request.method == "HEAD":
        assert answer.content == b""
        return
    found = answer.json()
    if door == "/v1":
        assert kind == "application/json"
        assert set(found) == {"error"}
        assert set(found["error"]) == {"message", "type", "param", "code"}
        words = found["error"]["message"]
    elif door == "/agui":
        assert kind == "application/json"
        assert set(found) == {"type", "message", "code"}
        assert found["type"] == "RUN_ERROR"
        words = found["message"]
    else:
        assert kind == "application/problem+json"
        words = found["detail"]
    assert isinstance(words, str)
    assert words.strip()
    assert "Traceback" not in words


def check_end(door: str, answer: httpx.Response) -> None:
    """A stream ends as the protocol has it."""
    if answer.headers.get("content-type", "").startswith("text/event-stream"):
        frames = [it[6:] for it in answer.text.split("\n") if it.startswith("data: ")]
        if door == "/agui":
            assert json.loads(frames[-1])["type"] in ("RUN_FINISHED", "RUN_ERROR")
        else:
            assert frames[-1] == "[DONE]"
    elif answer.content and answer.request.method != "HEAD":
        answer.json()
