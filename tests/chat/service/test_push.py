"""Web Push: what a push service gets, who can read it, and to which addresses nothing is ever sent."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric import ec
from push_service import NAME, Device, PushService, b64, point
from waiting import until_true

from penstock.chat.errors import Invalid
from penstock.chat.history.frames import TurnView
from penstock.chat.service import push as push_module
from penstock.chat.service.outgoing import TRY_SECONDS
from penstock.chat.service.push import MAX_WAITING, Push, check_keys, new_key
from penstock.chat.store.logins import Browser
from penstock.chat.store.rows import ChatRow
from penstock.run import proxy

CHAT = ChatRow(id="c1", agent="claude", cwd="/home/me/shop", created_at=1, title="rm -rf secret")
TURN = TurnView(3, "a secret prompt", agent="claude", message="a secret reply", outcome="ok")


@pytest.fixture
def service(tmp_path: Path) -> Iterator[PushService]:
    """A push service that runs."""
    made = PushService(tmp_path)
    yield made
    made.close()


class People:
    """The browsers that want to be called."""

    def __init__(self, *devices: Device) -> None:
        self.browsers = [device.browser for device in devices]
        self.gone: list[Browser] = []

    def of_chat(self, chat: ChatRow) -> list[Browser]:
        """All of them."""
        return [*self.browsers]

    async def unsubscribe(self, browser: Browser) -> None:
        """Remember it."""
        self.gone.append(browser)
        self.browsers.remove(browser)


def announced(
    service: PushService,
    people: People,
    *,
    until: Callable[[], bool],
    happened: Any = ("ended",),
    hosts: Any = None,
    asleep: Callable[[], None] = lambda: None,
) -> list[float]:
    """Announce a turn, wait, and close; return for how long it would have waited between the tries."""
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        asleep()

    async def use() -> None:
        listed = [f"127.0.0.1:{service.port}"] if hosts is None else hosts
        now = lambda: int(time.time() * 1000)  # noqa: E731
        push = Push(people, hosts=listed, now=now, sleep=sleep, tls=service.tls)
        push.announce(CHAT, TURN, happened)
        await until_true(lambda: until() or not push._tasks)
        await until_true(lambda: not push._tasks)
        await push.close()

    asyncio.run(use())
    return waits


def test_a_call_is_read_by_the_browser_alone_and_names_no_command(service: PushService) -> None:
    """The service sees whom and how urgently, the browser reads which agent and where; nobody reads what was said."""
    device = Device(service.url)
    announced(service, People(device), until=lambda: bool(service.got), happened=("asks", "ended"))
    (got,) = service.got
    assert got.path == "/send/abc"
    assert device.read(got.body) == {"text": "claude asks in shop", "chat": "c1"}
    assert b"shop" not in got.body
    claims = device.claims(got.headers["authorization"])
    assert (claims["aud"], claims["sub"]) == (f"https://127.0.0.1:{service.port}", "https://chat.example.org")
    assert 0 < claims["exp"] - time.time() <= 24 * 3600
    assert (got.headers["urgency"], got.headers["ttl"]) == ("high", "43200")
    assert got.headers["content-encoding"] == "aes128gcm"
    assert got.headers["topic"] == hashlib.sha256(b"c1").hexdigest()[:32]
    with pytest.raises(InvalidTag):
        Device(service.url).read(got.body)


def test_a_browser_is_called_for_what_its_person_chose(service: PushService) -> None:
    """One that wants to hear of questions alone hears of no end; one that never subscribed hears nothing."""
    asks, both, none = Device(service.url, ("asks",)), Device(service.url), Device("")
    announced(service, People(asks, both, none), until=lambda: bool(service.got))
    (got,) = service.got
    assert both.read(got.body)["text"] == "claude is done in shop"


@pytest.mark.parametrize("status", [404, 410])
def test_a_browser_that_is_gone_is_forgotten(service: PushService, status: int) -> None:
    """Its subscription is removed, and it is asked for once."""
    service.answers = [status]
    people = People(Device(service.url))
    assert announced(service, people, until=lambda: bool(people.gone)) == []
    assert len(people.gone) == len(service.got) == 1


def test_tries_are_bounded_and_end_with_the_login(service: PushService) -> None:
    """A service that fails is asked five times, and not again once the browser is signed out."""
    service.answers = [500, 429, 503, 408, 500, 201]
    assert announced(service, People(Device(service.url)), until=lambda: len(service.got) > 4) == [*TRY_SECONDS[1:]]
    assert len(service.got) == 5
    service.got.clear()
    service.answers = [500] * 5
    people = People(Device(service.url))
    announced(service, people, until=lambda: bool(service.got), asleep=people.browsers.clear)
    assert len(service.got) == 1


def test_no_redirect_is_followed_and_a_wrong_certificate_ends_it(service: PushService) -> None:
    """A redirect is a failure; so is a server that is not the one of this name."""
    service.answers = [307]
    announced(service, People(Device(service.url)), until=lambda: bool(service.got))
    assert [it.path for it in service.got] == ["/send/abc"]
    service.got.clear()
    service.tls = ssl.create_default_context()
    announced(service, People(Device(service.url)), until=lambda: False)
    assert service.got == []


def test_an_answer_without_an_end_is_not_read(service: PushService, monkeypatch: pytest.MonkeyPatch) -> None:
    """A huge answer costs nothing, and one that does not come is given up; no turn waits for either."""

    def huge(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(201)
        handler.end_headers()
        for _ in range(100_000):
            handler.wfile.write(b"x" * 65536)

    def endless(handler: BaseHTTPRequestHandler) -> None:
        released.wait(30)

    released = threading.Event()
    quiet = lambda *_: None  # noqa: E731  # the server's complaint that the connection ended
    monkeypatch.setattr(service._server, "handle_error", quiet)
    service.answer_of = huge
    assert announced(service, People(Device(service.url)), until=lambda: False) == []
    service.answer_of = endless
    monkeypatch.setattr("penstock.chat.service.outgoing.ANSWER_SECONDS", 0.2)
    assert announced(service, People(Device(service.url)), until=lambda: False) == [*TRY_SECONDS[1:]]
    released.set()


ELSEWHERE = [
    "http://fcm.googleapis.com/x",
    "https://evil.invalid/x",
    "https://fcm.googleapis.com.evil.invalid/x",
    "https://fcm.googleapis.com@evil.invalid/x",
    "https://evil.invalid\\@fcm.googleapis.com/x",
    "https://fcm.googleapis.com:8443/x",
    "https://127.0.0.1/x",
    "https://[::1]/x",
    "https://localhost/x",
    "https://169.254.169.254/latest",
    "https://notify.windows.com/x",
    "https://fcm.googleapis.com/x y",
    "https://fcm.googleapis.com/\r\nHost: a",
    "https://fcm.googleapis.com:x/",
    f"https://fcm.googleapis.com/{'x' * 1000}",
    "file:///etc/passwd",
    "",
]


@pytest.mark.parametrize("endpoint", ELSEWHERE)
def test_an_address_elsewhere_is_no_address(endpoint: str) -> None:
    """Nobody makes this server send a request to an address of their choice."""
    with pytest.raises(Invalid):
        Push(People(), now=lambda: 0).check(endpoint)


def test_the_addresses_of_the_makers() -> None:
    """Those of Chrome, Firefox, Safari and Edge."""
    push = Push(People(), now=lambda: 0)
    for host in (
        "fcm.googleapis.com",
        "updates.push.services.mozilla.com",
        "web.push.apple.com",
        "wns2-db5p.notify.windows.com",
    ):
        push.check(f"https://{host}/send/abc?token=x")


def test_a_name_that_leads_to_a_private_address(service: PushService, monkeypatch: pytest.MonkeyPatch) -> None:
    """A listed name that resolves to this machine gets nothing, unless that address is listed by itself."""
    asked: list[str] = []

    def look_up(address: Any) -> list[str]:
        asked.append(address.host)
        return ["10.0.0.1", "127.0.0.1"]

    monkeypatch.setattr(proxy, "look_up", look_up)
    people = People(Device(f"https://{NAME}:{service.port}/send/abc"))
    listed = [f"{NAME}:{service.port}"]
    assert announced(service, people, until=lambda: False, hosts=listed) == []
    assert (service.got, asked) == ([], [NAME])
    announced(service, people, until=lambda: bool(service.got), hosts=[*listed, f"127.0.0.1:{service.port}"])
    (got,) = service.got
    assert got.headers["host"] == f"{NAME}:{service.port}"


def test_keys_that_are_none() -> None:
    """A subscription has a point of the curve and 16 bytes; anything else is rejected before it is kept."""
    good = b64(point(ec.generate_private_key(ec.SECP256R1()).public_key()))
    check_keys(good, b64(bytes(16)))
    for p256dh, auth in ((good, b64(bytes(15))), ("", ""), (b64(b"\x04" + bytes(64)), b64(bytes(16))), ("!", "!")):
        with pytest.raises(Invalid):
            check_keys(p256dh, auth)


def test_calls_that_wait_are_bounded(service: PushService) -> None:
    """However many browsers there are, no more calls than that wait."""
    people = People(*[Device(service.url)] * 1)
    people.browsers = people.browsers * (MAX_WAITING + 50)

    async def use() -> int:
        push = Push(people, hosts=[f"127.0.0.1:{service.port}"], now=lambda: 0, tls=service.tls)
        push.announce(CHAT, TURN, ("ended",))
        waiting = len(push._tasks)
        await push.close()
        return waiting

    assert asyncio.run(use()) == MAX_WAITING


def test_a_server_without_the_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """It names the extra."""
    monkeypatch.setattr(push_module, "is_installed", lambda: False)
    with pytest.raises(push_module.NoPush, match="packages are missing"):
        new_key()
