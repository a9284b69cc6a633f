"""Shares: what a link of one chat shows to whoever has it, for how long, and that it gives access to nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from msgspec.structs import replace
from served import PLAIN, SECONDS, Gateway
from starlette.requests import Request
from waiting import until

from penstock.chat.people import persons
from penstock.chat.people.audit import AUDIT, records
from penstock.chat.service.shares import MAX_SHARES
from penstock.chat.store.rows import Share
from penstock.chat.web import shares

OCTETS = {"Content-Type": "application/octet-stream"}


def shared(gateway: Gateway, chat: str, client: httpx.Client | None = None, **options: Any) -> tuple[str, str]:
    """Share a chat; the id of the share, and the code of its link."""
    with gateway.client() as owner:
        answer = (client or owner).post(f"/api/chats/{chat}/shares", json=options)
    assert answer.status_code == 201, answer.text
    place, _, code = answer.json()["url"].partition("#")
    assert place == f"{gateway.url}/s"
    return answer.json()["share"]["id"], code


def stranger(gateway: Gateway, code: str = "", **headers: str) -> httpx.Client:
    """A browser that has never been here, with the code of a link."""
    given = {"X-Penstock-Share": code} if code else {}
    return httpx.Client(base_url=gateway.url, headers={**given, **headers}, timeout=SECONDS, verify=PLAIN)


def said(gateway: Gateway, chat: str, *texts: str, client: httpx.Client | None = None) -> None:
    """Turns of a chat, one after the other."""
    with gateway.client() as owner:
        for text in texts:
            turn = (client or owner).post(f"/api/chats/{chat}/turns", json={"text": text}).json()["turn"]
            path = f"/api/chats/{chat}/turns"
            until(lambda path=path, turn=turn: owner.get(path).json()["turns"][turn - 1].get("finalized"))


def status(gateway: Gateway, code: str, path: str = "/api/shared") -> int:
    """What a stranger with this code gets."""
    with stranger(gateway, code) as client:
        return client.get(path).status_code


def test_a_stranger_reads_what_was_asked_and_the_replies(own: Callable[..., Gateway]) -> None:
    """The link shows prompts and replies; not where the agent works, what it did or thought, or who asked."""
    gateway = own()
    chat = gateway.chat(title="About pelicans")
    said(gateway, chat, "what is a pelican?")
    with gateway.client() as owner:
        whole = owner.get(f"/api/chats/{chat}/turns").json()["turns"][0]
        items = owner.get(f"/api/chats/{chat}/turns/1/details").json()["items"]
    _, code = shared(gateway, chat)
    with stranger(gateway, code) as client:
        answer = client.get("/api/shared")
        assert answer.headers["cache-control"] == "no-store"
        assert "set-cookie" not in answer.headers
        found = answer.json()
        assert client.get("/api/shared/details?turn=1").status_code == 403
    assert (found["title"], found["agent"], found["earlier"]) == ("About pelicans", "scripted", False)
    assert found["turns"] == [
        {
            "turn": 1,
            "prompt": "what is a pelican?",
            "by": "person",
            "state": "completed",
            "asked_at": whole["asked_at"],
            "text": whole["message"],
            "outcome": "ok",
        }
    ]
    hidden = [item["text"] for item in items if item["kind"] == "thinking"]
    hidden += [item["output"] for item in items if item["kind"] == "call" and item.get("output")]
    assert len(hidden) > 1
    assert not [text for text in [*hidden, str(gateway.root), "owner", chat] if text in answer.text]


@pytest.mark.slow
def test_details_are_shown_if_the_link_says_so(own: Callable[..., Gateway]) -> None:
    """They are those of the chat, of the turns that are shown."""
    gateway = own()
    chat = gateway.chat()
    said(gateway, chat, "one", "two")
    _, code = shared(gateway, chat, details=True, until=1)
    with stranger(gateway, code) as client, gateway.client() as owner:
        items = client.get("/api/shared/details?turn=1").json()["items"]
        assert items == owner.get(f"/api/chats/{chat}/turns/1/details").json()["items"]
        assert {"thinking", "call"} <= {item["kind"] for item in items}
        assert [client.get(f"/api/shared/details?turn={n}").status_code for n in (2, 3, 0)] == [404, 404, 400]


@pytest.mark.slow
def test_up_to_one_turn(own: Callable[..., Gateway]) -> None:
    """Nothing after it is shown, whatever is asked for, also once there is more."""
    gateway = own()
    chat = gateway.chat()
    said(gateway, chat, "one", "two", "three")
    _, code = shared(gateway, chat, until=2)
    _, whole = shared(gateway, chat)
    said(gateway, chat, "four")
    with stranger(gateway, code) as client:
        for query, turns in {
            "": [1, 2],
            "?before=9": [1, 2],
            "?before=2": [1],
            "?after=1": [2],
            "?after=2": [],
            "?limit=1": [2],
            f"?before={2**53}": [1, 2],
        }.items():
            assert [turn["turn"] for turn in client.get(f"/api/shared{query}").json()["turns"]] == turns, query
        assert client.get("/api/shared?limit=1").json()["earlier"]
        assert client.get("/api/shared?before=0").status_code == 400
    with stranger(gateway, whole) as client:
        assert [turn["prompt"] for turn in client.get("/api/shared").json()["turns"]] == ["one", "two", "three", "four"]
    with gateway.client() as owner:
        for wrong, expected in (({"until": 5}, 404), ({"days": 0}, 400), ({"days": 366}, 400), ({"util": 1}, 400)):
            assert owner.post(f"/api/chats/{chat}/shares", json=wrong).status_code == expected, wrong


def test_a_running_turn_is_shown_and_one_that_waits_is_not(own: Callable[..., Gateway]) -> None:
    """A message that has not begun may still be taken back."""
    gateway = own()
    chat = gateway.chat("staying")
    with gateway.client() as owner:
        for text in ("runs", "waits"):
            owner.post(f"/api/chats/{chat}/turns", json={"text": text})
        until(lambda: owner.get(f"/api/chats/{chat}").json()["state"] == "running")
        _, code = shared(gateway, chat)
        with stranger(gateway, code) as client:
            (turn,) = client.get("/api/shared").json()["turns"]
            assert (turn["prompt"], turn["state"], turn["outcome"]) == ("runs", "running", None)
        owner.post(f"/api/chats/{chat}/stop", json={})


def test_the_code_opens_nothing_else(own: Callable[..., Gateway]) -> None:
    """It is no token, no cookie and no code of a login, and works only in its header, once."""
    gateway = own()
    chat, other = gateway.chat(), gateway.chat()
    id, code = shared(gateway, chat)
    cookie = {"Cookie": f"penstock_{gateway.port}={code}"}
    for headers in ({}, {"Authorization": f"Bearer {code}"}, cookie):
        with stranger(gateway, code, **headers) as client:
            for path in (f"/api/chats/{chat}", f"/api/chats/{other}", "/api/chats", "/api/shares", "/api/about"):
                assert client.get(path).status_code == 401, (headers, path)
            assert client.post(f"/api/chats/{chat}/turns", json={"text": "hi"}).status_code == 401
            assert client.delete(f"/api/chats/{chat}/shares/{id}").status_code == 401
    with stranger(gateway) as client:
        assert client.post("/api/login", json={"code": code}).status_code == 401
        assert client.post("/api/login", json={"token": code}).status_code == 401
        for given in (
            client.get(f"/api/shared?code={code}"),
            client.get("/api/shared", headers={"Authorization": f"Bearer {code}"}),
            client.get("/api/shared", headers=[("X-Penstock-Share", code), ("X-Penstock-Share", code)]),
            client.get("/api/shared", headers={"X-Penstock-Share": code[1:]}),
            client.get("/api/shared", headers={"X-Penstock-Share": ""}),
            client.get("/api/shared", headers={"X-Penstock-Share": id}),
            client.get("/api/shared", headers={"X-Penstock-Share": "A" * 5000}),
            client.post("/api/shared", json={"code": code}),
        ):
            assert given.status_code in (401, 404, 405), given.text
        foreign = {"X-Penstock-Share": code, "Origin": "https://other.example", "Sec-Fetch-Site": "cross-site"}
        assert client.get("/api/shared", headers=foreign).status_code == 403


def test_only_a_hash_of_the_code_is_kept(own: Callable[..., Gateway]) -> None:
    """Whoever reads the file or the record cannot open the link."""
    gateway = own()
    _, code = shared(gateway, gateway.chat())
    with gateway.client() as owner:
        assert code not in owner.get("/api/shares").text
    files = [path for path in gateway.folder.rglob("*") if path.is_file()]
    assert not [path for path in files if code.encode() in path.read_bytes()]


def test_a_link_ends(own: Callable[..., Gateway]) -> None:
    """When it is revoked, when it expires, and with its chat; at once, and for good."""
    gateway = own()
    chat, gone = gateway.chat(), gateway.chat()
    id, code = shared(gateway, chat)
    late, expired = shared(gateway, chat, days=1)
    _, deleted = shared(gateway, gone)
    assert [status(gateway, it) for it in (code, expired, deleted)] == [200, 200, 200]
    with gateway.client() as owner:
        share = next(it for it in gateway.call(gateway.store.list_shares()) if it.id == late)
        assert share.expires_at - share.created_at == 24 * 60 * 60 * 1000
        gateway.call(gateway.store.delete_share(late))
        now = int(time.time() * 1000)
        gateway.call(gateway.store.put_share(replace(share, created_at=now - 2, expires_at=now - 1)))
        assert late not in owner.get("/api/shares").text
        assert owner.delete(f"/api/chats/{gone}/shares/{id}").status_code == 404
        assert owner.delete(f"/api/chats/{chat}/shares/{id}").status_code == 204
        assert owner.delete(f"/api/chats/{chat}/shares/{id}").status_code == 404
        assert owner.delete(f"/api/chats/{gone}").status_code == 204
        assert owner.get("/api/shares").json() == {"shares": []}
    assert [status(gateway, it) for it in (code, expired, deleted)] == [404, 404, 404]
    assert gateway.call(gateway.store.find_share(share.secret)) is not None  # until the next one is made
    shared(gateway, chat)
    assert gateway.call(gateway.store.find_share(share.secret)) is None


def test_a_link_ends_with_the_rights_of_its_person(own: Callable[..., Gateway]) -> None:
    """One who is removed, or becomes a viewer, shares nothing any more; a new person of the same name begins anew."""
    gateway = own()
    people = gateway.folder
    token = persons.add(people, "ana", "member", 0)
    ana = gateway.client(Authorization=f"Bearer {token}")
    with ana:
        chat = ana.post("/api/chats", json={"agent": "scripted"}).json()["id"]
        _, code = shared(gateway, chat, ana)
    assert status(gateway, code) == 200
    persons.change(people, "ana", lambda person: replace(person, role="viewer"))
    assert status(gateway, code) == 404
    persons.change(people, "ana", lambda person: replace(person, role="member"))
    assert status(gateway, code) == 200
    persons.remove(people, "ana")
    assert status(gateway, code) == 404
    persons.add(people, "ana", "owner", int(time.time() * 1000) + 1)
    assert status(gateway, code) == 404


@pytest.mark.parametrize("how", ["revoked", "viewer", "removed", "expired"])
def test_a_link_that_ends_while_it_is_read_shows_nothing(
    own: Callable[..., Gateway], monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """It was found, and ends before what it shows is read: nothing of that is sent."""
    gateway = own()
    token = persons.add(gateway.folder, "ana", "member", 0)
    found = shares.found

    async def end(share: Share) -> None:
        if how == "revoked":
            await gateway.store.delete_share(share.id)
        elif how == "expired":
            monkeypatch.setattr(gateway.service, "now", lambda: share.expires_at)
        elif how == "removed":
            persons.remove(gateway.folder, "ana")
        else:
            persons.change(gateway.folder, "ana", lambda person: replace(person, role="viewer"))

    async def ending(request: Request, *given: Any) -> shares.FoundShare:
        made = await found(request, *given)
        if request.headers.get("x-ends"):
            await end(made.share)
        return made

    monkeypatch.setattr(shares, "found", ending)
    with gateway.client(Authorization=f"Bearer {token}") as ana:
        chat = ana.post("/api/chats", json={"agent": "scripted"}).json()["id"]
        file = ana.post(f"/api/chats/{chat}/attachments?name=a", content=b"a", headers=OCTETS).json()["id"]
        ana.post(f"/api/chats/{chat}/turns", json={"text": "a secret pelican", "attachments": [file]})
        until(lambda: ana.get(f"/api/chats/{chat}/turns").json()["turns"][0].get("finalized"), "the turn ends")
        _, code = shared(gateway, chat, ana, details=True)
    paths = ["/api/shared", "/api/shared/details?turn=1", f"/api/shared/attachment?turn=1&id={file}"]
    with stranger(gateway, code) as client:
        assert [client.get(path).status_code for path in paths] == [200] * 3
        first, *others = (client.get(path, headers={"X-Ends": "1"}) for path in paths)
        assert (first.status_code, first.json()["code"]) == (404, "not_found")
        assert [it.status_code for it in others] == [404, 404]


@pytest.mark.slow
def test_who_may_share(own: Callable[..., Gateway]) -> None:
    """The person of the chat and the owners, who see and revoke the links; a chat of the team is not its members'."""
    gateway = own()
    ana, cat, ben = (
        gateway.client(Authorization=f"Bearer {persons.add(gateway.folder, name, role, 0)}")  # type: ignore[arg-type]
        for name, role in (("ana", "member"), ("cat", "member"), ("ben", "viewer"))
    )
    with ana, cat, ben, gateway.client() as owner:
        chat = ana.post("/api/chats", json={"agent": "scripted", "visibility": "team"}).json()["id"]
        id, code = shared(gateway, chat, ana, until=None)
        listed = [len(it.get("/api/shares").json()["shares"]) for it in (owner, ana, cat, ben)]
        assert listed == [1, 1, 0, 0]
        for other in (cat, ben):
            assert other.post(f"/api/chats/{chat}/shares", json={}).status_code == 403
            assert other.delete(f"/api/chats/{chat}/shares/{id}").status_code == 403
        assert status(gateway, code) == 200
        assert owner.delete(f"/api/chats/{chat}/shares/{id}").status_code == 204
    found = [(it.person, it.what, it.status, it.details) for it in records(gateway.folder / AUDIT)][1:]
    assert found == [
        ("ana", "share", 201, {"details": False, "days": 7}),
        *[(name, what, 403, details) for name in ("cat", "ben") for what, details in (
            ("share", {}), ("revoke_share", {"share": id}))],
        ("owner", "revoke_share", 204, {"share": id}),
    ]  # fmt: skip


@pytest.mark.slow
def test_a_chat_has_a_limit_of_shares(own: Callable[..., Gateway]) -> None:
    """Whoever makes links again and again does not fill the store."""
    gateway = own()
    chat = gateway.chat()
    for _ in range(MAX_SHARES):
        shared(gateway, chat)
    with gateway.client() as owner:
        assert owner.post(f"/api/chats/{chat}/shares", json={}).status_code == 429
