"""The proxy of a confined run, asked by whatever may be inside: it connects to what is allowed, and to nothing else."""

from __future__ import annotations

import contextlib
import http.server
import socket
import threading
from array import array
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from waiting import until

from penstock.config.addresses import ServerAddress
from penstock.run import proxy as proxy_module
from penstock.run.inside import depth_of_proxied
from penstock.run.network import Reach
from penstock.run.proxy import MAX_CONNECTIONS, Proxy, is_private


class Inside:
    """The ports of a run, as `open_ports` hands them out, and what was refused."""

    def __init__(self, *allowed: ServerAddress, forwarded: tuple[int, ...] = (), depth: int = 0) -> None:
        reach = Reach(allowed, forwarded)
        listeners = [socket.create_server(("127.0.0.1", 0)) for _ in reach.ports]
        self.ports = [listener.getsockname()[1] for listener in listeners]
        self.refused: list[str] = []
        ours, theirs = socket.socketpair()
        self.proxy = Proxy(reach, ours.detach(), self.refused.append, depth)
        fds = array("i", [listener.fileno() for listener in listeners])
        theirs.sendmsg([b"ports"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
        theirs.close()
        for listener in listeners:
            listener.close()

    def connect(self, index: int = 0) -> socket.socket:
        """A connection to one of the ports."""
        return socket.create_connection(("127.0.0.1", self.ports[index]), timeout=10)

    def ask(self, request: bytes) -> bytes:
        """All that comes back for a request."""
        with self.connect() as asked:
            asked.sendall(request)
            with contextlib.suppress(OSError):
                asked.shutdown(socket.SHUT_WR)
            answer = b""
            with contextlib.suppress(ConnectionError):
                while data := asked.recv(65536):
                    answer += data
            return answer


class Echo(http.server.BaseHTTPRequestHandler):
    """A server that answers with the request it was sent."""

    def do_POST(self) -> None:
        """Answer with path, fields and body."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        said = f"{self.command} {self.path}\n{self.headers}".encode() + body
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    do_GET = do_POST  # noqa: N815 - the name that the library calls

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def server() -> Iterator[int]:
    """The port of a server on this machine."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield made.server_address[1]
        made.shutdown()


@pytest.fixture
def inside() -> Iterator[Callable[..., Inside]]:
    """Makes the ports of runs, and ends their proxies."""
    made: list[Inside] = []

    def make(*allowed: ServerAddress, **more: Any) -> Inside:
        made.append(Inside(*allowed, **more))
        return made[-1]

    yield make
    for each in made:
        each.proxy.close()


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Addresses of names, in place of a resolver; others do not exist."""
    known: dict[str, list[str]] = {}

    def resolve(address: ServerAddress) -> list[str]:
        if address.host not in known:
            raise socket.gaierror(-2, "Name or service not known")
        return known[address.host]

    monkeypatch.setattr(proxy_module, "look_up", resolve)
    return known


def test_a_forwarded_port(inside: Callable[..., Inside], server: int) -> None:
    """It is this machine's port of the same number, in both directions."""
    run = inside(forwarded=(server,))
    with run.connect(1) as asked:
        asked.sendall(b"POST /x HTTP/1.0\r\nContent-Length: 200000\r\n\r\n" + b"a" * 200_000)
        answer = b""
        while data := asked.recv(65536):
            answer += data
    assert answer.endswith(b"a" * 200_000)


def test_an_agent_is_known_to_servers_of_this_machine() -> None:
    """Its depth is in the address from which the proxy asks, so that it cannot ask for agents without end."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        run = Inside(ServerAddress("127.0.0.1", port), forwarded=(port,), depth=2)
        for index in (0, 1):
            with run.connect(index) as asked:
                asked.sendall(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n".encode())
                connection, (address, _) = server.accept()
                connection.close()
            assert depth_of_proxied(address) == 2
        run.proxy.close()


def test_connect(inside: Callable[..., Inside], server: int, names: dict[str, list[str]]) -> None:
    """A connection to an allowed address goes through; the address itself has to be allowed if it is private."""
    names["model.test"] = ["127.0.0.1"]
    request = f"CONNECT model.test:{server} HTTP/1.1\r\nHost: x\r\n\r\nGET /y HTTP/1.0\r\n\r\n".encode()
    refused = inside(ServerAddress("model.test", server))
    assert refused.ask(request).startswith(b"HTTP/1.1 403 ")
    assert refused.refused == [f"model.test:{server} leads to 127.0.0.1:{server}, which is not a public address"]
    allowed = inside(ServerAddress("model.test", server), ServerAddress("127.0.0.1", server))
    answer = allowed.ask(request)
    assert answer.startswith(b"HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.0 200 OK")
    assert b"GET /y" in answer
    assert allowed.refused == []


def test_plain_http(inside: Callable[..., Inside], server: int, names: dict[str, list[str]]) -> None:
    """A request with a whole address arrives as an origin expects it, with the host that was checked."""
    names["model.test"] = ["127.0.0.1"]
    run = inside(ServerAddress("model.test", server), ServerAddress("127.0.0.1", server))
    answer = run.ask(
        f"POST http://Model.test:{server}/v1?a=1 HTTP/1.1\r\nHost: evil.test\r\nhost : evil.test\r\n"
        "Proxy-Authorization: secret\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nhi".encode()
    )
    assert answer.startswith(b"HTTP/1.0 200 OK")
    assert b"POST /v1?a=1\n" in answer
    assert f"Host: model.test:{server}".encode() in answer
    assert b"evil" not in answer
    assert b"secret" not in answer
    assert answer.endswith(b"hi")


@pytest.mark.parametrize(
    "target",
    [
        "evil.test:443",
        "127.0.0.1:22",
        "localhost:22",
        "2130706433:22",
        "0x7f.1:22",
        "[::1]:22",
        "[::ffff:127.0.0.1]:22",
    ],
)
def test_what_is_not_allowed(inside: Callable[..., Inside], target: str) -> None:
    """It is refused without a connection and without a question to a resolver, and reported once."""
    run = inside(ServerAddress("model.test", 443))
    for _ in range(2):
        answer = run.ask(f"CONNECT {target} HTTP/1.1\r\n\r\n".encode())
        assert answer.startswith(b"HTTP/1.1 403 Forbidden\r\n")
        assert b"may not connect to" in answer
    assert len(run.refused) == 1


@pytest.mark.parametrize(
    "request_",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"CONNECT model.test HTTP/1.1\r\n\r\n",
        b"CONNECT *.test:443 HTTP/1.1\r\n\r\n",
        b"GET ftp://model.test/ HTTP/1.1\r\n\r\n",
        b"GET http://model.test:99999/ HTTP/1.1\r\n\r\n",
        b"GET http://[model/ HTTP/1.1\r\n\r\n",
        b"GET http:// HTTP/1.1\r\n\r\n",
        b"CONNECT model.test:443 HTTP/2\r\n\r\n",
        b"\xff \xff \xff\r\n\r\n",
        b"A" * 70_000 + b"\r\n\r\n",
    ],
)
def test_what_is_no_request(inside: Callable[..., Inside], request_: bytes) -> None:
    """It is answered with an error, and the next request is served."""
    run = inside(ServerAddress("*.test", 443))
    assert run.ask(request_)[:12] in (b"HTTP/1.1 400", b"")  # "": reset, as not all of it was read
    assert run.ask(b"CONNECT evil.org:443 HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 403 ")


def test_a_name_that_does_not_exist(inside: Callable[..., Inside], names: dict[str, list[str]]) -> None:
    """It is an error of the gateway, and not reported as a refusal."""
    run = inside(ServerAddress("model.test", 443))
    assert run.ask(b"CONNECT model.test:443 HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 502 ")
    names["model.test"] = []
    assert b"has no address" in run.ask(b"CONNECT model.test:443 HTTP/1.1\r\n\r\n")
    assert run.refused == []


def test_many_connections(inside: Callable[..., Inside]) -> None:
    """More than a run may have wait, and take nothing of Penstock; those before them end in time."""
    run = inside()
    many = [run.connect() for _ in range(MAX_CONNECTIONS + 5)]
    many[-1].sendall(b"CONNECT evil.test:443 HTTP/1.1\r\n\r\n")
    many[-1].settimeout(0.3)
    with pytest.raises(TimeoutError):
        many[-1].recv(10)
    for each in many[:10]:
        each.close()
    many[-1].settimeout(10)
    assert many[-1].recv(12) == b"HTTP/1.1 403"
    for each in many:
        each.close()


def test_the_end(inside: Callable[..., Inside]) -> None:
    """A proxy that is closed, before or after it has its ports, leaves no thread; a second close does nothing."""
    before = threading.active_count()
    run = inside()
    open_one = run.connect()
    run.proxy.close()
    run.proxy.close()
    until(lambda: threading.active_count() == before)
    with contextlib.suppress(ConnectionResetError):
        assert open_one.recv(10) == b""
    open_one.close()
    ours, theirs = socket.socketpair()
    waiting = Proxy(Reach(), ours.detach(), lambda text: None)
    waiting.close()
    until(lambda: threading.active_count() == before)
    theirs.close()


@pytest.mark.parametrize(
    ("address", "private"),
    [
        *((it, True) for it in ("127.0.0.1", "10.1.2.3", "192.168.0.1", "172.16.0.1", "169.254.169.254", "0.0.0.0")),
        *(
            (it, True)
            for it in ("::1", "fe80::1%eth0", "fd00::1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::")
        ),
        *((it, True) for it in ("224.0.0.1", "100.64.0.1", "::")),
        *((it, False) for it in ("8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808")),
    ],
)
def test_private_addresses(address: str, private: bool) -> None:
    """Those of this machine and of private networks are, in whatever form they are written."""
    assert is_private(address) == private


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(data=st.binary(max_size=200))
def test_any_bytes(inside: Callable[..., Inside], data: bytes) -> None:
    """Whatever is sent, nothing is reached and the next request is answered."""
    run = inside()
    assert run.ask(data + b"\r\n\r\n")[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 403", b"")
    assert run.ask(b"CONNECT a.test:1 HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 403 ")
    run.proxy.close()


def test_an_address_that_does_not_answer(inside: Callable[..., Inside], monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an error that says so, and no connection that just ends."""
    monkeypatch.setattr(proxy_module, "HEAD_SECONDS", 0.2)
    monkeypatch.setattr(proxy_module, "look_up", lambda address: ["127.0.0.1"])
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        waiting = [socket.socket() for _ in range(8)]
        for one in waiting:  # its queue is full: it answers no further attempt
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
        run = inside(ServerAddress("model.test", port), ServerAddress("127.0.0.1", port))
        answer = run.ask(f"CONNECT model.test:{port} HTTP/1.1\r\n\r\n".encode())
        for one in waiting:
            one.close()
    assert answer.startswith(b"HTTP/1.1 502 ")
    assert b"it does not answer" in answer
