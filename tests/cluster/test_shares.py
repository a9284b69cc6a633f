"""Links that show a chat, on several machines: each works at all of them, and a revoked one at none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest

if TYPE_CHECKING:
    from machines import Cluster, Machine

pytestmark = pytest.mark.slow


def shown(machine: Machine, code: str) -> httpx.Response:
    """What a stranger with this code gets at a machine."""
    with machine.client() as client:
        client.headers.pop("authorization", None)
        return client.get("/api/shared", headers={"X-Penstock-Share": code})


def test_a_link_works_at_all_machines_until_it_is_revoked(cluster: Cluster) -> None:
    """Also at one that was not notified of the chat; with its last request it ends everywhere, as with its chat."""
    one, other = cluster.machine("a"), cluster.machine("b", works=False)
    chat = one.chat("quick")
    one.prompt(chat, "hello pelican")
    one.settled(chat)
    made = [one.post(f"/api/chats/{chat}/shares", {}) for _ in range(2)]
    codes = [it["url"].partition("#")[2] for it in made]
    for code in codes:
        assert [turn["prompt"] for turn in shown(other, code).json()["turns"]] == ["hello pelican"]
    with other.client() as client:
        assert len(client.get("/api/shares").json()["shares"]) == 2
        assert client.delete(f"/api/chats/{chat}/shares/{made[0]['share']['id']}").status_code == 204
    assert [shown(machine, codes[0]).status_code for machine in (one, other)] == [404, 404]
    assert [shown(machine, codes[1]).status_code for machine in (one, other)] == [200, 200]
    with other.client() as client:
        assert client.delete(f"/api/chats/{chat}").status_code == 204
    assert [shown(machine, codes[1]).status_code for machine in (other, one)] == [404, 404]
    with one.client() as client:
        assert client.get("/api/shares").json() == {"shares": []}
