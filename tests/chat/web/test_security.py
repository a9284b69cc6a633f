"""Who may ask, from where, and how much: each rule of docs/security.md that the gateway keeps."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import re
import socket
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from served import SECONDS, TOKEN, Gateway
from starlette.requests import Request
from waiting import until

from penstock.chat.people import persons
from penstock.chat.service.limits import ServiceLimits
from penstock.chat.web.auth import (
    CODE_SECONDS,
    FAILURE_SECONDS,
    FAILURES,
    MAX_CODES,
    MAX_PEERS,
    Failures,
    Logins,
    make_token,
    read_token,
)
from penstock.chat.web.browsers import COOKIE_DAYS, DAY
from penstock.chat.web.errors import Unauthorized
from penstock.chat.web.schemas import MAX_BODY_BYTES, MAX_LOGIN_BYTES
from penstock.chat.web.security import MAX_HEADER_BYTES, MAX_HEADERS, peer_of
from penstock.chat.web.static import FOLDER, WORKERS, PageFiles
from penstock.errors import UsageError

PRIVATE = ("/api/chats", "/api/about", "/metrics", "/api/openapi.json", "/api/nothing", "/api")
PUBLIC = ("/", "/app.js", "/healthz", "/chats/0f8e", "/chats/0f8e/turns/3")
JSON = {"Content-Type": "application/json"}


def refused(answer: httpx.Response) -> tuple[int, str]:
    """Return the status and the code of a problem, which has the form of all of them."""
    problem = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert {"type", "title", "status", "detail", "code"} <= set(problem)
    assert set(problem) <= {"type", "title", "status", "detail", "code", "help"}
    assert (problem["type"], problem["status"]) == (f"urn:penstock:problem:{problem['code']}", answer.status_code)
    assert all(text for text in problem.values())
    return answer.status_code, problem["code"]


@pytest.fixture(scope="module")
def anybody(shared: Gateway) -> Iterator[httpx.Client]:
    """Somebody who has no token."""
    with shared.client() as client:
        del client.headers["Authorization"]
        yield client


@pytest.fixture(scope="module")
def program(shared: Gateway) -> Iterator[httpx.Client]:
    """A program that has the token."""
    with shared.client() as client:
        yield client


@pytest.fixture(scope="module")
def browser(shared: Gateway) -> Iterator[httpx.Client]:
    """A browser that is logged in."""
    with shared.browser() as client:
        yield client


# --- hosts ---


@pytest.mark.sample(5)
@pytest.mark.parametrize("path", [*PRIVATE, *PUBLIC])
@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.nip.io", "localhost.", "127.0.0.1@evil", "localhost:1:2", "", "127.0.0.2"]
)
def test_a_rebound_name_is_refused_everywhere(program: httpx.Client, host: str, path: str) -> None:
    """A page whose name was turned to this machine names that name, and gets nothing, not even a file."""
    assert refused(program.get(path, headers={"Host": host})) == (421, "misdirected_request")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8377", "127.0.0.1:1", "[::1]:8377"])
def test_the_loopback_has_many_names(program: httpx.Client, host: str) -> None:
    """The names of this machine are allowed, with any port: a tunnel may end at another one."""
    assert program.get("/api/about", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("path", ["/", "/healthz", "/api/about"])
@pytest.mark.parametrize("hosts", [[], ["localhost", "evil.example"], ["localhost", "localhost"]])
def test_no_host_and_two_hosts_are_refused(shared: Gateway, path: str, hosts: list[str]) -> None:
    """A request that names none, or two, is refused by the gateway itself, also behind a server that lets it pass."""
    named = [(b"host", host.encode()) for host in hosts]
    request = httpx.Request("GET", f"{shared.url}{path}")
    request.headers = httpx.Headers([*named, (b"authorization", shared.bearer["Authorization"].encode())])

    async def ask() -> httpx.Response:
        # Straight to the application: the server in front of it answers a request with two hosts by itself.
        app: Any = shared.server.config.app  # uvicorn and httpx have types of their own for it
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app)) as client:
            return await client.send(request)

    assert refused(shared.call(ask())) == (421, "misdirected_request")


def test_the_server_takes_no_two_hosts(shared: Gateway) -> None:
    """Nor does such a request come through over the network."""
    for hosts in (b"", b"Host: localhost\r\nHost: evil.example\r\n"):
        answer = shared.raw(b"GET /healthz HTTP/1.0\r\n" + hosts + b"\r\n")
        assert re.match(rb"HTTP/1.1 4(21|00) ", answer), answer


def test_another_host_is_allowed_by_name(own: Callable[..., Gateway]) -> None:
    """`--allow-host` allows a name with any port, or with the one that it has."""
    gateway = own(hosts=["Penstock.example", "other.example:8080"])
    with gateway.client() as client:
        for host, status in (
            ("penstock.example", 200),
            ("penstock.example:444", 200),
            ("other.example:8080", 200),
            ("other.example", 421),
            ("sub.penstock.example", 421),
        ):
            assert client.get("/api/about", headers={"Host": host}).status_code == status, host


# --- persons ---


@pytest.mark.sample(3)
@pytest.mark.parametrize("path", PRIVATE)
@pytest.mark.parametrize(
    "header",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Bearer {TOKEN[:-1]}"},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": TOKEN},
        {"Authorization": b"Bearer \xff\xfe"},
        {"Cookie": "penstock_1=x"},
    ],
)
def test_nobody_gets_in_without_the_token(anybody: httpx.Client, path: str, header: dict[str, Any]) -> None:
    """No token, or a wrong one, gets the same refusal wherever it asks."""
    answer = anybody.get(path, headers=header)
    assert refused(answer) == (401, "unauthorized")
    assert answer.headers["www-authenticate"] == "Bearer"


def test_a_token_in_the_address_is_none(anybody: httpx.Client) -> None:
    """Addresses are logged and kept: what stands in one lets nobody in."""
    assert refused(anybody.get(f"/api/chats?token={TOKEN}&access_token={TOKEN}")) == (401, "unauthorized")


@pytest.mark.parametrize("path", PUBLIC)
def test_the_page_is_for_everybody(anybody: httpx.Client, path: str) -> None:
    """The page and the server's health say nothing of anybody."""
    assert anybody.get(path).status_code == 200


