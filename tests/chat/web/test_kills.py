"""`kill -9` of the server in the middle of turns: what was acknowledged is there, and nothing ran twice.

`PENSTOCK_CHAT=1` kills 50 times, `PENSTOCK_SEED` gives the seed of a failure.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from restarts import Served, seeded
from truth import folded, is_reply, judge
from waiting import PATIENCE, until
from watchers import Cut, Watcher

KILLS = 50 if os.environ.get("PENSTOCK_SOAK") else 15 if os.environ.get("PENSTOCK_CHAT") else 2
CASES = ("text", "thinktools", "tools", "parallel")


class Chat:
    """A chat, what was asked of it, and who looks at it."""

    def __init__(self, served: Served, agent: str) -> None:
        self.served, self.agent = served, agent
        self.id = served.chat(agent)
        self.asked: dict[int, tuple[str, str]] = {}
        """The prompts that were acknowledged, and the recordings that they ask for."""
        self.watchers = [Watcher(served, self.id, delta=delta) for delta in (True, False)]

    def ask(self, before: float, between: float, case: str) -> int:
        """Ask for a turn; gives its number once it is acknowledged."""
        prompt = f"{case} {before} {between} {self.id}-{len(self.asked) + 1}"
        turn = self.served.prompt(self.id, prompt, key=prompt.split()[-1], lost=len(self.asked) % 4 == 2)
        self.asked[turn] = prompt, case
        return turn

    def look(self, watcher: Watcher, killed: threading.Event) -> None:
        """Look until the server is killed."""
        while not killed.is_set():
            try:
                watcher.connect()
                while True:
                    watcher.read(4096, 0.5)
            except Cut:
                watcher.remember()
                watcher.cut()
                time.sleep(0.02)

    def state(self) -> dict[str, Any]:
        """The newest turn that has begun, as the API tells it; empty where there is none."""
        begun = [turn for turn in self.served.turns(self.id) if turn.get("state") != "queued"]
        return begun[-1] if begun else {}


def before_it_prints(chat: Chat, dice: random.Random) -> None:
    """The prompt is acknowledged; the agent is about to be started, or starts."""
    chat.ask(0.3, 0.002, dice.choice(CASES))
    time.sleep(dice.random() * 0.2)


def in_the_middle(chat: Chat, dice: random.Random) -> None:
    """The agent prints."""
    turn = chat.ask(0, 0.01, dice.choice(CASES))
    until(lambda: chat.served.starts()[f"{chat.id}-{turn}"], "the agent is started")
    time.sleep(dice.random() * 0.6)


def near_its_end(chat: Chat, dice: random.Random) -> None:
    """The turn completes, or just has."""
    chat.ask(0, 0.001, dice.choice(CASES))
    until(lambda: chat.state().get("reply") or chat.state().get("state") == "completed", "the reply begins")
    time.sleep(dice.random() * 0.1)


def with_a_queue(chat: Chat, dice: random.Random) -> None:
    """One runs, others wait."""
    for _ in range(3):
        chat.ask(0, 0.004, dice.choice(CASES))
    time.sleep(dice.random() * 0.5)


MOMENTS = (before_it_prints, in_the_middle, near_its_end, with_a_queue)


def kill(served: Served, chats: list[Chat], dice: random.Random, *, all_at_once: bool) -> None:
    """Kill the server at a moment of its work, while viewers look, and start it again.

    `all_at_once`: and what guards the agents, so that nobody is left who could end them.
    """
    killed = threading.Event()
    with ThreadPoolExecutor(len(chats) * 2) as threads:
        looks = [threads.submit(chat.look, watcher, killed) for chat in chats for watcher in chat.watchers]
        try:
            for chat in chats:
                dice.choice(MOMENTS)(chat, dice)
            guards = served.guards() if all_at_once else []
            assert served.end(signal.SIGKILL) == -signal.SIGKILL
            for guard in guards:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(guard, signal.SIGKILL)
        finally:
            killed.set()
        for look in looks:
            look.result(PATIENCE)
    if not guards:
        until(lambda: not served.living(), "no agent, nor what it started, outlives the server")
    left = served.living()
    served.start()
    until(lambda: not left & served.living(), "what was left is ended by the next server")


def check(chat: Chat, told: list[dict[str, Any]]) -> None:
    """Each turn that was acknowledged is there once, and what is over is complete, or cut off for a reason."""
    assert {turn["turn"]: turn["prompt"] for turn in told} == {turn: asked[0] for turn, asked in chat.asked.items()}
    for turn in told:
        if turn.get("state") == "completed" and turn["outcome"] == "cut_off":
            assert turn["reason"]
        elif turn.get("state") == "completed":
            assert turn["outcome"] == "ok"
            assert is_reply(turn["message"], chat.agent, chat.asked[turn["turn"]][1])


@pytest.mark.slow
def test_after_kills_all_that_was_acknowledged_is_there_and_nothing_ran_twice(tmp_path: Path) -> None:
    """After each kill no agent is left, the turn is ended and marked, and those that waited run once."""
    with seeded() as dice, Served(tmp_path) as served:
        chats = [Chat(served, agent) for agent in ("claude", "gemini")]
        for place in range(KILLS):
            kill(served, chats, dice, all_at_once=place % 3 == 1)
            for chat in chats:
                running = [turn for turn in served.turns(chat.id) if turn.get("state") == "running"]
                assert len(running) <= 1
                check(chat, served.turns(chat.id))
        for chat in chats:
            until(lambda chat=chat: served.finalized(chat.id), "what waited has run")
            told = served.turns(chat.id)
            check(chat, told)
            for watcher in chat.watchers:
                watcher.read_to(told[-1]["last"])
                watcher.cut()
        assert served.end(signal.SIGTERM) == 0, served.said()
        starts = served.starts()
        assert max(starts.values()) == 1, "an agent was started twice for one turn"
        outcomes = set()
        for chat in chats:
            rows = served.rows(chat.id)
            judge(rows, chat.watchers)
            for number, turn in folded(rows).items():
                outcomes.add(turn["outcome"])
                assert turn["outcome"] == "cut_off" or starts[f"{chat.id}-{number}"] == 1
        assert "cut_off" in outcomes, "no kill came in the middle of a turn"
