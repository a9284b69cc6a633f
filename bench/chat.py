"""Measures the gateway of the chat beside plain servers of server-sent events, in one run. Prints a markdown report.

    python bench/chat.py [--quick] [--only NAME]

The servers are in `servers.py`, each in a process of its own. This one is their load.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import json
import os
import re
import signal
import statistics
import sys
import tempfile
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from markdown_table import row, section
from servers import CLOCK, LIVE, TOKEN

CONTENDERS = {
    "penstock": "**Penstock**",
    "bare": "starlette",
    "bare-fast": "starlette, uvloop, httptools",
    "sse-starlette": "sse-starlette, uvloop, httptools",
}
IDLE = 1000
ABORTED = 500
SERVERS = Path(__file__).with_name("servers.py")

ABOUT_STREAMS = """\
1,000 idle viewers, then 50 more, each of a chat of its own with 50 events a second: 2,500 frames a second in all.
Each of Penstock's events is appended to the store, is on the disk, and is folded before it is sent; the others hand
it from a queue in memory to the socket. Latency is from then (for Penstock, from the store's acknowledgement) until
the frame has arrived. CPU is of one core. Of three rounds the least. The last column: Penstock beside the best of the
others."""

STREAMS = [
    ("RSS before, MB", "rss"),
    ("RSS with 1,000 idle viewers, MB", "rss_idle"),
    ("kB for an idle viewer (PSS)", "kb"),
    ("CPU with 1,000 idle viewers, %", "cpu_idle"),
    ("CPU at 2,500 frames/s, %", "cpu_urgent", "cpu_plain"),
    ("the same without a store, %", "cpu_told", "cpu_plain"),
    ("latency p50, ms", "p50_urgent", "p50_plain"),
    ("latency p99, ms", "p99_urgent", "p99_plain"),
    ("500 aborted viewers are noticed in, ms", "aborted"),
    ("exit on SIGTERM with 50 streams, ms", "exit"),
]
"""A figure, and the names that it has."""

ABOUT_ALONE = """\
2,500 events a second that only make replies grow are told in steps of 100 ms, so half of that is in the latency."""

ALONE = [
    ("CPU at 2,500 entries/s into the store, nobody looks, %", "cpu_log"),
    ("CPU at 2,500 entries/s of growing replies, 50 viewers, %", "cpu_growth"),
    ("latency of growth p50, ms", "p50_growth"),
    ("latency of growth p99, ms", "p99_growth"),
    ("bytes/s to each of these viewers", "bytes_growth"),
]


# --- the load ---------------------------------------------------------------------------------------


class Remote:
    """A contender's process, as the load sees it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.port = 0

    async def __aenter__(self) -> Remote:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, str(SERVERS), self.name,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=1 << 26,
        )  # fmt: skip
        self.pid = self._process.pid
        self.port = (await self._answer())["port"]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} has ended")
        answer = json.loads(line)
        if "failed" in answer:
            raise SystemExit(answer["failed"])
        return answer

    async def do(self, command: str, *arguments: Any) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([command, arguments]).encode() + b"\n")
        return (await self._answer())["done"]

    async def end(self) -> float:
        """SIGTERM; the seconds until it has exited."""
        began = time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        await self._process.wait()
        return time.monotonic() - began

    def memory(self) -> tuple[float, float]:
        """RSS and PSS, in megabytes."""
        text = Path(f"/proc/{self.pid}/smaps_rollup").read_text()
        rss, pss = (int(re.search(rf"^{name}:\s+(\d+)", text, re.M)[1]) for name in ("Rss", "Pss"))  # type: ignore[index]
        return rss / 1000, pss / 1000

    def used(self) -> float:
        """Seconds of a core, all threads."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @contextlib.contextmanager
    def cpu(self) -> Iterator[list[float]]:
        """Percent of one core, once it is left."""
        found: list[float] = []
        used, began = self.used(), time.monotonic()
        yield found
        found.append((self.used() - used) / (time.monotonic() - began) * 100)


class Viewer(asyncio.Protocol):
    """A stream that is only gathered; it is read when all is over."""

    def __init__(self, request: bytes, *, gather: bool) -> None:
        self._request = request
        self._gather = gather
        self.pieces: list[bytes] = []
        self.times: list[int] = []
        self.size = 0
        self.first: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self.size += len(data)
        if self._gather:
            self.pieces.append(data)
            self.times.append(CLOCK())
        if not self.first.done() and b": ok" in data:
            self.first.set_result(None)

    def eof_received(self) -> None:
        return None

    def forget(self) -> None:
        self.pieces, self.times, self.size = [], [], 0

    def arrivals(self) -> tuple[list[int], list[int]]:
        """The numbers of the frames, and when each had come."""
        whole, ends, end = b"".join(self.pieces), [], 0
        for piece in self.pieces:
            end += len(piece)
            ends.append(end)
        found = [(int(it[1]), it.end()) for it in re.finditer(rb"(?m)^id: (\d+)\r?$", whole)]
        return [number for number, _ in found], [self.times[bisect_left(ends, at)] for _, at in found]


async def view(remote: Remote, path: str, *, gather: bool = False) -> Viewer:
    """Look at a stream; returns when its first byte has come."""
    head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{remote.port}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    loop = asyncio.get_running_loop()
    _, viewer = await loop.create_connection(lambda: Viewer(head.encode(), gather=gather), "127.0.0.1", remote.port)
    await asyncio.wait_for(viewer.first, 60)
    return viewer


async def views(remote: Remote, paths: list[str], **options: Any) -> list[Viewer]:
    made: list[Viewer] = []
    for start in range(0, len(paths), 50):
        made += await asyncio.gather(*(view(remote, path, **options) for path in paths[start : start + 50]))
    return made


def latencies(viewers: dict[str, Viewer], fed: dict[str, list[tuple[int, int]]]) -> tuple[float, float]:
    """p50 and p99 in milliseconds, from when a row was there to when a frame that covers it had come."""
    found = []
    for chat, viewer in viewers.items():
        numbers, times = viewer.arrivals()
        for number, at in fed[chat]:
            place = bisect_left(numbers, number)
            if place == len(numbers):
                raise SystemExit(f"row {number} of {chat} never came: {numbers[-3:]}")
            found.append((times[place] - at) / 1e6)
    found.sort()
    return statistics.median(found), found[int(len(found) * 0.99)]


# --- what is measured -------------------------------------------------------------------------------


async def streams(name: str, seconds: float) -> dict[str, Any]:
    """Idle and live viewers, aborted ones, the exit."""
    found: dict[str, Any] = {}
    async with Remote(name) as remote:
        live, idle = [f"live{n}" for n in range(LIVE)], [f"idle{n}" for n in range(LIVE)]
        place: Callable[[str], str] = lambda chat: f"/{chat}"  # noqa: E731
        if name == "penstock":
            ids = await remote.do("chats", live + idle)
            await remote.do("begin", live)
            place = lambda chat: f"/api/chats/{ids[chat]}/events?delta=1"  # noqa: E731
        (await view(remote, place("idle0"))).transport.abort()  # what is imported late is there
        await asyncio.sleep(1)
        notes = str(Path(tempfile.gettempdir()) / f"penstock-bench-{os.getpid()}.json")
        if name == "penstock":
            with remote.cpu() as cpu:
                await remote.do("feed", "growth", seconds, notes)
            found["cpu_log"] = cpu[0]
        rss, pss = remote.memory()
        idlers = await views(remote, [place(f"idle{n % LIVE}") for n in range(IDLE)])
        await asyncio.sleep(2)
        after, pss_after = remote.memory()
        found |= {"rss": rss, "rss_idle": after, "kb": pss_after - pss}
        with remote.cpu() as cpu:
            await asyncio.sleep(seconds)
        found["cpu_idle"] = cpu[0]
        lookers = dict(zip(live, await views(remote, list(map(place, live)), gather=True), strict=True))
        await asyncio.sleep(0.5)
        for kind in ("growth", "urgent") if name == "penstock" else ("plain",):
            for looker in lookers.values():
                looker.forget()
            with remote.cpu() as cpu:
                await remote.do("feed", kind, seconds, notes)
            await asyncio.sleep(1)
            p50, p99 = latencies(lookers, json.loads(Path(notes).read_bytes()))
            found |= {f"cpu_{kind}": cpu[0], f"p50_{kind}": p50, f"p99_{kind}": p99}
            found[f"bytes_{kind}"] = statistics.mean(it.size for it in lookers.values()) / seconds
        if name == "penstock":
            found["cpu_told"] = found["cpu_urgent"] - found["cpu_log"]
        Path(notes).unlink()
        extra = await views(remote, [place(f"idle{n % LIVE}") for n in range(ABORTED)])
        began = CLOCK()
        waiting = asyncio.create_task(remote.do("fewer", IDLE + LIVE + 1))
        for each in extra:
            each.transport.abort()
        found["aborted"] = (await waiting - began) / 1e6
        for each in idlers:
            each.transport.abort()
        await remote.do("fewer", LIVE + 1)
        found["exit"] = await remote.end() * 1000
    return found


async def many_chats(seconds: float) -> dict[str, Any]:
    """A thousand idle viewers, each of its own chat."""
    async with Remote("penstock") as remote:
        ids = await remote.do("chats", [f"chat{n}" for n in range(IDLE)])
        (await view(remote, f"/api/chats/{ids['chat0']}/events")).transport.abort()
        await asyncio.sleep(1)
        _, pss = remote.memory()
        idlers = await views(remote, [f"/api/chats/{id}/events" for id in ids.values()])
        await asyncio.sleep(2)
        _, after = remote.memory()
        with remote.cpu() as cpu:
            await asyncio.sleep(seconds)
        for each in idlers:
            each.transport.abort()
    return {"1,000 chats looked at: kB each (PSS)": after - pss, "1,000 chats looked at: CPU idle, %": cpu[0]}


async def long_reply(seconds: float) -> dict[str, Any]:
    """The bytes that a reply of 200,000 characters costs."""
    async with Remote("penstock") as remote:
        ids = await remote.do("chats", ["long"])
        await remote.do("begin", ["long"])
        whole = await view(remote, f"/api/chats/{ids['long']}/events")
        delta = await view(remote, f"/api/chats/{ids['long']}/events?delta=1")
        with remote.cpu() as cpu:
            await remote.do("reply", "long", seconds)
            await asyncio.sleep(1)
        return {
            "200 KB reply: kB with delta=1": delta.size / 1e3,
            "200 KB reply: kB whole": whole.size / 1e3,
            "200 KB reply: CPU, %": cpu[0],
        }


async def never_reads(reads: bool) -> dict[str, Any]:
    """What 160 MB cost that a viewer is offered and does not take."""
    async with Remote("penstock") as remote:
        ids = await remote.do("chats", ["flood"])
        await remote.do("begin", ["flood"])
        viewer = await view(remote, f"/api/chats/{ids['flood']}/events")
        viewer.forget()
        await asyncio.sleep(1)
        rss, _ = remote.memory()
        if not reads:
            viewer.transport.pause_reading()
        await remote.do("flood", "flood")
        await asyncio.sleep(2)
        after, _ = remote.memory()
        if not reads:
            return {"160 MB offered to one who never reads: RSS growth, MB": after - rss}
        return {
            "160 MB offered to one who reads: RSS growth, MB": after - rss,
            "and sent to it, as text that was replaced meanwhile is not, MB": viewer.size / 1e6,
        }


async def first_status(count: int) -> dict[str, Any]:
    """From the first byte of a prompt to `streaming` on an open stream."""
    found = []
    async with Remote("penstock") as remote:
        ids = await remote.do("chats", ["one"])
        viewer = await view(remote, f"/api/chats/{ids['one']}/events?delta=1", gather=True)
        body = json.dumps({"text": "Go on"})
        head = f"POST /api/chats/{ids['one']}/turns HTTP/1.1\r\nHost: 127.0.0.1:{remote.port}\r\n"
        head += f"Authorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\nConnection: close\r\n"
        request = f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()
        for _ in range(count):
            viewer.forget()
            reader, writer = await asyncio.open_connection("127.0.0.1", remote.port)
            began = CLOCK()
            writer.write(request)
            answer = await reader.read()
            if b" 202 " not in answer[:20]:
                raise SystemExit(answer.decode())
            writer.close()
            while b"event: finalized" not in b"".join(viewer.pieces):
                await asyncio.sleep(0.01)
            seen = b""
            for piece, at in zip(viewer.pieces, viewer.times, strict=True):
                seen += piece
                if b"event: streaming" in seen:
                    found.append((at - began) / 1e6)
                    break
            await asyncio.sleep(0.05)
    found.sort()
    return {
        "POST to first status: p50, ms": statistics.median(found),
        "POST to first status: the longest, ms": found[-1],
    }


def has(name: str) -> bool:
    """Whether what this contender needs is installed."""
    needs = {"bare-fast": ["uvloop", "httptools"], "sse-starlette": ["sse_starlette", "uvloop", "httptools"]}
    return all(importlib.util.find_spec(part) for part in ["uvicorn", *needs.get(name, [])])


def best(name: str, quick: bool) -> dict[str, float]:
    """The least of some rounds, of each figure: what others do on the machine only adds to them."""
    rounds = [asyncio.run(streams(name, 4.0 if quick else 10.0)) for _ in range(1 if quick else 3)]
    return {key: min(found[key] for found in rounds) for key in rounds[0]}


# --- the report -------------------------------------------------------------------------------------


def report(quick: bool) -> Iterator[str]:
    """The lines of the report."""
    found = {name: best(name, quick) for name in CONTENDERS if has(name)}
    ours = found.get("penstock", {})
    yield from section("The chat: streams", ABOUT_STREAMS, ["", *(CONTENDERS[name] for name in found), "ratio"])
    for name, *keys in STREAMS:
        values = [next((it[key] for key in keys if key in it), None) for it in found.values()]
        shown = ["–" if value is None else figure(value) for value in values]
        others = [value for value in values[1:] if value]
        ratio = f"{values[0] / min(others):.2f}" if others and values[0] is not None else "–"
        yield row(name, *shown, ratio)
    yield from section("The chat: Penstock alone", ABOUT_ALONE, ["", "figure"])
    if ours:
        for name, key in ALONE:
            yield row(name, figure(ours[key]))
    seconds = 4.0 if quick else 10.0
    for work in (many_chats(seconds), long_reply(seconds * 2), never_reads(False), never_reads(True), first_status(20)):
        for name, value in asyncio.run(work).items():
            yield row(name, figure(value))


def figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the gateway of the chat.")
    parser.add_argument("--quick", action="store_true", help="shorter, and once")
    parser.add_argument("--only", choices=CONTENDERS, help="the streams of one contender")
    args = parser.parse_args()
    if args.only:
        for name, value in best(args.only, args.quick).items():
            print(f"{name}: {figure(value)}")
        return
    for line in report(args.quick):
        print(line, flush=True)


if __name__ == "__main__":
    main()
