"""Measure a team at work: a year of chats, viewers at two nodes, kills; check that nothing is lost.

    python bench/team.py             30 minutes; it starts a PostgreSQL of its own
    python bench/team.py --minutes 2 --chats 500
    python bench/team.py --write     the report is written into docs/scale.md

The load, the viewers, the nodes and the database share the cores of one machine.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from signal import SIGINT, SIGKILL
from typing import Any

import httpx
import msgspec
from msgspec.structs import replace

from markdown_table import row, section

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "scale.md"
BEGIN, END = "<!-- team: begin -->", "<!-- team: end -->"
sys.path.insert(0, str(ROOT / "tests" / "support"))

from chat_rows import rows_of  # noqa: E402
from crowd import Crowd, Watching  # noqa: E402
from machines import Cluster, Machine  # noqa: E402
from postgres import Server  # noqa: E402
from truth import folded, judge  # noqa: E402

from penstock.chat.history.entries import Numbered  # noqa: E402
from penstock.chat.history.timeline import Timeline  # noqa: E402
from penstock.chat.service.log.stored_turns import summary_rows  # noqa: E402
from penstock.chat.service.log.truncation import fitted  # noqa: E402
from penstock.chat.store.postgres.store import PostgresStore  # noqa: E402
from penstock.chat.store.protocol import clock  # noqa: E402
from penstock.chat.store.rows import ChatRow  # noqa: E402

PEOPLE, BUSY, VIEWERS = 20, 20, 200
"""People, chats in which turns run again and again, and viewers, who watch these chats."""

TURNS_EACH = 10
"""Turns of a chat that was there before."""

OLD_RUNS = ["text.nopartial", "tools.nopartial"]
"""Recorded runs of claude that are the turns of the old chats."""

PAUSE = (4.0, 16.0)
"""Seconds between the end of a turn and the next prompt of a chat."""

KILLS = [(0.15, "node a"), (0.35, "database"), (0.55, "node b"), (0.75, "database, stopped"), (0.85, "node a")]
"""What is killed, at which part of the time."""

AWAY = 5.0
"""Seconds until what was killed is started again."""

AFTER_A_KILL = 30.0
"""Seconds after a kill whose frames are counted apart."""

EVERY = 10.0
"""Seconds between two looks at memory, list and search."""

LATER = f", in the {AFTER_A_KILL:.0f} s after a kill"
START = "start of a node"
HOUR = 3600.0

PATIENCE = 300.0
"""Seconds after which something that is waited for counts as lost."""

ABOUT = f"""\
Two `penstock serve` on one PostgreSQL, all on one machine with the load: {{chats:,}} chats with {{turns:,}} turns,
{PEOPLE} people, and {VIEWERS} viewers of {BUSY} chats, in which turns run again and again for {{minutes:.0f}} minutes.
Meanwhile nodes were killed (`kill -9`) three times, and the database was killed and stopped once each; each came back
after {AWAY:.0f} s. At the end, each viewer had what the database had, at each moment that was noted. No turn began
twice, and no prompt was lost. Times are p50 / p99 in ms, of {{looks}} looks."""


# --- the chats that were there before ---


async def fill(url: str, chats: int, directories: Sequence[str]) -> None:
    """Add chats with turns, as a year has left them."""
    entries = rows_of(*(OLD_RUNS[turn % len(OLD_RUNS)] for turn in range(TURNS_EACH)))
    now = clock()
    timeline = Timeline()
    summed = []
    for number, what in enumerate(entries, 1):
        timeline.take([Numbered(number, now, what)])
        if timeline.running is None:
            summed += summary_rows(timeline)
    rows = {one.turn: one for one in summed}
    data, _ = fitted(entries, 2**20)
    async with await PostgresStore.open(url) as store:
        waiting = asyncio.Semaphore(50)

        async def add(nth: int) -> None:
            async with waiting:
                home, at = "ab"[nth % 2], now - nth * 3_000_000
                person = f"person{nth % PEOPLE}"
                chat = ChatRow(
                    f"{nth:032x}", "quick", directories[nth % 2], at, title=f"chat {nth}", person=person, home=home
                )
                await store.create_chat(chat)
                # A year's turns have times of their own, by which the search orders and finds its rows.
                turns = [replace(row, at=at + row.turn * 60_000) for row in rows.values()]
                await store.append(chat.id, data, after=0, at=at, turns=turns)

        await asyncio.gather(*map(add, range(chats)))


# --- people, viewers and prompts ---


def add_people(machine: Machine) -> dict[str, str]:
    """Add the people to a machine that runs; return their tokens."""
    tokens = {}
    for nth in range(PEOPLE):
        command = [sys.executable, "-m", "penstock", "people", "add", f"person{nth}"]
        command += [f"--data={machine.folder / 'data'}"]
        said = subprocess.run(command, capture_output=True, text=True, check=True)
        found = re.search(r"^[0-9A-Za-z_-]{32,}$", said.stdout, re.MULTILINE)
        assert found is not None, said.stdout + said.stderr
        tokens[f"person{nth}"] = found[0]
    return tokens


class Team:
    """Two nodes, their people, and clients of each."""

    def __init__(self, cluster: Cluster, machines: Sequence[Machine], tokens: Mapping[str, Mapping[str, str]]) -> None:
        self.cluster, self.machines, self.tokens = cluster, machines, tokens
        self.clients = {
            machine.name: httpx.AsyncClient(
                base_url=f"http://127.0.0.1:{machine.port}", timeout=60.0, trust_env=False, limits=LIMITS
            )
            for machine in machines
        }
        self.prompted: dict[str, list[str]] = defaultdict(list)
        """Prompts that a node has accepted, by chat."""
        self.took: dict[str, list[float]] = defaultdict(list)
        """Seconds of each kind of request."""
        self.memory: dict[str, list[int]] = defaultdict(list)
        """Bytes that each node has in memory, at each look."""
        self.refused = 0
        """Requests that were made again, as a node or the database was away."""
        self.kills: list[float] = []

    @asynccontextmanager
    async def timed(self, name: str) -> AsyncIterator[None]:
        """Note how long something takes."""
        began = time.perf_counter()
        yield
        self.took[name].append(time.perf_counter() - began)

    async def ask(self, node: str, person: str, method: str, path: str, **more: Any) -> httpx.Response:
        """Make a request of a person."""
        headers = {"Authorization": f"Bearer {self.tokens[node][person]}", **more.pop("headers", {})}
        return await self.clients[node].request(method, path, headers=headers, **more)

    async def prompt(self, chat: str, person: str, text: str, source: random.Random) -> None:
        """Ask for a turn at one of the nodes, again and again under the same key until it is accepted."""
        end = time.monotonic() + PATIENCE
        while True:
            assert time.monotonic() < end, f"the prompt {text!r} was not accepted"
            node = source.choice(self.machines).name
            body, key = {"text": text}, {"Idempotency-Key": text}
            try:
                answer = await self.ask(node, person, "POST", f"/api/chats/{chat}/turns", json=body, headers=key)
            except httpx.TransportError:
                answer = None
            if answer is not None and answer.is_success:
                self.prompted[chat].append(text)
                return
            assert answer is None or answer.status_code in (502, 503), f"{answer.status_code} {answer.text}"
            self.refused += 1
            await asyncio.sleep(0.5)

    async def work(self, chat: str, person: str, watching: Watching, until: float, seed: int) -> None:
        """Prompt in one chat until the time is over, each time when a viewer has seen the end of the turn before."""
        source = random.Random(seed)
        await asyncio.sleep(source.uniform(0, PAUSE[1]))
        turn = 0
        while time.monotonic() < until:
            turn += 1
            await self.prompt(chat, person, f"{turn}-{chat}", source)
            end = time.monotonic() + PATIENCE
            while watching.viewer.turns.get(turn, {}).get("state") != "completed":
                assert time.monotonic() < end, f"turn {turn} of {chat} did not end: {watching.viewer.turns.get(turn)}"
                await asyncio.sleep(0.1)
            await asyncio.sleep(source.uniform(*PAUSE))

    async def look(self, until: float) -> None:
        """Look at memory, list, search and a chat, until the time is over."""
        source = random.Random(5)
        while time.monotonic() < until:
            for machine in self.machines:
                person = f"person{source.randrange(PEOPLE)}"
                old = f"{source.randrange(PEOPLE):032x}"
                for name, path in [
                    ("a page of the list", "/api/chats?limit=100"),
                    ("a search", f"/api/search?q=chat+{source.randrange(99)}"),
                    ("a search for a rare word", "/api/search?q=needle77"),
                    ("the turns of an old chat", f"/api/chats/{old}/turns"),
                ]:
                    began = time.perf_counter()
                    try:
                        answer = await self.ask(machine.name, person, "GET", path)
                    except httpx.TransportError:
                        continue
                    if answer.status_code == 200:
                        self.took[f"{name}{self._when()}"].append(time.perf_counter() - began)
                    else:
                        assert answer.status_code in (404, 502, 503), f"{path}: {answer.status_code} {answer.text}"
                if size := memory_of(machine):
                    self.memory[machine.name].append(size)
            await asyncio.sleep(EVERY)

    def _when(self) -> str:
        return LATER if self.kills and time.time() - self.kills[-1] < AFTER_A_KILL else ""

    async def kill(self, server: Server, began: float, seconds: float) -> None:
        """Kill nodes and the database at their times, and start them again."""
        nodes = {f"node {machine.name}": machine for machine in self.machines}
        for part, what in KILLS:
            await asyncio.sleep(max(0.0, began + part * seconds - time.monotonic()))
            self.kills.append(time.time())
            print(f"{time.monotonic() - began:6.0f} s: {what} is killed", flush=True)
            if what in nodes:
                nodes[what].end(SIGKILL)
                await asyncio.sleep(AWAY)
                async with self.timed(START):
                    await asyncio.to_thread(nodes[what].start)
            else:
                await asyncio.to_thread(server.stop, SIGINT if "stopped" in what else SIGKILL)
                await asyncio.sleep(AWAY)
                server.start()  # the server ends with the thread that started it, so this is the main one


LIMITS = httpx.Limits(keepalive_expiry=2)


def memory_of(machine: Machine) -> int:
    """Return the resident memory of a node; 0 if it has ended."""
    process = machine.process
    try:
        pages = 0 if process is None else int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


# --- the measurement ---


async def at_work(
    team: Team, server: Server, crowd: Sequence[Watching], chats: Mapping[str, str], seconds: float
) -> None:
    """Run the load for some seconds."""
    began = time.monotonic()
    first = {chat: next(one for one in crowd if one.chat == chat) for chat in chats}
    async with asyncio.TaskGroup() as group:
        for seed, (chat, person) in enumerate(chats.items()):
            group.create_task(team.work(chat, person, first[chat], began + seconds, seed))
        group.create_task(team.look(began + seconds))
        group.create_task(team.kill(server, began, seconds))


def size_of(url: str) -> int:
    """Return the bytes of a database."""

    async def ask() -> int:
        async with await PostgresStore.open(url) as store:
            (found,) = await store.database.fetch("SELECT pg_database_size(current_database())")
            return int(found[0])

    return asyncio.run(ask())


def unindexed(url: str) -> int:
    """Return how many turns the search does not find yet; 1 stands for more."""

    async def ask() -> int:
        async with await PostgresStore.open(url) as store:
            return len(await store.list_unindexed(limit=1))

    return asyncio.run(ask())


def wait(true: Callable[[], bool], seconds: float, *, every: float = 0.2) -> float:
    """Wait until something is true; return the seconds that it took. `every`: seconds between two looks."""
    began = time.monotonic()
    while not true():
        assert time.monotonic() - began < seconds
        time.sleep(every)
    return time.monotonic() - began


def lags(cluster: Cluster, crowd: Sequence[Watching], kills: Sequence[float]) -> tuple[list[float], list[float]]:
    """Return the seconds from each entry's time to its frame at each viewer: in peace, and after a kill."""
    peace: list[float] = []
    war: list[float] = []
    for chat in {one.chat for one in crowd}:
        at = {entry.number: entry.at / 1e3 for entry in cluster.rows(chat)}
        for one in crowd:
            if one.chat == chat:
                for number, seen in one.seen_at.items():
                    if number in at:
                        after = any(kill <= at[number] < kill + AFTER_A_KILL for kill in kills)
                        (war if after else peace).append(seen - at[number])
    return peace, war


