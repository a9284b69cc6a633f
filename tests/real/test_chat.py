"""A chat with a real agent that loses conversations: the model sees all of the chat at each of its turns."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import scenarios

from penstock.chat.service.service import Service
from penstock.chat.store.sqlite import SqliteStore
from penstock.config import settings

if TYPE_CHECKING:
    from pathlib import Path

    from setups import Bench

    from penstock.chat.history.frames import TurnView

ONLY = ("gemini-acp",)
"""Targets that these tests are for."""
SECONDS = 300
"""Timeout of the whole chat."""


async def chatted(at: Bench, folder: Path, prompts: list[str]) -> list[TurnView]:
    """Ask one question after another in one chat; return its turns."""
    config = settings.load({"PENSTOCK_SANDBOX": "off", "HOME": str(folder)})
    async with asyncio.timeout(SECONDS), await SqliteStore.open(folder / "chats.db") as store:
        service = await Service.open(store, roots=[at.folder], config=config, environ=at.env, extra_env=at.env)
        try:
            await service.places.trust(at.folder)
            chat = await service.create(agent=at.target.agent, cwd=at.folder, allow="ask")
            found: list[TurnView] = []
            for number, prompt in enumerate(prompts, 1):
                await service.prompt(chat.id, prompt)
                while len(found) < number or not all(turn.finalized for turn in found):
                    await asyncio.sleep(0.05)
                    found, _ = await service.turns(chat.id)
            return found
        finally:
            await service.close()


def test_four_questions_in_one_chat(at: Bench, tmp_path: Path) -> None:
    """They follow each other in less than a minute, in which the agent would lose its own conversation."""
    names = ["text", "thinking", "text", "history"]
    turns = asyncio.run(chatted(at, tmp_path, [f"scenario={name} please" for name in names]))
    assert [turn.outcome for turn in turns] == ["ok"] * 4
    assert turns[-1].message == scenarios.history(names)
    last = at.server.requests[-1].body.replace("\\", "")
    assert '{"user":"scenario=thinking please"}' in last
    assert '{"assistant":"The answer is **42**.' in last
