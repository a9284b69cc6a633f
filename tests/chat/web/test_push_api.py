"""Browsers that are called by push, over the API: each for itself, for the chats of its person, while signed in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from push_service import Device, PushService
from served import Gateway, start
from waiting import until

from penstock.chat.people import persons
from penstock.chat.web.browsers import Browsers


@pytest.fixture
def service(tmp_path: Path) -> Iterator[PushService]:
    """A push service that runs."""
    (tmp_path / "service").mkdir()
    made = PushService(tmp_path / "service")
    yield made
    made.close()


@pytest.fixture
def gateway(tmp_path: Path, page: Path, service: PushService) -> Iterator[Gateway]:
    """A gateway that may call browsers through that service."""
    started = start(tmp_path, page, push_hosts=[f"127.0.0.1:{service.port}"], push_tls=service.tls)
    yield started
    started.close()


def subscribed(client: httpx.Client, service: PushService, tail: str = "abc", **more: Any) -> Device:
    """Subscribe a browser as the page does."""
    device = Device(f"https://127.0.0.1:{service.port}/send/{tail}")
    key = client.post("/api/push/key", json={}).json()["key"]
    device.server_key = key
    assert client.post("/api/push/key", json={}).json()["key"] == key
    body = {"endpoint": device.endpoint, "p256dh": device.p256dh, "auth": device.auth, **more}
    answer = client.post("/api/push", json=body)
    assert answer.status_code == 204, answer.text
    return device


def turn(gateway: Gateway, client: httpx.Client) -> str:
    """Let an agent do something, to its end; return the chat."""
    chat: str = client.post("/api/chats", json={"agent": "scripted"}).json()["id"]
    client.post(f"/api/chats/{chat}/turns", json={"text": "rm -rf secret"})
    until(lambda: client.get(f"/api/chats/{chat}/turns").json()["turns"][0].get("finalized"))
    return chat


@pytest.mark.slow
def test_a_browser_is_called_when_its_turn_has_ended_and_no_more_once_it_is_signed_out(
    gateway: Gateway, service: PushService
) -> None:
    """The call is read by the browser alone; signing out and switching off forget it."""
    with gateway.browser() as client, gateway.client() as program:
        device = subscribed(client, service)
        chat = turn(gateway, client)
        until(lambda: service.got)
        assert device.read(service.got[0].body) == {"text": "scripted is done in root", "chat": chat}
        assert device.claims(service.got[0].headers["authorization"])["sub"] == "https://127.0.0.1"
        service.got.clear()

        assert client.delete("/api/push").status_code == 204
        with gateway.browser() as other:  # its call proves that the turn was announced
            second = subscribed(other, service, "second")
            turn(gateway, program)
            until(lambda: service.got)
            assert [it.path for it in service.got] == ["/send/second"]
            assert second.read(service.got[0].body)["text"] == "scripted is done in root"
            service.got.clear()
            subscribed(client, service, "third")
            assert other.post("/api/logout", json={}).status_code == 204
        turn(gateway, program)
        until(lambda: service.got)
        assert [it.path for it in service.got] == ["/send/third"]


@pytest.mark.slow
def test_a_browser_is_called_for_the_chats_of_its_person(gateway: Gateway, service: PushService) -> None:
    """Neither an owner nor a viewer is called for what a member does, and a member not for what the owner does."""
    tokens = {name: persons.add(gateway.folder, name, "member", 0) for name in ("ana", "ben")}
    sign_in = gateway.logins.browsers.sign_in
    cookies = {name: gateway.call(sign_in("Tests", person=name)) for name in ("ana", "ben", "owner")}
    clients = {name: gateway.browser(cookie) for name, cookie in cookies.items()}
    for name, client in clients.items():
        subscribed(client, service, name)
    for name in ("ana", "owner"):
        service.got.clear()
        turn(gateway, clients[name])
        until(lambda: service.got)
        assert [it.path for it in service.got] == [f"/send/{name}"]
    assert tokens
    for client in clients.values():
        client.close()


def test_what_is_no_subscription(gateway: Gateway, service: PushService) -> None:
    """A program cannot subscribe, nor a browser to an address elsewhere, without a key, or from another page."""
    good = Device(service.url)
    body = {"endpoint": service.url, "p256dh": good.p256dh, "auth": good.auth}
    with gateway.client() as program:
        assert program.post("/api/push/key", json={}).status_code == 409
        assert program.post("/api/push", json=body).status_code == 409
        assert program.delete("/api/push").status_code == 409
    with gateway.browser() as client:
        assert client.post("/api/push", json=body).status_code == 409
        client.post("/api/push/key", json={})
        for wrong in (
            {"endpoint": "https://10.0.0.1/x"},
            {"endpoint": "http://fcm.googleapis.com/x"},
            {"p256dh": "x"},
            {"auth": ""},
            {"on": ["commands"]},
            {"key": "mine"},
        ):
            assert client.post("/api/push", json={**body, **wrong}).status_code == 400, wrong
        origin = {"Origin": "https://evil.invalid"}
        assert client.post("/api/push", json=body, headers=origin).status_code in (401, 403)


def test_a_subscription_survives_a_restart(gateway: Gateway, service: PushService) -> None:
    """It is in the file of the browsers, which only its owner can read, with the key of its own."""
    with gateway.browser() as client:
        subscribed(client, service)
    file = gateway.folder / "browsers.json"
    assert file.stat().st_mode & 0o777 == 0o600
    again = Browsers(file, "a-token-of-the-tests-that-is-long-enough", now=lambda: gateway.time)
    (kept,) = again.listed()
    assert kept.push is not None
    assert kept.push.endpoint == f"https://127.0.0.1:{service.port}/send/abc"
    with gateway.client() as program:
        assert kept.push.key not in program.get("/api/browsers").text
