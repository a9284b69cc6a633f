"""Who is signed in: until they sign out, or are signed out, whatever copies of their cookie there are."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from serve_process import LINK, Serve, browser
from served import SECONDS, TOKEN, Gateway
from waiting import until

from penstock.chat.history.entries import Prompted
from penstock.chat.web import browsers as module
from penstock.chat.web.browsers import COOKIE_DAYS, DAY, MAX_BROWSERS, USED_SECONDS, Browsers, name_of
from penstock.chat.web.errors import StoreUnavailable
from penstock.errors import UsageError

from .test_security import refused

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"


@contextlib.contextmanager
def signed_in(gateway: Gateway, **headers: str) -> Iterator[httpx.Client]:
    """A browser that signed in with a link."""
    with gateway.browser("none") as client:
        del client.headers["Cookie"]
        client.headers.update(headers)
        assert client.post("/api/login", json={"code": gateway.logins.new_code()}).status_code == 204
        yield client


def copy_of(gateway: Gateway, client: httpx.Client) -> httpx.Client:
    """Somebody who has the same cookie."""
    return gateway.browser(client.cookies[f"penstock_{gateway.port}"])


def listed(client: httpx.Client) -> list[dict[str, Any]]:
    """The browsers, as one of them sees them."""
    found: list[dict[str, Any]] = client.get("/api/browsers").json()["browsers"]
    return found


# --- signing out ---


def test_signing_out_ends_every_copy_of_the_cookie(own: Callable[..., Gateway]) -> None:
    """Who signs out takes the cookie from the browser, and from whoever copied it; others stay."""
    gateway = own()
    with signed_in(gateway) as one, copy_of(gateway, one) as copy, signed_in(gateway) as other:
        assert copy.get("/api/chats").status_code == 200
        answer = one.post("/api/logout", json={})
        assert answer.status_code == 204
        assert f"penstock_{gateway.port}=; " in answer.headers["set-cookie"]
        assert "Max-Age=0" in answer.headers["set-cookie"]
        for path in ("/api/chats", "/api/about", "/api/browsers", "/metrics"):
            assert refused(copy.get(path)) == (401, "unauthorized")
            assert other.get(path).status_code == 200
        assert refused(copy.post("/api/logout", json={})) == (401, "unauthorized")


def test_signing_out_everywhere(own: Callable[..., Gateway]) -> None:
    """All browsers are signed out, and the links that they made lead nowhere; a program goes on, and may ask for it."""
    gateway = own()
    with signed_in(gateway) as one, signed_in(gateway) as other, gateway.client() as program:
        links = [client.post("/api/link", json={}).json()["url"].partition("=")[2] for client in (one, other, program)]
        assert other.post("/api/logout", json={"everywhere": True}).status_code == 204
        for client in (one, other):
            assert refused(client.get("/api/chats")) == (401, "unauthorized")
        assert listed(program) == []
        logins = [one.post("/api/login", json={"code": code}).status_code for code in links]
        assert logins == [401, 401, 204]
        assert one.get("/api/chats").status_code == 200
        assert program.post("/api/logout", json={}).status_code == 204  # it has no browser to sign out
        assert one.get("/api/chats").status_code == 200
        assert program.post("/api/logout", json={"everywhere": True}).status_code == 204
        assert one.get("/api/chats").status_code == 401


def test_browsers_are_listed_and_signed_out_one_by_one(own: Callable[..., Gateway]) -> None:
    """Each has a name and times, and says which one asks; none of it helps to sign in."""
    gateway = own()
    with signed_in(gateway, **{"User-Agent": FIREFOX}) as one:
        gateway.time += 5
        with signed_in(gateway, **{"User-Agent": "<script>alert(1)</script>"}) as other:
            found = listed(one)
            assert [(it["name"], it["current"]) for it in found] == [("A browser", False), ("Firefox on Linux", True)]
            assert listed(other)[0]["current"]
            start = int((gateway.time - 5) * 1000)
            assert found[1]["created_at"] == found[1]["used_at"] == start
            gateway.time += USED_SECONDS
            assert listed(one)[0]["used_at"] == int(gateway.time * 1000)
            text = json.dumps(found)
            for client in (one, other):
                cookie = client.cookies[f"penstock_{gateway.port}"]
                known = gateway.logins.browsers.find(cookie)
                assert known is not None
                assert cookie not in text
                assert known.secret not in text
            path = f"/api/browsers/{found[0]['id']}"
            answer = one.delete(path)
            assert (answer.status_code, "set-cookie" in answer.headers) == (204, False)
            assert refused(other.get("/api/chats")) == (401, "unauthorized")
            assert refused(one.delete(path)) == (404, "not_found")
            assert refused(one.delete("/api/browsers/x")) == (404, "not_found")
            answer = one.delete(f"/api/browsers/{found[1]['id']}")  # its own
            assert "Max-Age=0" in answer.headers["set-cookie"]
            assert one.get("/api/chats").status_code == 401


@pytest.mark.parametrize("body", [{"everywhere": "yes"}, {"everywhere": None}, {"every": True}, [], 1])
def test_what_signs_nobody_out(shared: Gateway, body: Any) -> None:
    """A body that is wrong is refused, and the browser stays."""
    with signed_in(shared) as client:
        assert refused(client.post("/api/logout", json=body)) == (400, "invalid")
        assert client.get("/api/chats").status_code == 200


def test_a_page_of_another_origin_signs_nobody_out(shared: Gateway) -> None:
    """Neither does a request that does not say where it comes from."""
    with signed_in(shared) as client:
        [own_id] = [it["id"] for it in listed(client) if it["current"]]
        del client.headers["Sec-Fetch-Site"]
        for origin in ("http://evil.example", None):
            client.headers["Origin"] = origin or ""
            if origin is None:
                del client.headers["Origin"]
            assert refused(client.post("/api/logout", json={})) == (403, "forbidden")
            assert refused(client.delete(f"/api/browsers/{own_id}")) == (403, "forbidden")
        assert client.get("/api/chats").status_code == 200


# --- what is under way ---


@pytest.mark.slow
@pytest.mark.parametrize("by", ["itself", "the list", "everywhere"])
def test_streams_of_a_browser_end_with_it(own: Callable[..., Gateway], by: str) -> None:
    """What it looks at ends at once, also with a copied cookie, and does not come back; others' streams go on."""
    gateway = own()
    chat = gateway.chat()
    path = f"/api/chats/{chat}/events"
    with (
        signed_in(gateway) as one,
        copy_of(gateway, one) as copy,
        gateway.client() as program,
        copy.stream("GET", path) as first,
        copy.stream("GET", path) as second,
        program.stream("GET", path) as kept,
    ):
        pieces = [answer.iter_raw() for answer in (first, second, kept)]
        for one_of in pieces:
            assert b"snapshot" in next(one_of) + next(one_of)
        if by == "itself":
            one.post("/api/logout", json={})
        elif by == "the list":
            program.delete(f"/api/browsers/{listed(one)[0]['id']}")
        else:
            program.post("/api/logout", json={"everywhere": True})
        gateway.append(chat, [Prompted(1, "a secret of later")])
        for one_of in pieces[:2]:
            assert b"secret" not in b"".join(one_of)  # and it ends
        assert b"secret" in next(pieces[2])
        assert refused(copy.get(path)) == (401, "unauthorized")
    until(lambda: gateway.metrics.clients == 0)


