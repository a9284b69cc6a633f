"""The servers that `chat.py` measures, each in a process of its own, which does what lines of JSON on stdin ask for.

What is fed to one is fed inside of its process. So its figures are those of the whole way: for Penstock log, fold and
frames; for the others a queue in memory for each viewer.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

LIVE, RATE = 50, 50
"""Chats that are fed, and events of each in a second."""

REPLY_CHARS, REPLY_ROWS = 200_000, 3000
OFFERED = 160_000_000
AGENT = "played"
WORD = "lorem ipsum dolor sit amet, c "
TOKEN = "t" * 43
RECORDING = Path(__file__).resolve().parent.parent / "tests" / "recordings" / "claude" / "text" / "input.ndjson"
CLOCK = time.monotonic_ns


class Contender:
    """A server in this process. Commands are methods; what they give goes back as JSON."""

    app: Any
    fast = False

    def __init__(self) -> None:
        self.fed: dict[str, list[tuple[int, int]]] = {}

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def viewers(self) -> int:
        raise NotImplementedError

    async def feed(self, kind: str, seconds: float, path: str) -> None:
        """2,500 events a second, to 50 chats, one at a time; writes when which was there into a file."""
        self.fed = {}
        began = time.monotonic() + 0.2
        await asyncio.gather(*(self._feed(f"live{n}", kind, began + n / LIVE / RATE, seconds) for n in range(LIVE)))
        Path(path).write_text(json.dumps(self.fed))

    async def _feed(self, chat: str, kind: str, began: float, seconds: float) -> None:
        fed = self.fed[chat] = []
        for turn in range(int(seconds * RATE)):
            wait = began + turn / RATE - time.monotonic()
            if wait > 0:
                await asyncio.sleep(wait)
            number = await self.put(chat, kind)
            fed.append((number, CLOCK()))

    async def put(self, chat: str, kind: str) -> int:
        raise NotImplementedError

    async def fewer(self, than: int) -> int:
        """When there are fewer viewers."""
        while self.viewers() >= than:
            await asyncio.sleep(0.002)
        return CLOCK()


class Plain(Contender):
    """A queue for each viewer, and the framework's own way to send what is in it."""

    def __init__(self, way: str, fast: bool) -> None:
        super().__init__()
        self.fast = fast
        self._way = way
        self._queues: dict[str, set[asyncio.Queue[tuple[int, str]]]] = {}
        self._numbers: dict[str, int] = {}

    async def start(self) -> None:
        from starlette.applications import Starlette
        from starlette.routing import Route

        self.app = Starlette(routes=[Route("/{chat}", self._sse if self._way == "sse-starlette" else self._streaming)])

    def viewers(self) -> int:
        return sum(map(len, self._queues.values()))

    async def put(self, chat: str, kind: str) -> int:
        number = self._numbers[chat] = self._numbers.get(chat, 0) + 1
        frame = {"type": "assistant", "turn": 1, "delta": WORD, "offset": number * len(WORD)}
        for queue in self._queues.get(chat, ()):
            with contextlib.suppress(asyncio.QueueFull):
                queue.put_nowait((number, json.dumps(frame)))
        return number

    @contextlib.asynccontextmanager
    async def _queue(self, request: Any) -> AsyncIterator[asyncio.Queue[tuple[int, str]]]:
        queue: asyncio.Queue[tuple[int, str]] = asyncio.Queue(256)
        queues = self._queues.setdefault(request.path_params["chat"], set())
        queues.add(queue)
        try:
            yield queue
        finally:
            queues.discard(queue)

    async def _streaming(self, request: Any) -> Any:
        from starlette.responses import StreamingResponse

        async def body() -> AsyncIterator[bytes]:
            async with self._queue(request) as queue:
                yield b": ok\n\n"
                while True:
                    number, data = await queue.get()
                    yield f"id: {number}\nevent: assistant\ndata: {data}\n\n".encode()

        return StreamingResponse(body(), media_type="text/event-stream")

    async def _sse(self, request: Any) -> Any:
        from sse_starlette import EventSourceResponse

        async def body() -> AsyncIterator[dict[str, str]]:
            async with self._queue(request) as queue:
                yield {"comment": "ok"}
                while True:
                    number, data = await queue.get()
                    yield {"id": str(number), "event": "assistant", "data": data}

        return EventSourceResponse(body())


