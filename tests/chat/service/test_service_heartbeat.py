"""Heartbeats of chats, with a clock that a test moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs
from waiting import until_true

from penstock.chat.people import persons
from penstock.chat.service.limits import ServiceLimits
from penstock.chat.service.service import Service
from penstock.chat.service.turns.decisions import GAVE_WAY

if TYPE_CHECKING:
    from chat.service.conftest import Home

MINUTE = 60_000
BEAT = {"minutes": 30, "prompt": "News?"}


class Clock:
    """It stands still until it is moved."""

    def __init__(self, time: str = "2026-11-21 12:00") -> None:
        self.time = int(datetime.fromisoformat(time).timestamp() * 1000)
        self._moved = asyncio.Event()

    def now(self) -> int:
        return self.time

    async def sleep(self, seconds: float) -> None:
        until = self.time + int(seconds * 1000)
        while self.time < until:
            await self._moved.wait()

    async def move(self, minutes: float) -> None:
        """Go on by so much, a minute at a time, and let everybody see it."""
        for _ in range(int(minutes)):
            self.time += MINUTE
            self._moved.set()
            self._moved = asyncio.Event()
            for _ in range(10):
                await asyncio.sleep(0)


@asynccontextmanager
async def beating(home: Home, clock: Clock, **options: Any) -> AsyncIterator[Service]:
    """A service by this clock."""
    async with home.store() as store:
        service = await home.open(store, now=clock.now, sleep=clock.sleep, **options)
        try:
            yield service
        finally:
            await service.close()


async def asked(home: Home, service: Service, id: str) -> list[str]:
    """Who asked for the turns of a chat, once all are over."""
    return [turn.by for turn in await home.settled(service, id)]


async def shows(home: Home, service: Service, id: str, count: int) -> None:
    """Wait until a chat has so many turns."""
    await until_true(lambda: service.chat(id).turns == count)


@pytest.mark.slow
def test_it_comes_an_interval_after_the_last_turn(home: Home) -> None:
    """Not sooner, and the next one an interval after the end of that."""

    async def use() -> None:
        clock = Clock()
        async with beating(home, clock) as service:
            made = await service.create()
            await service.prompt(made.id, "hi")
            await home.settled(service, made.id)
            await clock.move(20)
            await service.change(made.id, heartbeat=BEAT)
            start = clock.time
            await clock.move(29)
            assert service.chat(made.id).turns == 1
            await clock.move(1)
            await shows(home, service, made.id, 2)
            assert await asked(home, service, made.id) == ["person", "heartbeat"]
            await clock.move(29)
            assert service.chat(made.id).turns == 2
            await clock.move(1)
            await shows(home, service, made.id, 3)
            turns = await home.settled(service, made.id)
            assert [turn.asked_at - start for turn in turns[1:]] == [30 * MINUTE, 60 * MINUTE]
            await service.change(made.id, heartbeat=BEAT | {"on": False})
            await clock.move(100)
            await service.change(made.id, heartbeat=None)
            await clock.move(100)
            assert service.chat(made.id).turns == 3
        assert home.asked() == ["hi", "News?", "News?"]

    asyncio.run(use())


@pytest.mark.slow
def test_it_is_due_by_the_log_after_a_restart(home: Home) -> None:
    """What passed while Penstock was not there counts."""

    async def use() -> None:
        clock = Clock()
        async with beating(home, clock) as service:
            made = await service.create()
            await service.change(made.id, heartbeat=BEAT)
            await service.prompt(made.id, "hi")
            await home.settled(service, made.id)
        clock.time += 20 * MINUTE
        async with beating(home, clock) as service:
            await clock.move(9)
            assert service.chat(made.id).turns == 1
            await clock.move(1)
            await shows(home, service, made.id, 2)
            await home.settled(service, made.id)
        clock.time += 1000 * MINUTE
        async with beating(home, clock) as service:
            await shows(home, service, made.id, 3)
            assert await asked(home, service, made.id) == ["person", "heartbeat", "heartbeat"]

    asyncio.run(use())


def test_it_waits_for_the_end_of_quiet_hours(home: Home) -> None:
    """One that would fall into them comes when they end, once."""

    async def use() -> None:
        clock = Clock("2026-11-21 21:50")
        async with beating(home, clock) as service:
            made = await service.create()
            await service.change(made.id, heartbeat=BEAT | {"quiet": "22:00-07:00"})
            await clock.move(9 * 60 + 9)
            assert service.chat(made.id).turns == 0
            await clock.move(1)
            await shows(home, service, made.id, 1)
            (turn,) = await home.settled(service, made.id)
            assert datetime.fromtimestamp(turn.asked_at / 1000).isoformat(" ", "minutes") == "2026-11-22 07:00"

    asyncio.run(use())


@pytest.mark.slow
def test_it_is_skipped_while_the_chat_is_busy(home: Home) -> None:
    """A long turn is followed by an interval of its own, not by all the heartbeats that it kept out."""
    home.scripted("held", "claude/text.nopartial", "--speed=0", f"--hold=1:{home.folder}/go")

    async def use() -> None:
        clock = Clock()
        async with beating(home, clock) as service:
            made = await service.create(agent="held")
            await service.change(made.id, heartbeat=BEAT)
            await service.prompt(made.id, "long")
            await until_true(lambda: home.runs())
            await clock.move(200)
            assert service.chat(made.id).turns == 1
            (home.folder / "go").touch()
            await home.settled(service, made.id)
            await clock.move(29)
            assert service.chat(made.id).turns == 1
            await clock.move(1)
            await shows(home, service, made.id, 2)
            assert await asked(home, service, made.id) == ["person", "heartbeat"]

    asyncio.run(use())


@pytest.mark.slow
def test_it_gives_way_to_a_message(home: Home) -> None:
    """One that runs is cancelled by a person's message, which is next; one that waits is taken back."""
    home.scripted("held", "claude/text.nopartial", "--speed=0", f"--hold=1:{home.folder}/go")

    async def use() -> None:
        clock = Clock()
        async with beating(home, clock, limits=ServiceLimits(max_runs=1)) as service:
            made, other = await service.create(agent="held"), await service.create(agent="held")
            for chat in (made, other):
                await service.change(chat.id, heartbeat=BEAT)
            await clock.move(30)
            await until_true(lambda: service.chat(made.id).turns and service.chat(other.id).turns and home.runs())
            running, waiting = sorted((made.id, other.id), key=lambda id: service.chat(id).state != "running")
            assert [service.chat(id).state for id in (running, waiting)] == ["running", "queued"]
            await service.prompt(waiting, "to the one that waits")
            first, second = (await service.turns(waiting))[0]
            assert (first.outcome, first.reason, first.began_at) == ("cancelled", GAVE_WAY, None)
            assert second.state == "queued"
            await service.prompt(running, "to the one that runs")
            await until_true(lambda: len(home.asked()) > 1)  # it has been cancelled
            (home.folder / "go").touch()
            first, second = await home.settled(service, running)
            assert (first.by, first.outcome, first.reason) == ("heartbeat", "cancelled", GAVE_WAY)
            assert (second.by, second.outcome) == ("person", "ok")
            await home.settled(service, waiting)
            for id in (running, waiting):
                home.judge(await home.rows(id, service._store))
        assert sorted(home.asked()) == ["News?", "to the one that runs", "to the one that waits"]

    asyncio.run(use())