def test_a_cookie_lets_the_browser_in(shared: Gateway, browser: httpx.Client) -> None:
    """A browser that is logged in may read and change."""
    assert browser.get("/api/chats").status_code == 200
    assert browser.post("/api/link", json={}).status_code == 200


def test_cookies_that_are_not_ours(shared: Gateway) -> None:
    """One that was changed, what the file has of one, its name in the list, and nonsense let nobody in."""
    ours = shared.call(shared.logins.browsers.sign_in("Mine"))
    known = shared.logins.browsers.find(ours)
    assert known is not None
    for cookie in (
        ours[:-1],
        ours + "0",
        ours.swapcase(),
        known.secret,
        known.id,
        "",
        ".",
        "x.y.z",
        "\xe9.1.2",
        "\x80",
    ):
        with shared.browser("") as client:
            header = [(b"Cookie", f"penstock_{shared.port}={cookie}".encode("latin-1"))]
            assert refused(client.get("/api/chats", headers=header)) == (401, "unauthorized"), cookie
    with shared.browser() as client:
        client.headers["Cookie"] = f"penstock_1={ours}; other=1"
        assert client.get("/api/chats").status_code == 401
        client.headers["Cookie"] = f"a=b; penstock_{shared.port}={ours}; c=d"
        assert client.get("/api/chats").status_code == 200


# --- logins ---


