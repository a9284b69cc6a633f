"""Commands and the use of the context, as an editor of `penstock acp` gets them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from acp_client import AcpClient
from served import AGENTS, TESTS, Gateway
from waiting import until

MORE = f"""
[agents.offering]
command = ["{sys.executable}", "-S", "{TESTS / "support" / "offering_agent.py"}"]
adapter = "claude"
"""


@pytest.fixture
def gateway(tmp_path: Path, page: Path) -> Iterator[Gateway]:
    """A gateway with an agent that offers what its prompt says."""
    (tmp_path / "agents.toml").write_text(AGENTS + MORE)
    made = Gateway(tmp_path, page, ping=0.1)
    yield made
    made.close()


@pytest.fixture
def editor(gateway: Gateway) -> Iterator[AcpClient]:
    """A client of that agent."""
    made = AcpClient(gateway.folder, gateway.url, "offering")
    yield made
    made.close()


def lists(client: AcpClient) -> list[list[str]]:
    """The lists that a client was sent, by the names in them."""
    updates = [it for it in client.updates if it["sessionUpdate"] == "available_commands_update"]
    return [[command["name"] for command in it["availableCommands"]] for it in updates]


def next_list(client: AcpClient, count: int) -> list[str]:
    """The list number `count` that a client is sent; it follows the answer to a request."""
    until(lambda: client.ask("session/list")["sessions"] is not None and len(lists(client)) >= count)
    return lists(client)[count - 1]


def usage(client: AcpClient) -> list[dict[str, Any]]:
    """What a client was sent of the context."""
    return [it for it in client.updates if it["sessionUpdate"] == "usage_update"]


def test_the_commands_of_a_session(gateway: Gateway, editor: AcpClient) -> None:
    """They are sent while the agent lists them, once, and after the answer that opens the session elsewhere."""
    session = editor.new(gateway.root)
    editor.prompt(session, "review,init")
    command = {"name": "review", "description": "Does review now", "input": {"hint": "what"}}
    [update] = [it for it in editor.updates if it["sessionUpdate"] == "available_commands_update"]
    assert update["availableCommands"][0] == command
    assert lists(editor) == [["review", "init"]]
    editor.prompt(session, "review,init")
    editor.prompt(session, "hello")
    assert lists(editor) == [["review", "init"]]
    editor.prompt(session, "init")
    assert lists(editor) == [["review", "init"], ["init"]]
    for method in ("session/load", "session/resume"):
        other = AcpClient(gateway.folder, gateway.url, "offering")
        other.ask(method, sessionId=session, cwd=str(gateway.root), mcpServers=[])
        assert lists(other) == [], "the client does not know the session yet"
        assert next_list(other, 1) == ["init"]
        other.close()


def test_a_command_reaches_the_agent_as_it_is(gateway: Gateway, editor: AcpClient) -> None:
    """A prompt that begins with a command is neither changed nor answered by Penstock."""
    session = editor.new(gateway.root)
    editor.prompt(session, "review")
    editor.prompt(session, "/review  the “last”\ncommit")
    assert editor.text().endswith("/review  the “last”\ncommit")
    with gateway.client() as one:
        assert one.get(f"/api/chats/{session}/turns").json()["turns"][1]["prompt"] == "/review  the “last”\ncommit"


def test_the_commands_of_a_new_session(gateway: Gateway, editor: AcpClient) -> None:
    """They are those of the person's newest chat with the agent in this directory; another agent has its own."""
    editor.prompt(editor.new(gateway.root), "review,init")
    other = AcpClient(gateway.folder, gateway.url, "offering")
    session = other.new(gateway.root)
    assert next_list(other, 1) == ["review", "init"]
    other.ask("session/set_config_option", sessionId=session, configId="agent", value="scripted")
    assert next_list(other, 2) == []
    other.ask("session/set_config_option", sessionId=session, configId="agent", value="offering")
    assert next_list(other, 3) == ["review", "init"]
    other.prompt(session, "hello")
    other.prompt(session, "init")
    assert lists(other)[3:] == [["init"]]
    (gateway.root / "inside").mkdir()
    other.new(gateway.root / "inside")
    assert next_list(other, 4) == ["init"]
    assert len(lists(other)) == 4
    other.close()


@pytest.mark.slow
def test_the_use_of_the_context(gateway: Gateway) -> None:
    """After each turn a client gets the figures of the page's gauge, and the same when the session is loaded."""
    editor = AcpClient(gateway.folder, gateway.url, "scripted")
    session = editor.new(gateway.root)
    editor.prompt(session, "Hello")
    editor.prompt(session, "Again")
    with gateway.client() as one:
        turns = one.get(f"/api/chats/{session}/turns").json()["turns"]
    costs = [turns[0]["cost_usd"], turns[0]["cost_usd"] + turns[1]["cost_usd"]]
    assert costs[0] > 0
    assert usage(editor) == [
        {
            "sessionUpdate": "usage_update",
            "used": turn["context_tokens"],
            "size": turn["context_window"],
            "cost": {"amount": pytest.approx(cost), "currency": "USD"},
        }
        for turn, cost in zip(turns, costs, strict=True)
    ]
    for method, shown in (("session/load", 2), ("session/resume", 0)):
        other = AcpClient(gateway.folder, gateway.url, "scripted")
        other.ask(method, sessionId=session, cwd=str(gateway.root), mcpServers=[])
        assert usage(other) == usage(editor)[:shown]
        other.prompt(session, "Once more")
        assert usage(other)[-1]["cost"]["amount"] > costs[1]
        other.close()
    editor.close()
