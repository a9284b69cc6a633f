"""One run of an agent as a turn of a chat: started, followed in batches of events, stopped for a reason, remembered."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterable

from msgspec.structs import replace

from penstock import events as ev
from penstock.chat.service.log.truncation import Shortener
from penstock.errors import TransportError
from penstock.run.allowed import CommandRule
from penstock.run.history import History, HistoryWriter, record_of
from penstock.run.process import marked
from penstock.run.run import Run

BATCH_EVENTS = 500
"""Maximum number of events of one append; a prompt or a stop waits for at most one append."""

READ_PAUSE_SECONDS = 0.1
"""Seconds between two reads of growing output: the pace at which clients see it grow.

The deltas of one block that are read together become one entry.
"""

CONTENT = (ev.MessageStarted, ev.ToolCalled, ev.Replied)
"""Events after which the agent can resume its conversation."""

WITH_SESSION = (ev.RunStarted, ev.Replied, ev.RunEnded)
"""Events that have a session id. They are tuples because a union is made anew for each event."""


class TurnRun:
    """Run of a turn, given before it starts, from its start to its end. All of it belongs to one event loop."""

    def __init__(self, run: Run, turn: int) -> None:
        self.turn = turn
        """Number of its turn."""
        self.stopping: bool = False
        self._run = run
        self._starting: asyncio.Future[Run] | None = None
        self._started = False
        self._killed = False
        self._reason: str | None = None
        self._outcome: ev.Outcome | None = None
        self._said = False
        self._session_id: str | None = None
        self._writer: HistoryWriter | None = None
        self._taken: list[ev.Event] = []  # events of the run that are not in a batch yet
        self._failure: TransportError | None = None
        self._news = asyncio.Event()
        self._shortener = Shortener()
        self._steers: dict[int, str] = {}  # texts that were given, by the numbers of their turns
        run.read_pause = READ_PAUSE_SECONDS

    async def start(self) -> None:
        """Start the agent.

        Raises:
            AgentNotFound, UsageError, TransportError: it cannot be started.
        """
        self._starting = asyncio.ensure_future(asyncio.to_thread(self._run.start))
        await asyncio.shield(self._starting)
        self._attach()
        if self._killed:
            self._run.kill()
        elif self.stopping:
            self._run.cancel()
        else:
            for turn, text in self._steers.items():
                self._run.steer(text, str(turn))

    def _attach(self) -> None:
        """Follow the run, which has started."""
        loop = asyncio.get_running_loop()

        def notify() -> None:
            try:
                loop.call_soon_threadsafe(self._news.set)
            except RuntimeError:
                pass  # the loop is closed: nothing waits any more

        self._run.on_news(notify)
        self._started = True

    async def batches(self) -> AsyncIterator[list[ev.Event]]:
        """Yield batches of the events that have arrived; the last event is `run_ended`.

        Consecutive deltas of one block are one event of a batch.

        Raises:
            TransportError: the run failed, and has no `run_ended`.
        """
        while self._taken or self._failure is not None or not self._run.ended:
            self._news.clear()
            self._poll()
            if not self._taken:
                if self._failure is not None:
                    raise self._failure
                await self._news.wait()
                continue
            batch, self._taken = merged(self._shortener.take(self._taken)), []
            yield [self._explained(event) for event in batch]

    def _poll(self) -> None:
        """Collect the events that the run has. Its failure comes after its last events."""
        try:
            while self._failure is None and len(self._taken) < BATCH_EVENTS and (batch := self._run.poll()):
                self._taken += batch
        except TransportError as error:
            self._failure = error

    def note(self, events: list[ev.Event]) -> None:
        """Find the session id in the events, if they have one."""
        for event in events:
            if isinstance(event, CONTENT):
                self._said = True
            if isinstance(event, WITH_SESSION) and event.parent is None:
                self._session_id = event.session_id or self._session_id

    async def remember(self, history: History) -> None:
        """Begin the lines of the run in the history. They are written by a thread, and a failure changes nothing."""
        self._writer = await asyncio.to_thread(HistoryWriter, history, record_of(self._run, "chat"))

    async def remember_batch(self, events: list[ev.Event]) -> None:
        """Write what the events add to the history."""
        if self._writer is not None and any(isinstance(event, WITH_SESSION) for event in events):
            await asyncio.to_thread(self._writer.apply_batch, events)

    @property
    def session_id(self) -> str | None:
        """Conversation that the next turn resumes; None until the agent has produced content in it.

        Agents report the id before they have stored anything, and cannot resume it if they are stopped then.
        """
        return self._session_id if self._said else None

    def rule_of(self, id: str) -> CommandRule | None:
        """Return the rule that allows the command of an open question; None if there is no such command."""
        return self._run.rule_of(id) if self._started else None

    def answer(self, id: str, answer: str) -> None:
        """Pass the answer to a question to the agent."""
        self._run.answer(id, answer)

    def cancel(self, reason: str | None = None, outcome: ev.Outcome | None = None) -> None:
        """Stop the agent step by step. The turn ends with this reason and outcome, unless it ended by itself."""
        if not self.stopping:
            self.stopping, self._reason, self._outcome = True, reason, outcome
            if self._started:
                self._run.cancel()
            self._news.set()

    def steer(self, turn: int, text: str) -> None:
        """Give the text of another turn to the agent while it works, once. One that is being stopped gets none."""
        if self.stopping or turn in self._steers:
            return
        self._steers[turn] = text
        if self._started:
            self._run.steer(text, str(turn))

    def kill(self, reason: str, outcome: ev.Outcome = "cut_off") -> None:
        """Kill the agent. The turn ends with this reason and outcome, if it has not ended by then."""
        self.stopping = self._killed = True
        self._reason, self._outcome = reason, outcome
        if self._started:
            self._run.kill()
        self._news.set()

    async def let_go(self) -> None:
        """Kill the run if it is still active, and ignore its output."""
        if self._starting is not None and not self._started:  # it was cut off while a thread started the agent
            await asyncio.wait([self._starting])
            if self._starting.exception() is None:
                self._attach()
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


def merged(events: Iterable[ev.Event]) -> list[ev.Event]:
    """Return the events, with consecutive deltas of one block as one event. The order does not change."""
    found: list[ev.Event] = []
    deltas: list[ev.Delta] = []
    for event in events:
        if isinstance(event, ev.Delta) and (not deltas or deltas[0].block == event.block):
            deltas.append(event)
            continue
        found += _joined(deltas)
        deltas = [event] if isinstance(event, ev.Delta) else []
        if not deltas:
            found.append(event)
    return found + _joined(deltas)


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
