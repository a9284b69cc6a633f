"""Connections that send half a request, read nothing or never log in: they end, and harm nobody who has a login."""

from __future__ import annotations

import resource
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from serve_process import LINK, Serve, browser
from served import Gateway, start
from waiting import until

from penstock.chat.web import connections

HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
WHOLE = HEAD + b"\r\n"

FLOOD = 1_000
"""Connections of a flood: many times what one address may have without a login."""

HUGE = 7_000_000
"""Bytes of a file that no buffer of the system takes at once."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that a test can wait for."""
    monkeypatch.setattr(connections, "SWEEP_SECONDS", 0.05)
    monkeypatch.setattr(connections, "HEAD_SECONDS", 1.0)
    monkeypatch.setattr(connections, "STALLED_SECONDS", 1.5)


@pytest.fixture
def large(tmp_path: Path, page: Path) -> Iterator[Gateway]:
    """A gateway whose page has a huge file."""
    folder = tmp_path / "page"
    shutil.copytree(page, folder)
    (folder / "huge.js").write_bytes(b"x" * HUGE)
    (tmp_path / "gateway").mkdir()
    gateway = start(tmp_path / "gateway", folder)
    yield gateway
    gateway.close()


def connect(port: int, data: bytes = b"", receive_bytes: int | None = None) -> socket.socket:
    """A connection on which this was sent."""
    one = socket.socket()
    if receive_bytes is not None:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    one.settimeout(20)
    one.connect(("127.0.0.1", port))
    one.sendall(data)
    return one


def is_open(one: socket.socket) -> bool:
    """Whether the server has not ended it; what it sent is discarded."""
    one.setblocking(False)
    try:
        while True:
            if not one.recv(1 << 16):
                return False
    except BlockingIOError:
        return True
    except OSError:
        return False


def answer(one: socket.socket) -> bytes:
    """One response without a long body."""
    data = b""
    while b'"ok"}' not in data:
        data += one.recv(4096)
    return data


@pytest.mark.parametrize("before", [b"", WHOLE + WHOLE])
@pytest.mark.slow
def test_half_a_request_is_not_waited_for(own: Callable[..., Gateway], before: bytes) -> None:
    """The time for a request counts from its first byte, for each request of a connection; more bytes do not help."""
    gateway = own()
    with connect(gateway.port, before) as one:
        if before:
            answer(one)
        began = time.monotonic()
        one.sendall(HEAD)
        is_ended = False
        for _ in range(200):
            time.sleep(0.1)
            try:
                one.sendall(b"X: y\r\n")
            except OSError:
                is_ended = True
                break
        assert is_ended
        assert time.monotonic() - began > 0.8, "it has its time"


def test_whole_requests_go_on(own: Callable[..., Gateway]) -> None:
    """A connection that sends whole requests, each in two pieces, is not ended by any of their times."""
    gateway = own()
    with connect(gateway.port) as one:
        for _ in range(5):
            one.sendall(HEAD)
            time.sleep(0.22)  # all of them take longer than one may, and each far less
            one.sendall(b"\r\n")
            assert answer(one).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("count", [1, 200])
@pytest.mark.slow
def test_a_client_that_reads_nothing_is_dropped(large: Gateway, count: int) -> None:
    """One response that is not read, or hundreds that were asked for together, are not kept for ever."""
    request = b"GET /huge.js HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with connect(large.port, request * count, receive_bytes=4096):
        server = large.server.server_state.connections
        until(lambda: server, "it is connected")
        until(lambda: not server, "it is dropped")


@pytest.mark.slow
def test_a_client_that_reads_slowly_stays(large: Gateway) -> None:
    """Who reads a little all the time gets all of it."""
    with connect(large.port, b"GET /huge.js HTTP/1.1\r\nHost: localhost\r\n\r\n", receive_bytes=4096) as one:
        found, end = 0, time.monotonic() + 3
        while time.monotonic() < end:
            found += len(one.recv(16384))
            time.sleep(0.02)
        while found < HUGE:
            data = one.recv(1 << 20)
            assert data, f"cut after {found} bytes"
            found += len(data)


def test_a_connection_that_never_logs_in_ends(own: Callable[..., Gateway], monkeypatch: pytest.MonkeyPatch) -> None:
    """It may ask for what is public for a while; one that has logged in stays."""
    monkeypatch.setattr(connections, "STRANGER_SECONDS", 1.0)
    gateway = own()
    with gateway.client() as program, connect(gateway.port) as stranger:
        program.get("/api/about")
        stream = gateway.server.server_state.connections
        end, ended = time.monotonic() + 10, False
        while not ended:
            assert time.monotonic() < end
            assert program.get("/api/about").status_code == 200
            try:
                stranger.sendall(WHOLE)
                ended = not stranger.recv(4096)
            except OSError:
                ended = True
            time.sleep(0.1)
        until(lambda: len(stream) == 1, "the program's connection is left")


@pytest.mark.slow
@pytest.mark.parametrize("sent", [b"", WHOLE + HEAD])
def test_a_flood_of_one_address_blocks_nobody(own: Callable[..., Gateway], sent: bytes) -> None:
    """However many connections an address opens, those with a login get in, and few of the others are left."""
    gateway = own()
    chat = gateway.chat()
    with ExitStack() as stack:
        client = stack.enter_context(gateway.client())
        stream = stack.enter_context(client.stream("GET", f"/api/chats/{chat}/events"))
        pieces = stream.iter_raw()
        next(pieces)
        crowd = []
        for number in range(FLOOD):
            crowd.append(stack.enter_context(connect(gateway.port, sent)))
            if number % 300 == 0:
                with gateway.client() as program, gateway.browser() as person:
                    assert program.get("/api/chats").status_code == person.get("/api/chats").status_code == 200
        most = connections.MAX_STRANGERS_OF_ADDRESS
        until(lambda: sum(map(is_open, crowd)) <= most, "few are left")
        assert client.get("/api/chats").status_code == 200
        assert len(gateway.server.server_state.connections) <= most + 10
        assert gateway.metrics.clients == 1, "the stream is still there"


@pytest.mark.slow
def test_the_memory_of_a_flood_returns(serve: Callable[..., Serve]) -> None:
    """A real server stays small under 10,000 connections, and answers who has a login."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(10_000, hard - 200)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count + 200), hard))
    started = serve("--port=0")
    found = LINK.fullmatch(started.line())
    assert found
    port = int(found[1].rpartition(":")[2])
    with browser(found[1]) as person, ExitStack() as stack:
        assert person.post("/api/login", json={"code": found[2]}).status_code == 204
        before = rss(started.process.pid)
        for number in range(count):
            stack.enter_context(connect(port, HEAD))
            if number % 1000 == 0:
                with httpx.Client(base_url=found[1], cookies=person.cookies) as other:
                    assert other.get("/api/chats").status_code == 200
        assert person.get("/api/chats").status_code == 200
        assert rss(started.process.pid) < before + 30_000
    assert started.end()[0] == 0


def rss(pid: int) -> int:
    """Kilobytes of memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def test_two_lengths_of_a_body_are_an_error(shared: Gateway) -> None:
    """A proxy may have read the other one: the request is rejected, and what follows it in the connection is lost."""
    login = b"POST /api/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 5\r\n"
    smuggled = b"0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for more in (b"Transfer-Encoding: chunked\r\n\r\n", b"transfer-encoding:\tchunked\r\n\r\n"):
        received = shared.raw(login + more + smuggled)
        assert received.startswith(b"HTTP/1.1 400")
        assert received.count(b"HTTP/1.1 ") == 1
        assert b"connection: close" in received.lower()
