"""Machines that are killed, stopped and cut off: each turn ends once, none begins twice, and no agent is left."""

from __future__ import annotations

import time
from signal import SIGCONT, SIGKILL, SIGSTOP
from typing import TYPE_CHECKING

from waiting import until

if TYPE_CHECKING:
    from machines import Cluster

SEEN_SECONDS = 12.0
"""Seconds in which the end of a lost turn is seen at other nodes: a lease of 10 s, and a look every 2 s."""

LATE_SECONDS = 3.0
"""Seconds that a busy test machine may need more."""


def test_a_killed_machine(cluster: Cluster) -> None:
    """Its turn is cut off within 12 s, its agent dies with it, and the next turn begins once when it is back."""
    home, gateway = cluster.machine("a"), cluster.machine("b", works=False)
    chat = gateway.chat("held")
    gateway.prompt(chat, "first")
    gateway.prompt(chat, "second")
    until(lambda: cluster.prompts() == ["first"])
    home.end(SIGKILL)
    began = time.monotonic()
    until(lambda: gateway.turns(chat)[0].get("finalized"))
    assert time.monotonic() - began < SEEN_SECONDS + LATE_SECONDS
    assert cluster.left_over() == []
    first, second = gateway.turns(chat)
    assert (first["outcome"], first["reason"]) == ("cut_off", "its machine was lost")
    assert second["state"] == "queued"
    cluster.gate.touch()
    home.start()
    assert [turn["outcome"] for turn in gateway.settled(chat, 2)] == ["cut_off", "ok"]
    assert cluster.prompts() == ["first", "second"]


def test_a_stopped_machine(cluster: Cluster) -> None:
    """Another node ends its turn; when it continues, it kills its agent, appends nothing, and works again."""
    home, gateway = cluster.machine("a"), cluster.machine("b", works=False)
    chat = gateway.chat("held")
    gateway.prompt(chat, "first")
    until(lambda: cluster.prompts() == ["first"])
    home.send(SIGSTOP)
    until(lambda: gateway.turns(chat)[0].get("finalized"))
    (ended,) = gateway.turns(chat)
    assert ended["outcome"] == "cut_off"
    cluster.gate.touch()  # the agent goes on: what it says comes too late
    home.send(SIGCONT)
    until(lambda: not cluster.left_over())
    gateway.prompt(chat, "second")
    first, second = gateway.settled(chat, 2)
    assert first == ended
    assert second["outcome"] == "ok"
    assert home.settled(chat, 2) == [first, second]
    assert cluster.prompts() == ["first", "second"]
