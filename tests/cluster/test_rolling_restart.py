"""Machines that are ended and started one after another, while agents write and many viewers watch."""

from __future__ import annotations

from signal import SIGTERM
from typing import TYPE_CHECKING

import pytest
from crowd import Crowd, Watching
from effort import at_most
from truth import folded, judge
from waiting import until

if TYPE_CHECKING:
    from machines import Cluster

pytestmark = pytest.mark.slow

VIEWERS = at_most(24, 500)

REMEMBERING = 24
"""Viewers of which all that they saw is compared; of the others the texts at the end."""

CHATS_EACH = 2
"""Chats whose home is one machine."""

SECONDS = 120.0
"""Seconds in which all viewers have seen all, on a machine that is busy."""


def test_a_rolling_restart_under_viewers(cluster: Cluster) -> None:
    """Every viewer has the texts that the database has, without a gap and none twice; each turn begins once."""
    machines = [cluster.machine(name) for name in ("a", "b", "c")]
    chats = [machine.chat("slow") for machine in machines for _ in range(CHATS_EACH)]
    until(lambda: all(machine.has_chat(chat) for machine in machines for chat in chats))
    viewers = [
        Watching(
            chats[number % len(chats)], machines[number % 3 :] + machines[: number % 3], remembers=number < REMEMBERING
        )
        for number in range(VIEWERS)
    ]
    with Crowd(viewers) as crowd:
        until(lambda: all(it.viewer.after is not None for it in viewers), seconds=SECONDS)
        for number, machine in enumerate(machines, 1):
            other = machines[number % 3]
            for chat in chats:
                other.prompt(chat, f"{number} {chat}")
            until(lambda number=number: len(cluster.prompts()) == number * len(chats))
            assert machine.end(SIGTERM) == 0
            machine.start()
            for chat in chats:
                other.settled(chat, number)
        rows = {chat: cluster.rows(chat) for chat in chats}
        crowd.reach({chat: len(found) for chat, found in rows.items()}, SECONDS)
    for chat in chats:
        judge(rows[chat], [it for it in viewers if it.chat == chat])
        outcomes = sorted(turn["outcome"] for turn in folded(rows[chat]).values())
        assert outcomes == ["cut_off", "ok", "ok"], "each machine was ended once"
    assert all(it.connections > 1 for it in viewers)
    assert sorted(cluster.prompts()) == sorted(f"{number} {chat}" for number in (1, 2, 3) for chat in chats)
    assert cluster.left_over() == []