def p50_p99(seconds: Sequence[float]) -> str:
    """Both in milliseconds."""
    if len(seconds) < 2:
        return "–"
    cuts = statistics.quantiles(seconds, n=100)
    return f"{cuts[49] * 1e3:,.0f} / {cuts[98] * 1e3:,.0f}"


def check(cluster: Cluster, team: Team, crowd: Sequence[Watching]) -> dict[str, int]:
    """Assert that nothing was lost and nothing came twice; return the outcomes of the turns."""
    outcomes: dict[str, int] = defaultdict(int)
    for chat in {one.chat for one in crowd}:
        rows = cluster.rows(chat)
        judge(rows, [one for one in crowd if one.chat == chat])
        turns = folded(rows)
        assert [turn["prompt"] for turn in turns.values()] == team.prompted[chat], chat
        for turn in turns.values():
            outcomes[turn["outcome"]] += 1
    asked = [prompt for prompts in team.prompted.values() for prompt in prompts]
    ran = cluster.prompts()
    assert len(ran) == len({*ran}), "an agent was started twice for one prompt"
    assert {*ran} <= {*asked}
    assert cluster.left_over() == []
    return outcomes


class Measured(msgspec.Struct, kw_only=True):
    """What was measured."""

    starts: list[float]
    """Seconds in which each node started for the first time."""
    indexing: float
    """Seconds from then on until the search found all turns."""
    memory: dict[str, int]
    """Bytes that each node had in memory before the load."""
    filled: int
    indexed: int
    at_end: int
    """Bytes of the database: with the chats, with the index of the search, after the load."""
    outcomes: dict[str, int]
    peace: list[float]
    war: list[float]
    """Seconds from an entry to its frame; those after a kill apart."""