def test_a_link_lets_one_browser_in_once(own: Callable[..., Gateway]) -> None:
    """The code of a link is good for one login, which gives the cookie that scripts cannot read."""
    gateway = own()
    with gateway.client() as program, httpx.Client(base_url=gateway.url, trust_env=False) as browser:
        url = program.post("/api/link", json={}).json()["url"]
        place, _, code = url.partition("/#code=")
        assert place == gateway.url
        browser.headers["Origin"] = gateway.url
        answer = browser.post("/api/login", json={"code": code})
        assert answer.status_code == 204
        name, value, *attributes = re.split("=|; ", answer.headers["set-cookie"], maxsplit=2)
        assert name == f"penstock_{gateway.port}"
        assert gateway.logins.browsers.find(value) is not None
        assert attributes == [f"Path=/; Max-Age={COOKIE_DAYS * DAY}; HttpOnly; SameSite=Strict"]
        assert browser.get("/api/chats").status_code == 200
        assert refused(browser.post("/api/login", json={"code": code})) == (401, "unauthorized")


def test_behind_https_the_cookie_is_for_https(shared: Gateway) -> None:
    """Where the browser speaks https with a proxy, its cookie is never sent over anything else; links go there too."""
    with shared.client(Host="localhost") as client:
        for headers in ({"Origin": "https://localhost"}, {"X-Forwarded-Proto": "https"}):
            answer = client.post("/api/login", json={"token": TOKEN}, headers=headers)
            assert answer.headers["set-cookie"].endswith("; Secure")
            link = client.post("/api/link", json={}, headers=headers).json()["url"]
            assert link.startswith("https://localhost/#code=")


def test_a_link_grows_old() -> None:
    """A code is good for a quarter of an hour; and of many that wait, only the newest are."""
    time = 0.0
    logins = Logins("t" * 40, "penstock_1", clock=lambda: time)

    def opens(code: str) -> bool:
        try:
            return logins.browsers.find(asyncio.run(logins.log_in(code=code))) is not None
        except Unauthorized:
            return False

    first, second = logins.new_code(), logins.new_code()
    time = CODE_SECONDS - 1
    assert opens(first)
    time = CODE_SECONDS
    assert not opens(second)
    codes = [logins.new_code() for _ in range(MAX_CODES + 1)]
    assert len(set(codes)) == len(codes)
    assert not opens(codes[0])
    assert opens(codes[1])


def test_links_of_others_make_none_invalid(tmp_path: Path) -> None:
    """One who makes many links drops their own alone; the one that the server printed stays valid."""
    persons.add(tmp_path, "ben", "viewer", 0)
    people = persons.People(tmp_path / persons.PEOPLE)
    logins = Logins("t" * 40, "penstock_1", people=people)
    printed, mine = logins.new_code(), [logins.new_code(person="ben") for _ in range(3 * MAX_CODES)]
    assert logins.browsers.find(asyncio.run(logins.log_in(code=printed))) is not None
    with pytest.raises(Unauthorized):
        asyncio.run(logins.log_in(code=mine[-MAX_CODES - 1]))
    for code in mine[-MAX_CODES:]:
        assert logins.browsers.find(asyncio.run(logins.log_in(code=code))) is not None


def test_who_fails_too_often_locks_out_nobody(own: Callable[..., Gateway]) -> None:
    """After so many different wrong ones a wrong one is answered with 429; a right one, from there too, is taken."""
    gateway = own()
    code = gateway.logins.new_code()
    with gateway.client() as client:
        for guess in range(FAILURES):
            body = {"code": f"guess {guess}"} if guess % 2 else {"token": f"guess {guess}"}
            assert refused(client.post("/api/login", json=body)) == (401, "unauthorized")
        for body in ({"code": "another"}, {"token": "another"}):
            answer = client.post("/api/login", json=body)
            assert refused(answer) == (429, "too_many_requests")
            assert answer.headers["retry-after"] == str(round(FAILURE_SECONDS))
        assert refused(client.post("/api/login", json={"code": "guess 1"})) == (401, "unauthorized")  # no new guess
        assert client.get("/api/chats").status_code == 200
        assert client.post("/api/login", json={"code": code}).status_code == 204
        assert client.post("/api/login", json={"token": TOKEN}).status_code == 204
        gateway.time += FAILURE_SECONDS
        assert refused(client.post("/api/login", json={"code": "another"})) == (401, "unauthorized")


