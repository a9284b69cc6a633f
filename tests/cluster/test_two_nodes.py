"""One node works, another one is used: what is asked, watched, stopped and answered there is the same at both."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import psycopg
import pytest
from crowd import Crowd, Watching
from effort import at_most
from truth import folded, judge
from waiting import until

from penstock.chat.people import persons

if TYPE_CHECKING:
    from machines import Cluster, Machine

pytestmark = pytest.mark.slow

CHATS = at_most(12, 200)

QUIET_SECONDS = 5.0
"""Seconds in which a turn would have begun that nothing holds back: more than two looks for turns without a job."""

AT_ONCE = 6
"""Chats that are used at once: a run that waits for a person holds an agent, and so some memory."""

SECONDS = 120.0
"""Seconds for a chat, on a machine that is busy."""


def _use(number: int, home: Machine, gateway: Machine, chat: str) -> str:
    """Ask for a turn at the home, or stop or answer it from the other node; return the outcome that it has to have."""
    if number % 3 == 0:
        home.prompt(chat, f"text {number}")
        return "ok"
    home.prompt(chat, "permission" if number % 3 == 1 else f"for ever {number}")
    if number % 3 == 2:
        until(lambda: gateway.turns(chat)[0]["state"] == "running", seconds=SECONDS)
        gateway.post(f"/api/chats/{chat}/stop", {"turn": 1})
        return "cancelled"
    question = until(lambda: gateway.turns(chat)[0].get("question"), "the other node shows the question", SECONDS)
    option = question["options"][1]["id"]
    gateway.post(f"/api/chats/{chat}/questions", {"id": question["id"], "answer": option})
    return "ok"


def test_one_node_is_used_from_another(cluster: Cluster) -> None:
    """Viewers at both nodes see the same at each number, and stops and answers of the other node arrive once."""
    home, gateway = cluster.machine("a"), cluster.machine("b", works=False)
    agents = ("quick", "peer", "stuck")
    for first in range(0, CHATS, AT_ONCE):
        numbers = range(first, min(first + AT_ONCE, CHATS))
        chats = {number: home.chat(agents[number % 3]) for number in numbers}
        until(lambda chats=chats: all(gateway.has_chat(chat) for chat in chats.values()))
        with Crowd([Watching(chat, [node]) for chat in chats.values() for node in (home, gateway)]) as crowd:
            until(lambda crowd=crowd: all(it.viewer.after is not None for it in crowd.watching))
            wanted = {chat: _use(number, home, gateway, chat) for number, chat in chats.items()}
            for chat in wanted:
                gateway.settled(chat)
            rows = {chat: cluster.rows(chat) for chat in wanted}
            crowd.reach({chat: len(found) for chat, found in rows.items()})
        for chat, outcome in wanted.items():
            assert folded(rows[chat])[1]["outcome"] == outcome
            judge(rows[chat], [it for it in crowd.watching if it.chat == chat])
            assert home.turns(chat) == gateway.turns(chat)
    assert cluster.left_over() == []
    texts = [f"text {number}" for number in range(0, CHATS, 3)]
    assert sorted(text for text in cluster.prompts() if text.startswith("text")) == sorted(texts)


def test_a_stop_at_one_node_holds_the_queue_of_another(cluster: Cluster) -> None:
    """What waits begins at no node until one of them is asked to, also after the home was killed and is back."""
    home, gateway = cluster.machine("a"), cluster.machine("b", works=False)
    chat = home.chat("stuck")
    until(lambda: gateway.has_chat(chat))
    for text in ("first", "second", "third"):
        gateway.prompt(chat, text)
    until(lambda: gateway.turns(chat)[0]["state"] == "running", seconds=SECONDS)
    gateway.post(f"/api/chats/{chat}/stop", {"turn": 1})
    until(lambda: gateway.turns(chat)[0].get("finalized"), seconds=SECONDS)
    time.sleep(QUIET_SECONDS)
    for node in (home, gateway):
        assert [turn.get("held", False) for turn in node.turns(chat)] == [False, True, True]
        assert cluster.prompts().count("second") == 0
    home.end(signal.SIGKILL)
    home.start()
    until(lambda: home.has_chat(chat), seconds=SECONDS)
    time.sleep(QUIET_SECONDS)
    assert [turn.get("held", False) for turn in gateway.turns(chat)] == [False, True, True]
    assert gateway.post(f"/api/chats/{chat}/release", {})["turns"] == [2, 3]
    until(lambda: gateway.turns(chat)[1]["state"] == "running", seconds=SECONDS)
    gateway.post(f"/api/chats/{chat}/stop", {})
    gateway.settled(chat)
    assert [turn["outcome"] for turn in gateway.turns(chat)] == ["cancelled"] * 3
    assert cluster.left_over() == []


def test_what_is_read_at_one_node_is_read_at_another(cluster: Cluster) -> None:
    """The other node has the mark too; that of a person who was removed is deleted."""
    home, other = cluster.machine("a"), cluster.machine("b", works=False)
    tokens = [persons.add(node.folder / "data", "ana", "member", 0) for node in (home, other)]
    chat = home.chat("quick", visibility="team")
    home.prompt(chat, "hello")
    other.settled(chat)
    with home.client() as here, other.client() as there:
        for client, token in zip((here, there), tokens, strict=True):
            client.headers["Authorization"] = f"Bearer {token}"

        def read() -> list[int]:
            return [client.get(f"/api/chats/{chat}").json()["read"] for client in (here, there)]

        assert read() == [0, 0]
        assert there.post("/api/read", json={"chats": {chat: 1}}).status_code == 204
        until(lambda: read() == [1, 1], "the home has the mark")
    with other.client() as owner:
        assert owner.get(f"/api/chats/{chat}").json()["read"] == 0
    persons.remove(other.folder / "data", "ana")
    statement = "SELECT reads FROM penstock.chats"
    with psycopg.connect(cluster.url, autocommit=True) as connection:
        until(lambda: connection.execute(statement).fetchall() == [({},)], "the mark is gone")
