"""Rights at several nodes: what the database says holds at once, also at a node that was not notified of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import psycopg
import pytest
from waiting import until

from penstock.chat.people import persons

if TYPE_CHECKING:
    from machines import Cluster, Machine

pytestmark = pytest.mark.slow


def client_of(machine: Machine, token: str) -> httpx.Client:
    """A program of a person."""
    client = machine.client()
    client.headers["Authorization"] = f"Bearer {token}"
    return client


def test_a_chat_that_became_private_is_read_at_no_node(cluster: Cluster) -> None:
    """Its row says private, and no node was notified: turns, details, changes and files are not there for others."""
    paris, oslo = cluster.machine("paris"), cluster.machine("oslo")
    token = persons.add(oslo.folder / "data", "ben", "member", 0)
    chat = paris.chat("quick", visibility="team")
    with paris.client() as owner:
        path = f"/api/chats/{chat}"
        given = owner.post(
            f"{path}/attachments?name=a", content=b"a", headers={"Content-Type": "application/octet-stream"}
        )
        file = given.json()["id"]
        assert owner.post(f"{path}/turns", json={"text": "hello", "attachments": [file]}).status_code == 202
    oslo.settled(chat)
    paths = [f"{path}/{what}" for what in ("turns", "turns/1/details", "turns/1/changes", f"attachments/{file}")]
    with client_of(oslo, token) as ben, oslo.client() as owner:
        until(lambda: [ben.get(it).status_code for it in paths] == [200] * 4, "the chat is the team's")
        with psycopg.connect(cluster.url, autocommit=True) as connection:
            changed = connection.execute(
                """UPDATE penstock.chats SET visibility = 'private'
                WHERE key = (SELECT key FROM penstock.heads WHERE id = %s)""",
                (chat,),
            )
            assert changed.rowcount == 1
        assert [ben.get(it).status_code for it in paths] == [404] * 4
        assert {ben.get(it).json()["detail"] for it in paths} == {ben.get("/api/chats/none/turns").json()["detail"]}
        assert [owner.get(it).status_code for it in paths] == [200] * 4