@pytest.mark.slow
def test_a_stream_that_is_not_read_ends_too(own: Callable[..., Gateway]) -> None:
    """One that takes nothing is not waited for: nothing more is sent, and its place is free."""
    gateway = own(patience=3600.0)
    chat = gateway.chat()
    gateway.append(chat, [Prompted(1, "x" * 15_000_000)])
    with signed_in(gateway) as client, socket.create_connection(("127.0.0.1", gateway.port)) as slow:
        cookie = client.cookies[f"penstock_{gateway.port}"]
        head = f"GET /api/chats/{chat}/events HTTP/1.1\r\nHost: localhost\r\nCookie: penstock_{gateway.port}={cookie}"
        slow.sendall(f"{head}\r\n\r\n".encode())
        assert slow.recv(1)
        until(lambda: any(viewer.sending for viewer in gateway.watches._clients))
        assert client.post("/api/logout", json={}).status_code == 204
        until(lambda: gateway.metrics.clients == 0)


def test_a_request_that_is_on_its_way_does_nothing_any_more(own: Callable[..., Gateway]) -> None:
    """One that began before the sign-out and sends its body behind it is refused: no link, no prompt."""
    gateway = own()
    with signed_in(gateway) as client, socket.create_connection(("127.0.0.1", gateway.port), SECONDS) as slow:
        cookie = client.cookies[f"penstock_{gateway.port}"]
        slow.sendall(
            f"POST /api/link HTTP/1.1\r\nHost: 127.0.0.1:{gateway.port}\r\nOrigin: {gateway.url}\r\n"
            f"Cookie: penstock_{gateway.port}={cookie}\r\nContent-Type: application/json\r\n"
            "Content-Length: 2\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n".encode()
        )
        assert slow.recv(100).startswith(b"HTTP/1.1 100")  # it was let in, and its body is waited for
        assert client.post("/api/logout", json={}).status_code == 204
        slow.sendall(b"{}")
        answer = b""
        while piece := slow.recv(65536):
            answer += piece
    assert answer.startswith(b"HTTP/1.1 401")
    assert b"#code" not in answer