def test_failures_are_counted_for_each_address() -> None:
    """Those of one address are none of another's; and however many there are, few are remembered."""
    failures = Failures()
    for guess in range(FAILURES):
        assert failures.add("192.0.2.1", b"%d" % guess, 0.0) == 0
    assert failures.add("192.0.2.1", b"more", 20.0) == FAILURE_SECONDS - 20
    assert failures.add("192.0.2.2", b"more", 20.0) == 0
    for number in range(3 * MAX_PEERS):
        for guess in range(2):
            failures.add(f"peer {number}", b"%d" % guess, 30.0)
    assert len(failures._peers) == MAX_PEERS
    assert all(len(failed) <= FAILURES for failed in failures._peers.values())


@pytest.mark.parametrize(
    ("client", "peer"),
    [
        (("192.0.2.1", 4000), "192.0.2.1"),
        (("2001:db8:1:2:3:4:5:6", 4000), "2001:db8:1:2::/64"),
        (("::ffff:192.0.2.1", 4000), "192.0.2.1"),
        (("fe80::1%eth0", 4000), "fe80::/64"),
        (None, ""),
    ],
)
def test_where_a_request_comes_from(client: tuple[str, int] | None, peer: str) -> None:
    """The address of the connection, whatever the request says; of IPv6 what one customer of a provider has."""
    headers = [(b"x-forwarded-for", b"198.51.100.7"), (b"forwarded", b"for=198.51.100.7")]
    assert peer_of(Request({"type": "http", "headers": headers, "client": client})) == peer


@pytest.mark.parametrize("body", [{}, {"code": "x", "token": "y"}, {"code": 1}, {"token": None}, {"cod": "x"}, [], 1])
def test_a_login_is_one_thing(program: httpx.Client, body: Any) -> None:
    """A code or the token; nothing else, and not both."""
    assert refused(program.post("/api/login", json=body)) == (400, "invalid")


# --- origins ---

HOSTILE = (
    "http://evil.example",
    "null",
    "http://localhost.evil.example",
    "file://",
    "http://127.0.0.1:1",
    "http://localhost",
)


@pytest.mark.sample(3)
@pytest.mark.parametrize("origin", HOSTILE)
@pytest.mark.parametrize("known", ["cookie", "token"])
def test_a_page_of_another_origin_is_refused(shared: Gateway, origin: str, known: str) -> None:
    """Whatever it knows: it may not change, log in, look at the stream or read; and no answer is for it."""
    with shared.client() if known == "token" else shared.browser() as client:
        client.headers["Origin"] = origin
        client.headers.pop("Sec-Fetch-Site", None)
        chat = shared.chat()
        for method, path in (
            ("POST", "/api/chats"),
            ("POST", "/api/login"),
            ("DELETE", f"/api/chats/{chat}"),
            ("GET", f"/api/chats/{chat}/events"),
            ("GET", "/api/chats"),
            ("OPTIONS", "/api/chats"),
        ):
            answer = client.request(method, path, json={} if method == "POST" else None)
            assert refused(answer) == (403, "forbidden"), (method, path)
            assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("site", ["cross-site", "same-site", "nonsense"])
def test_a_request_that_a_browser_says_is_foreign_is_refused(shared: Gateway, site: str) -> None:
    """A page at another port of this machine is of the same site, and gets nothing either, without any Origin."""
    with shared.browser() as client:
        del client.headers["Origin"]
        client.headers["Sec-Fetch-Site"] = site
        for path in ("/api/chats", f"/api/chats/{shared.chat()}/events", "/metrics"):
            assert refused(client.get(path)) == (403, "forbidden")
        assert client.get("/").status_code == 200  # a link from elsewhere leads to the page


