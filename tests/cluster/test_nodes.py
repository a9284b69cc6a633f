"""Two machines on one database: a prompt at one of them runs at the chat's home, and is seen at both."""

from __future__ import annotations

import asyncio
import subprocess
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import psycopg
import pytest
from psycopg.sql import SQL, Identifier
from waiting import PATIENCE, until

from penstock.chat.cluster import nodes
from penstock.chat.cluster.member import Member
from penstock.chat.cluster.nodes import list_nodes
from penstock.chat.service.nodes import ThisNode
from penstock.chat.store.postgres.connections import Database, parameters

if TYPE_CHECKING:
    from machines import Cluster

pytestmark = pytest.mark.slow


def test_a_prompt_at_a_gateway_runs_at_the_home(cluster: Cluster) -> None:
    """A node without agents creates a chat at the other one, and shows the same turn."""
    home, gateway = cluster.machine("a"), cluster.machine("b", works=False)
    chat = gateway.chat("quick")
    assert gateway.get(f"/api/chats/{chat}")["home"] == "a"
    gateway.prompt(chat, "hi")
    seen = gateway.settled(chat)
    assert [turn["outcome"] for turn in seen] == ["ok"]
    assert seen == home.settled(chat)
    assert cluster.prompts() == ["hi"]


def test_stop_and_answer_work_from_another_node(cluster: Cluster) -> None:
    """A run at its home is stopped, and a question answered, by requests to a node without agents."""
    home, gateway = cluster.machine("a"), cluster.machine("b", works=False)
    chat = gateway.chat("held")
    gateway.prompt(chat, "first")
    gateway.prompt(chat, "second")
    until(lambda: cluster.prompts() == ["first"])
    gateway.post(f"/api/chats/{chat}/stop", {})
    assert [turn["outcome"] for turn in gateway.settled(chat, 2)] == ["cancelled", "cancelled"]
    asking = gateway.chat("peer")
    gateway.prompt(asking, "permission")
    until(lambda: gateway.get(f"/api/chats/{asking}")["asks"])
    (turn,) = gateway.turns(asking)
    question = turn["question"]
    gateway.post(f"/api/chats/{asking}/questions", {"id": question["id"], "answer": question["options"][0]["id"]})
    (turn,) = home.settled(asking)
    assert turn["message"] == "asked: once"
    assert cluster.prompts() == ["first"]
    assert cluster.left_over() == []


def test_a_turn_is_undone_where_its_files_are(cluster: Cluster) -> None:
    """Another node changes no file: it refuses an undo, and its preview, with the name of the machine."""
    home, gateway = cluster.machine("a"), cluster.machine("b", works=False)
    chat = gateway.chat("quick")
    gateway.prompt(chat, "hi")
    gateway.settled(chat)
    path = f"/api/chats/{chat}/turns/1/undo"
    with gateway.client() as client:
        refusals = [client.get(path), client.post(path, json={})]
    assert [answer.status_code for answer in refusals] == [409, 409]
    assert all("the machine a" in answer.text for answer in refusals)
    home.settled(chat)
    assert home.get(path)["files"] == []


def test_work_lands_where_its_tree_is(cluster: Cluster) -> None:
    """Another node makes no tree, and lands nothing: it refuses with the name of the machine."""
    home, gateway = cluster.machine("a"), cluster.machine("b", works=False)
    for words in (
        ["init", "-q", "-b", "main"],
        ["config", "user.name", "Ana"],
        ["config", "user.email", "ana@example.org"],
        ["commit", "-q", "--allow-empty", "-m", "First"],
    ):
        subprocess.run(["git", "-C", home.work, *words], check=True)
    chat = home.chat("quick", tree=True)
    until(lambda: gateway.has_chat(chat))
    path = f"/api/chats/{chat}/land"
    with gateway.client() as client:
        refusals = [
            client.post("/api/chats", json={"agent": "quick", "tree": True}),
            client.get(path),
            client.post(path, json={"seen": home.get(path)["seen"]}),
        ]
    assert [answer.status_code for answer in refusals] == [409] * 3
    assert all("the machine a" in answer.text for answer in refusals)
    assert home.get(path)["onto"] == "main"