def test_signing_in_again_is_the_same_browser(own: Callable[..., Gateway]) -> None:
    """A browser that is in and opens another link, or enters the token, stays the one that it is; the link is used."""
    gateway = own()
    with signed_in(gateway) as client:
        cookie = client.cookies[f"penstock_{gateway.port}"]
        code = gateway.logins.new_code()
        for body in ({"code": code}, {"token": TOKEN}):
            assert client.post("/api/login", json=body).status_code == 204
            assert client.cookies[f"penstock_{gateway.port}"] == cookie
        assert refused(client.post("/api/login", json={"code": code})) == (401, "unauthorized")
        assert len(listed(client)) == 1


def test_many_at_once(own: Callable[..., Gateway]) -> None:
    """Browsers that sign in at the same time are each kept; one link lets one of many in; all sign out at once."""
    gateway = own()
    codes = [gateway.logins.new_code() for _ in range(10)]

    async def post(path: str, bodies: list[dict[str, str]], cookies: list[str]) -> list[httpx.Response]:
        headers = {"Origin": gateway.url}
        async with httpx.AsyncClient(base_url=gateway.url, headers=headers, timeout=SECONDS) as client:
            return await asyncio.gather(
                *(
                    client.post(path, json=body, headers={"Cookie": cookie})
                    for body, cookie in zip(bodies, cookies, strict=True)
                )
            )

    answers = asyncio.run(post("/api/login", [{"code": code} for code in codes * 3], [""] * 30))
    assert sorted(answer.status_code for answer in answers).count(204) == 10
    cookies = [answer.headers["set-cookie"].partition(";")[0] for answer in answers if answer.status_code == 204]
    assert len({*cookies}) == len(kept(gateway.folder / "browsers.json")) == 10
    answers = asyncio.run(post("/api/logout", [{}] * 10, cookies))
    assert [answer.status_code for answer in answers] == [204] * 10
    assert kept(gateway.folder / "browsers.json") == []


# --- how long ---


def test_a_browser_that_is_not_used_is_signed_out(own: Callable[..., Gateway]) -> None:
    """Each use counts from anew, and the browser is told to keep its cookie as long; one that stays away is out."""
    gateway = own()
    with signed_in(gateway) as client:
        cookie = client.cookies[f"penstock_{gateway.port}"]
        for _ in range(3):
            gateway.time += (COOKIE_DAYS - 1) * DAY
            renewed = client.get("/api/about").headers["set-cookie"]
            assert renewed == (
                f"penstock_{gateway.port}={cookie}; Path=/; Max-Age={COOKIE_DAYS * DAY}; HttpOnly; SameSite=Strict"
            )
        gateway.time += COOKIE_DAYS * DAY
        assert refused(client.get("/api/about")) == (401, "unauthorized")
    with gateway.client() as program:
        assert "set-cookie" not in program.get("/api/about").headers
        assert listed(program) == []


def test_a_cookie_for_https_stays_one(own: Callable[..., Gateway]) -> None:
    """A browser says in no reading request that it speaks https with a proxy: how it signed in is known."""
    gateway = own()
    with gateway.browser("none") as client:
        client.headers.update({"Host": "localhost", "Origin": "https://localhost"})
        answer = client.post("/api/login", json={"token": TOKEN})
        assert answer.headers["set-cookie"].endswith("; Secure")
        del client.headers["Origin"]
        client.headers["Cookie"] = answer.headers["set-cookie"].partition(";")[0]
        assert client.get("/api/about").headers["set-cookie"].endswith("; Secure")


def test_there_are_not_too_many(tmp_path: Path) -> None:
    """Of many that sign in, those used last are kept."""
    time = 0.0
    path = tmp_path / "browsers.json"
    known = Browsers(path, TOKEN, lambda: time)

    async def fill() -> list[str | None]:
        nonlocal time
        made = []
        for _ in range(MAX_BROWSERS + 3):
            time += 1
            made.append(await known.sign_in("x"))
        return made

    made = asyncio.run(fill())
    assert [known.find(cookie or "") is not None for cookie in made] == [False] * 3 + [True] * MAX_BROWSERS
    assert len(kept(path)) == MAX_BROWSERS
    assert path.stat().st_size < module.MAX_FILE_BYTES / 2