def measure(server: Server, cluster: Cluster, minutes: float, chats: int) -> tuple[Team, Measured]:
    """Fill a database, let a team work with it, and check what they saw."""
    began = time.monotonic()
    asyncio.run(fill(cluster.url, chats, [str(cluster.folder / name / "work") for name in "ab"]))
    filled = size_of(cluster.url)
    print(f"filled in {time.monotonic() - began:.0f} s", flush=True)
    starts, machines = [], []
    for name in "ab":
        began = time.monotonic()
        machines.append(cluster.machine(name, "--max-runs=10", f"--max-chats={chats + 1000}"))
        starts.append(time.monotonic() - began)
    indexing = wait(lambda: not unindexed(cluster.url), HOUR, every=5)
    indexed = size_of(cluster.url)
    print(f"indexed in {indexing:.0f} s", flush=True)
    team = Team(cluster, machines, {machine.name: add_people(machine) for machine in machines})
    memory = {machine.name: memory_of(machine) for machine in machines}
    busy = make_chats(team)
    crowd = make_crowd(team, [*busy])
    with Crowd(crowd) as watched:
        wait(lambda: all(one.viewer.after is not None for one in crowd), PATIENCE)
        asyncio.run(at_work(team, server, crowd, busy, minutes * 60))
        watched.reach({chat: len(cluster.rows(chat)) for chat in busy}, PATIENCE)
    outcomes = check(cluster, team, crowd)
    peace, war = lags(cluster, crowd, team.kills)
    return team, Measured(
        starts=starts,
        indexing=indexing,
        memory=memory,
        filled=filled,
        indexed=indexed,
        at_end=size_of(cluster.url),
        outcomes=outcomes,
        peace=peace,
        war=war,
    )