def test_what_one_node_did_another_knows_at_once(cluster: Cluster) -> None:
    """Requests of a client that a proxy sends to one node after the other find what the one before did.

    No notification is sent here, so a node hears of others by its poll each second; it must not answer before that
    as if they had done nothing.
    """
    with psycopg.connect(autocommit=True, **parameters(cluster.url)) as connection:
        database = Identifier(connection.info.dbname)
        connection.execute(SQL("ALTER DATABASE {} SET penstock.quiet = 'on'").format(database))
    home, gateway = cluster.machine("a"), cluster.machine("b", works=False)
    for _ in range(3):
        chat = home.chat("held")
        assert gateway.get(f"/api/chats/{chat}")["home"] == "a"
        assert home.prompt(chat, "first") == 1
        assert [turn["turn"] for turn in gateway.turns(chat)] == [1]
        assert gateway.prompt(chat, "second") == 2
        assert [turn["turn"] for turn in home.turns(chat)] == [1, 2]
        assert gateway.get(f"/api/chats/{chat}/turns/2/details")
        assert home.prompt(chat, "third") == 3
        assert gateway.post(f"/api/chats/{chat}/stop", {"turn": 3}) == {"turns": [3]}
        assert sorted(home.post(f"/api/chats/{chat}/stop", {})["turns"]) == [1, 2]
        other = home.chat("held")
        gateway.prompt(other, "first")
        assert home.post(f"/api/chats/{other}/stop", {}) == {"turns": [1]}
    asking = home.chat("peer")
    home.prompt(asking, "permission")
    until(lambda: home.get(f"/api/chats/{asking}")["asks"])
    question = home.turns(asking)[0]["question"]
    gateway.post(f"/api/chats/{asking}/questions", {"id": question["id"], "answer": question["options"][0]["id"]})
    assert home.settled(asking)[0]["message"] == "asked: once"


@pytest.mark.parametrize("has_expired", [False, True])
def test_a_start_may_take_longer_than_the_lease(
    database: str, monkeypatch: pytest.MonkeyPatch, *, has_expired: bool
) -> None:
    """A node that read its chats for longer than its lease lasts begins with a lease, and fences nothing."""
    happened: asyncio.Queue[str] = asyncio.Queue()

    class Node:
        busy = 0

        async def run_job(self, chat: str, turn: int) -> None: ...

        async def fence(self) -> None:
            happened.put_nowait("fenced")

        def waiting_turns(self) -> dict[str, int]:
            happened.put_nowait("swept")
            return {}

    this_node = ThisNode(name="slow", by_jobs=True)

    async def start() -> None:
        async with Database(database) as opened:
            member = Member(opened, this_node, works=False)
            with monkeypatch.context() as patch:
                patch.setattr(nodes, "OWN_TTL_SECONDS", 0.0)
                await member.join(lambda _: None)
            if has_expired:
                await opened.fetch("UPDATE nodes SET seen = seen - interval '1 hour'")
            try:
                await member.start(cast("Any", SimpleNamespace(node=Node())))
                assert await asyncio.wait_for(happened.get(), PATIENCE) == "swept"
                assert this_node.incarnation is not None
                assert [node.is_live for node in await list_nodes(opened)] == [True]
            finally:
                await member.close()

    asyncio.run(start())


HOSTILE = "ev\x1b[2Jil\u202e\n/x"


def test_names_in_the_database_are_names(database: str) -> None:
    """No client writes another, and one that is there from before is shown without what no name has."""
    row = "INSERT INTO nodes (id, incarnation, seen, ttl) VALUES (%s, gen_random_uuid(), now(), interval '9s')"
    rows = {"nodes": row, "tokens": "INSERT INTO tokens (node, digest) VALUES (%s, '\\x00')"}
    rows["heads"] = "INSERT INTO heads (id) VALUES (%s)"
    with psycopg.connect(**parameters(database), autocommit=True) as connection:
        for table, insert in rows.items():
            for name in (HOSTILE, "", "-x", "x\n", "x" * 300):
                with pytest.raises(psycopg.errors.CheckViolation):
                    connection.execute(insert, (name,))
            connection.execute(insert, ("paris",))
            connection.execute(SQL("DELETE FROM {}").format(Identifier(table)))
        connection.execute("ALTER TABLE nodes DROP CONSTRAINT nodes_name")
        about = '{"version": "1", "host": "h", "pid": 1}'
        connection.execute(row, (HOSTILE,))
        connection.execute("UPDATE nodes SET about = %s", (about,))

    async def names() -> list[str]:
        async with Database(database) as opened:
            return [node.name for node in await list_nodes(opened)]

    assert asyncio.run(names()) == ["ev??2Jil???x"]
