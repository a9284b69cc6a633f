"""Machines that are killed, stopped and cut off: each turn ends once, none begins twice, and no agent is left."""

from __future__ import annotations

import asyncio
import gc
import random
import time
from pathlib import Path
from signal import SIGCONT, SIGINT, SIGKILL, SIGQUIT, SIGSTOP, Signals
from typing import TYPE_CHECKING

import pytest
from crowd import Crowd, Watching
from effort import SOAK, at_most
from procrastinate.exceptions import ConnectorException
from slow_network import Direction
from truth import folded, judge
from waiting import until

from penstock.chat.cluster import jobs
from penstock.run.process import marked

if TYPE_CHECKING:
    from machines import Cluster
    from postgres import Server
    from slow_network import Proxy

pytestmark = pytest.mark.slow

SEEN_SECONDS = 12.0
"""Seconds in which the end of a lost turn is seen at other nodes: a lease of 10 s, and a look every 2 s."""

LATE_SECONDS = 3.0
"""Seconds that a busy test machine may need more."""

STOPPED_SECONDS = at_most(0, 30)
"""Seconds for which a machine is stopped, at least."""

LONG = at_most(13, 30)
"""Seconds of a long partition: longer than a lease, and the look for lost nodes after it."""

OUTCOMES = {1: ("ok",), 5: ("ok", "cut_off"), LONG: ("cut_off",)}
"""Outcomes of a turn that a partition of so many seconds meets. 4.7 s after its last renewal a lease may be over."""

BOTH: tuple[Direction, ...] = ("to server", "to client")
ALL: list[tuple[int, tuple[Direction, ...]]] = [
    (seconds, ways) for seconds in (1, 5, LONG) for ways in (BOTH, BOTH[:1], BOTH[1:])
]
PARTITIONS = ALL if SOAK else [ALL[0], ALL[4], ALL[8]]
"""Seconds of each partition, and the directions in which nothing passes."""

SHORT_SECONDS = 3.0
"""Seconds for which the database may be away without the loss of a lease, on a machine that is busy."""

CHATS = 4
"""Chats that write at once, as many as there are slots."""


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
        (mark,) = cluster.marks(chat)
        home.end(SIGKILL)
        began = time.monotonic()
        until(lambda chat=chat: gateway.turns(chat)[0].get("finalized"))
        assert time.monotonic() - began < SEEN_SECONDS + LATE_SECONDS
        assert cluster.left_over() == []
        assert marked(mark) == []
        first, second = gateway.turns(chat)
        assert (first["outcome"], first["reason"]) == ("cut_off", "its machine was lost")
        assert second["state"] == "queued"
        cluster.gate.touch()
        home.start()
        assert [turn["outcome"] for turn in gateway.settled(chat, 2)] == ["cut_off", "ok"]
        assert cluster.prompts()[before:] == [f"first {number}", f"second {number}"]
        folded(cluster.rows(chat))


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
        began = time.monotonic()
        chats = (chat, other)
        until(lambda chats=chats: all(gateway.turns(it)[0].get("finalized") for it in chats))
        ended = gateway.turns(chat) + gateway.turns(other)
        assert [turn["outcome"] for turn in ended] == ["cut_off", "cut_off"]
        rows = {it: cluster.rows(it) for it in chats}
        time.sleep(max(0.0, began + STOPPED_SECONDS - time.monotonic()))
        cluster.gate.touch()  # one agent writes to its end now, which is too late
        home.send(SIGCONT)
        until(lambda: not cluster.left_over())
        assert {it: cluster.rows(it) for it in chats} == rows
        gateway.prompt(chat, "second")
        first, second = gateway.settled(chat, 2)
        assert [first, *gateway.turns(other)] == ended
        assert second["outcome"] == "ok"
        assert home.settled(chat, 2) == [first, second]
        assert cluster.prompts()[before:] == ["first", "for ever", "second"]
        folded(cluster.rows(chat))


