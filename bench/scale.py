"""Measures the store in PostgreSQL beside the SQLite file: appends, delivery to another node, nodes, and idle chats.

    python bench/scale.py [--quick] [--write]

It starts a PostgreSQL of its own, which must be installed. `--write` puts the report into docs/scale.md.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import uvloop

from markdown_table import row, section
from penstock.chat.store.protocol import ChatStore, clock
from penstock.chat.store.rows import ChatRow
from penstock.chat.store.sqlite import SqliteStore

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "scale.md"
BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"
sys.path.insert(0, str(ROOT / "tests" / "support"))

ROW = b"x" * 300
LOADS = [(1, 1), (16, 1), (100, 1), (100, 10)]
"""Chats that append at once, and the rows of each append."""
RATES = [50, 200, 500, 2000]
CHATS = 100
IDLE = 1000

ROUNDS = 25
"""Turns of each kind, at each of two nodes."""

PROTOTYPE = """WITH g AS (SELECT * FROM unnest(%s::text[], %s::bigint[], %s::bytea[]) AS g (id, after, data)),
    h AS (UPDATE heads SET last = last + 1 FROM g WHERE heads.id = g.id AND last = g.after RETURNING key, last, data),
    e AS (INSERT INTO entries (chat, number, at, data) SELECT key, last, 1, data FROM h),
    n AS (SELECT pg_notify('penstock', string_agg(key || ' ' || last, ',')) FROM h)
    SELECT count(*) FROM h, n"""

BARE = """WITH h AS (UPDATE heads SET last = last + 1 WHERE id = 'chat-0' AND last = %s RETURNING key, last)
    INSERT INTO entries (chat, number, at, data) SELECT key, last, 1, %s FROM h"""

ABOUT_APPENDS = """\
Rows of 300 bytes. Each chat appends again when its last append is acknowledged, which is on the disk. Rows a second,
and the time of an append: p50 / p99. Of three rounds the best. A bare statement is what one connection can do that
appends one row after the other to one chat; beside it, the columns of different machines can be compared. The
prototype's idea is what the store was designed after: the appends that wait go in one plain statement with one
notification, and nothing is checked, claimed, tried again or read ahead."""

ABOUT_DELIVERY = """\
From before the append at one node until the entry was read at another, a process of its own; 100 chats, one row each
time: p50 / p99. With SQLite, writer and reader are one process. The load and the server run on the same cores. Of three
rounds the best."""

ABOUT_NODES = f"""\
Two `penstock serve` on one PostgreSQL. The agent works at one of them, its home; a person is at the home, or at the
other node. From before the request until the frame came, {ROUNDS} times each: p50 / p99 in ms. The agent's process is
stopped by a stop. The last row: from when a frame came at the home until it came at the other."""

ABOUT_IDLE = f"""\
One node with {IDLE:,} chats that are followed, of which none changes, for some seconds."""


# --- stores ---


@asynccontextmanager
async def opened(place: str) -> AsyncIterator[ChatStore]:
    if place.startswith("postgresql:"):
        from penstock.chat.store.postgres.store import PostgresStore

        async with await PostgresStore.open(place) as database:
            yield database
    else:
        async with await SqliteStore.open(place) as file:
            yield file


async def create(store: ChatStore, count: int) -> list[str]:
    names = [f"chat-{number}" for number in range(count)]
    await asyncio.gather(*(store.create_chat(ChatRow(name, "claude", "/", 1)) for name in names))
    return names


# --- appends ---


async def appends(place: str, chats: int, rows: int, seconds: float) -> tuple[float, float, float]:
    """Rows a second, and the p50 and p99 of an append in milliseconds."""
    took: list[float] = []
    async with opened(place) as store:
        names = await create(store, chats)
        end = time.perf_counter() + seconds

        async def write(name: str) -> None:
            last = 0
            while (began := time.perf_counter()) < end:
                last = await store.append(name, [ROW] * rows, after=last, at=clock())
                took.append(time.perf_counter() - began)

        began = time.perf_counter()
        await asyncio.gather(*map(write, names))
        elapsed = time.perf_counter() - began
    return len(took) * rows / elapsed, *percentiles(took)


def percentiles(seconds: list[float]) -> tuple[float, float]:
    """The p50 and p99 in milliseconds."""
    cuts = statistics.quantiles(seconds, n=100)
    return cuts[49] * 1e3, cuts[98] * 1e3


async def bare(place: str, seconds: float) -> tuple[float, float, float]:
    """The same for one statement after the other on one connection: the least that an append can be."""
    import psycopg

    from penstock.chat.store.postgres.connections import parameters

    took: list[float] = []
    async with opened(place) as store:
        await create(store, 1)
    async with await psycopg.AsyncConnection.connect(autocommit=True, **parameters(place)) as connection:
        end = (start := time.perf_counter()) + seconds
        while (began := time.perf_counter()) < end:
            await connection.execute(BARE, (len(took), ROW))
            took.append(time.perf_counter() - began)
        return len(took) / (time.perf_counter() - start), *percentiles(took)


async def prototype(place: str, chats: int, seconds: float) -> tuple[float, float, float]:
    """The same for the idea of the prototype: all appends that wait in one plain statement."""
    import psycopg

    from penstock.chat.store.postgres.connections import parameters

    took: list[float] = []
    waiting: list[tuple[str, int, asyncio.Future[int]]] = []
    async with opened(place) as store:
        names = await create(store, chats)
    end = (start := time.perf_counter()) + seconds

    async def write(name: str) -> None:
        last = 0
        while (began := time.perf_counter()) < end:
            waiting.append((name, last, asyncio.get_running_loop().create_future()))
            last = await waiting[-1][2]
            took.append(time.perf_counter() - began)

    async with await psycopg.AsyncConnection.connect(autocommit=True, **parameters(place)) as connection:
        writers = asyncio.gather(*map(write, names))
        while not writers.done():
            await asyncio.sleep(0)
            group = waiting[:]
            waiting.clear()
            if group:
                ids, afters, results = map(list, zip(*group, strict=True))
                await connection.execute(PROTOTYPE, (ids, afters, [ROW] * len(ids)), binary=True)
                for after, result in zip(afters, results, strict=True):
                    result.set_result(after + 1)
    return len(took) / (time.perf_counter() - start), *percentiles(took)


# --- delivery ---


async def produce(place: str, names: list[str], rate: int, seconds: float, store: ChatStore | None = None) -> None:
    """Append one row at a time to the chats in turn, at a rate; the row is the time."""
    if store is None:
        async with opened(place) as own:
            await produce(place, names, rate, seconds, own)
        return
    last = {name: (await store.read(name)).last for name in names}
    tasks: set[asyncio.Task[None]] = set()
    locks = {name: asyncio.Lock() for name in names}

    async def append(name: str) -> None:
        async with locks[name]:
            data = str(time.monotonic_ns()).encode().ljust(300)
            last[name] = await store.append(name, [data], after=last[name], at=1)

    began = time.perf_counter()
    for number in range(int(rate * seconds)):
        await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
        tasks.add(task := asyncio.create_task(append(names[number % len(names)])))
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)


async def delivery(place: str, rate: int, seconds: float) -> tuple[float, float]:
    """The p50 and p99 in milliseconds, after a second to get going."""
    took: list[float] = []
    async with opened(place) as store:
        names = await create(store, CHATS)
        seen = dict.fromkeys(names, 0)
        for name in names:
            await store.read(name)
        subscription = store.subscribe()
        reading: set[asyncio.Task[None]] = set()

        async def read(name: str) -> None:
            for entry in (await store.read(name, after=seen[name])).entries:
                seen[name] = entry.number
                took.append((time.monotonic_ns() - int(entry.data)) / 1e9)

        async def follow() -> None:
            while True:
                for name in (await subscription.next()).chats:
                    reading.add(task := asyncio.create_task(read(name)))
                    task.add_done_callback(reading.discard)

        following = asyncio.create_task(follow())
        if place.startswith("postgresql:"):
            command = [sys.executable, __file__, "--produce", place, str(rate), str(seconds + 1), *names]
            producer = await asyncio.create_subprocess_exec(*command)
            await producer.wait()
        else:
            await produce(place, names, rate, seconds + 1, store)
        await asyncio.sleep(0.5)
        following.cancel()
    return percentiles(took[rate:])


# --- idle chats ---


async def idle(place: str, seconds: float) -> dict[str, float]:
    from penstock.chat.store.postgres.connections import DatabaseLink
    from penstock.chat.store.postgres.store import PostgresStore
    from penstock.chat.store.postgres.tailer import POLL

    statements: list[str] = []
    run = DatabaseLink.run

    async def counted(self: DatabaseLink, query: Any, *rest: Any) -> Any:
        statements.append(query)
        return await run(self, query, *rest)

    async with await PostgresStore.open(place) as store:
        for name in await create(store, IDLE):
            await store.read(name)
        await asyncio.sleep(2)
        with patch.object(DatabaseLink, "run", counted):
            cpu = time.process_time()
            await asyncio.sleep(seconds)
            used = time.process_time() - cpu
        plan = await store.database.fetch("EXPLAIN (ANALYZE, TIMING OFF) " + POLL)
    return {
        "statements a second": len(statements) / seconds,
        "CPU of the node, % of a core": used / seconds * 100,
        "the server's time for a statement, ms": float(str(plan[-1][0]).split(": ")[1].split()[0]),
    }


# --- the report ---


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number > 1)}"


def report(quick: bool) -> Iterator[str]:
    """The lines of the report."""
    from postgres import Server, programs

    import nodes

    if programs() is None:
        yield from section("Several machines", "Not measured: PostgreSQL is not installed.", ["", "figure"])
        return
    seconds, rounds = (1.0, 1) if quick else (2.0, 3)
    server = Server()
    try:
        columns = ["", "PostgreSQL", "ms", "beside a bare statement", "SQLite", "ms"]
        yield from section("Several machines: appends", ABOUT_APPENDS, columns)
        least, p50, p99 = max(measured(bare, server.database, seconds) for _ in range(rounds))
        yield row("a bare statement: 1 chat, 1 row", f"{least:,.0f}", f"{p50:.1f} / {p99:.1f}", "1", "–", "–")
        for chats, rows in LOADS:
            measures: list[Any] = [(appends, place, chats, rows, seconds) for place in (server.database, None)]
            if rows == 1:
                measures.append((prototype, server.database, chats, seconds))
            # In each round one after the other, so that all have the same load of the machine.
            found = [[measured(*measure) for measure in measures] for _ in range(rounds)]
            best = [max(column) for column in zip(*found, strict=True)]
            cells = [cell for rate, p50, p99 in best for cell in (f"{rate:,.0f}", f"{p50:.1f} / {p99:.1f}")]
            ratios = [f"{rate / least:.1f}" for rate, _, _ in best]
            load = f"{_counted(chats, 'chat')}, {_counted(rows, 'row')} each"
            yield row(load, *cells[:2], ratios[0], *cells[2:4])
            if rows == 1:
                yield row(f"the prototype's idea: {_counted(chats, 'chat')}", *cells[4:], ratios[2], "–", "–")
        yield from section("Several machines: delivery, ms", ABOUT_DELIVERY, ["rows a second", "PostgreSQL", "SQLite"])
        for rate in RATES:
            best = [
                min(measured(delivery, place, rate, seconds * 2) for _ in range(rounds))
                for place in (server.database, None)
            ]
            yield row(f"{rate:,}", *(f"{p50:.1f} / {p99:.1f}" for p50, p99 in best))
        yield from section("Several machines: two nodes, ms", ABOUT_NODES, ["", "at the home", "at another node"])
        with tempfile.TemporaryDirectory() as folder:
            yield from nodes.rows(server.database(), Path(folder), 5 if quick else ROUNDS, percentiles)
        yield from section("Several machines: idle chats", ABOUT_IDLE, ["", "figure"])
        for name, value in run(idle(server.database(), seconds * 5)).items():
            yield row(name, f"{value:.2f}")
    finally:
        server.close()


def measured(measure: Callable[..., Coroutine[Any, Any, Any]], place: Callable[[], str] | None, *values: float) -> Any:
    """One measurement in a new database, or in a new file."""
    if place is not None:
        return run(measure(place(), *values))
    with tempfile.TemporaryDirectory() as folder:
        return run(measure(os.path.join(folder, "chats.db"), *values))


def run(measurement: Coroutine[Any, Any, Any]) -> Any:
    """Run it in the event loop that `penstock serve` has."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(measurement)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the store in PostgreSQL.")
    parser.add_argument("--quick", action="store_true", help="shorter")
    parser.add_argument("--write", action="store_true", help="put the report into docs/scale.md")
    parser.add_argument("--produce", nargs="+", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.produce:
        place, rate, seconds, *names = args.produce
        run(produce(place, names, int(rate), float(seconds)))
        return
    lines = [f"The load of the machine was {os.getloadavg()[0]:.1f} at the beginning, on {os.cpu_count()} cores.", ""]
    for line in report(args.quick):
        lines.append(line)
        print(line, flush=True)
    if args.write:
        head, _, rest = PAGE.read_text().partition(BEGIN)
        tail = rest.partition(END)[2]
        PAGE.write_text(f"{head}{BEGIN}\n" + "\n".join(lines) + f"\n\n{END}{tail}")


if __name__ == "__main__":
    main()
