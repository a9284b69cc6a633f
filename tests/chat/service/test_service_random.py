"""Whatever is asked in whatever order: the store keeps its grammar, and what is shown is a function of it."""

from __future__ import annotations

import asyncio
import os
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.chat.errors import ChatError
from penstock.chat.history.timeline import Timeline
from penstock.chat.service.limits import ServiceLimits
from penstock.chat.service.service import Service

if TYPE_CHECKING:
    from chat.service.conftest import Home

CODEX = Path(__file__).parents[2] / "support" / "codex_peer.py"
SEEDS = int(os.environ.get("PENSTOCK_TEST_RUNS", "3"))
STEPS = 40
PROMPTS = ["permission", "wait", "hello there", "fail", "play err500", "play tools.nopartial"]


async def step(service: Service, chance: random.Random, asked: set[str]) -> None:
    """Ask for something."""
    id = chance.choice(service.chat_list.all()).id
    doing = {"prompt": 8, "now": 2, "stop": 1, "stop one": 2, "release": 3, "answer": 4, "wait": 4, "change": 1}
    doing |= {"edit": 2, "move": 3, "send now": 2, "steer": 3, "give": 2}
    what = chance.choices([*doing], [*doing.values()])[0]
    turns, _ = await service.turns(id)
    running = next((turn.turn for turn in turns if turn.state == "running"), None)
    waiting = [turn.turn for turn in turns if turn.state == "queued"]
    try:
        if what == "prompt":
            key = f"key {chance.randrange(30)}"
            await service.prompt(id, chance.choice(PROMPTS), key=key)
            asked.add(id)
        elif what == "now":
            await service.prompt(id, "hello now", now=True, stops=running)
            asked.add(id)
        elif what == "steer":
            await service.prompt(id, "hello meanwhile", steers=running or 1)
            asked.add(id)
        elif what == "give" and waiting:
            await service.queue.steer(id, chance.choice(waiting), running or 1)
        elif what == "edit" and turns:
            turn = chance.choice(turns)
            await service.queue.edit(id, turn.turn, chance.choice(PROMPTS), edits=turn.edits)
        elif what == "move" and waiting:
            await service.queue.move(id, waiting, chance.sample(waiting, len(waiting)))
        elif what == "send now" and waiting:
            await service.queue.send_now(id, chance.choice(waiting), stops=running)
        elif what == "stop":
            await service.stop(id)
        elif what == "stop one" and turns:
            await service.stop(id, chance.choice(turns).turn)
        elif what == "release":
            await service.queue.release(id)
        elif what == "answer":
            questions = [turn.question for turn in turns if turn.question is not None]
            if questions:
                await service.answer(id, chance.choice(questions).id, chance.choice(["Yes, once", "No", "perhaps"]))
        elif what == "change":
            await service.change(id, allow=chance.choice(["default", "ask", "all"]))
    except ChatError:
        pass
    await asyncio.sleep(chance.choice([0, 0, 0.01, 0.1]))


@pytest.mark.sample(3)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_requests_keep_the_grammar(home: Home, seed: int) -> None:
    """Prompts, stops, answers and restarts; at the end a fold of all rows shows what the summaries show."""
    home.peer()
    home.scripted("quick", "claude/tools", "--speed=50")
    home.configure("codex", [sys.executable, "-S", str(CODEX), f"--did={home.folder}/did", "--random"])
    chance = random.Random(seed)

    async def use(steps: int, first: bool) -> None:
        limits = ServiceLimits(max_runs=2, max_queue=4, asking_grace=0.05)
        async with home.service(limits=limits) as service:
            if first:
                for agent in ("peer", "quick", "scripted", "codex"):
                    await service.create(agent=agent)
            for _ in range(steps):
                await step(service, chance, asked)

    async def look() -> None:
        async with home.service() as service:
            for view in service.chat_list.all():
                await service.stop(view.id)
                shown = await home.settled(service, view.id)
                rows = await home.rows(view.id, service._store)
                home.judge(rows)
                timeline = Timeline()
                timeline.take(rows)
                folded = timeline.snapshot().turns
                assert shown[-len(folded) :] == folded if folded else not shown
                fresh = await service.log(view.id).open()
                assert fresh.snapshot().turns == timeline.snapshot().turns
                assert service.chat(view.id).turns == len(shown)
        assert home.left_over() == []

    asked: set[str] = set()
    for first in (True, False, False):
        asyncio.run(use(STEPS // 3, first))
    asyncio.run(look())
    assert asked