def test_a_cookie_changes_nothing_without_an_origin(shared: Gateway) -> None:
    """A browser says where a change comes from; a cookie alone is no proof of that. A program's token is."""
    with shared.browser() as client:
        del client.headers["Origin"]
        assert refused(client.post("/api/link", json={})) == (403, "forbidden")
        assert client.get("/api/chats").status_code == 200
    with shared.client() as client:
        assert client.post("/api/link", json={}).status_code == 200


def test_behind_https_a_page_of_http_is_foreign(shared: Gateway) -> None:
    """Where the proxy says https, a page that came over http may have been changed on its way."""
    with shared.browser() as client:
        client.headers["X-Forwarded-Proto"] = "https"
        assert refused(client.post("/api/link", json={})) == (403, "forbidden")
        client.headers["Origin"] = client.headers["Origin"].replace("http:", "https:")
        assert client.post("/api/link", json={}).status_code == 200


def test_another_origin_is_allowed_by_name(own: Callable[..., Gateway]) -> None:
    """`--allow-origin` lets a page ask that has the token; a browser's cookie is never enough."""
    page = "https://chat.example"
    gateway = own(origins=[page])
    with gateway.client(Origin=page, **{"Sec-Fetch-Site": "cross-site"}) as client:
        answer = client.post("/api/link", json={})
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == page
        assert "access-control-allow-credentials" not in answer.headers
        assert "origin" in answer.headers["vary"].lower()
        assert client.get("/api/chats/none").headers["access-control-allow-origin"] == page  # errors can be read
        del client.headers["Authorization"]
        answer = client.options("/api/chats", headers={"Access-Control-Request-Method": "POST"})
        assert answer.status_code == 204
        assert "authorization" in answer.headers["access-control-allow-headers"]
        assert client.get("/api/chats").status_code == 401
    with gateway.browser() as client:
        client.headers["Origin"] = page
        assert refused(client.get("/api/chats")) == (401, "unauthorized")


def test_two_origins_are_refused(own: Callable[..., Gateway]) -> None:
    """A request that names two is refused, even if each of them is allowed."""
    page = "https://chat.example"
    gateway = own(origins=[page])
    for second in ("https://evil.example", page, gateway.url):
        for origins in ([page, second], [second, page]):
            named = [("Origin", origin) for origin in origins]
            with httpx.Client(base_url=gateway.url, headers=[*gateway.bearer.items(), *named]) as client:
                assert refused(client.get("/api/chats")) == (403, "forbidden"), origins


# --- bodies, headers, addresses ---


def test_a_body_has_a_limit(shared: Gateway, program: httpx.Client) -> None:
    """Twice as much is refused, with a length before they are read, and without one as soon as they are too many."""
    big = b'{"text": "' + b"x" * (2 * MAX_BODY_BYTES) + b'"}'
    path = f"/api/chats/{shared.chat()}/turns"
    with_length = program.post(path, content=big, headers=JSON)
    assert refused(with_length) == (413, "content_too_large")
    assert with_length.headers["connection"] == "close"
    pieces = (big[start : start + 65536] for start in range(0, len(big), 65536))
    chunked = program.post(path, content=pieces, headers=JSON)
    assert refused(chunked) == (413, "content_too_large")


