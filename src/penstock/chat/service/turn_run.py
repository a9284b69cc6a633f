"""One run of an agent as a turn of a chat needs it: started, followed in batches, stopped for a reason."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator

from msgspec.structs import replace

from penstock import events as ev
from penstock.chat.errors import Wrong
from penstock.chat.service.truncation import Shortener
from penstock.core.questions import REJECT, resolve
from penstock.errors import TransportError
from penstock.run.process import marked
from penstock.run.run import Run

BATCH_EVENTS = 500
"""So many events at most are appended at once, so that others of the chat wait no longer for the log."""

GATHER_SECONDS = 0.03
"""Text that goes on waits so long for more: viewers are told less often, and each append costs the disk its time."""


class Drive:
    """A run that was not started yet, from its start to its end. All of it belongs to one event loop."""

    def __init__(self, run: Run) -> None:
        self.waiting: dict[str, ev.QuestionAsked] = {}
        """The questions that it waits for."""
        self.stopping = False
        self._run = run
        self._started = False
        self._killed = False
        self._reason: str | None = None
        self._outcome: ev.Outcome | None = None
        self._said = False
        self._session_id: str | None = None
        self._news = asyncio.Event()
        self._shortener = Shortener()

    async def start(self) -> None:
        """Start the agent.

        Raises:
            AgentNotFound, UsageError, TransportError: it cannot be started.
        """
        await asyncio.to_thread(self._run.start)
        loop = asyncio.get_running_loop()

        def tell() -> None:
            try:
                loop.call_soon_threadsafe(self._news.set)
            except RuntimeError:
                pass  # the loop is closed: nobody waits any more

        self._run.on_news(tell)
        self._started = True
        if self._killed:
            self._run.kill()
        elif self.stopping:
            self._run.cancel()

    async def batches(self) -> AsyncIterator[list[ev.Event]]:
        """The events as they come, as many at a time as are there; the last one is `run_ended`.

        Raises:
            TransportError: the run failed, and has no end.
        """
        loop = asyncio.get_running_loop()
        before = 0.0
        while not self._run.ended:
            self._news.clear()
            taken = self._taken([])
            if not taken:
                await self._news.wait()
                continue
            wait = before + GATHER_SECONDS - loop.time()
            if wait > 0 and all(isinstance(event, ev.Delta) for event in taken):
                await asyncio.sleep(wait)
                taken = self._taken(taken)
            before = loop.time()
            yield [self._explained(event) for event in self._shortener.take(taken)]

    def _taken(self, events: list[ev.Event]) -> list[ev.Event]:
        while len(events) < BATCH_EVENTS and (batch := self._run.poll()):
            events += batch
        return events

    def look(self, events: list[ev.Event]) -> None:
        """Know what these tell; call it when they are in the log, so that nothing is answered that nobody sees."""
        for event in events:
            if isinstance(event, ev.QuestionAsked) and event.blocking:
                self.waiting[event.id] = event
            elif isinstance(event, ev.QuestionAnswered):
                self.waiting.pop(event.id, None)
            elif isinstance(event, ev.MessageStarted | ev.ToolCalled | ev.Replied):
                self._said = True
            if isinstance(event, ev.RunStarted | ev.Replied | ev.RunEnded) and event.parent is None:
                self._session_id = event.session_id or self._session_id

    @property
    def session_id(self) -> str | None:
        """The conversation that the next turn goes on with: known only once the agent has said something in it.

        Agents tell the id before they have stored anything, and know nothing of it if they are stopped then.
        """
        return self._session_id if self._said else None

    def answer(self, id: str, text: str) -> None:
        """Answer one of the questions that it waits for.

        Raises:
            KeyError: it waits for none of this id.
            Wrong: the text is no answer to this question.
        """
        question = self.waiting[id]
        answer = resolve(question, text)
        if answer is None:
            labels = ", ".join(option.label for option in question.options or ()) or "words"
            raise Wrong("this is no answer to the question", expected=f"one of: {labels}")
        del self.waiting[id]  # a second answer comes too late
        self._run.answer(id, answer.option or answer.text or REJECT)

    def cancel(self, reason: str | None = None, outcome: ev.Outcome | None = None) -> None:
        """Stop the agent by the runner's ladder. If it was not over by itself, the turn ends so."""
        if not self.stopping:
            self.stopping, self._reason, self._outcome = True, reason, outcome
            if self._started:
                self._run.cancel()

    def kill(self, reason: str, outcome: ev.Outcome = "cut_off") -> None:
        """Kill the agent. The turn ends so, if it is not over by then."""
        self.stopping = self._killed = True
        self._reason, self._outcome = reason, outcome
        if self._started:
            self._run.kill()

    async def let_go(self) -> None:
        """Kill what still runs, and pass over what it says."""
        if self._started:
            self._run.kill()
            try:
                async for _ in self.batches():
                    pass
            except TransportError:
                pass  # it failed, and has ended with that

    def _explained(self, event: ev.Event) -> ev.Event:
        """The end of a run that was stopped, with what it was stopped for."""
        stopped = self._reason is not None or self._outcome is not None
        if stopped and isinstance(event, ev.RunEnded) and event.outcome in ("cancelled", "cut_off"):
            return replace(event, outcome=self._outcome or event.outcome, reason=self._reason)
        return event


def sweep(mark: str) -> None:
    """Kill every process that bears the mark of a run."""
    for pid in marked(mark):
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass  # it has gone by itself
