"""Viewers whose connections are cut, and a server that is ended and killed meanwhile: what all of them see at the end.

`PENSTOCK_CHAT=1` cuts 500 times, `PENSTOCK_SEED` gives the seed of a failure.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from restarts import AGENTS, Served, seeded
from truth import folded, is_reply, judge
from waiting import PATIENCE, until
from watchers import Cut, Watcher

THOROUGH = bool(os.environ.get("PENSTOCK_CHAT"))
SOAK = bool(os.environ.get("PENSTOCK_SOAK"))
CUTS, CUTS_EACH_RESTART = (500, 25) if SOAK else (150, 25) if THOROUGH else (30, 12)
CHATS = AGENTS if THOROUGH else AGENTS[:1]
CASES = ("text", "thinking", "thinktools", "tools", "parallel", "toolerror")
LONG = "long"
"""A reply of 226,411 characters: most cuts hit it in the middle of a frame."""

APPETITES = ((1, 64), (4096, 65536))
"""How many bytes a viewer takes at once: a few come through frames, characters and the borders of chunks."""


class Cuts:
    """The cuts that are left. All viewers take of them."""

    def __init__(self, count: int) -> None:
        self.made, self._count = 0, count
        self.in_frames = 0
        """Those in the middle of a frame."""
        self._lock = threading.Lock()

    @property
    def over(self) -> bool:
        """All were made."""
        return self.made >= self._count

    def take(self, *, in_a_frame: bool) -> None:
        """One was made."""
        with self._lock:
            self.made += 1
            self.in_frames += in_a_frame

    def stop(self) -> None:
        """No more of them."""
        self._count = 0


def watch(watcher: Watcher, appetite: tuple[int, int], cuts: Cuts, dice: random.Random) -> None:
    """Look at a chat, by connections of a random length."""
    while not cuts.over:
        until_bytes = dice.choice((0, dice.randint(1, 300), dice.randint(1, 3000), dice.randint(1, 200_000)))
        until_time = time.monotonic() + dice.choice((0.1, 0.5, 2.0)) * dice.random()
        in_a_frame = dice.random() < 0.5
        try:
            stream = watcher.connect(query=dice.random() < 0.5, buffer=dice.choice((0, 0, 2048)))
            while stream.taken < until_bytes and (left := until_time - time.monotonic()) > 0:
                watcher.read(min(dice.randint(*appetite), until_bytes - stream.taken), left)
                if dice.random() < 0.01:
                    time.sleep(dice.random() * 0.1)
            while in_a_frame and not stream.in_a_frame and (left := until_time - time.monotonic()) > 0:
                watcher.read(dice.randint(1, 30), left)
            cuts.take(in_a_frame=stream.in_a_frame)
        except Cut:  # the server's doing, not ours
            time.sleep(0.02)
        watcher.remember()
        watcher.cut(reset=dice.random() < 0.3)


def ask(served: Served, chat: str, agent: str, cuts: Cuts, dice: random.Random) -> dict[int, str]:
    """Ask for turns as long as there are cuts to come; the case that each plays."""
    cases: dict[int, str] = {}
    while not cuts.over or len(cases) < 2:
        case = LONG if agent != "codex" and dice.random() < 0.2 else dice.choice(CASES)
        between = 0.0003 if case == LONG else dice.choice((0.0, 0.002, 0.02))
        name = f"{chat}-{len(cases) + 1}"
        turn = served.prompt(
            chat, f"{case} {dice.choice((0, 0.2))} {between} {name}", key=name, lost=len(cases) % 3 == 1
        )
        assert turn == len(cases) + 1, "a prompt that was taken twice, or lost"
        cases[turn] = case
        # At most one waits, so that turns run as long as viewers are cut.
        until(lambda: cuts.over or waiting(served, chat) < 2, "turns go on")
    return cases


def waiting(served: Served, chat: str) -> int:
    """Turns that are not over; many, where nobody can tell."""
    try:
        status, answer = served.ask("GET", f"/api/chats/{chat}/turns?limit=3")
    except Exception:
        return 99
    return 99 if status != 200 else sum(not turn.get("finalized") for turn in answer["turns"])


def restart(served: Served, cuts: Cuts, dice: random.Random) -> list[int]:
    """End and kill the server again and again, while viewers look; the signals."""
    signals: list[int] = []
    while not cuts.over or len(signals) < 2:
        mark = cuts.made + CUTS_EACH_RESTART
        until(lambda mark=mark: cuts.over or cuts.made >= mark, "connections are cut")
        signals.append(signal.SIGKILL if len(signals) % 2 else signal.SIGTERM)
        status = served.end(signals[-1])
        assert status == (0 if signals[-1] == signal.SIGTERM else -signal.SIGKILL), served.said()
        time.sleep(dice.random() * 0.2)
        served.start()
    return signals


@pytest.mark.slow
def test_viewers_whose_connections_are_cut_end_with_the_same_text(tmp_path: Path) -> None:
    """Cut at random bytes, with the server ended and killed among it, each viewer sees what the log says: no gap,
    nothing twice."""
    with seeded() as dice, Served(tmp_path) as served:
        cuts = Cuts(CUTS)
        chats = {agent: served.chat(agent) for agent in CHATS}
        kinds = [
            (chat, delta, appetite) for chat in chats.values() for delta in (True, False) for appetite in APPETITES
        ]
        watchers = [Watcher(served, chat, delta=delta) for chat, delta, _ in kinds]
        with ThreadPoolExecutor(len(watchers) + len(chats) + 1) as threads:
            looks = [
                threads.submit(watch, watcher, appetite, cuts, random.Random(dice.random()))
                for watcher, (_, _, appetite) in zip(watchers, kinds, strict=True)
            ]
            asks = {
                agent: threads.submit(ask, served, chat, agent, cuts, random.Random(dice.random()))
                for agent, chat in chats.items()
            }
            restarts = threads.submit(restart, served, cuts, random.Random(dice.random()))
            try:
                futures: list[Future[Any]] = [*looks, *asks.values(), restarts]
                for future in futures:
                    future.result(PATIENCE * 10)
            finally:
                cuts.stop()
        asked = {agent: asking.result() for agent, asking in asks.items()}
        for agent, chat in chats.items():
            asked[agent][served.prompt(chat, "text 0 0 last", key="last")] = "text"
        told = {agent: settled(served, chat) for agent, chat in chats.items()}
        for agent, chat in chats.items():
            newcomers = [Watcher(served, chat, delta=delta) for delta in (True, False)]
            mine = [watcher for watcher in watchers if watcher.chat == chat] + newcomers
            for watcher in mine:
                watcher.read_to(told[agent][-1]["last"])
                watcher.cut()
                assert watcher.viewer.seen.items() >= newcomers[0].viewer.seen.items()
            watchers += newcomers
        assert served.end(signal.SIGTERM) == 0, served.said()
        for agent, chat in chats.items():
            rows = served.rows(chat)
            judge(rows, [watcher for watcher in watchers if watcher.chat == chat])
            right(agent, folded(rows), asked[agent])
        assert cuts.made >= CUTS
        assert cuts.in_frames
        assert {signal.SIGTERM, signal.SIGKILL} <= set(restarts.result())


def settled(served: Served, chat: str) -> list[dict[str, Any]]:
    """The turns of a chat once all are over."""
    until(lambda: served.finalized(chat), "all turns are over")
    return served.turns(chat)


def right(agent: str, turns: dict[int, dict[str, Any]], cases: dict[int, str]) -> None:
    """Each turn has the reply of its recording, or says that it was cut off."""
    assert turns.keys() == cases.keys()
    for number, turn in turns.items():
        if turn["outcome"] == "cut_off":
            assert turn["reason"], f"turn {number} does not say why it was cut off"
        else:
            assert turn["outcome"] == "ok", f"turn {number}: {turn}"
            assert is_reply(turn["message"], agent, cases[number]), f"turn {number} of {agent}, {cases[number]}"
    assert turns[max(turns)]["outcome"] == "ok", "the last turn, which nothing cut off"
