"""Branches over the API: whose the new chat is, who can make one, and what a repeated request does."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from served import Gateway
from waiting import until

from penstock.chat.people import persons


def ended(gateway: Gateway, chat: str) -> None:
    """Wait until the turns of a chat are over."""
    with gateway.client() as client:
        until(lambda: client.get(f"/api/chats/{chat}").json()["state"] == "idle", "the chat is idle")


def asked(gateway: Gateway, *prompts: str, **chat: str) -> str:
    """Make a chat in which this was asked, and return its id."""
    with gateway.client() as client:
        id: str = client.post("/api/chats", json={"agent": "scripted", **chat}).json()["id"]
        for prompt in prompts:
            assert client.post(f"/api/chats/{id}/turns", json={"text": prompt}).status_code == 202
            ended(gateway, id)
    return id


@pytest.mark.slow
def test_a_repeated_request_makes_one_chat(shared: Gateway) -> None:
    """With its key it is 200 and the same; without one each is a new chat. Bodies and keys are checked."""
    old = asked(shared, "one", "two")
    with shared.client() as client:
        path = f"/api/chats/{old}/turns/2/branch"
        first = client.post(path, json={}, headers={"Idempotency-Key": "k1"})
        assert first.status_code == 201, first.text
        made = first.json()
        assert first.headers["Location"] == f"/api/chats/{made['chat']['id']}"
        assert (made["prompt"], made["attachments"], made["turn"], made["repeated"]) == ("two", [], None, False)
        assert made["chat"]["origin"]["chat"] == old
        again = client.post(path, json={}, headers={"Idempotency-Key": "k1"})
        assert (again.status_code, again.json()["chat"]["id"]) == (200, made["chat"]["id"])
        assert client.post(path, json={}).json()["chat"]["id"] != made["chat"]["id"]
        conversation = client.get(
            f"/api/chats/{made['chat']['id']}/attachments/{made['chat']['origin']['conversation']}"
        )
        assert conversation.text.startswith('{"user":"one"}\n{"assistant":')
        assert client.post(path, json={"agent": "no such"}).status_code == 400
        assert client.post(path, json={"agent": "claude"}).json()["code"] == "conflict"
        assert client.post(path, json={"turn": 1}).status_code == 400
        assert client.post(path, json={}, headers={"Idempotency-Key": "a b"}).status_code == 400
        for turn in ("4", "0"):
            assert client.post(f"/api/chats/{old}/turns/{turn}/branch", json={}).status_code == 404
        for turn in ("-1", "x", "9" * 30):
            assert client.post(f"/api/chats/{old}/turns/{turn}/branch", json={}).status_code == 404


def test_a_new_chat_goes_on_after_the_last_message(shared: Gateway) -> None:
    """It has the whole conversation, and nothing is asked in it. After a chat without a message there is none."""
    old, empty = asked(shared, "one", "two"), asked(shared)
    with shared.client() as client:
        made = client.post(f"/api/chats/{old}/turns/3/branch", json={"send": True}).json()
        assert (made["prompt"], made["attachments"], made["turn"]) == ("", [], None)
        new = made["chat"]
        assert (new["turns"], new["cwd"], new["agent"]) == (
            0,
            client.get(f"/api/chats/{old}").json()["cwd"],
            "scripted",
        )
        said = client.get(f"/api/chats/{new['id']}/attachments/{new['origin']['conversation']}").text
        assert [line[:8] for line in said.splitlines()] == ['{"user":', '{"assist'] * 2
        assert client.post(f"/api/chats/{empty}/turns/1/branch", json={}).status_code == 404


@pytest.mark.slow
def test_whose_a_branch_is(own: Callable[..., Gateway]) -> None:
    """A member's branch of a team's chat is private to the member; nobody branches a chat that they do not see."""
    gateway = own()
    token = persons.add(gateway.folder, "ana", "member", 0)
    private, team = asked(gateway, "secret"), asked(gateway, "plan", visibility="team")
    with gateway.client(Authorization=f"Bearer {token}") as ana, gateway.client() as owner:
        refused = ana.post(f"/api/chats/{private}/turns/1/branch", json={"send": True})
        assert (refused.status_code, refused.json()["code"]) == (404, "not_found")
        assert len(ana.get("/api/chats").json()["chats"]) == 1
        made = ana.post(f"/api/chats/{team}/turns/1/branch", json={"send": True}).json()
        assert (made["chat"]["person"], made["chat"]["visibility"], made["turn"]) == ("ana", "private", 1)
        ended(gateway, made["chat"]["id"])
        (turn,) = ana.get(f"/api/chats/{made['chat']['id']}/turns").json()["turns"]
        assert (turn["person"], turn["outcome"]) == ("ana", "ok")
        assert owner.patch(f"/api/chats/{team}", json={"visibility": "private"}).status_code == 200
        assert ana.post(f"/api/chats/{team}/turns/1/branch", json={}).status_code == 404
        assert ana.get(f"/api/chats/{made['chat']['id']}").status_code == 200
