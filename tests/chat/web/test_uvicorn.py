"""What is used of uvicorn beside its public interface, with the version that is installed: the newest one that is
allowed, and in `make test-minima` the lowest one.
"""

from __future__ import annotations

import asyncio
import re
import socket
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h11
import pytest
import uvicorn
from chat_rows import begun, said
from served import SECONDS, TOKEN, Gateway
from uvicorn.protocols.http import h11_impl
from uvicorn.protocols.http.flow_control import FlowControl

from penstock.chat.web.connections import Connection
from penstock.chat.web.self_check import check_uvicorn
from penstock.errors import UsageError

PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text("utf-8"))["project"]


def test_the_installed_version_is_at_an_end_of_the_range() -> None:
    """The tests run with the lowest version that is allowed, or with the newest minor one."""
    [line] = [line for line in PROJECT["dependencies"] if line.startswith("uvicorn")]
    found = re.fullmatch(r"uvicorn>=0\.(\d+),<0\.(\d+)", line)
    assert found is not None
    minor = int(uvicorn.__version__.split(".")[1])
    assert minor in (int(found[1]), int(found[2]) - 1)


def test_a_stream_is_framed_byte_by_byte(shared: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another client reads each byte alone: each send is one chunk, those written past uvicorn too; then comes an end,
    after which the connection can be used again.
    """
    chunks: list[bytes] = []
    write = Connection._write_chunk

    def note_and_write(self: Connection, data: bytes) -> None:
        chunks.append(data)
        write(self, data)

    monkeypatch.setattr(Connection, "_write_chunk", note_and_write)
    chat = shared.chat()
    with socket.create_connection(("127.0.0.1", shared.port), SECONDS) as one:
        client = h11.Connection(h11.CLIENT)
        one.sendall(request(client, shared, f"/api/chats/{chat}/events?delta=1"))
        received = [*read(one, client, lambda text: b": ok" in text)]
        shared.append(chat, begun())
        for word in (b"one", b"two \xc3\xa4", b"three"):
            shared.append(chat, [said(word.decode())])
            received += read(one, client, lambda text, word=word: word in text)  # type: ignore[misc]
        shared.call(shared.service.delete(chat))
        received += read(one, client, lambda _: False)
        pieces = [bytes(event.data) for event in received if isinstance(event, h11.Data)]
        assert chunks
        assert set(chunks) <= set(pieces)
        assert b"\r" not in b"".join(pieces)
        client.start_next_cycle()
        one.sendall(request(client, shared, "/api/chats"))
        [head, *_] = read(one, client, lambda _: False)
        assert head.status_code == 200


def request(client: h11.Connection, gateway: Gateway, target: str) -> bytes:
    """The bytes of a request that is authenticated."""
    headers = [("Host", f"127.0.0.1:{gateway.port}"), ("Authorization", f"Bearer {TOKEN}")]
    head = client.send(h11.Request(method="GET", target=target, headers=headers))
    return (head or b"") + (client.send(h11.EndOfMessage()) or b"")


def read(one: socket.socket, client: h11.Connection, enough: Callable[[bytes], bool]) -> list[Any]:
    """The events of a response, until its end, or until its text is enough. A chunk is collected to its end."""
    found: list[Any] = []
    text, chunk = b"", b""
    while not enough(text):
        client.receive_data(one.recv(1))
        while (event := client.next_event()) is not h11.NEED_DATA:
            if isinstance(event, h11.EndOfMessage):
                return found
            if isinstance(event, h11.Data):
                chunk += event.data
                if not event.chunk_end:
                    continue
                event, text, chunk = h11.Data(data=chunk), text + chunk, b""
            found.append(event)
    return found


def test_the_installed_version_passes() -> None:
    """The check at the start finds nothing, and leaves nothing behind."""
    asyncio.run(check_uvicorn())


async def buffered(self: Any, message: Any) -> None:
    """A send that keeps the body until the end."""
    if message["type"] == "http.response.body":
        self.kept = getattr(self, "kept", b"") + message["body"]
        if message["more_body"]:
            return
        message = {**message, "body": self.kept}
    await SEND(self, message)


async def measured(self: Any, message: Any) -> None:
    """A send that gives each response a length."""
    if message["type"] == "http.response.start":
        message = {**message, "headers": [(b"content-length", b"16")]}
    await SEND(self, message)


SEND: Any = h11_impl.RequestResponseCycle.send


@pytest.mark.parametrize(
    ("part", "name", "new"),
    [
        (h11_impl.RequestResponseCycle, "send", buffered),
        (h11_impl.RequestResponseCycle, "send", measured),
        (h11_impl.H11Protocol, "handle_events", lambda self: None),
        (FlowControl, "__init__", lambda self, transport: None),
        (h11_impl.H11Protocol, "connection_made", lambda self, transport: None),
    ],
    ids=["buffers", "gives a length", "reads in another way", "has no flow control", "keeps no transport"],
)
def test_another_uvicorn_is_an_error(monkeypatch: pytest.MonkeyPatch, part: Any, name: str, new: Any) -> None:
    """A version that changes a stream's bytes, or lacks what is used, is reported before a client connects."""
    monkeypatch.setattr(part, name, new)
    monkeypatch.setattr("penstock.chat.web.self_check.SECONDS", 0.05)
    with pytest.raises(UsageError, match=f"uvicorn {re.escape(uvicorn.__version__)} does not send streams"):
        asyncio.run(check_uvicorn())


def test_a_server_checks_it_before_it_is_ready(own: Callable[..., Gateway], monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that fails the check accepts no connection."""
    monkeypatch.setattr(h11_impl.RequestResponseCycle, "send", buffered)
    made: list[Gateway] = []

    def start_and_end() -> None:
        made.append(own())  # it may have failed by then
        made[0].close()

    with pytest.raises(UsageError):
        start_and_end()
    for gateway in made:
        gateway.failure = None
        gateway.socket.close()
