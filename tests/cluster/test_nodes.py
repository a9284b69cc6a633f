"""Two machines on one database: a prompt at one of them runs at the chat's home, and is seen at both."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from waiting import until

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