@pytest.mark.sample(3)
@pytest.mark.parametrize("character", ["é", "\x01", "🌍", '"', "x"])
def test_a_prompt_counts_as_it_is_and_not_as_it_is_written(
    shared: Gateway, program: httpx.Client, character: str
) -> None:
    """The largest prompt is accepted in any form of JSON, and one byte more in none."""
    most = ServiceLimits().max_prompt_bytes
    path = f"/api/chats/{shared.chat()}/turns"
    text = "x" * (most % len(character.encode())) + character * (most // len(character.encode()))
    for ascii in (True, False):
        for prompt, status in ((text, 202), (text + "x", 413)):
            body = json.dumps({"text": prompt}, ensure_ascii=ascii).encode()
            assert program.post(path, content=body, headers=JSON).status_code == status


def test_a_login_is_small(shared: Gateway, anybody: httpx.Client) -> None:
    """Who is not logged in makes the server keep no more than a login needs."""
    body = json.dumps({"token": "x" * MAX_LOGIN_BYTES}).encode()
    assert refused(anybody.post("/api/login", content=body, headers=JSON)) == (413, "content_too_large")


def _chunked(shared: Gateway) -> bytes:
    return (
        f"POST /api/chats/{shared.chat()}/turns HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
        "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    ).encode()


@pytest.mark.slow
def test_a_client_that_sends_before_it_reads_gets_the_refusal(shared: Gateway) -> None:
    """The response is not lost when much of the body is still on its way, as behind a proxy."""
    size = 5 * MAX_BODY_BYTES
    head = (
        f"POST /api/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {size}\r\n\r\n"
    ).encode()
    pieces = (b"10000\r\n" + b" " * 0x10000 + b"\r\n") * (size // 0x10000) + b"0\r\n\r\n"
    for request in (head + b" " * size, _chunked(shared) + pieces):
        answer = shared.raw(request)
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert b"content_too_large" in answer


@pytest.mark.parametrize(
    ("path", "token", "type", "status"),
    [
        ("/api/chats", "wrong" * 8, "application/json", 401),
        ("/api/chats", TOKEN, "text/plain", 415),
        ("/api/nothing", TOKEN, "application/json", 404),
        ("/api/turns", TOKEN, "application/json", 404),
    ],
)
def test_any_refusal_reaches_a_client_that_still_sends(
    shared: Gateway, path: str, token: str, type: str, status: int
) -> None:
    """Whatever the reason, a body that nobody reads is received before the connection is closed."""
    size = 5 * MAX_BODY_BYTES
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: {type}\r\nContent-Length: {size}\r\nConnection: close\r\n\r\n"
    ).encode()
    answer = shared.raw(head + b" " * size)
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert answer.endswith(b"}")


@pytest.mark.slow
def test_a_refusal_reaches_a_slow_client(shared: Gateway) -> None:
    """A client that takes more than a second for its body has the response, as long as it goes on."""
    size = 5 * MAX_BODY_BYTES
    head = (
        f"POST /api/chats HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {'wrong' * 8}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {size}\r\nConnection: close\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", shared.port), SECONDS) as connection:
        connection.sendall(head.encode())
        for _ in range(8):
            connection.sendall(b" " * (size // 8))
            time.sleep(0.2)
        connection.settimeout(SECONDS)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 401 ")
    assert answer.endswith(b"}")


def test_a_body_that_never_ends_is_cut(shared: Gateway) -> None:
    """One that goes on and on is refused when it is too large, and its connection ends."""
    piece = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    with socket.create_connection(("127.0.0.1", shared.port), SECONDS) as connection:
        connection.sendall(_chunked(shared))
        with pytest.raises(ConnectionError):
            connection.sendall(piece * 1000)


def test_a_body_that_says_it_is_too_large_is_not_waited_for(shared: Gateway) -> None:
    """A length is enough to refuse it."""
    head = (
        f"POST /api/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {2 * MAX_BODY_BYTES}\r\n\r\n"
    )
    assert shared.raw(head.encode()).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize("length", ["-1", "x", "9" * 30, "1e3"])
def test_a_length_that_is_none(shared: Gateway, length: str) -> None:
    """A length that cannot be is refused, by the server's parser or by us."""
    head = (
        f"POST /api/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {length}\r\nConnection: close\r\n\r\n"
    )
    assert re.match(rb"HTTP/1.1 4(00|13) ", shared.raw(head.encode()))


@pytest.mark.parametrize(
    "bomb",
    [
        b"X-Big: " + b"x" * (MAX_HEADER_BYTES + 1) + b"\r\n",
        b"".join(b"X-%d: x\r\n" % number for number in range(20_000)),
        b"".join(b"X-%d: x\r\n" % number for number in range(MAX_HEADERS)),
    ],
)
def test_headers_have_a_limit(shared: Gateway, bomb: bytes) -> None:
    """Headers that are too large, or too many, are refused, and the server goes on."""
    answer = shared.raw(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + bomb + b"\r\n")
    assert answer == b"" or re.match(rb"HTTP/1.1 4(00|31) ", answer), answer[:100]  # or it was reset
    assert b" 200 " in shared.raw(b"GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n")[:20]


@pytest.mark.parametrize(
    "kind",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "application/jsonp", "text/json"],
)
def test_a_form_changes_nothing(shared: Gateway, program: httpx.Client, kind: str) -> None:
    """Only JSON is taken: what a page may send without being asked is none."""
    for path in ("/api/workspaces", "/api/chats", "/api/login", "/api/logout", "/api/link"):
        answer = program.post(path, content=b'{"path": "/"}', headers={"Content-Type": kind})
        assert refused(answer) == (415, "unsupported_media_type")
    kind = "Application/JSON; charset=utf-8"
    assert program.post("/api/link", content=b"", headers={"Content-Type": kind}).status_code == 200


@pytest.mark.parametrize(
    "id",
    ["..", ".", "%2e%2e", "%2e%2e%2f%2e%2e", "..%2f..%2fetc", "%252e%252e", "-x", "a.b", "a%00b", "é", "x" * 65, "%20"],
)
def test_ids_lead_nowhere(shared: Gateway, id: str) -> None:
    """What cannot be an id is found nowhere, whoever is asked for it, and however it is written."""
    for method, tail in (
        ("GET", ""),
        ("DELETE", ""),
        ("GET", "/events"),
        ("GET", "/turns"),
        ("GET", "/turns/1/details"),
    ):
        request = (
            f"{method} /api/chats/{id}{tail} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
            "Connection: close\r\n\r\n"
        )
        answer = shared.raw(request.encode("latin-1"))
        assert re.match(rb"HTTP/1.1 4(04|05|00) ", answer), answer[:200]


@pytest.mark.parametrize(
    "path",
    ["/../pyproject.toml", "/%2e%2e/app.py", "/vendor/../../api.py", "//etc/passwd", "/vendor", "/vendor/", "/app.js/",
     "/index.html%00.js", "/vendor/notes.unknown", "/etc/passwd", "/APP.JS", "/chats/../app.js/x", "/.git/config"],
)  # fmt: skip
def test_files_are_those_of_the_page(shared: Gateway, path: str) -> None:
    """No path leads to a file that is not of the page."""
    answer = shared.raw(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 404 "), answer[:200]
    assert b'"code":"not_found"' in answer


@pytest.mark.parametrize("path", [*PUBLIC, *PRIVATE])
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_every_answer_is_guarded(program: httpx.Client, method: str, path: str) -> None:
    """Every answer, a refusal too, has the headers that keep a browser from doing more with it than shown."""
    headers = program.request(method, path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "server" not in headers
    assert "access-control-allow-origin" not in headers
    if (method, path) == ("GET", "/app.js"):  # a part of a page, for which the policy of the page holds
        assert headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
        return
    policy = dict(part.strip().partition(" ")[::2] for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == policy["base-uri"] == policy["form-action"] == policy["frame-ancestors"] == "'none'"
    assert re.fullmatch(r"'self' 'sha256-[\w+/]+=*'", policy["script-src"])
    assert policy["connect-src"] == policy["style-src"] == "'self'"
    assert policy["require-trusted-types-for"] == "'script'"
    assert "trusted-types" in policy
    assert headers["cross-origin-opener-policy"] == "same-origin"


def test_the_policy_allows_the_inline_script_that_is_served(anybody: httpx.Client) -> None:
    """The one inline script of the page runs: its hash in the policy is that of the bytes that were served with it."""
    for path in ("/", "/index.html", "/chats/0f8e"):
        answer = anybody.get(path)
        [script] = re.findall(rb"<script type=\"importmap\">(.*?)</script>", answer.content, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(script).digest()).decode()
        assert f"script-src 'self' 'sha256-{digest}';" in answer.headers["content-security-policy"]


def test_a_worker_has_the_policy_of_a_page(program: httpx.Client, page: Path) -> None:
    """A worker runs under the policy that its script is served with, also below a version."""
    version = PageFiles(page).version
    for path in ("/sw.js", f"/v/{version}/sw.js", "/chats/0f8e.js", "/index.html"):
        assert "script-src 'self'" in program.get(path).headers["content-security-policy"], path
    for path in (f"/v/{version}/app.js", f"/v/{version}/base.css", "/base.css", "/vendor/marked.js"):
        assert program.get(path).headers["content-security-policy"].startswith("default-src 'none'; frame-"), path
    for name in WORKERS:
        assert (FOLDER / name[1:]).is_file()


def test_text_that_looks_like_a_page_stays_text(shared: Gateway) -> None:
    """A prompt of markup and escape sequences comes back as JSON, in answers and in the stream."""
    text = "<script>alert(1)</script>\x1b]52;c;x\x07</script><!--\u202e"
    chat = shared.chat()
    with shared.client() as client:
        assert client.post(f"/api/chats/{chat}/turns", json={"text": text}).status_code == 202
        answer = client.get(f"/api/chats/{chat}/turns")
        assert answer.headers["content-type"] == "application/json"
        assert answer.json()["turns"][0]["prompt"] == text
        assert "\x1b" not in answer.text
        assert "\x07" not in answer.text


def test_what_is_logged(own: Callable[..., Gateway], caplog: pytest.LogCaptureFixture) -> None:
    """A line has the method, the template of the path, the status, the person and the chat.

    It has no query, no token and no invented method.
    """
    caplog.set_level("INFO", "penstock.gateway")
    gateway = own()
    chat = gateway.chat()
    with gateway.client() as client:
        client.get(f"/api/chats/{chat}?token=secret1")
        client.post("/api/login", json={"code": "secret2"})
        client.request("SECRET3", "/secret4")
        client.get("/app.js")
    until(lambda: len(caplog.records) >= 5)
    line = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ (.*) in \d+ ms(.*)")
    found = [line.fullmatch(record.getMessage()) for record in caplog.records]
    assert [it.groups() for it in found if it] == [
        ("POST /api/chats 201", " by owner"),
        ("GET /api/chats/{chat} 200", f" by owner chat {chat}"),
        ("POST /api/login 401", ""),
        ("OTHER nothing 404", ""),
        ("GET file 200", ""),
    ]


# --- the token ---


def test_the_token_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    """32 random bytes in a file that nobody else can read; the next start finds it."""
    before = os.umask(0)
    try:
        token = make_token(tmp_path / "token")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600
    assert len(token) >= 43
    assert make_token(tmp_path / "token") == token
    (tmp_path / "other").mkdir()
    assert make_token(tmp_path / "other" / "token") != token


@pytest.mark.parametrize("text", ["", "short", "x" * 31, "x" * 31 + "é", "x" * 20 + "\n" + "x" * 20, "x" * 5000])
def test_a_token_that_is_none(tmp_path: Path, text: str) -> None:
    """One that can be guessed, or cannot stand in a header, is refused."""
    path = tmp_path / "token"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(UsageError, match="cannot be used"):
        make_token(path)


@pytest.mark.parametrize(("mode", "private"), [(0o644, True), (0o640, True), (0o604, False), (0o666, False)])
def test_a_token_that_others_can_read(tmp_path: Path, mode: int, private: bool) -> None:
    """It may be known by now: it is refused, with the way out."""
    path = tmp_path / "token"
    path.write_text("x" * 40)
    path.chmod(mode)
    with pytest.raises(UsageError, match="others can read the token"):
        make_token(path) if private else read_token(path)
    path.chmod(0o440)
    assert read_token(path) == "x" * 40


def test_a_token_is_not_written_through_a_link(tmp_path: Path) -> None:
    """A link at its place, that somebody else made, is not followed."""
    (tmp_path / "token").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError):
        make_token(tmp_path / "token")
    assert not (tmp_path / "elsewhere").exists()
