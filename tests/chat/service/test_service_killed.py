"""`kill -9` of the process that has the chats, in the middle of everything."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock import events as ev
from penstock.chat.history.entries import Numbered, Prompted, TurnBegan, TurnEnded

if TYPE_CHECKING:
    from chat.service.conftest import Home

KILLS = int(os.environ.get("PENSTOCK_TEST_KILLS", "4"))
PROMPTER = Path(__file__).parent / "prompter.py"
GONE = 30
"""Seconds in which the agents of a process that was killed are gone, on a machine that is busy."""


def a_round(home: Home, number: int, chance: random.Random) -> tuple[list[str], list[tuple[str, int, str]]]:
    """Let it prompt, kill it, and give the chats that were made and what was acknowledged."""
    made, asked = [], []
    arguments = [str(home.path), str(home.work), str(home.config_file), str(number)]
    with subprocess.Popen([sys.executable, str(PROMPTER), *arguments], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline()]  # it is up
        time.sleep(chance.uniform(0, 0.6))
        process.send_signal(signal.SIGKILL)
        lines += process.stdout.readlines()
    for line in lines:
        if line.endswith("\n"):
            word, id, *rest = line.split(maxsplit=3)
            if word == "made":
                made.append(id)
            else:
                asked.append((id, int(rest[0]), rest[1].rstrip("\n")))
    end = time.monotonic() + GONE
    while home.left_over() and time.monotonic() < end:
        time.sleep(0.02)
    assert home.left_over() == [], "an agent outlived its Penstock"
    return made, asked


def check(rows: list[Numbered], ran: list[str]) -> int:
    """Every turn is over; those that began without an end of their run are marked; each ran once at most.

    Gives how many were cut off.
    """
    prompts = {row.what.turn: row.what.text for row in rows if isinstance(row.what, Prompted)}
    begun = [row.what.turn for row in rows if isinstance(row.what, TurnBegan)]
    ended = {row.what.turn: row.what for row in rows if isinstance(row.what, TurnEnded)}
    runs = sum(isinstance(row.what, ev.RunEnded) for row in rows)
    cut = [turn for turn in begun if turn in ended]
    assert len(begun) == len(set(begun)) == runs + len(cut)
    assert all(ended[turn].outcome in ("cut_off", "cancelled") for turn in cut)
    assert set(prompts) == set(begun) | set(ended)
    mine = [text for text in ran if text in prompts.values()]
    assert len(mine) == len(set(mine)), "a turn ran twice"
    assert set(mine) <= {prompts[turn] for turn in begun}, "what ran has begun in the log"
    return sum(ended[turn].outcome == "cut_off" for turn in cut)


@pytest.mark.slow
def test_kill_9_loses_nothing_and_runs_nothing_twice(home: Home) -> None:
    """After each kill all that was acknowledged is there, what ran is marked, no agent is left, none runs again."""
    home.scripted("scripted", "claude/text", "--speed=20")
    chance = random.Random(KILLS)
    made: list[str] = []
    asked: list[tuple[str, int, str]] = []
    for number in range(KILLS):
        new, told = a_round(home, number, chance)
        made += new
        asked += told

    async def look() -> int:
        cut = 0
        async with home.service() as service:
            assert {view.id for view in service.chat_list.all()} >= set(made)
            for view in service.chat_list.all():
                await home.settled(service, view.id)
                rows = await home.rows(view.id, service._store)
                home.judge(rows)
                cut += check(rows, home.asked())
                prompts = {row.what.turn: row.what.text for row in rows if isinstance(row.what, Prompted)}
                assert {turn: text for id, turn, text in asked if id == view.id}.items() <= prompts.items()
            assert home.left_over() == []
        return cut

    assert asyncio.run(look()), "no turn was cut off: nothing was tested"
    assert asked, "something was acknowledged"
