"""One run of an agent as a turn of a chat: started, followed in batches of events, stopped for a reason."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterable

from msgspec.structs import replace

from penstock import events as ev
from penstock.chat.service.truncation import Shortener
from penstock.errors import TransportError
from penstock.run.process import marked
from penstock.run.run import Run

BATCH_EVENTS = 500
"""Events of one append, at most: a prompt or a stop waits no longer than that for the store."""

MERGE_SECONDS = 0.03
"""Seconds in which the deltas of one block become one entry: too short to notice, for a third of the appends."""


class TurnRun:
    """Run of a turn, given before it starts, from its start to its end. All of it belongs to one event loop."""

    def __init__(self, run: Run, turn: int) -> None:
        self.turn = turn
        """Number of its turn."""
        self.stopping = False
        self._run = run
        self._started = False
        self._killed = False
        self._reason: str | None = None
        self._outcome: ev.Outcome | None = None
        self._said = False
        self._session_id: str | None = None
        self._taken: list[ev.Event] = []  # events of the run that are not in a batch yet
        self._is_waiting = False  # waits for more text
        self._failure: TransportError | None = None
        self._news = asyncio.Event()
        self._shortener = Shortener()
        self._merger = Merger()

    async def start(self) -> None:
        """Start the agent.

        Raises:
            AgentNotFound, UsageError, TransportError: it cannot be started.
        """
        await asyncio.to_thread(self._run.start)
        loop = asyncio.get_running_loop()

        def notify() -> None:
            try:
                loop.call_soon_threadsafe(self._noticed)
            except RuntimeError:
                pass  # the loop is closed: nothing waits any more

        self._run.on_news(notify)
        self._started = True
        if self._killed:
            self._run.kill()
        elif self.stopping:
            self._run.cancel()

    async def batches(self) -> AsyncIterator[list[ev.Event]]:
        """Yield batches of the events that have arrived; the last event is `run_ended`.

        Deltas of one block that come within `MERGE_SECONDS` are one event. The first delta of a block, any other event,
        a stop and an answer are not delayed.

        Raises:
            TransportError: the run failed, and has no `run_ended`.
        """
        loop = asyncio.get_running_loop()
        last = -MERGE_SECONDS  # the time of the last batch
        while self._taken or self._failure is not None or not self._run.ended:
            self._news.clear()
            self._poll()
            if not self._taken:
                if self._failure is not None:
                    raise self._failure
                await self._news.wait()
                continue
            if loop.time() < last + MERGE_SECONDS and self._can_wait(0):
                self._is_waiting = True
                timer = loop.call_later(MERGE_SECONDS, self._news.set)
                await self._news.wait()
                timer.cancel()
                self._is_waiting = False
                self._poll()
            last = loop.time()
            batch, self._taken = self._merger.merge(self._shortener.take(self._taken)), []
            yield [self._explained(event) for event in batch]

    def _noticed(self) -> None:
        """Wake up for new events, unless they are more text that can wait with the text before."""
        if self._is_waiting:
            known = len(self._taken)
            self._poll()
            if self._can_wait(known):
                return
        self._news.set()

    def _can_wait(self, known: int) -> bool:
        """Return whether the collected events can wait for more. The first `known` of them are known to."""
        is_ending = self.stopping or self._failure is not None or self._run.ended
        return not is_ending and len(self._taken) < BATCH_EVENTS and self._merger.can_wait(self._taken[known:])

    def _poll(self) -> None:
        """Collect the events that the run has. Its failure comes after its last events."""
        try:
            while self._failure is None and len(self._taken) < BATCH_EVENTS and (batch := self._run.poll()):
                self._taken += batch
        except TransportError as error:
            self._failure = error

    def flush(self) -> None:
        """Stop delaying deltas."""
        self._merger.flush()
        self._news.set()

    def note(self, events: list[ev.Event]) -> None:
        """Find the session id in the events, if they have one."""
        for event in events:
            if isinstance(event, ev.MessageStarted | ev.ToolCalled | ev.Replied):
                self._said = True
            if isinstance(event, ev.RunStarted | ev.Replied | ev.RunEnded) and event.parent is None:
                self._session_id = event.session_id or self._session_id

    @property
    def session_id(self) -> str | None:
        """Conversation that the next turn resumes; None until the agent has produced content in it.

        Agents report the id before they have stored anything, and cannot resume it if they are stopped then.
        """
        return self._session_id if self._said else None

    def answer(self, id: str, answer: str) -> None:
        """Pass the answer to a question to the agent."""
        self._run.answer(id, answer)
        self.flush()

    def cancel(self, reason: str | None = None, outcome: ev.Outcome | None = None) -> None:
        """Stop the agent step by step. The turn ends with this reason and outcome, unless it ended by itself."""
        if not self.stopping:
            self.stopping, self._reason, self._outcome = True, reason, outcome
            if self._started:
                self._run.cancel()
            self._news.set()

    def kill(self, reason: str, outcome: ev.Outcome = "cut_off") -> None:
        """Kill the agent. The turn ends with this reason and outcome, if it has not ended by then."""
        self.stopping = self._killed = True
        self._reason, self._outcome = reason, outcome
        if self._started:
            self._run.kill()
        self._news.set()

    async def let_go(self) -> None:
        """Kill the run if it is still active, and ignore its output."""
        if self._started:
            self._run.kill()
            try:
                async for _ in self.batches():
                    pass
            except TransportError:
                pass  # it failed, which ended it

    def _explained(self, event: ev.Event) -> ev.Event:
        """Add the reason to the end of a run that was stopped."""
        stopped = self._reason is not None or self._outcome is not None
        if stopped and isinstance(event, ev.RunEnded) and event.outcome in ("cancelled", "cut_off"):
            return replace(event, outcome=self._outcome or event.outcome, reason=self._reason)
        return event


class Merger:
    """Merger of consecutive deltas of one block. It remembers the blocks whose first delta was emitted."""

    def __init__(self) -> None:
        self._begun: set[int] = set()  # open blocks whose first delta was merged
        self._at_once = False

    def can_wait(self, events: list[ev.Event]) -> bool:
        """Return whether the events can wait for more: all are deltas of blocks whose first delta was emitted."""
        return not self._at_once and all(isinstance(it, ev.Delta) and it.block in self._begun for it in events)

    def flush(self) -> None:
        """Do not delay the next events."""
        self._at_once = True

    def merge(self, events: Iterable[ev.Event]) -> list[ev.Event]:
        """Return the events, with consecutive deltas of one block as one event. The order does not change."""
        self._at_once = False
        merged: list[ev.Event] = []
        deltas: list[ev.Delta] = []
        for event in events:
            if isinstance(event, ev.Delta) and (not deltas or deltas[0].block == event.block):
                deltas.append(event)
                continue
            merged += _joined(deltas)
            deltas = [event] if isinstance(event, ev.Delta) else []
            if isinstance(event, ev.BlockEnded):
                self._begun.discard(event.block)
            if not deltas:
                merged.append(event)
        merged += _joined(deltas)
        self._begun.update(event.block for event in merged if isinstance(event, ev.Delta))
        return merged


def _joined(deltas: list[ev.Delta]) -> list[ev.Event]:
    if len(deltas) < 2:
        return [*deltas]
    return [replace(deltas[0], text="".join(delta.text for delta in deltas))]


def sweep(mark: str) -> None:
    """Kill every process that has the mark of a run."""
    for pid in marked(mark):
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass  # it has ended by itself
