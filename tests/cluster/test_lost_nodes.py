"""Machines that are killed, stopped and cut off: each turn ends once, none begins twice, and no agent is left."""

from __future__ import annotations

import time
from pathlib import Path
from signal import SIGCONT, SIGINT, SIGKILL, SIGQUIT, SIGSTOP
from typing import TYPE_CHECKING

import pytest
from effort import at_most
from waiting import until

if TYPE_CHECKING:
    from machines import Cluster
    from postgres import Server
    from slow_network import Direction, Proxy

pytestmark = pytest.mark.slow

SEEN_SECONDS = 12.0
"""Seconds in which the end of a lost turn is seen at other nodes: a lease of 10 s, and a look every 2 s."""

LATE_SECONDS = 3.0
"""Seconds that a busy test machine may need more."""


def test_a_killed_machine(cluster: Cluster) -> None:
    """Its turn is cut off within 12 s, its agent dies with it, and the next turn begins once when it is back."""
    home, gateway = cluster.machine("a"), cluster.machine("b", works=False)
    for number in range(at_most(1, 50)):
        cluster.gate.unlink(missing_ok=True)
        before = len(cluster.prompts())
        chat = gateway.chat_when_possible("held", home="a")
        gateway.prompt(chat, f"first {number}")
        gateway.prompt(chat, f"second {number}")
        until(lambda before=before: len(cluster.prompts()) > before)
        home.end(SIGKILL)
        began = time.monotonic()
        until(lambda chat=chat: gateway.turns(chat)[0].get("finalized"))
        assert time.monotonic() - began < SEEN_SECONDS + LATE_SECONDS
        assert cluster.left_over() == []
        first, second = gateway.turns(chat)
        assert (first["outcome"], first["reason"]) == ("cut_off", "its machine was lost")
        assert second["state"] == "queued"
        cluster.gate.touch()
        home.start()
        assert [turn["outcome"] for turn in gateway.settled(chat, 2)] == ["cut_off", "ok"]
        assert cluster.prompts()[before:] == [f"first {number}", f"second {number}"]


def test_a_stopped_machine(cluster: Cluster) -> None:
    """Another node ends its turns; when it continues, it kills its agents, appends nothing, and works again."""
    home, gateway = cluster.machine("a"), cluster.machine("b", works=False)
    for _ in range(at_most(1, 20)):
        cluster.gate.unlink(missing_ok=True)
        before = len(cluster.prompts())
        chat, other = gateway.chat_when_possible("held", home="a"), gateway.chat("stuck", home="a")
        gateway.prompt(chat, "first")
        until(lambda before=before: len(cluster.prompts()) == before + 1)
        gateway.prompt(other, "for ever")
        until(lambda before=before: len(cluster.prompts()) == before + 2)
        home.send(SIGSTOP)
        chats = (chat, other)
        until(lambda chats=chats: all(gateway.turns(it)[0].get("finalized") for it in chats))
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
        assert cluster.prompts()[before:] == ["first", "for ever", "second"]


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


def test_clocks_that_are_an_hour_off(cluster: Cluster) -> None:
    """One machine is an hour ahead, the other an hour behind: a run and the loss of its machine are as always."""
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    if not found:
        pytest.skip("libfaketime is not installed (on Debian and Ubuntu: apt install faketime)")
    clock = {"LD_PRELOAD": str(found[0]), "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    home = cluster.machine("a", environ={**clock, "FAKETIME": "+1h"})
    gateway = cluster.machine("b", works=False, environ={**clock, "FAKETIME": "-1h"})
    chat, other = gateway.chat("quick"), gateway.chat("stuck")
    gateway.prompt(chat, "first")
    assert gateway.settled(chat)[0]["outcome"] == "ok"
    gateway.prompt(other, "for ever")
    until(lambda: len(cluster.prompts()) == 2)
    time.sleep(SEEN_SECONDS)
    assert gateway.state(other) == "running"
    home.end(SIGKILL)
    began = time.monotonic()
    until(lambda: gateway.turns(other)[0].get("finalized"))
    assert time.monotonic() - began < SEEN_SECONDS + LATE_SECONDS
    assert cluster.left_over() == []


def test_a_restart_of_the_database(cluster: Cluster, server: Server) -> None:
    """A run goes on over it, whatever way the database is stopped, and prompts wait for it."""
    home, gateway = cluster.machine("a"), cluster.machine("b", works=False)
    for how in (SIGINT, SIGQUIT, SIGKILL):
        cluster.gate.unlink(missing_ok=True)
        before = len(cluster.prompts())
        chat = gateway.chat("held")
        gateway.prompt(chat, "first")
        until(lambda before=before: len(cluster.prompts()) == before + 1)
        server.stop(how)
        cluster.gate.touch()
        server.start()
        gateway.prompt(chat, "second")
        assert [turn["outcome"] for turn in gateway.settled(chat, 2)] == ["ok", "ok"]
        assert home.settled(chat, 2) == gateway.turns(chat)
        assert cluster.prompts()[before:] == ["first", "second"]
