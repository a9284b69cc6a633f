"""Machines at which agents work: homes of chats, names of nodes, chats that others delete, and restarts one by one."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from signal import SIGTERM
from typing import TYPE_CHECKING

import pytest
from waiting import until

if TYPE_CHECKING:
    from machines import Cluster

pytestmark = pytest.mark.slow


def test_a_chat_works_at_the_home_that_was_chosen(cluster: Cluster) -> None:
    """Its directory is one of that machine; one that is not below its roots, or not trusted there, is rejected."""
    one, other = cluster.machine("a"), cluster.machine("b")
    assert one.get(f"/api/chats/{one.chat('quick')}")["home"] == "a"
    chat = one.chat("quick", home="b")
    assert one.get(f"/api/chats/{chat}")["cwd"] == str(other.work)
    one.prompt(chat, "hi")
    assert one.settled(chat)[0]["outcome"] == "ok"
    deeper = other.work / "deeper"
    deeper.mkdir()
    wish = {"agent": "quick", "home": "b", "cwd": str(deeper)}
    with one.client() as client:
        assert client.post("/api/chats", json={**wish, "cwd": str(one.work)}).status_code == 403
        assert client.post("/api/chats", json=wish).json()["code"] == "untrusted_directory"
        assert client.post("/api/chats", json={**wish, "home": "nowhere"}).status_code == 400
    one.post("/api/workspaces", {"path": str(deeper), "home": "b"})
    chat = str(one.post("/api/chats", wish)["id"])
    one.prompt(chat, "there")
    assert one.settled(chat)[0]["outcome"] == "ok"
    assert cluster.prompts() == ["hi", "there"]
    until(lambda: str(deeper) in one.node("b")["about"]["trusted"])


def test_a_gateway_offers_what_other_nodes_have(cluster: Cluster) -> None:
    """Its page has their agents and directories; without any such node, a chat is rejected with the reason."""
    gateway = cluster.machine("b", works=False)
    with gateway.client() as client:
        assert "no node that runs agents is up" in client.post("/api/chats", json={"agent": "quick"}).json()["detail"]
    home = cluster.machine("a")
    assert gateway.get("/api/workspaces")["roots"] == [{"path": str(home.work), "trusted": True}]
    offered = {agent["name"]: agent["available"] for agent in gateway.get("/api/agents")["agents"]}
    assert offered["quick"]


UNHURRIED = """
import asyncio, sys
from penstock.chat.cluster.nodes import Lease
from penstock.cli.main import main

hold = Lease.hold

async def later(self):
    await asyncio.sleep(4)
    await hold(self)

