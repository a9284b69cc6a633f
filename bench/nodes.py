"""Two real nodes on one PostgreSQL: how long a prompt, an answer and a stop take from the home and from another node.

Called by `scale.py`. The agent is a small program that speaks ACP, started anew for each turn.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from markdown_table import row

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

SECONDS = 30.0
"""Seconds after which a frame that is waited for is missing."""

Frame = dict[str, Any]


class Viewer:
    """Viewer of one chat at one node: its frames, with their numbers and times."""

    def __init__(self, client: httpx.AsyncClient, chat: str) -> None:
        self.client = client
        self.path = f"/api/chats/{chat}"
        self.frames: list[tuple[int, float, Frame]] = []
        self._came = asyncio.Event()

    @asynccontextmanager
    async def watching(self) -> Any:
        reading = asyncio.create_task(self._read())
        await self.first(0, lambda frame: frame["type"] == "snapshot")
        yield self
        reading.cancel()

    async def _read(self) -> None:
        number = 0
        async with self.client.stream("GET", f"{self.path}/events") as answer:
            async for line in answer.aiter_lines():
                if line.startswith("id: "):
                    number = int(line[4:])
                elif line.startswith("data: "):
                    self.frames.append((number, time.perf_counter(), json.loads(line[6:])))
                    self._came.set()

    async def first(self, start: int, is_it: Callable[[Frame], bool]) -> tuple[float, Frame]:
        """The first such frame from a position on, and when it came."""
        async with asyncio.timeout(SECONDS):
            while True:
                for _, at, frame in self.frames[start:]:
                    if is_it(frame):
                        return at, frame
                self._came.clear()
                await self._came.wait()

    async def post(self, path: str, body: Any, is_it: Callable[[Frame], bool]) -> tuple[float, Frame]:
        """The seconds from before a request until such a frame came here, and the frame."""
        start, began = len(self.frames), time.perf_counter()
        sent = asyncio.create_task(self.client.post(self.path + path, json=body))
        at, frame = await self.first(start, is_it)
        (await sent).raise_for_status()
        return at - began, frame


async def ask(viewer: Viewer) -> dict[str, float]:
    """One turn, with a question that is answered."""
    start = len(viewer.frames)
    prompted, _ = await viewer.post("/turns", {"text": "permission"}, _is("streaming"))
    _, asked = await viewer.first(start, lambda frame: bool(frame.get("question")))
    answer = {"id": asked["question"]["id"], "answer": asked["question"]["options"][0]["id"]}
    answered, _ = await viewer.post("/questions", answer, lambda frame: not frame.get("question"))
    await viewer.first(start, _is("finalized"))
    return {"prompt": prompted, "answer": answered}


async def stop(viewer: Viewer) -> dict[str, float]:
    """One turn that is stopped."""
    await viewer.post("/turns", {"text": "wait"}, _is("assistant"))
    stopped, _ = await viewer.post("/stop", {}, _is("completed"))
    await viewer.first(0, _is("finalized"))
    return {"stop": stopped}


def _is(kind: str) -> Callable[[Frame], bool]:
    return lambda frame: bool(frame["type"] == kind)


def _client(machine: Any) -> httpx.AsyncClient:
    with machine.client() as client:
        return httpx.AsyncClient(base_url=client.base_url, headers=client.headers, timeout=SECONDS, trust_env=False)


async def measure(cluster: Any, rounds: int) -> dict[str, list[float]]:
    """The seconds of each action, `here` at the home and `there` at another node, and of a frame beyond the home."""
    took: dict[str, list[float]] = defaultdict(list)
    machines = [cluster.machine("home"), cluster.machine("other", works=False)]
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(_client(machine)) for machine in machines]
        for number in range(rounds * 4):
            action, place = (ask, stop)[number % 2], number // 2 % 2
            chat = machines[0].chat("peer")
            async with AsyncExitStack() as watching:
                viewers = [await watching.enter_async_context(Viewer(it, chat).watching()) for it in clients]
                seconds = await action(viewers[place])
                await viewers[1 - place].first(0, _is("finalized"))
            if number >= 4:  # before that, the nodes get going
                for name, value in seconds.items():
                    took[f"{name} {('here', 'there')[place]}"].append(value)
                took["frame there"] += _later(*viewers)
    return took


def _later(home: Viewer, other: Viewer) -> list[float]:
    """By how much each frame came later at the other node."""
    seen = {(number, frame["type"]): at for number, at, frame in home.frames if frame["type"] != "snapshot"}
    return [at - seen[key] for number, at, frame in other.frames if (key := (number, frame["type"])) in seen]


def rows(url: str, folder: Path, rounds: int, cuts: Callable[[list[float]], tuple[float, float]]) -> Iterator[str]:
    """The rows of the table."""
    from machines import Cluster

    cluster = Cluster(folder, url)
    try:
        took = asyncio.run(measure(cluster, rounds))
    finally:
        cluster.close()
    figures = {name: "{:.0f} / {:.0f}".format(*cuts(seconds)) for name, seconds in took.items()}
    names = {
        "prompt": "a prompt, until its turn has begun",
        "answer": "an answer, until the agent goes on",
        "stop": "a stop, until the turn has ended",
        "frame": "a frame, later than at the home",
    }
    for name, text in names.items():
        yield row(text, figures.get(f"{name} here", "–"), figures[f"{name} there"])