@pytest.mark.slow
def test_it_buries_no_question(home: Home) -> None:
    """While a person has to answer, it does not come."""
    asks = {"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "rm all"}}
    lines = [{"type": "system", "subtype": "init"}, {"type": "control_request", "request_id": "q1", "request": asks}]
    home.scripted("asks", home.lines("asks", lines), "--stay")

    async def use() -> None:
        clock = Clock()
        async with beating(home, clock, limits=ServiceLimits(asking_grace=0.05)) as service:
            made = await service.create(agent="asks")
            await service.prompt(made.id, "hi")
            await home.settled(service, made.id)
            other = await service.create(agent="scripted")  # it is looked at after the one that asks
            for chat in (made, other):
                await service.change(chat.id, heartbeat=BEAT)
            await clock.move(31)
            await shows(home, service, other.id, 1)
            await home.settled(service, other.id)
            assert (service.chat(made.id).turns, service.chat(made.id).asks) == (1, True)

    asyncio.run(use())


@pytest.mark.slow
def test_it_does_not_outlast_the_rights_of_its_person(home: Home) -> None:
    """One who only reads now, or was removed, begins no turns; with the right, it goes on."""

    async def use() -> None:
        clock, people = Clock(), persons.People(home.folder / persons.PEOPLE)
        persons.add(home.folder, "ana", "member", 0)
        async with beating(home, clock, people=people) as service:
            hers, other = [await service.create(person=name) for name in ("ana", "owner")]
            await service.change(hers.id, heartbeat=BEAT)
            await service.change(other.id, heartbeat=BEAT)

            async def both(of_ana: int, of_other: int) -> None:
                """Her chat comes first, so that its turns are there once the other chat has its own."""
                await clock.move(31)
                await shows(home, service, other.id, of_other)
                await home.settled(service, other.id)
                assert service.chat(hers.id).turns == of_ana
                await home.settled(service, hers.id)

            persons.change(home.folder, "ana", lambda person: structs.replace(person, role="viewer"))
            await both(0, 1)
            persons.change(home.folder, "ana", lambda person: structs.replace(person, role="member"))
            await both(1, 2)
            persons.remove(home.folder, "ana")
            await both(1, 3)

    asyncio.run(use())
