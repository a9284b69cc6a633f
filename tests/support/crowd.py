"""Many viewers of a cluster's chats, in one thread: each comes back, at the next machine, after every cut."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from viewer import Viewer
from waiting import PATIENCE, until
from watchers import Chunks

if TYPE_CHECKING:
    from machines import Machine

AGAIN_SECONDS = 0.1
"""Seconds until a viewer whose connection was cut comes back."""


class Watching:
    """One viewer, over all of its connections."""

    def __init__(
        self,
        chat: str,
        machines: Sequence[Machine],
        *,
        remembers: bool = True,
        tokens: Mapping[str, str] | None = None,
    ) -> None:
        """`machines` are tried in turn. `remembers`: all that it saw is compared, and not the end alone.

        `tokens` are those of a person, by the name of the machine; without them it is the owner.
        """
        self.chat, self.machines, self.remembers = chat, machines, remembers
        self.tokens = tokens
        self.viewer = Viewer()
        self.moments: dict[int, dict[int, dict[str, Any]]] = {}
        """What it saw at each number, for `truth.judge`."""
        self.seen_at: dict[int, float] = {}
        """Seconds since the epoch at which it saw each number."""
        self.connections = 0

    async def watch(self) -> None:
        """Watch, until cancelled."""
        place = 0
        while True:
            machine = self.machines[place % len(self.machines)]
            place += 1
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", machine.port)
            except OSError:
                await asyncio.sleep(AGAIN_SECONDS)
                continue
            try:
                await self._read(machine, reader, writer)
            except (OSError, asyncio.IncompleteReadError):
                pass  # the machine ended
            finally:
                writer.close()
            self.viewer.cut()
            await asyncio.sleep(AGAIN_SECONDS)

    async def _read(self, machine: Machine, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = [f"GET /api/chats/{self.chat}/events?delta=1 HTTP/1.1", f"Host: 127.0.0.1:{machine.port}"]
        token = machine.token if self.tokens is None else self.tokens[machine.name]
        head += [f"Authorization: Bearer {token}", "Accept: text/event-stream"]
        if self.viewer.after is not None:
            head.append(f"Last-Event-ID: {self.viewer.after}")
        writer.write("\r\n".join([*head, "", ""]).encode())
        status = int((await reader.readuntil(b"\r\n\r\n")).split()[1])
        if status != 200:
            assert status == 503, f"{machine.name} answered {status}"
            return
        self.connections += 1
        chunks = Chunks()
        while data := await reader.read(65536):
            before = self.viewer.after
            self.viewer.feed(chunks.feed(data))
            after = self.viewer.after
            if after is not None and after != before:
                assert before is None or after > before, "a number comes twice"
                self.seen_at[after] = time.time()
                if self.remembers:
                    self.moments[after] = self.viewer.seen


class Crowd:
    """Viewers in a thread of their own, for the duration of a context."""

    def __init__(self, watching: Sequence[Watching]) -> None:
        self.watching = watching
        self._failure: BaseException | None = None
        self._loop = asyncio.new_event_loop()
        self._task: asyncio.Future[None] = self._loop.create_future()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Crowd:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(PATIENCE)
        if kind is None:
            self._check()

    def reach(self, lasts: Mapping[str, int], seconds: float = PATIENCE) -> None:
        """Wait until every viewer has seen the entry of this number of its chat."""
        until(lambda: not self._behind(lasts), "every viewer has seen all entries", seconds)

    def _behind(self, lasts: Mapping[str, int]) -> list[Watching]:
        self._check()
        return [it for it in self.watching if (it.viewer.after or 0) < lasts[it.chat]]

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        async def watch_all() -> None:
            async with asyncio.TaskGroup() as group:
                for watching in self.watching:
                    group.create_task(watching.watch())

        self._task = self._loop.create_task(watch_all())
        try:
            self._loop.run_until_complete(self._task)
        except asyncio.CancelledError:
            pass
        except BaseException as error:
            self._failure = error
        finally:
            self._loop.close()