@pytest.mark.parametrize(("seconds", "directions"), PARTITIONS, ids=str)
def test_a_machine_without_its_database(
    cluster: Cluster, proxy: Proxy, seconds: int, directions: tuple[Direction, ...]
) -> None:
    """A short cut changes nothing; in a long one its agents die before another node ends their turns."""
    home, gateway = cluster.machine("a", url=proxy.url(cluster.url)), cluster.machine("b", works=False)
    chat, other = gateway.chat("held"), gateway.chat("stuck")
    gateway.prompt(chat, "first")
    until(lambda: cluster.prompts() == ["first"])
    gateway.prompt(other, "for ever")
    until(lambda: len(cluster.prompts()) == 2)
    began = time.monotonic()
    proxy.hold(*directions)
    if seconds == LONG:
        until(lambda: not cluster.left_over())
        assert not gateway.turns(other)[0].get("finalized"), "the agent died before its turn was ended"
        until(lambda: gateway.turns(chat)[0].get("finalized") and gateway.turns(other)[0].get("finalized"))
        with home.client() as client:
            assert client.get("/healthz").status_code == 200
    cluster.gate.touch()
    time.sleep(max(0.0, began + seconds - time.monotonic()))
    if seconds == LONG:
        proxy.cut()  # after a short time TCP sends again what was lost
    proxy.hold()
    turns = gateway.settled(chat)
    assert turns[0]["outcome"] in OUTCOMES[seconds]
    quick = gateway.chat_when_possible("quick", home="a")
    gateway.prompt(quick, "second")
    assert gateway.settled(quick)[0]["outcome"] == "ok"
    if turns[0]["outcome"] == "ok":
        assert gateway.turns(quick)[0]["message"] == turns[0]["message"]
    if gateway.turns(other)[0]["state"] == "running":
        gateway.post(f"/api/chats/{other}/stop", {})
    for it in (chat, other):
        found = gateway.settled(it)
        until(lambda it=it, found=found: home.turns(it) == found, "both see the same")
        folded(cluster.rows(it))
    assert cluster.left_over() == []
    assert cluster.prompts() == ["first", "for ever", "second"]


@pytest.mark.parametrize(("seconds", "directions"), PARTITIONS, ids=str)
def test_a_watcher_without_its_database(
    cluster: Cluster, proxy: Proxy, seconds: int, directions: tuple[Direction, ...]
) -> None:
    """Its viewers stay connected, go on where they were once it has its database again, and miss nothing."""
    cluster.machine("a")
    gateway = cluster.machine("b", works=False, url=proxy.url(cluster.url))
    chats = [gateway.chat(agent) for agent in ("slow", "held", "quick")]
    with Crowd([Watching(chat, [gateway]) for chat in chats]) as crowd:
        for chat in chats:
            gateway.prompt(chat, "first")
        until(lambda: all(it.viewer.after for it in crowd.watching))
        until(lambda: len(cluster.prompts()) == 3)
        proxy.hold(*directions)
        cluster.gate.touch()
        time.sleep(seconds)
        if seconds == LONG:
            proxy.cut()
        proxy.hold()
        until(lambda: all(it.viewer.is_quiet for it in crowd.watching))
        rows = {chat: cluster.rows(chat) for chat in chats}
        crowd.reach({chat: len(found) for chat, found in rows.items()})
    for it in crowd.watching:
        judge(rows[it.chat], [it])
        assert it.connections == 1
        assert it.viewer.turns[1]["outcome"] == "ok"


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


@pytest.mark.parametrize("how", [SIGINT, SIGQUIT, SIGKILL], ids=["fast", "immediate", "kill"])
def test_restarts_of_the_database(cluster: Cluster, server: Server, how: Signals) -> None:
    """Runs that write go on over them, however the database is stopped; prompts wait for it; nothing comes twice."""
    home, gateway = cluster.machine("a"), cluster.machine("b", works=False)
    chats = [gateway.chat("slow", home="a") for _ in range(CHATS)]
    choice, rounds, away = random.Random(4), at_most(2, 12), 0.0
    with Crowd([Watching(chat, [machine]) for chat in chats for machine in (home, gateway)]) as crowd:
        for number in range(rounds):
            for chat in chats:
                gateway.prompt(chat, f"{number} {chat}")
            until(lambda number=number: len(cluster.prompts()) == (number + 1) * CHATS)
            time.sleep(choice.uniform(0, 1))
            stopped = time.monotonic()
            server.stop(how)
            time.sleep(choice.uniform(0, 1))
            server.start()
            away = max(away, time.monotonic() - stopped)
            for chat in chats:
                gateway.settled(chat, number + 1)
        rows = {chat: cluster.rows(chat) for chat in chats}
        crowd.reach({chat: len(found) for chat, found in rows.items()})
    for chat in chats:
        outcomes = {turn["outcome"] for turn in folded(rows[chat]).values()}
        assert outcomes <= ({"ok"} if away < SHORT_SECONDS else {"ok", "cut_off"})
        judge(rows[chat], [it for it in crowd.watching if it.chat == chat])
    assert sorted(cluster.prompts()) == sorted(f"{number} {chat}" for number in range(rounds) for chat in chats)


def test_a_job_that_cannot_be_ended_is_no_bug(caplog: pytest.LogCaptureFixture) -> None:
    """Without its database a node has tasks of the job queue that fail: no log has them, and it has all others."""

    async def fail(error: Exception) -> None:
        raise error

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(jobs._handle)
        for error in (ConnectorException(), ValueError("a bug")):
            task = asyncio.ensure_future(fail(error))
            await asyncio.wait([task])
            del task

    asyncio.run(run())
    gc.collect()
    assert "a bug" in caplog.text
    assert "ConnectorException" not in caplog.text
