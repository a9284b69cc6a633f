"""A message for an agent that works: the real one takes it within its turn, and the model sees it there."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import scenarios
from playing import play

from penstock.chat.history.frames import Steer
from penstock.chat.service.service import Service
from penstock.chat.store.sqlite import SqliteStore
from penstock.config import settings
from penstock.events import Delta, Event, Notice

if TYPE_CHECKING:
    from pathlib import Path

    from setups import Bench

    from penstock.adapter import Level
    from penstock.run.run import Run

ONLY = ("codex-server", "claude-server", "ccs-server", "opencode-server", "pi-server")
"""Targets that these tests are for."""
SECONDS = 300
STEER = 'scenario=thinking please, and "quote" this:\n/status'
TRIES = 5
"""Tries after which a message was taken once: codex does not report that it has one, and on a slow machine the model's
answer may end before it does."""
WORK = {"codex": "slow"}
"""Scenario in which an agent gets a message: codex while the model writes, the others, which read messages between the
calls of tools, before a call that waits for the test."""


def test_the_agent_takes_a_message_in_its_turn(at: Bench) -> None:
    """The notice has the text, and the reply is what the model says to it."""
    given: list[str] = []

    def heed(run: Run, event: Event) -> None:
        if isinstance(event, Delta) and not given:
            assert run.can_steer
            given.append(run.steer(STEER))
            at.server.gate.set()

    for _ in range(TRIES):
        given.clear()
        at.server.close_gate()
        played = play(at, f"scenario={WORK.get(at.target.agent, 'gated')} please", heed=heed)
        [notice] = [event for event in played.events if isinstance(event, Notice) and event.steer is not None]
        if notice.code == "user":
            break
    assert (notice.code, notice.text, notice.steer) == ("user", STEER, given[0])
    assert played.result.reply == "".join(scenarios.texts("thinking"))
    last = played.conversation[-1].body.replace("\\", "")
    assert STEER.splitlines()[0] in last
    after = [event for event in played.events[played.events.index(notice) :] if isinstance(event, Delta)]
    assert "".join(event.text for event in after if event.kind == "text") == played.result.reply


def test_a_message_in_a_chat(at: Bench, tmp_path: Path) -> None:
    """It is a part of the turn; one that comes too late is the next turn, and the model sees each once."""

    async def use(folder: Path) -> bool:
        """Use a chat; return whether the agent has taken the message in time."""
        config = settings.load({"PENSTOCK_SANDBOX": "off", "HOME": str(folder)})
        async with asyncio.timeout(SECONDS), await SqliteStore.open(folder / "chats.db") as store:
            service = await Service.open(store, roots=[at.folder], config=config, environ=at.env, extra_env=at.env)
            try:
                await service.places.trust(at.folder)
                allow: Level = "ask" if at.target.agent == "codex" else "all"
                chat = (await service.create(agent=at.target.name, cwd=at.folder, allow=allow)).id
                at.server.close_gate()
                await service.prompt(chat, f"scenario={WORK.get(at.target.agent, 'gated')} please")
                while not (await service.turns(chat))[0][0].reply:
                    await asyncio.sleep(0.05)
                await service.prompt(chat, STEER, steers=1)
                at.server.gate.set()
                while not all(turn.finalized for turn in (await service.turns(chat))[0]):
                    await asyncio.sleep(0.05)
                await service.prompt(chat, "scenario=text please", steers=1)
                while not all(turn.finalized for turn in (await service.turns(chat))[0]):
                    await asyncio.sleep(0.05)
                turns, _ = await service.turns(chat)
            finally:
                await service.close()
        if turns[0].turn == 1:
            return False
        assert [(it.turn, it.outcome, it.steer) for it in turns] == [
            (2, "ok", Steer(1, "taken")),
            (1, "ok", None),
            (3, "ok", Steer(1, "late")),
        ]
        assert turns[1].message == "".join(scenarios.texts("thinking"))
        assert at.server.requests[-1].body.count("scenario=thinking please, and") == 1
        return True

    for attempt in range(TRIES):
        folder = tmp_path / f"attempt {attempt}"
        folder.mkdir()
        if asyncio.run(use(folder)):
            break
    else:
        raise AssertionError("each time the turn ended before the message was taken")
