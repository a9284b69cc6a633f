"""Commands that the agent of a chat offers, over the API."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from served import AGENTS, TESTS, Gateway
from waiting import until

from penstock.chat.history.entries import decode
from penstock.chat.service.turns.turn_commands import MAX_LISTS
from penstock.events import CommandsChanged


@pytest.fixture
def gateway(tmp_path: Path, page: Path) -> Iterator[Gateway]:
    """A gateway with an agent that offers what its prompt says, and one that plays a recording."""
    command = [sys.executable, "-S", str(TESTS / "support" / "offering_agent.py")]
    (tmp_path / "agents.toml").write_text(f"{AGENTS}[agents.offering]\ncommand = {command}\nadapter = 'claude'\n")
    started = Gateway(tmp_path, page)
    yield started
    started.close()


def asked(client: httpx.Client, chat: str, text: str) -> None:
    """Ask for a turn, and wait for its end."""
    turn = client.post(f"/api/chats/{chat}/turns", json={"text": text}).json()["turn"]
    path = f"/api/chats/{chat}/turns?before={turn + 1}&limit=1"
    until(lambda: client.get(path).json()["turns"][0].get("finalized"))


def commands(client: httpx.Client, chat: str) -> list[Any]:
    """The commands of a chat."""
    response = client.get(f"/api/chats/{chat}/commands")
    assert response.status_code == 200
    assert list(response.json()) == ["commands"]
    found: list[Any] = response.json()["commands"]
    return found


def kept(gateway: Gateway, chat: str) -> list[list[str]]:
    """The lists among the entries of a chat, by the names in them."""
    rows = decode(gateway.call(gateway.store.read(chat, limit=10_000)).entries)
    return [[it.name for it in row.what.commands] for row in rows if isinstance(row.what, CommandsChanged)]


def test_the_newest_list_of_a_chat(gateway: Gateway) -> None:
    """A chat has the commands of its agent's newest list, and keeps a list once however often it is repeated."""
    with gateway.client() as client:
        chat = gateway.chat("offering")
        assert commands(client, chat) == []
        asked(client, chat, "review,init")
        review = {"name": "review", "description": "Does review now", "hint": "what"}
        init = {"name": "init", "description": "Does init now", "hint": "what"}
        assert commands(client, chat) == [review, init]
        asked(client, chat, "review,init")
        asked(client, chat, "hello")
        assert kept(gateway, chat) == [["review", "init"]]
        asked(client, chat, "init ../x,init review,init init - init")
        assert commands(client, chat) == [init]
        assert kept(gateway, chat) == [["review", "init"], ["init"], ["review", "init"], ["init"], [], ["init"]]
        assert client.get("/api/chats/none/commands").status_code == 404


def test_many_lists_in_one_turn(gateway: Gateway) -> None:
    """Of very many lists in one turn, the chat keeps some, and always the newest."""
    with gateway.client() as client:
        chat = gateway.chat("offering")
        asked(client, chat, "" + " ".join(f"c{number}" for number in range(1_000)))
        assert [it["name"] for it in commands(client, chat)] == ["c999"]
        assert kept(gateway, chat) == [*([f"c{number}"] for number in range(MAX_LISTS)), ["c999"]]


def test_a_new_chat_and_one_whose_turns_were_dropped(gateway: Gateway) -> None:
    """A new chat has the list of the person's newest chat with this agent there; one that was trimmed lists again."""
    with gateway.client() as client:
        first, other = gateway.chat("offering"), gateway.chat("scripted")
        asked(client, first, "review")
        names = [it["name"] for it in commands(client, gateway.chat("offering"))]
        assert names == ["review"]
        assert commands(client, other) == []
        asked(client, first, "hello")
        gateway.call(gateway.service.log(first).trim(gateway.service.row(first).commands_at + 1_000))
        assert commands(client, first) == []
        asked(client, first, "review")
        assert [it["name"] for it in commands(client, first)] == ["review"]


def test_a_link_shows_no_commands(gateway: Gateway) -> None:
    """Whoever has a link to a chat cannot read the commands."""
    with gateway.client() as client:
        chat = gateway.chat("offering")
        asked(client, chat, "secret-plan")
        url = client.post(f"/api/chats/{chat}/shares", json={"details": True}).json()["url"]
        headers = {"X-Penstock-Share": url.partition("#")[2]}
        with httpx.Client(base_url=gateway.url, headers=headers) as anybody:
            assert anybody.get(f"/api/chats/{chat}/commands").status_code == 401
            assert "Does" not in anybody.get("/api/shared").text
            details = anybody.get("/api/shared/details?turn=1")
            assert details.status_code == 200
            assert "Does" not in details.text
