"""Machines that are killed, stopped and cut off: each turn ends once, none begins twice, and no agent is left."""

from __future__ import annotations

import time
from signal import SIGCONT, SIGKILL, SIGSTOP
from typing import TYPE_CHECKING

import pytest
from waiting import until

if TYPE_CHECKING:
    from machines import Cluster
    from slow_network import Direction, Proxy

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
    """Another node ends its turns; when it continues, it kills its agents, appends nothing, and works again."""
    home, gateway = cluster.machine("a"), cluster.machine("b", works=False)
    chat, other = gateway.chat("held"), gateway.chat("stuck")
    gateway.prompt(chat, "first")
    until(lambda: cluster.prompts() == ["first"])
    gateway.prompt(other, "for ever")
    until(lambda: cluster.prompts() == ["first", "for ever"])
    home.send(SIGSTOP)
    until(lambda: all(gateway.turns(it)[0].get("finalized") for it in (chat, other)))
    ended = gateway.turns(chat) + gateway.turns(other)
    assert [turn["outcome"] for turn in ended] == ["cut_off", "cut_off"]
    cluster.gate.touch()  # one agent writes to its end now, which is too late
    home.send(SIGCONT)
    until(lambda: not cluster.left_over())
    gateway.prompt(chat, "second")
    first, second = gateway.settled(chat, 2)
    assert [first, *gateway.turns(other)] == ended
    assert second["outcome"] == "ok"
    assert home.settled(chat, 2) == [first, second]
    assert cluster.prompts() == ["first", "for ever", "second"]


@pytest.mark.parametrize("directions", [("to server", "to client"), ("to client",)], ids=["both", "half-open"])
def test_a_machine_without_its_database(cluster: Cluster, proxy: Proxy, directions: tuple[Direction, ...]) -> None:
    """Its agents die before another node ends their turns; once the database is back, it works again."""
    home, gateway = cluster.machine("a", url=proxy.url(cluster.url)), cluster.machine("b", works=False)
    chat = gateway.chat("stuck")
    gateway.prompt(chat, "first")
    until(lambda: cluster.prompts() == ["first"])
    proxy.hold(*directions)
    until(lambda: not cluster.left_over())
    assert not gateway.turns(chat)[0].get("finalized"), "the agent died before its turn was ended"
    until(lambda: gateway.turns(chat)[0].get("finalized"))
    assert gateway.turns(chat)[0]["outcome"] == "cut_off"
    with home.client() as client:
        assert client.get("/healthz").status_code == 200
    proxy.cut()
    proxy.hold()
    after = gateway.chat_when_possible("quick", home="a")
    gateway.prompt(after, "second")
    gateway.settled(after)
    assert cluster.prompts() == ["first", "second"]


def test_a_machine_without_its_database_for_a_second(cluster: Cluster, proxy: Proxy) -> None:
    """Its run goes on, and all of its text arrives once."""
    home, gateway = cluster.machine("a", url=proxy.url(cluster.url)), cluster.machine("b", works=False)
    chat = gateway.chat("held")
    gateway.prompt(chat, "first")
    until(lambda: cluster.prompts() == ["first"])
    proxy.hold("to server", "to client")
    cluster.gate.touch()
    time.sleep(1)
    proxy.cut()
    proxy.hold()
    (turn,) = gateway.settled(chat)
    assert turn["outcome"] == "ok"
    assert [turn] == home.settled(chat)
    quick = gateway.chat("quick")
    gateway.prompt(quick, "second")
    assert gateway.settled(quick)[0]["message"] == turn["message"]
