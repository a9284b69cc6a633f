"""The heartbeats of all chats: one loop that asks for the turns that are due."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from penstock.chat.errors import Conflicting, Ending
from penstock.chat.service import heartbeat
from penstock.chat.service.worker import Worker
from penstock.chat.store.protocol import LogFailed
from penstock.errors import UsageError

MAX_SLEEP_SECONDS = 60.0
"""The clock is looked at again after that: it may have been set, or the machine have slept."""


class Beats:
    """Asks for turns when they are due. `now` gives milliseconds since 1970, `sleep` takes seconds."""

    def __init__(
        self,
        workers: Callable[[], Iterable[Worker]],
        now: Callable[[], int],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self.changed = asyncio.Event()
        """To be set when a chat begins or ends something, or has another heartbeat."""
        self._workers = workers
        self._now = now
        self._sleep = sleep

    async def run(self) -> None:
        """Ask for what is due, again and again."""
        while True:
            self.changed.clear()
            now = self._now()
            soonest = now + int(MAX_SLEEP_SECONDS * 1000)
            for worker in list(self._workers()):
                moment = _due(worker, now)
                if moment is not None and moment <= now:
                    await self._ask(worker)
                elif moment is not None:
                    soonest = min(soonest, moment)
            await self._wait((soonest - now) / 1000)

    async def _ask(self, worker: Worker) -> None:
        beat = worker.chat.heartbeat
        if beat is None:
            return  # it was taken away meanwhile
        try:
            await worker.ask(beat.prompt, "heartbeat")
        except (Conflicting, Ending):
            pass  # it became busy meanwhile
        except (LogFailed, UsageError):
            worker.refused_at = self._now()  # an interval later again

    async def _wait(self, seconds: float) -> None:
        """Wait, but no longer than until something changes."""
        sleep = asyncio.ensure_future(self._sleep(seconds))
        changed = asyncio.ensure_future(self.changed.wait())
        try:
            await asyncio.wait([sleep, changed], return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleep.cancel()
            changed.cancel()


def _due(worker: Worker, now: int) -> int | None:
    """When the next one of a chat is to come; None where it has none, is busy, or a person has to answer."""
    chat = worker.chat
    beat = chat.heartbeat
    if beat is None or not beat.on or worker.busy or worker.asks:
        return None  # what would come now would bury a question
    return heartbeat.due(beat, max(worker.used_at, chat.heartbeat_since, worker.refused_at), now)
