"""Runs that are made before their turns begin: other chats go on meanwhile, and what changes in between counts."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest
from waiting import PATIENCE

from penstock.chat.history.entries import TurnBegan

if TYPE_CHECKING:
    from chat.service.conftest import Home
    from penstock.chat.service.service import Service
    from penstock.run.run import Run


class Maker:
    """Maker of runs that waits for a permission with each prompt that is named `slow`."""

    def __init__(self, service: Service) -> None:
        self._make = service._shared.run
        service._shared.run = self
        self.made: list[str] = []
        self.began = threading.Event()
        self.may_go_on = threading.Event()

    def __call__(self, *args: Any) -> Run:
        """Make a run; the second argument is the prompt."""
        self.made.append(args[1])
        if args[1] == "slow":
            self.began.set()
            assert self.may_go_on.wait(PATIENCE)
        return self._make(*args)

    async def is_making(self) -> None:
        """Wait until the slow run is being made."""
        assert await asyncio.to_thread(self.began.wait, PATIENCE)


def test_another_chat_goes_on_while_a_run_is_made(home: Home) -> None:
    """What a run needs may take seconds on a busy disk; only its own chat waits for it."""

    async def main() -> None:
        async with home.service() as service:
            maker = Maker(service)
            slow, other = await service.create(), await service.create()
            await service.prompt(slow.id, "slow")
            await maker.is_making()
            await service.prompt(other.id, "quick")
            assert [turn.outcome for turn in await home.settled(service, other.id)] == ["ok"]
            assert (await service.turns(slow.id))[0][0].state == "queued"
            maker.may_go_on.set()
            assert [turn.outcome for turn in await home.settled(service, slow.id)] == ["ok"]
            assert maker.made == ["slow", "quick"]

    asyncio.run(main())


@pytest.mark.parametrize("how", ["edited", "model", "taken back"])
def test_what_changes_while_a_run_is_made_counts(home: Home, how: str) -> None:
    """The agent gets the message and the settings as they are when the turn begins, and the turn begins once."""

    async def main() -> str:
        async with home.service() as service:
            maker = Maker(service)
            chat = await service.create()
            await service.prompt(chat.id, "slow")
            await maker.is_making()
            if how == "edited":
                await service.queue.edit(chat.id, 1, "edited", edits=0)
            elif how == "model":
                await service.change(chat.id, model="other-model")
            else:
                await service.stop(chat.id, 1)
            maker.may_go_on.set()
            await home.settled(service, chat.id)
            return chat.id

    rows = asyncio.run(home.rows(asyncio.run(main())))
    home.judge(rows)
    begun = [row.what for row in rows if isinstance(row.what, TurnBegan)]
    assert len(begun) == (how != "taken back")
    assert home.asked() == {"edited": ["edited"], "model": ["slow"], "taken back": []}[how]
    assert [it.model for it in begun] == {"edited": [None], "model": ["other-model"], "taken back": []}[how]


def test_a_server_ends_while_a_run_is_made(home: Home) -> None:
    """The turn waits then, and runs once after the next start."""

    async def main() -> None:
        async with home.store() as store:
            service = await home.open(store)
            maker = Maker(service)
            chat = await service.create()
            await service.prompt(chat.id, "slow")
            await maker.is_making()
            await service.close()
            maker.may_go_on.set()
        assert home.asked() == []
        async with home.service() as service:
            assert [turn.outcome for turn in await home.settled(service, chat.id)] == ["ok"]
        home.judge(await home.rows(chat.id))

    asyncio.run(main())
    assert home.asked() == ["slow"]