Lease.hold = later
sys.exit(main())
"""
"""A node that renews its lease for the first time seconds after it answers, as on a busy disk."""


def test_a_node_is_described_before_it_answers(cluster: Cluster) -> None:
    """Whoever asks a gateway as soon as a node answers is offered that node."""
    gateway = cluster.machine("b", works=False)
    program = cluster.folder / "unhurried.py"
    program.write_text(UNHURRIED)
    home = cluster.machine("a", program=program, waits=False)
    until(home.answers)
    assert gateway.get("/api/workspaces")["roots"] == [{"path": str(home.work), "trusted": False}]


def test_a_name_belongs_to_one_process(cluster: Cluster) -> None:
    """A second process with the name of a node waits for the end of its lease, and then names the one that has it."""
    one = cluster.machine("a", works=False)
    second = [sys.executable, "-m", "penstock", "serve", "--port=0", "--node=a", f"--store={cluster.url}"]
    data = f"--data={cluster.folder / 'other'}"
    done = subprocess.run([*second, data], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert one.process is not None
    assert f"the node 'a' is at work already: process {one.process.pid}" in done.stderr


def test_the_command_lists_the_nodes(cluster: Cluster) -> None:
    """`penstock nodes` shows each machine, and --json what it says of itself; a password in --store is rejected."""
    home = cluster.machine("a")
    cluster.machine("b", works=False).end(SIGTERM)

    def nodes(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "penstock", "nodes", *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    found = {
        node["name"]: node for node in map(json.loads, nodes(f"--store={cluster.url}", "--json").stdout.splitlines())
    }
    assert {name: node["is_live"] for name, node in found.items()} == {"a": True, "b": False}
    assert found["a"]["about"]["roots"] == [str(home.work)]
    table = nodes(f"--store={cluster.url}").stdout
    assert "0 of 4" in table
    assert "away for" in table
    chat = home.chat("stuck")
    home.prompt(chat, "Write a poem")
    until(
        lambda: any(
            line.split() == ["a", "Write", "a", "poem", chat]
            for line in nodes(f"--store={cluster.url}").stdout.splitlines()
        )
    )
    assert nodes("--store=postgresql://me:secret@localhost/x").returncode == 2
    assert nodes().returncode == 2


def test_a_chat_that_is_deleted_elsewhere(cluster: Cluster) -> None:
    """Its run is killed at its home, and all nodes forget it."""
    home, gateway = cluster.machine("a"), cluster.machine("b", works=False)
    chat = gateway.chat("stuck")
    gateway.prompt(chat, "for ever")
    until(lambda: len(cluster.left_over()) == 1)
    with gateway.client() as client:
        assert client.delete(f"/api/chats/{chat}").status_code == 204
    until(lambda: not cluster.left_over())
    until(lambda: not home.has_chat(chat))
    assert not gateway.has_chat(chat)


def test_a_change_is_seen_at_all_nodes(cluster: Cluster) -> None:
    """The title that one node gives is shown by the other, and the model that one sets is used by the other."""
    home, gateway = cluster.machine("a"), cluster.machine("b", works=False)
    chat = gateway.chat("quick")
    with gateway.client() as client:
        assert client.patch(f"/api/chats/{chat}", json={"title": "New words"}).status_code == 200
    until(lambda: home.get(f"/api/chats/{chat}")["title"] == "New words")


def test_a_message_for_an_agent_that_works_elsewhere(cluster: Cluster) -> None:
    """It is given at one node and reaches the agent at another; all see it as a part of the turn, and it runs once."""
    home, gateway = cluster.machine("a"), cluster.machine("b", works=False)
    chat = gateway.chat("codex")
    gateway.prompt(chat, "first")
    until(lambda: gateway.turns(chat)[0].get("steerable"), "the agent takes messages")
    gateway.post(f"/api/chats/{chat}/turns", {"text": "left", "steers": 1})
    gateway.prompt(chat, "right")
    gateway.post(f"/api/chats/{chat}/turns/3/steer", {"into": 1})
    taken = {"into": 1, "state": "taken"}
    for machine in (gateway, home):
        until(lambda it=machine: [turn.get("steer") for turn in it.turns(chat)] == [taken, taken, None], "it is taken")
    cluster.gate.touch()
    assert [turn["outcome"] for turn in gateway.settled(chat, 3)] == ["ok"] * 3
    assert gateway.settled(chat, 3) == home.settled(chat, 3)
    did = [json.loads(line) for line in (cluster.folder / "did").read_text().splitlines()]
    assert did == [{"prompt": "first"}, {"steer": "left"}, {"steer": "right"}]


def test_a_rolling_restart(cluster: Cluster) -> None:
    """Machines are ended and started one after another: what was acknowledged begins once, and all see the same."""
    machines = [cluster.machine(name) for name in ("a", "b", "c")]
    chats = {machine.name: machine.chat("quick") for machine in machines}
    asked: list[str] = []
    for number, machine in enumerate(machines):
        others = [other for other in machines if other is not machine]
        assert machine.end(SIGTERM) == 0
        for other in others:
            text = f"{number} {other.name}"
            other.prompt(chats[machine.name], text)  # waits for the machine that is away
            asked.append(text)
        time.sleep(0.5)
        assert all(turn["state"] == "queued" for turn in others[0].turns(chats[machine.name])[-2:])
        machine.start()
        others[0].settled(chats[machine.name], 2)
    assert sorted(cluster.prompts()) == sorted(asked)
    for chat in chats.values():
        seen = [machine.settled(chat, 2) for machine in machines]
        assert seen[0] == seen[1] == seen[2]
        assert {turn["outcome"] for turn in seen[0]} == {"ok"}
    assert cluster.left_over() == []
