"""Run of an agent, for programs: its events, live, and then its result."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

import msgspec

from penstock.adapter import Level, Steerable
from penstock.config.rules import STRING, Rules, check, optional
from penstock.core import diffs
from penstock.core.health import Health
from penstock.errors import AgentFailed, AgentNotFound, UsageError, shown
from penstock.events import Change, Event, QuestionAsked, RunEnded, ToolCalled, ToolReturned
from penstock.run import telemetry
from penstock.run.allowed import CommandRule
from penstock.run.launch import Launch
from penstock.run.limits import Budget
from penstock.run.result import Result
from penstock.run.retries import Retries, RetryWait
from penstock.run.sandbox import Confinement
from penstock.run.spec import RunSpec
from penstock.run.supervisor import Supervisor
from penstock.run.takeover import Takeover
from penstock.run.trace_context import TraceContext

if TYPE_CHECKING:
    from penstock.run.collector import RunTelemetry
    from penstock.run.recording import RecordingWriter
    from penstock.sinks.spans import Value

OnQuestion = Callable[[QuestionAsked], str | Awaitable[str | None] | None]
"""Function that answers a question of the agent: it returns the id of an option, words, or None to reject it. It may be
`async` if the run is read by `async` code."""

ANSWER_RULES: Rules = {"id": STRING, "text": STRING}

STEER_RULES: Rules = {"text": STRING, "id": optional(STRING)}


class RunObserver(Protocol):
    """Observer of one run, called by the code that starts and reads it."""

    def starting(self) -> None:
        """Prepare for the start of the run; an error that this raises prevents it."""
        ...

    def apply_batch(self, events: list[Event]) -> None:
        """Use the next events."""
        ...

    def over(self) -> None:
        """Note that no event follows: the run has ended, or did not start."""
        ...


class Retrying(msgspec.Struct, frozen=True):
    """Attempts at a run, and how the next one is planned."""

    attempts: Retries
    plan: Callable[[RunSpec], Launch]
    """Function that returns the launch of a specification; UsageError if the agent cannot carry it out."""
    wait: RetryWait | None = None
    """Pause before this attempt; None for the first one."""


class Run:
    """One prompt given to one agent: its events, live, and then its `result`.

    It is a context manager and an iterator of events, for `async` and for synchronous code. Leaving the block before
    the run has ended cancels it and waits until none of its processes is left. `cancel`, `kill`, `answer` and `steer`
    may be called from any thread.

    With a fallback, the events of an agent that could not work, up to its `run_ended`, are followed by those of the
    agent that takes over. All properties are then those of the newest agent. With `retry`, the events of each further
    attempt follow in the same way.
    """

    def __init__(
        self,
        launch: Launch,
        spec: RunSpec,
        on_question: OnQuestion | None = None,
        retrying: Retrying | None = None,
    ) -> None:
        self.agent: str = launch.agent
        self.label: str = launch.label
        self.route: str = launch.route
        self.record: Path | None = None
        """Folder of the recording of the run, if there is one."""
        self.keep: Callable[[Launch], RecordingWriter | None] | None = None
        """Function that begins a recording if none was requested; set it before the start. It must not raise."""
        self.read_pause: float = 0.0
        """Seconds between two reads of growing output; set it before the start, if events are shown at a pace."""
        self.trace: TraceContext | None = None
        """Trace of whoever asked for the run; set it before the start. None: that of the environment, if any."""
        self.trace_facts: dict[str, Value] = {}
        """Attributes of its span that its events do not have; set them before the start."""
        self.has_rule: Callable[[str], bool] | None = None
        """Function that returns whether the `rule_of` this id allows a command without a question; set it before the
        start. It is called by another thread."""
        self.retries_itself: bool = True
        """Whether the run begins its retries itself. Set it to False before the start to use `next_attempt`."""
        self._launch = launch
        self._spec = spec
        self._retrying = retrying
        self._supervisor: Supervisor | None = None
        self._on_question = on_question
        self._changes: list[Change] = []
        self._ended: RunEnded | None = None
        self._over = False
        self._on_news: Callable[[], None] = lambda: None
        self._observer: RunObserver | None = None
        self._telemetry: RunTelemetry | None = None
        self._takeover: Takeover[Run] | None = None
        self._called_tools = False
        self._following: Run | None = None  # run of the agent that takes over
        self._stopped = False  # no agent takes over any more
        self._switching = threading.Lock()  # held while an agent takes over, or the run is stopped

    def __repr__(self) -> str:
        state = "not started" if self._supervisor is None else "running"
        if self._ended is not None:
            state = self._ended.outcome
        return f"<Run of {self.label} by {self.route}: {state}>"

    # --- state -------------------------------------------------------------------------------------

    @property
    def result(self) -> Result:
        """Outcome, reply, session id, changes, usage and reason of the run.

        Raises:
            UsageError: the run has not ended.
        """
        if self._ended is None:
            raise UsageError("the run has no result yet", expected="to be read to its end first")
        return Result.of(self._ended, self._changes, self.exit_status)

    @property
    def ended(self) -> bool:
        """True if the last event of the run has been read."""
        return self._ended is not None

    @property
    def health(self) -> Health:
        """Health of the stream so far."""
        return self._running.stream.health

    @property
    def stderr(self) -> str:
        """Last lines that the agent wrote to stderr."""
        return self._running.stderr

    @property
    def exit_status(self) -> int | None:
        """Exit status of the agent's process, once it has ended; negative for a signal."""
        exited = self._running.exited
        return exited.status if exited is not None else None

    @property
    def has_left(self) -> bool:
        """True if a process of the run could not be killed, as one that belongs to another user."""
        return self._running.has_left

    @property
    def spec(self) -> RunSpec:
        """Specification of the run, as it was requested."""
        return self._spec

    @property
    def allow(self) -> Level:
        """Level of permission in force."""
        return self._launch.allow

    @property
    def confinement(self) -> Confinement:
        """Confinement of the agent."""
        return self._launch.confinement

    @property
    def mark(self) -> str:
        """Value of `PENSTOCK_RUN` in the environment of each of its processes."""
        return self._launch.mark

    def check(self) -> Result:
        """Return the result of a run that ended well.

        Raises:
            AgentFailed: the run did not end well.
            UsageError: the run has not ended.
        """
        ended = self.result
        if ended.outcome == "ok":
            return ended
        raise AgentFailed(
            self.label,
            ended.outcome,
            ended.reason,
            cause=ended.cause,
            resets_at=ended.resets_at,
            exit_status=ended.exit_status,
            stderr=self.stderr,
            session_id=ended.session_id,
            reply=ended.reply,
        )

    # --- control -----------------------------------------------------------------------------------

    def cancel(self) -> None:
        """Stop the agent: by its protocol if it has one, then by signals. The run ends as `cancelled`."""
        self._stop_switching().cancel()

    def kill(self) -> None:
        """Kill the agent at once, without a cancel or a signal before."""
        self._stop_switching().kill()

    def _stop_switching(self) -> Supervisor:
        """Prevent that another agent takes over; return the supervisor of the one that runs."""
        with self._switching:
            self._stopped = self._supervisor is not None
            return self._running

    def answer(self, id: str, text: str) -> None:
        """Answer the `question_asked` of this id. `penstock.core.questions.resolve` parses the words.

        Accepted are the id or the label of an option, `allow` and `reject`, and free text if the question takes it.
        Other words reject the question: they never allow anything.
        """
        check({"id": id, "text": text}, ANSWER_RULES)
        self._running.answer(id, text)

    @property
    def can_steer(self) -> bool:
        """True if the agent takes messages while it works, by this route."""
        return isinstance(self._launch.reader, Steerable)

    def steer(self, text: str, id: str | None = None) -> str:
        """Give the agent a message while it works; return the id of the message, by default a new one.

        The result is a `notice` with this id in `steer`. Its code is `user` if the agent took the message, and `error`
        if not. If the run ends with neither, the agent has not taken it.

        Raises:
            UsageError: the run was not started, or the text is empty or has a NUL.
        """
        check({"text": text, "id": id}, STEER_RULES)
        if not text.strip() or "\0" in text:
            raise UsageError("the message is empty, or has a NUL", expected="a message for the agent")
        id = id or f"steer-{uuid.uuid4().hex}"
        self._running.steer(id, text)
        return id

    def rule_of(self, id: str) -> CommandRule | None:
        """Return the rule that allows the command of the open question `id`; None if there is no such command."""
        return self._running.rule_of(id)

    def awaits(self, id: str) -> bool:
        """Return whether the question of this id still waits for an answer."""
        return self._running.awaits(id)

    def start(self) -> Self:
        """Start the agent; entering the context does it.

        Raises:
            AgentNotFound: its program cannot be executed.
            UsageError: the recording cannot be written, or the run was started before.
            TransportError: no process can be started.
        """
        if self._supervisor is not None:
            raise UsageError("the run was started before", help="ask the agent for another run")
        if self._observer is None:
            self._start()
            return self
        self._observer.starting()
        try:
            self._start()
        except BaseException:
            self._observer.over()
            raise
        return self

    def _start(self) -> None:
        launch, spec, recording = self._launch, self._spec, None
        if spec.record is not None:
            from penstock.run.recording import RecordingWriter

            recording = RecordingWriter.begin_run(Path(spec.record), launch)
        elif self.keep is not None:
            recording = self.keep(launch)
        if recording is not None:
            self.record = recording.folder
        times = {"timeout": spec.timeout, "idle": spec.idle_timeout}
        given = {name: seconds for name, seconds in times.items() if seconds is not None}
        limits = msgspec.structs.replace(spec.limits, **given)
        self._supervisor = Supervisor(
            launch,
            limits,
            ask=spec.ask,
            recording=recording,
            read_pause=self.read_pause,
            budget=Budget(max_cost=spec.max_cost, max_turns=spec.max_turns, max_tokens=spec.max_tokens),
            wait=self._retrying.wait if self._retrying is not None else None,
            has_rule=self.has_rule,
        )
        self._supervisor.events.on_put = self._on_news
        self._telemetry = telemetry.begin(spec.prompt, launch.provider, self.trace, self.trace_facts)
        self._supervisor.start()

    def observe(self, observer: RunObserver) -> None:
        """Call an observer from now on, which sees the start and all events."""
        self._observer = observer

    def fall_back(self, takeover: Takeover[Run]) -> None:
        """Let the agents of `takeover` continue if this one cannot work."""
        self._takeover = takeover

    @property
    def pause(self) -> float:
        """Seconds until the agent of a retry is started; 0 for any other run, and once it is."""
        return self._supervisor.pause if self._supervisor is not None else 0.0

    @property
    def called_tools(self) -> bool:
        """True if a tool was called, by this attempt or one before it."""
        return self._called_tools or (self._retrying is not None and self._retrying.attempts.called_tools)

    def next_attempt(self, number: int) -> Run | None:
        """Return the retry of this run after a passing failure; None if it is not repeated.

        Its start announces the retry and waits for its time. `number` is its number in the output.
        """
        retrying = self._retrying
        if retrying is None or self._ended is None or self._stopped:
            return None
        following = retrying.attempts.next(self._ended, number, time.time_ns() // 1_000_000)
        if following is None:
            return None
        specs, wait = following
        for spec in specs:
            try:
                launch = retrying.plan(spec)
            except (UsageError, AgentNotFound):
                continue  # it cannot continue a conversation
            again = Run(launch, spec, self._on_question, msgspec.structs.replace(retrying, wait=wait))
            again.retries_itself = self.retries_itself
            return again
        return None

    def _next_run(self, ended: RunEnded) -> Run | None:
        """Return the follower of this run, which has ended: its retry, or the run of the agent that takes over."""
        if self._stopped:
            return None
        number = self._spec.number or 1
        following = self.next_attempt(number + 1) if self.retries_itself else None
        if following is None and self._takeover is not None:
            called_tools = self.called_tools
            following = self._takeover.run_after(ended, self.label, number, called_tools=called_tools)
        return following

    def _take_over(self) -> bool:
        """Start the run that follows; return False if there is none, or the run was stopped."""
        following, self._following = self._following, None
        if following is None:
            return False
        with self._switching:
            if self._stopped:
                self._note_over()
                return False
            is_retry = following._retrying is not None and following._retrying.wait is not None
            self._launch, self._spec, self._retrying = following._launch, following._spec, following._retrying
            try:
                self._start()
            except BaseException:
                self._note_over()
                raise
            self.agent, self.label, self.route = following.agent, following.label, following.route
            self._ended, self._called_tools = None, False
            self._changes = self._changes if is_retry else []
            self._over = False
        return True

    def _note_over(self) -> None:
        if self._observer is not None:
            self._observer.over()

    @property
    def _running(self) -> Supervisor:
        if self._supervisor is None:
            raise UsageError("the run was not started", expected="`with agent(…).run(…) as run:`")
        return self._supervisor

    def _take(self, *, wait: bool) -> list[Event] | None:
        supervisor = self._running
        batch = supervisor.events.get(wait=wait)
        if batch is None:
            self._over = True
            if self._following is None:
                self._note_over()
            if supervisor.error is not None:
                raise supervisor.error
            return None
        if self._retrying is not None:
            self._retrying.attempts.observe(batch)
        for event in batch:
            if type(event) is ToolReturned and event.changes:
                self._changes = diffs.join([*self._changes, *event.changes])
            elif type(event) is ToolCalled:
                self._called_tools = True
        if batch and isinstance(batch[-1], RunEnded):
            self._ended = batch[-1]
            self._following = self._next_run(self._ended)
        if self._telemetry is not None:
            self._telemetry.take(batch)
        if self._observer is not None:
            self._observer.apply_batch(batch)
        return batch

    def _ask(self, event: Event) -> Awaitable[str | None] | None:
        """Ask the program if the event is a question that waits; return the answer that is still to come, if any."""
        if self._on_question is None or type(event) is not QuestionAsked or not self.awaits(event.id):
            return None
        answer = self._on_question(event)
        if answer is None or isinstance(answer, str):
            self._reply_with(event.id, answer)
            return None
        return answer

    def _reply_with(self, id: str, answer: object) -> None:
        """Answer with what the program returned. No answer rejects, and so does an empty one."""
        if answer is not None and not isinstance(answer, str):
            raise UsageError(
                f"on_question returned {shown(answer)}", expected="the id of an option, words, or None to reject"
            )
        self._running.answer(id, answer or "")

    # --- for synchronous code ----------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Event]:
        for batch in self.batches():
            yield from batch

    def batches(self) -> Iterator[list[Event]]:
        """Yield the events, in batches of all that are available."""
        while not self._over or self._take_over():
            batch = self._take(wait=True)
            if batch is not None:
                yield batch
                if self._on_question is not None:
                    self._ask_all(batch)

    def _ask_all(self, batch: list[Event]) -> None:
        for event in batch:
            later = self._ask(event)
            if later is not None:
                if hasattr(later, "close"):
                    later.close()  # a coroutine that nobody awaits would warn
                raise UsageError(
                    "on_question is async, and the run is read by code that is not", help="use ask_async or async for"
                )

    def poll(self) -> list[Event]:
        """Return the events that are available; [] if there are none yet, or no more."""
        found = [] if self._over else self._take(wait=False) or []
        if self._over and not found and self._take_over():  # at once: nothing else notifies the program of it
            found = self._take(wait=False) or []
        return found

    def on_news(self, call: Callable[[], None]) -> None:
        """Call `call`, in a thread of the run, whenever `poll` may return events."""
        self._on_news = self._running.events.on_put = call

    def stop(self) -> None:
        """Kill all processes that still run, and wait until none is left. Events that were not taken are kept."""
        if self._supervisor is not None:
            supervisor = self._stop_switching()
            supervisor.kill()
            supervisor.join()

    def wait(self) -> Result:
        """Skip the remaining events, wait for the end, and return the result."""
        self._drain()
        return self.result

    def _drain(self) -> None:
        for _ in self.batches():
            pass
        self._running.join()

    def close(self) -> None:
        """Cancel the run if it has not ended, and wait until no process is left. `result` is available after it."""
        if self._supervisor is None:
            return
        supervisor = self._stop_switching()
        if not self._over:
            supervisor.cancel()
        self._drain()

    def __del__(self) -> None:
        # No code can read or stop the run any more, but its thread continues without this object.
        if self._supervisor is not None and not self._over:
            self._supervisor.kill()

    # --- for async code ----------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        from asyncio import to_thread

        try:
            await _to_the_end(to_thread(self.start))
        except BaseException:  # cancelled: a block that was not entered is never left
            await _to_the_end(to_thread(self.stop))
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        # Shielded: a task that is cancelled while it cleans up must not leave the agent running.
        await _to_the_end(self.aclose())

    async def __aiter__(self) -> AsyncIterator[Event]:
        import asyncio  # only if it is used: it takes a fifth of the time in which the command line starts

        loop, there = asyncio.get_running_loop(), asyncio.Event()

        def notify_all() -> None:
            try:
                loop.call_soon_threadsafe(there.set)
            except RuntimeError:
                pass  # the loop is closed: no task waits any more

        self.on_news(notify_all)
        while not self._over or (self._following is not None and await asyncio.to_thread(self._take_over)):
            there.clear()
            batch = self._take(wait=False)
            if batch:
                for event in batch:
                    yield event
                    if self._on_question is not None and (answer := self._ask(event)) is not None:
                        self._reply_with(getattr(event, "id", ""), await answer)
            elif batch is not None:
                await there.wait()

    async def await_end(self) -> Result:
        """Skip the remaining events, wait for the end, and return the result."""
        await self._adrain()
        return self.result

    async def _adrain(self) -> None:
        from asyncio import to_thread

        async for _ in self:
            pass
        await to_thread(self._running.join)

    async def aclose(self) -> None:
        """Do the same as `close`, for async code."""
        if self._supervisor is None:
            return
        supervisor = self._stop_switching()
        if not self._over:
            supervisor.cancel()
        await self._adrain()


async def _to_the_end(work: Any) -> None:
    """Complete the work even if this task is cancelled meanwhile; the cancellation follows it."""
    import asyncio

    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled from task.exception()
    task.result()
