"""Conversation with one agent in Python: each prompt continues where the last one ended."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Unpack

from penstock.errors import UsageError
from penstock.events import Event, RunEnded, RunStarted
from penstock.run.result import Result
from penstock.run.resuming import is_confirmed
from penstock.run.run import Run
from penstock.run.spec import Options
from penstock.sinks.chunks import ChunksSink, StreamChunk


class TurnOptions(Options, total=False):
    """Keywords of one prompt of a conversation."""

    model: str | None
    stdin_text: str | None


class Conversation:
    """Conversation with one agent; create one with `Agent.conversation`. It holds no process: each prompt is a run.

    One prompt is answered at a time, and the session id of each run is passed to the next one. A failed prompt leaves
    the conversation as it was, so the next one is asked in it again. If the agent answers without a session id, the
    next prompt raises a UsageError: it would otherwise begin a conversation that knows nothing of this one.

    The methods take a `prompt`, and `options` as `Agent.run` does.

    Args:
        agent: name of the agent.
        make: returns the run of a prompt; takes the keywords of `Agent.run`.
        session_id: conversation to continue; None begins one.
        fork: branch that conversation with the first prompt.
    """

    def __init__(
        self, agent: str, make: Callable[..., Run], session_id: str | None = None, *, fork: bool = False
    ) -> None:
        self.agent: str = agent
        self._make = make
        self._session_id = session_id
        self._forks = fork
        self._lost = ""  # reason why it cannot be continued
        self._current: weakref.ref[_Turn] | None = None  # the prompt that is being answered
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<Conversation with {self.agent}: {self.session_id or 'not begun'}>"

    @property
    def session_id(self) -> str | None:
        """Id of the conversation, by which any program can resume it; None until the first prompt was answered."""
        return None if self._forks else self._session_id

    def run(self, prompt: str, **options: Unpack[TurnOptions]) -> Run:
        """Return the run of the next prompt, not started yet: enter it to start it. The keywords are those of `Agent`.

        Starting it raises a UsageError if another prompt is being answered, or was answered since this call.

        Raises:
            UsageError: as `Agent.run`; or the agent gave no session id, so the conversation cannot be continued.
            AgentNotFound: its program is not installed.
        """
        fixed = [name for name in ("session_id", "fork", "on_question", "fallback") if name in options]
        if fixed:
            raise UsageError(
                f"a prompt of a conversation has no {fixed[0]}", help="Agent.conversation takes what is for all prompts"
            )
        with self._lock:
            self._check()
            run = self._make(prompt, session_id=self._session_id, fork=self._forks, **options)
            run.observe(_Turn(self, run.spec.session_id, is_fork=run.spec.fork))
        return run

    def ask(self, prompt: str, **options: Unpack[TurnOptions]) -> Result:
        """Run the next prompt to its end and return the result. It blocks.

        Raises:
            UsageError: as `run`; or another prompt is being answered.
            AgentNotFound: its program is not installed.
            AgentFailed: the run did not end well.
        """
        with self.run(prompt, **options) as run:
            run.wait()
        return run.check()

    async def ask_async(self, prompt: str, **options: Unpack[TurnOptions]) -> Result:
        """Do the same as `ask` in an event loop; cancelling the task stops the agent."""
        async with self.run(prompt, **options) as run:
            await run.await_end()
        return run.check()

    def stream(self, prompt: str, **options: Unpack[TurnOptions]) -> Iterator[StreamChunk]:
        """Send the next prompt; yield chunks as `Agent.send_streaming` does.

        Raises:
            UsageError: as `run`, at once; or, at the first `next`, another prompt is being answered.
            AgentNotFound: its program is not installed, at once.
            AgentFailed: after the final chunk, if the run did not end well.
        """
        return chunks_of(self.run(prompt, **options))

    def fork(self) -> Conversation:
        """Return a conversation that begins as a copy of this one; this one stays as it is.

        The agent makes the copy with the first prompt, and gives it a session id of its own.

        Raises:
            UsageError: the conversation has not begun, or a prompt is being answered.
        """
        with self._lock:
            self._check()
            if self._session_id is None:
                raise UsageError("there is nothing to fork", expected="a conversation with an answer")
            return Conversation(self.agent, self._make, self._session_id, fork=True)

    def _check(self) -> None:
        if self._lost:
            raise UsageError(f"the conversation cannot be continued: {self._lost}", help="begin another one")
        if self._current is not None and self._current() is not None:
            raise UsageError(
                "the conversation is answering another prompt", expected="that run to be read to its end first"
            )

    def _begin(self, turn: _Turn) -> None:
        with self._lock:
            self._check()
            if (turn.session_id, turn.is_fork) != (self._session_id, self._forks):
                raise UsageError(
                    "the conversation has continued since this run was made", help="make the run anew, then start it"
                )
            self._current = weakref.ref(turn)

    def _end(self, turn: _Turn, ended: RunEnded | None) -> None:
        with self._lock:
            if self._current is None or self._current() is not turn:
                return
            self._current = None
            if ended is None:
                return
            has_answered = ended.outcome == "ok" or ended.rounds > 0
            found = ended.session_id if has_answered or is_confirmed(ended, turn.reported) else None
            if self._session_id is None or (has_answered and not self._forks):
                self._session_id = found or self._session_id
                self._lost = "" if self._session_id or not has_answered else "the agent gave it no session id"
            elif has_answered:
                if found in (None, self._session_id):
                    self._lost = "the agent gave the fork no session id of its own"
                else:
                    self._session_id, self._forks = found, False


class _Turn:
    """One prompt of a conversation, which observes its run. It goes with the run, which may be dropped unread."""

    def __init__(self, conversation: Conversation, session_id: str | None, *, is_fork: bool) -> None:
        self.session_id = session_id
        self.is_fork = is_fork
        self.reported: str | None = None
        self._conversation = conversation
        self._ended: RunEnded | None = None

    def starting(self) -> None:
        self._conversation._begin(self)

    def apply_batch(self, events: list[Event]) -> None:
        for event in events:
            if type(event) is RunStarted and event.parent is None:
                self.reported = event.session_id or self.reported
            elif type(event) is RunEnded:
                self._ended = event

    def over(self) -> None:
        self._conversation._end(self, self._ended)


def chunks_of(run: Run) -> Iterator[StreamChunk]:
    """Start a run at the first `next`, and yield its chunks.

    Raises:
        UsageError: at once, if the run may be repeated.
        AgentFailed: after the final chunk, if the run did not end well.
    """
    if run.spec.retry:
        raise UsageError(
            "chunks show one run, and a retry may start another", help="use run or ask, or leave out retry"
        )
    return _chunks(run)


def _chunks(run: Run) -> Iterator[StreamChunk]:
    sink = ChunksSink()
    with run:
        for batch in run.batches():
            yield from sink.chunks(batch)
    run.check()