# --- the file ---


def kept(path: Path) -> list[dict[str, Any]]:
    """What the file has."""
    found: list[dict[str, Any]] = json.loads(path.read_text())["browsers"]
    return found


def test_a_browser_outlives_a_restart_and_not_the_token(tmp_path: Path) -> None:
    """The next start knows who is signed in, and when they were here; with another token it is nobody."""
    time = 1000.0
    path = tmp_path / "browsers.json"

    async def use() -> str:
        nonlocal time
        known = Browsers(path, "t" * 40, lambda: time)
        cookie = await known.sign_in("x")
        found = known.find(cookie or "")
        assert found is not None
        time += USED_SECONDS
        known.note_use(found)
        await known.close()
        return cookie or ""

    before = os.umask(0)
    try:
        cookie = asyncio.run(use())
    finally:
        os.umask(before)
    found = Browsers(path, "t" * 40, lambda: time).find(cookie)
    assert found is not None
    assert found.used_at == int(time * 1000)
    assert cookie not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert Browsers(path, "u" * 40, lambda: time).find(cookie) is None
    assert [it.name for it in tmp_path.iterdir()] == ["browsers.json"]


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"null", b"\xff", b'{"token": 1, "browsers": []}', b'{"browsers": [{}]}', b"[" * 100_000,
     b'{"token": "\\ud800", "browsers": []}', b"x" * (module.MAX_FILE_BYTES + 1)],
)  # fmt: skip
def test_a_file_that_is_none(tmp_path: Path, data: bytes) -> None:
    """One that cannot be read signs everybody out, and keeps nobody from signing in."""
    path = tmp_path / "browsers.json"
    path.write_bytes(data)
    path.chmod(0o600)
    known = Browsers(path, TOKEN)
    assert known.listed() == []
    cookie = asyncio.run(known.sign_in("x"))
    assert Browsers(path, TOKEN).find(cookie or "") is not None


def test_a_file_that_others_can_write(tmp_path: Path) -> None:
    """They may have signed themselves in: it is refused, with the way out. So is one that cannot be read."""
    path = tmp_path / "browsers.json"
    path.write_text("{}")
    path.chmod(0o620)
    with pytest.raises(UsageError, match="others can write into"):
        Browsers(path, TOKEN)
    path.unlink()
    path.mkdir()
    with pytest.raises(UsageError, match=r"browsers\.json cannot be read"):
        Browsers(path, TOKEN)


def test_a_disk_that_takes_nothing(own: Callable[..., Gateway]) -> None:
    """Nobody is signed in or out whom the file does not have so: it says that it failed, and the link is still good."""
    gateway = own()
    path = gateway.folder / "browsers.json"
    code = gateway.logins.new_code()
    with signed_in(gateway) as one, gateway.browser("none") as other:
        path.unlink()
        path.mkdir()  # nothing can take its place
        for client, where, body in ((one, "/api/logout", {}), (other, "/api/login", {"code": code})):
            answer = client.post(where, json=body)
            assert refused(answer) == (503, "store_unavailable")
            assert answer.headers["retry-after"]
            assert str(gateway.folder) in answer.json()["detail"]
        assert one.get("/api/chats").status_code == 200
        path.rmdir()
        assert other.post("/api/login", json={"code": code}).status_code == 204
        assert one.post("/api/logout", json={}).status_code == 204
        assert one.get("/api/chats").status_code == 401


def test_the_file_is_whole_whenever_it_is_read(tmp_path: Path) -> None:
    """It is replaced, never written over: a kill leaves the one before."""
    path = tmp_path / "browsers.json"
    known = Browsers(path, TOKEN)
    asyncio.run(known.sign_in("first"))
    seen: set[int] = set()
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            seen.add(len(kept(path)))

    looking = threading.Thread(target=look)
    looking.start()

    async def fill() -> None:
        await asyncio.gather(*(known.sign_in("x") for _ in range(20)))

    try:
        asyncio.run(fill())
    finally:
        done.set()
        looking.join()
    assert seen <= set(range(1, 22))
    assert len(kept(path)) == 21


def test_a_part_that_a_kill_left_is_no_trouble(tmp_path: Path) -> None:
    """What a process left that was killed while it wrote is replaced, also where it is a link."""
    path = tmp_path / "browsers.json"
    (tmp_path / "browsers.json.part").symlink_to(tmp_path / "elsewhere")
    cookie = asyncio.run(Browsers(path, TOKEN).sign_in("x"))
    assert Browsers(path, TOKEN).find(cookie or "") is not None
    assert not (tmp_path / "elsewhere").exists()


