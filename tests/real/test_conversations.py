"""A conversation of a real agent that began in a terminal goes on in a chat."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import TYPE_CHECKING

import scenarios

from penstock.chat.service.service import Service
from penstock.chat.store.sqlite import SqliteStore
from penstock.config import settings
from penstock.run.history import History

if TYPE_CHECKING:
    from pathlib import Path

    from setups import Bench

    from penstock.chat.history.frames import TurnView

ONLY = ("claude-exec", "codex-exec")
"""Targets that these tests are for: a chat runs them by another route than a terminal where nobody can answer."""
SECONDS = 300
"""Timeout of a run."""


async def continued(at: Bench, data: Path, prompt: str) -> TurnView:
    """Continue the only conversation of the history in a chat; return its first turn."""
    config = settings.load({"PENSTOCK_SANDBOX": "off", "HOME": str(data)})
    async with asyncio.timeout(SECONDS), await SqliteStore.open(data / "chats.db") as store:
        service = await Service.open(
            store, roots=[at.folder], config=config, environ=at.env, extra_env=at.env, history=History(data)
        )
        try:
            await service.places.trust(at.folder)
            (found,) = await service.conversations.find()
            chat = await service.create(agent=found.agent, cwd=found.cwd, allow="ask", session=found.session_id)
            await service.prompt(chat.id, prompt)
            turns: list[TurnView] = []
            while not turns or not turns[0].finalized:
                await asyncio.sleep(0.05)
                turns, _ = await service.turns(chat.id)
            return turns[0]
        finally:
            await service.close()


def test_a_conversation_of_a_terminal(at: Bench, tmp_path: Path) -> None:
    """In the chat the model sees what was said in the terminal, although the chat uses another route."""
    env = {**at.env, "PENSTOCK_DATA": str(tmp_path), "PENSTOCK_SANDBOX": "off"}
    words = [sys.executable, "-m", "penstock", "run", at.target.agent, "scenario=text please"]
    subprocess.run(words, env=env, cwd=at.folder, stdin=subprocess.DEVNULL, check=True, timeout=SECONDS)
    turn = asyncio.run(continued(at, tmp_path, "scenario=history please"))
    assert (turn.outcome, turn.message) == ("ok", scenarios.history(["text", "history"]))
