"""A database that is restored from an older backup, under nodes that have seen more: what is lost is not made up."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from waiting import until

if TYPE_CHECKING:
    from machines import Cluster, Frames, Machine
    from postgres import Server

pytestmark = pytest.mark.slow

LEASE_SECONDS = 10.0
"""Seconds of a lease: in a backup that is older, all leases are over."""


def _settled(home: Machine, gateway: Machine, chat: str, count: int) -> list[str]:
    """Outcomes of the turns of a chat, which two nodes see as the same."""
    found = gateway.settled(chat, count)
    until(lambda: home.turns(chat) == gateway.turns(chat) == found, "both nodes have the same turns")
    return [turn["outcome"] for turn in found]


@pytest.mark.parametrize("seconds", [0.0, LEASE_SECONDS + 1], ids=["with leases", "without leases"])
def test_an_older_backup(cluster: Cluster, server: Server, seconds: float) -> None:
    """Viewers get a snapshot, runs that were ahead are cut off, no turn begins again, and all chats work again."""
    home, gateway = cluster.machine("a"), cluster.machine("b", works=False)
    running, done, waiting = gateway.chat("halting"), gateway.chat("quick"), gateway.chat("held")
    gateway.prompt(done, "done 1")
    gateway.settled(done)
    gateway.prompt(running, "running 1")
    gateway.prompt(waiting, "waiting 1")
    gateway.prompt(waiting, "waiting 2")
    until(lambda: len(cluster.prompts()) == 3)
    backup = server.back_up()
    time.sleep(seconds)
    cluster.gate.touch()
    gateway.prompt(running, "running 2")  # its run may have appended all that it has before
    gateway.prompt(done, "done 2")
    lost = gateway.chat("quick")
    gateway.prompt(lost, "lost 1")
    for chat, count in ((done, 2), (waiting, 2), (lost, 1)):
        assert {turn["outcome"] for turn in gateway.settled(chat, count)} == {"ok"}
    with ExitStack() as stack:
        chats = (running, done, waiting)
        seen: dict[str, Frames] = {chat: stack.enter_context(gateway.watching(chat)) for chat in (*chats, lost)}
        until(lambda: all(frames.number for frames in seen.values()))
        before = {chat: frames.number for chat, frames in seen.items()}
        server.restore(backup)
        for chat in chats:
            until(lambda chat=chat: seen[chat].kinds().count("snapshot") == 2, "a viewer gets a snapshot")
            again = [frame for _, frame in seen[chat].found if frame["type"] == "snapshot"][1]
            assert again["number"] < before[chat]
        until(lambda: seen[lost].kinds()[-1] == "deleted", "a chat that is lost is shown as deleted")
    assert _settled(home, gateway, done, 1) == ["ok"]
    assert _settled(home, gateway, running, 1) == ["cut_off"]
    assert _settled(home, gateway, waiting, 2) == ["cut_off", "cut_off"]
    assert cluster.left_over() == []
    until(lambda: not home.has_chat(lost), "its home has dropped it too")
    for chat in chats:
        cluster.gate.touch()
        gateway.prompt(chat, f"again {chat}")
    stopped = gateway.turns(running)[-1]["turn"]
    until(lambda: f"again {running}" in cluster.prompts())
    gateway.post(f"/api/chats/{running}/stop", {"turn": stopped})
    assert _settled(home, gateway, done, 2) == ["ok", "ok"]
    assert _settled(home, gateway, waiting, 3)[2] == "ok"
    assert _settled(home, gateway, running, 2)[1] == "cancelled"
    first = ["done 1", "done 2", "lost 1", "running 1", "waiting 1", "waiting 2"]
    assert sorted(cluster.prompts()) == sorted([*first, *(f"again {chat}" for chat in chats)])