def test_nobody_comes_in_by_a_link_of_one_who_is_out(tmp_path: Path) -> None:
    """Also where the sign-out and the login come at the same time: the later one knows of the earlier."""

    async def race() -> None:
        known = Browsers(tmp_path / "browsers.json", TOKEN)
        cookie = await known.sign_in("first")
        maker = known.find(cookie or "")
        assert maker is not None
        _, second = await asyncio.gather(known.sign_out([maker]), known.sign_in("second", by=maker))
        assert second is None
        assert known.listed() == []
        (tmp_path / "browsers.json").unlink()
        (tmp_path / "browsers.json").mkdir()
        with pytest.raises(StoreUnavailable):
            await known.sign_in("third")
        assert known.listed() == []

    asyncio.run(race())


@pytest.mark.slow
def test_a_kill_signs_nobody_out_and_nobody_in(serve: Callable[..., Serve]) -> None:
    """After `kill -9` those are in who got an answer to their login, and none who got one to their logout."""
    started = serve("--port=0", "--agent=scripted")
    found = LINK.fullmatch(started.line())
    assert found
    token = (started.data / "token").read_text().strip()
    with browser(found[1]) as stays, browser(found[1]) as goes:
        for client in (stays, goes):
            assert client.post("/api/login", json={"token": token}).status_code == 204
        copied = dict(goes.cookies)
        assert goes.post("/api/logout", json={}).status_code == 204
        started.end(signal.SIGKILL)
        again = serve(f"--port={found[1].rpartition(':')[2]}", "--agent=scripted")
        assert LINK.fullmatch(again.line())
        assert stays.get("/api/chats").status_code == 200
        with browser(found[1], cookies=copied) as copy:
            assert copy.get("/api/chats").status_code == 401
        again.end()
        (started.data / "token").unlink()
        last = serve(f"--port={found[1].rpartition(':')[2]}", "--agent=scripted")
        assert LINK.fullmatch(last.line())
        assert stays.get("/api/chats").status_code == 401  # with another token all are out
        assert re.search(r'"token":"[0-9a-f]{64}"', (started.data / "browsers.json").read_text())


# --- names ---


@pytest.mark.parametrize(
    ("user_agent", "name"),
    [
        (FIREFOX, "Firefox on Linux"),
        ("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36",
         "Chrome on Linux"),
        ("Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 "
         "Safari/537.36 Edg/140.0.0.0", "Edge on Windows"),
        ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 "
         "Safari/605.1.15", "Safari on macOS"),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 "
         "Mobile/15E148 Safari/604.1", "Safari on iPhone"),
        ("Mozilla/5.0 (iPad; CPU OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/140.0 "
         "Mobile/15E148 Safari/604.1", "Chrome on iPad"),
        ("Mozilla/5.0 (Linux; Android 15; Pixel 9) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Mobile "
         "Safari/537.36", "Chrome on Android"),
        ("Mozilla/5.0 (Android 15; Mobile; rv:140.0) Gecko/140.0 Firefox/140.0", "Firefox on Android"),
        ("Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 "
         "Safari/537.36", "Chrome on ChromeOS"),
        ("curl/8.14.1", "curl"),
        ("python-httpx/0.28.1", "python-httpx"),
        ("Mozilla/5.0", "A browser"),
        ("", "A browser"),
        ("\x1b[31mred", "A browser"),
        ("x" * 100_000, "x" * 40),
        ("\u202eevil", "A browser"),
    ],
)  # fmt: skip
def test_what_people_call_it(user_agent: str, name: str) -> None:
    """The product and the system; of a program its name; and nothing that somebody made up."""
    assert name_of(user_agent) == name


def test_a_browser_that_another_signs_in_is_of_the_same_person(tmp_path: Path) -> None:
    """A browser is the owner's, or of the person whose browser made its link; a file from before has the owner."""

    async def check() -> None:
        path = tmp_path / "browsers"
        known = Browsers(path, "t")
        await known.sign_in("first")
        (first,) = known.listed()
        assert first.person == "owner"
        path.write_bytes(path.read_bytes().replace(b'"person":"owner"', b'"person":"ana"'))
        known = Browsers(path, "t")
        (first,) = known.listed()
        await known.sign_in("second", by=first)
        assert [it.person for it in known.listed()] == ["ana", "ana"]
        path.write_bytes(path.read_bytes().replace(b',"person":"ana"', b""))
        assert [it.person for it in Browsers(path, "t").listed()] == ["owner", "owner"]

    asyncio.run(check())