def make_chats(team: Team) -> dict[str, str]:
    """Make the chats in which turns will run; return whose each is."""
    busy = {}
    for nth in range(BUSY):
        person, home = f"person{nth % PEOPLE}", team.machines[nth % 2]
        bearer = f"Bearer {team.tokens[home.name][person]}"
        made = home.post("/api/chats", {"agent": "slow", "home": home.name}, Authorization=bearer)
        busy[str(made["id"])] = person
    wait(lambda: all(machine.has_chat(chat) for machine in team.machines for chat in busy), PATIENCE)
    return busy


def make_crowd(team: Team, chats: Sequence[str]) -> list[Watching]:
    """Make the viewers: as many at one node as at the other, each for one of the people."""
    crowd = []
    for nth in range(VIEWERS):
        first = nth // BUSY % 2
        order = [*team.machines[first:], *team.machines[:first]]
        tokens = {name: people[f"person{nth % PEOPLE}"] for name, people in team.tokens.items()}
        crowd.append(Watching(chats[nth % BUSY], order, remembers=nth < BUSY, tokens=tokens))
    return crowd


def report(minutes: float, chats: int) -> Iterator[str]:
    """The lines of the report."""
    server = Server()
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(Path(folder), server.database())
        try:
            team, found = measure(server, cluster, minutes, chats)
        finally:
            cluster.close()
            server.close()
    about = ABOUT.format(chats=chats, turns=chats * TURNS_EACH, minutes=minutes, looks=len(team.memory["a"]))
    yield from section("A team at work", about, ["", "figure"])
    yield row("turns in this time", ", ".join(f"{count:,} {name}" for name, count in sorted(found.outcomes.items())))
    starts = [*found.starts, *team.took.pop(START)]
    yield row("start of a node with these chats, s", ", ".join(f"{seconds:.1f}" for seconds in starts))
    yield row("the first indexing of all turns, s", f"{found.indexing:.0f}")
    for name, took in sorted(team.took.items()):
        yield row(name, p50_p99(took))
    yield row("a frame, from the time of its entry", p50_p99(found.peace))
    yield row(f"a frame{LATER}", p50_p99(found.war))
    yield row("frames that viewers saw", f"{len(found.peace) + len(found.war):,}")
    yield row("requests that were made again, as something was away", f"{team.refused:,}")
    for name, sizes in sorted(team.memory.items()):
        before, least, most = (size / 1e6 for size in (found.memory[name], min(sizes), max(sizes)))
        yield row(f"memory of node {name}, MB", f"{before:.0f} before, then {least:.0f} to {most:.0f}")
    bases = [size / 1e6 for size in (found.filled, found.indexed, found.at_end)]
    yield row("database, MB", "{:.0f}, with the search {:.0f}, at the end {:.0f}".format(*bases))
    turns = sum(map(len, team.prompted.values()))
    yield row("growth for a turn, kB", f"{(found.at_end - found.indexed) / turns / 1e3:.1f}")


def main() -> None:
    """Measure, and print the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--chats", type=int, default=10_000)
    parser.add_argument("--write", action="store_true", help="put the report into docs/scale.md")
    options = parser.parse_args()
    lines = [f"The load of the machine was {os.getloadavg()[0]:.1f} at the beginning, on {os.cpu_count()} cores.", ""]
    for line in report(options.minutes, options.chats):
        lines.append(line)
        print(line, flush=True)
    if options.write:
        head, _, rest = PAGE.read_text().partition(BEGIN)
        tail = rest.partition(END)[2]
        PAGE.write_text(f"{head}{BEGIN}\n" + "\n".join(lines) + f"\n\n{END}{tail}")


if __name__ == "__main__":
    main()
