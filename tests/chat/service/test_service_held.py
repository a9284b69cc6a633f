"""A stop holds back what waits: nothing begins until a person releases it, whatever happens in between."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from waiting import PATIENCE, STEP, until_true

from penstock.chat.history.entries import Released
from penstock.chat.store.protocol import Page
from penstock.chat.store.sqlite import SqliteStore
from penstock.events import RunEnded

if TYPE_CHECKING:
    from chat.service.conftest import Home
    from penstock.chat.service.service import Service

QUIET_SECONDS = 0.3
"""Seconds in which a turn would have begun that nothing holds back: more than ten times as long as it takes."""


def slow(home: Home) -> None:
    """An agent that writes until it is stopped, and a quick one once the file is there."""
    home.scripted("slow", "claude/text", "--speed=0", f"--hold=60:{home.folder}/go")


async def writes(service: Service, chat: str, turn: int) -> None:
    """Wait until the turn has text."""
    async with asyncio.timeout(PATIENCE):
        while not (await service.turns(chat))[0][turn - 1].reply:
            await asyncio.sleep(STEP)


async def over(service: Service, chat: str, turn: int) -> None:
    """Wait until the turn is over."""
    async with asyncio.timeout(PATIENCE):
        while not (await service.turns(chat))[0][turn - 1].finalized:
            await asyncio.sleep(STEP)


async def states(service: Service, chat: str) -> list[tuple[str, bool]]:
    """State of each turn, and whether it is held back."""
    return [(turn.state, turn.held) for turn in (await service.turns(chat))[0]]


@pytest.mark.slow
def test_a_stop_holds_the_queue_until_it_is_released(home: Home) -> None:
    """What waits does not begin, also after a restart; a new message waits behind it; a release begins all in order."""
    slow(home)

    async def first() -> str:
        async with home.service() as service:
            made = await service.create(agent="slow")
            for number in range(1, 4):
                await service.prompt(made.id, str(number))
            await writes(service, made.id, 1)
            assert service.chat(made.id).held == 0
            assert await service.stop(made.id, 1) == [1]
            await over(service, made.id, 1)
            assert await service.prompt(made.id, "4") == (4, True)
            await asyncio.sleep(QUIET_SECONDS)
            assert await states(service, made.id) == [("completed", False), *[("queued", True)] * 3]
            view = service.chat(made.id)
            assert (view.state, view.held) == ("queued", 3)
            assert service.waiting == 0, "what is held waits for a person, not for a slot"
            return made.id

    async def second(id: str) -> None:
        async with home.service() as service:
            await asyncio.sleep(QUIET_SECONDS)
            assert await states(service, id) == [("completed", False), *[("queued", True)] * 3]
            assert service.chat(id).held == 3
            (home.folder / "go").touch()
            assert await service.queue.release(id) == [2, 3, 4]
            assert await service.queue.release(id) == []
            turns = await home.settled(service, id)
            assert [turn.outcome for turn in turns] == ["cancelled", "ok", "ok", "ok"]
            assert service.chat(id).held == 0
        rows = await home.rows(id)
        home.judge(rows)
        assert [row.what for row in rows if isinstance(row.what, Released)] == [Released(4)]
        assert home.asked() == ["1", "2", "3", "4"]

    id = asyncio.run(first())
    asyncio.run(second(id))


@pytest.mark.slow
def test_a_hold_ends_with_what_is_held(home: Home) -> None:
    """If all of it is taken back, the next message begins at once; so does one after a stop that held nothing."""
    slow(home)

    async def use() -> None:
        async with home.service() as service:
            made = await service.create(agent="slow")
            await service.prompt(made.id, "1")
            await service.prompt(made.id, "2")
            await writes(service, made.id, 1)
            await service.stop(made.id, 1)
            assert await service.stop(made.id, 2) == [2]
            await home.settled(service, made.id)
            await service.prompt(made.id, "3")
            await writes(service, made.id, 3)
            await service.stop(made.id, 3)
            await service.prompt(made.id, "4")
            await writes(service, made.id, 4)
            await service.stop(made.id)
            await home.settled(service, made.id)
        home.judge(await home.rows(made.id))
        assert home.asked() == ["1", "3", "4"]

    asyncio.run(use())


def test_a_second_stop_holds_what_came_after_the_first(home: Home) -> None:
    """A run may be slow to end: what is asked for meanwhile is held by the stop that comes after it."""
    home.configure("deaf", ["sh", "-c", "trap '' INT TERM; echo '{}'; sleep 60"], 'adapter = "claude"')

    async def use() -> None:
        async with home.service() as service:
            made = await service.create(agent="deaf")
            await service.prompt(made.id, "1")
            await until_true(lambda: service.chat(made.id).state == "running")
            assert await service.stop(made.id, 1) == [1]
            await service.prompt(made.id, "2")
            assert await service.stop(made.id, 1) == [1]
            await over(service, made.id, 1)
            await asyncio.sleep(QUIET_SECONDS)
            assert (await states(service, made.id))[1] == ("queued", True)
            await service.stop(made.id)
            await home.settled(service, made.id)
        home.judge(await home.rows(made.id))

    asyncio.run(use())


@pytest.mark.slow
def test_a_stop_at_a_question_holds_the_queue(home: Home) -> None:
    """A question that is open when the person stops leads to nothing more."""
    home.peer()

    async def use() -> None:
        async with home.service() as service:
            made = await service.create(agent="peer")
            await service.prompt(made.id, "permission")
            await service.prompt(made.id, "hello there")
            await until_true(lambda: service.chat(made.id).asks)
            await service.stop(made.id, 1)
            await over(service, made.id, 1)
            await asyncio.sleep(QUIET_SECONDS)
            assert (await states(service, made.id))[1] == ("queued", True)
            assert await service.queue.release(made.id) == [2]
            turns = await home.settled(service, made.id)
            assert turns[1].began_at is not None
        home.judge(await home.rows(made.id))

    asyncio.run(use())


def test_no_heartbeat_begins_while_messages_are_held(home: Home) -> None:
    """A heartbeat would begin what the person wanted quiet, and would come before their messages."""
    slow(home)
    now = 1_000_000

    async def use() -> None:
        async with home.service(now=lambda: now, sleep=lambda seconds: asyncio.sleep(0.01)) as service:
            made = await service.create(agent="slow")
            await service.change(made.id, heartbeat={"minutes": 1, "prompt": "beat"})
            await service.prompt(made.id, "1")
            await service.prompt(made.id, "2")
            await writes(service, made.id, 1)
            await service.stop(made.id, 1)
            await over(service, made.id, 1)
            later()
            await asyncio.sleep(QUIET_SECONDS)
            assert [turn.prompt for turn in (await service.turns(made.id))[0]] == ["1", "2"]
            await service.stop(made.id)
            await home.settled(service, made.id)

    def later() -> None:
        nonlocal now
        now += 10 * 60_000

    asyncio.run(use())


def test_details_are_those_of_the_turn_with_which_they_come(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn that ends while its entries are read: the answer is the turn as it was, not an end without its result."""
    slow(home)

    async def use() -> None:
        async with home.service() as service:
            made = await service.create(agent="slow")
            await service.prompt(made.id, "hi")
            await writes(service, made.id, 1)
            read, is_first = SqliteStore.read, True

            async def read_late(self: SqliteStore, chat: str, **options: Any) -> Page:
                nonlocal is_first
                if is_first:
                    is_first = False
                    (home.folder / "go").touch()
                    await over(service, made.id, 1)
                return await read(self, chat, **options)

            monkeypatch.setattr(SqliteStore, "read", read_late)
            view, rows = await service.turn(made.id, 1)
            assert not is_first
            assert not view.finalized
            assert rows
            assert not [row for row in rows if isinstance(row.what, RunEnded)]
            view, rows = await service.turn(made.id, 1)
            assert view.finalized
            assert isinstance(rows[-1].what, RunEnded)

    asyncio.run(use())