class Penstock(Contender):
    """The server as `penstock serve` has it, over a real store; the feeder appends as a chat's worker does."""

    async def start(self) -> None:
        from penstock.chat.runs.service import Runs
        from penstock.chat.service.limits import ServiceLimits
        from penstock.chat.service.service import Service
        from penstock.chat.store.sqlite import SqliteStore
        from penstock.chat.web.api import Api
        from penstock.chat.web.app import make_app
        from penstock.chat.web.auth import Logins
        from penstock.chat.web.broadcast import Watches
        from penstock.chat.web.metrics import Metrics
        from penstock.chat.web.security import Security
        from penstock.chat.web.static import PageFiles
        from penstock.config.settings import load

        self.stack = contextlib.AsyncExitStack()
        self.folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-bench-")))
        command = ["/bin/cat", str(RECORDING), "{model}", "{session_id}"]
        config = self.folder / "config.toml"
        config.write_text(f'[agents.played]\nadapter = "claude"\ncommand = {json.dumps(command)}\n')
        self.metrics = Metrics()
        store = await self.stack.enter_async_context(await SqliteStore.open(self.folder / "chats.db"))
        self.service = await Service.open(
            store,
            roots=[self.folder],
            config=load(env={"PENSTOCK_CONFIG": str(config)}),
            limits=ServiceLimits(max_chats=5000),
        )
        self.watches = Watches(self.service, self.metrics)
        security = Security(Logins(TOKEN, "c"), hosts=["127.0.0.1"], origins=[])
        self.app = make_app(Api(self.service, self.watches, security, Runs(None)), PageFiles())
        self._ids: dict[str, str] = {}
        self._numbers: dict[str, int] = {}
        await self.service.places.trust(self.folder)

    async def stop(self) -> None:
        await self.service.close()
        await self.stack.aclose()

    def viewers(self) -> int:
        return self.metrics.clients

    async def chats(self, names: list[str]) -> dict[str, str]:
        """Makes chats; the id of each."""
        for name in names:
            made = await self.service.create(agent="played", cwd=str(self.folder), title=name)
            self._ids[name] = made.id
        return self._ids

    async def begin(self, names: list[str]) -> None:
        """A turn begins in each of these chats."""
        from penstock import events as ev
        from penstock.chat.history.entries import Prompted, TurnBegan

        for name in names:
            await self._append(
                name,
                Prompted(1, "Go on"),
                TurnBegan(1, "played", "/"),
                ev.RunStarted(agent=AGENT, session_id="s"),
                ev.MessageStarted(agent=AGENT, message=1),
                ev.BlockStarted(agent=AGENT, block=1, kind="text", message=1),
            )

    async def _append(self, name: str, *rows: Any) -> int:
        log = self.service.log(self._ids[name])
        await log.write(lambda _: rows)
        return (await log.open()).number

    async def put(self, chat: str, kind: str) -> int:
        from penstock import events as ev

        if kind == "growth":
            return await self._append(chat, ev.Delta(agent=AGENT, block=1, kind="text", text=WORD))
        number = self._numbers[chat] = self._numbers.get(chat, 0) + 1
        doing: ev.ToolKind = "read" if number % 2 else "execute"  # another status each time: told at once
        call = ev.ToolCalled(
            agent=AGENT, call_id=f"c{number}", name="Tool", input={"path": WORD}, title=WORD, tool_kind=doing
        )
        return await self._append(chat, call)

    async def reply(self, chat: str, seconds: float) -> None:
        """A reply of 200,000 characters, in so many seconds."""
        from penstock import events as ev

        size = REPLY_CHARS // REPLY_ROWS
        began = time.monotonic()
        for place in range(REPLY_ROWS):
            await asyncio.sleep(max(0.0, began + place * seconds / REPLY_ROWS - time.monotonic()))
            await self._append(chat, ev.Delta(agent=AGENT, block=1, kind="text", text=(WORD * 9)[:size]))
        await self._append(chat, ev.RunEnded(agent=AGENT, outcome="ok", reply="", rounds=1))

    async def flood(self, chat: str) -> int:
        """Turn after turn of 200,000 characters, as fast as the log takes them; bytes."""
        from penstock import events as ev
        from penstock.chat.history.entries import Prompted, TurnBegan

        offered, turn = 0, 1
        while offered < OFFERED:
            for _ in range(20):
                text = WORD * (REPLY_CHARS // 20 // len(WORD))
                await self._append(chat, ev.Delta(agent=AGENT, block=1, kind="text", text=text))
                offered += len(text)
            turn += 1
            await self._append(
                chat,
                ev.RunEnded(agent=AGENT, outcome="ok", reply="", rounds=1),
                Prompted(turn, "Go on"),
                TurnBegan(turn, "played", "/"),
                ev.RunStarted(agent=AGENT, session_id="s"),
                ev.MessageStarted(agent=AGENT, message=1),
                ev.BlockStarted(agent=AGENT, block=1, kind="text", message=1),
            )
        return offered


async def contend(name: str) -> None:
    """Be a contender until a signal comes."""
    import uvicorn

    contender = Penstock() if name == "penstock" else Plain(name, name != "bare")
    await contender.start()
    place = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # else asyncio sets no TCP_NODELAY
    place.bind(("127.0.0.1", 0))
    place.listen(2048)
    if isinstance(contender, Penstock):
        from penstock.chat.web.server import Server

        server: uvicorn.Server = Server(contender.app, contender.service.close)
    else:
        server = uvicorn.Server(
            uvicorn.Config(
                contender.app,
                http="httptools" if contender.fast else "h11",
                log_config=None,
                access_log=False,
                timeout_graceful_shutdown=2,
            )
        )
    serving = asyncio.create_task(server.serve(sockets=[place]))
    say({"port": place.getsockname()[1]})
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    working: set[asyncio.Task[None]] = set()

    async def do(command: str, arguments: list[Any]) -> None:
        found = getattr(contender, command)(*arguments)
        try:
            say({"done": await found if asyncio.iscoroutine(found) else found})
        except Exception as error:
            say({"failed": repr(error)})
            raise

    async def obey() -> None:
        while line := await reader.readline():
            task = asyncio.create_task(do(*json.loads(line)))
            working.add(task)
            task.add_done_callback(working.discard)

    obeying = asyncio.create_task(obey())
    with contextlib.suppress(asyncio.CancelledError):
        await serving
    obeying.cancel()
    await contender.stop()


def say(value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def main() -> None:
    name = sys.argv[1]
    if name != "bare":  # Penstock's own loop is uvloop's too
        import uvloop

        uvloop.run(contend(name))
    else:
        asyncio.run(contend(name))


if __name__ == "__main__":
    main()
