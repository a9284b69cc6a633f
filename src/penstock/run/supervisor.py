"""The supervision of one run, in one place: a thread that moves bytes, keeps time, and lets nothing be left over.

::

    process ──stdout──► journal ──► Stream ──events──► Outbox ──► whoever reads the run
       ▲                               │
       └──stdin──◄── prompt, dialogue ─┘                 stderr: the last of it, for the reason of a failure

Each run has a thread of its own, so an agent is read, answered and timed whatever its reader does: a terminal that
stands still costs memory (up to `MAX_WAITING_BYTES`), never text. What a run guarantees is in `docs/processes.md`.
"""

from __future__ import annotations

import errno
import os
import selectors
import signal
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from penstock.adapter import Dialogue
from penstock.config.rules import SECONDS, SECONDS_OR_0, Rules, check, optional
from penstock.core.normalizer.outcome import Exit
from penstock.errors import AgentNotFound, PenstockError, TransportError
from penstock.events import Event, MessageStarted, QuestionAnswered, QuestionAsked, Replied, RunEnded
from penstock.run.process import END_SECONDS, Exited, Process
from penstock.run.queues import READ_BYTES, Orders, Outbox
from penstock.run.stdin import Speaker
from penstock.stream import Stream
from penstock.updates import Answer, Notice, Update

if TYPE_CHECKING:
    from penstock.adapter import Allow
    from penstock.run.launch import Launch
    from penstock.run.recording import Journal

STDERR_BYTES = 64 * 1024
"""The end of stderr that is kept: reasons stand at its end, and an agent may flood it."""
STDERR_LINES = 8
"""How many of its last lines tell why a run failed."""
STDERR_CHARS = 2000
LONGEST_WAIT_SECONDS = 3600.0
"""A time limit may be longer than any that a selector can wait for; it is then waited for in parts."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How long what may take. All in seconds."""

    timeout: float | None = None
    """The whole run; None: as long as it takes."""
    idle: float | None = None
    """Without any output, while nobody is asked anything; None: as long as it takes."""
    reply_grace: float = 5.0
    """For an agent to exit after its answer, where no work is known to go on. They need up to a second or two."""
    work_grace: float = 30.0
    """The same where work beside the run has just ended: the agent goes on with what came of it."""
    exit_grace: float = 2.0
    """For what the agent left behind to let go of its output; for one that closed its output, or was told over its
    protocol that this is all, to exit."""
    ask: float = 5.0
    """For a cancel in the protocol's own way; the recorded agents need 0.2 seconds."""
    interrupt: float = 5.0
    """Between SIGINT and SIGTERM. Agents that answer it at all (claude writes its `result`) do within a second."""
    terminate: float = 3.0
    """Between SIGTERM and SIGKILL."""
    step: float = 1.0
    """Between two signals where nothing more is expected: the agent has answered, or closed its output."""

    def __post_init__(self) -> None:
        check(msgspec.structs.asdict(self), LIMIT_RULES)


LIMIT_RULES: Rules = {
    name: optional(SECONDS) if name in ("timeout", "idle") else SECONDS_OR_0 for name in Limits.__struct_fields__
}


Stage = Literal["running", "replied", "asked", "interrupted", "terminated", "killed"]


class Supervisor:
    """Runs one agent to its end. `start` it, take its events from `outbox`; `join` waits until nothing is left.

    `cancel`, `kill` and `answer` may be called from any thread.
    """

    def __init__(self, launch: Launch, limits: Limits, *, allow: Allow, ask: bool, journal: Journal | None) -> None:
        self.stream = Stream(launch.reader, label=launch.label, run=launch.number)
        self.outbox = Outbox()
        self.outbox.on_room = lambda: self._orders.put(lambda: None)
        self.exited: Exited | None = None
        self.error: BaseException | None = None
        """A bug in Penstock that ended the run, or what kept it from starting."""
        self._launch = launch
        dialogue = launch.reader if isinstance(launch.reader, Dialogue) else None
        self._speaker = Speaker(launch.command.stdin, dialogue, allow=allow, ask=ask, heard=self._said)
        self._two_way = dialogue is not None
        self._limits = limits
        self._journal = journal
        self._journal_told = False
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._supervise, name=f"penstock {launch.label}", daemon=True)
        self._orders = Orders()
        self._stage: Stage = "running"
        self._stage_ends: float | None = None
        self._why = ""
        self._cancelled = self._timed_out = self._stopped = self._worked = False
        self._tail = b""
        self._stdout_open = True

    # --- from any thread ---------------------------------------------------------------------------

    def start(self) -> None:
        """Start the agent, and return when it runs.

        Raises:
            AgentNotFound: it cannot be executed.
            TransportError: no process can be started.
        """
        try:
            self._orders.open()
            self._thread.start()
            self._started.wait()
        except (OSError, RuntimeError) as error:
            self._let_go()
            raise TransportError(
                f"no run can be started: {error}", way_out="look at the limits of this machine"
            ) from error
        except BaseException:  # Ctrl-C: nobody will hold what was started
            self.kill()
            self.join()
            raise
        if isinstance(self.error, PenstockError):
            self._thread.join()
            raise self.error

    def cancel(self) -> None:
        """Stop the run: the protocol's own way, then SIGINT, SIGTERM, SIGKILL, each after its time."""
        self._orders.put(self._cancel)

    def kill(self) -> None:
        """Stop the run at once."""
        self._orders.put(self._kill_now)

    def answer(self, id: str, words: str) -> None:
        """Answer a question of the agent's. A question that waits no more is passed over."""
        self._orders.put(lambda: self._understand(id, words))

    def awaits(self, id: str) -> bool:
        """Whether this question of the agent's still waits for an answer. Any thread may ask."""
        return self.exited is None and id in self._speaker.waiting

    def join(self, seconds: float | None = None) -> bool:
        """Wait for the end of the process and all it started; whether it came."""
        if self._thread.ident is not None:
            self._thread.join(seconds)
        return not self._thread.is_alive()

    # --- the thread --------------------------------------------------------------------------------

    def _supervise(self) -> None:
        self._begin = time.monotonic()
        self._last_sign = self._begin
        process: Process | None = None
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGPIPE})  # a program may have it at its default, which kills
        try:
            command = self._launch.command
            process = Process(command.argv, self._launch.env, self._launch.cwd, self._launch.mark)
            self._process = process
            with selectors.DefaultSelector() as selector:
                self._selector = selector
                self._loop()
        except OSError as error:
            self.error = TransportError(f"the run failed: {error}", way_out="look at the limits of this machine")
        except BaseException as error:
            self.error = error
        finally:
            self._finish(process)

    def _finish(self, process: Process | None) -> None:
        try:
            if process is not None:
                process.end()
        except OSError as error:
            self.error = self.error or error
        last: list[Event] = []
        try:
            last = self.stream.close(self._exit(), self._now())
            self._end_journal(last)
        except BaseException as error:
            self.error = self.error or error
        finally:
            self._let_go(last)

    def _let_go(self, last: Sequence[Event] = ()) -> None:
        """Nobody may wait for a thread that died, whatever it died of."""
        self._orders.close()
        self._started.set()
        self.outbox.put(list(last), 0, over=True)
        if self._journal is not None:
            self._journal.close()

    def _now(self) -> int:
        return int((time.monotonic() - self._begin) * 1000)

    def _loop(self) -> None:
        process, selector = self._process, self._selector
        handlers: dict[int, Callable[[], None]] = {
            process.stdout: self._read_stdout,
            process.stderr: self._read_stderr,
            process.control: self._read_control,
            self._orders.fd: self._orders.make,
        }
        for fd, handler in handlers.items():
            selector.register(fd, selectors.EVENT_READ, handler)
        self._speaker.attach(process, selector)
        self._orders.make()  # what came before there was anybody to wake
        self._speak()
        while not (process.gone and not self._stdout_open):
            self._heed_reader()
            for key, _ in selector.select(self._patience()):
                key.data()
            self._keep_time()
        if process.stderr in selector.get_map():
            self._read_stderr()

    def _heed_reader(self) -> None:
        """Read on only while there is room for what is read."""
        process, selector = self._process, self._selector
        if not self._stdout_open:
            return
        reading = process.stdout in selector.get_map()
        # What is left of an agent that was killed is bounded, and is taken in so that its guard can go.
        full = self.outbox.full and self._stage != "killed"
        if reading and full:
            selector.unregister(process.stdout)
        elif not reading and not full:
            selector.register(process.stdout, selectors.EVENT_READ, self._read_stdout)
            self._last_sign = time.monotonic()
            if self.exited is not None:
                self._stage_ends = self._last_sign + self._limits.exit_grace
            elif self._stage == "replied":
                self._stage_ends = None  # what it still has to say was not read
                self._await_exit()

    @property
    def _held(self) -> bool:
        """Whether it is Penstock that does not read, so that the agent cannot go on."""
        return self._stdout_open and self._process.stdout not in self._selector.get_map()

    # --- bytes -------------------------------------------------------------------------------------

    def _read_stdout(self) -> None:
        data = _read(self._process.stdout)
        if data is None:
            return
        self._last_sign = time.monotonic()
        if data:
            self._receive(data)
            if self._stage == "killed":
                self._stage_ends = self._last_sign + END_SECONDS
        else:
            self._close(self._process.stdout)
            self._stdout_open = False
            if self.exited is not None:
                self._kill()
            elif self._stage == "running" or (self._stage == "replied" and self._stage_ends is None):
                self._stage_ends = self._last_sign + self._limits.exit_grace

    def _receive(self, data: bytes) -> None:
        at = self._now()
        if self._journal is not None:
            self._journal.received(data, at)
        self._emit(self.stream.feed(data, at), len(data))
        self._speak()

    def _emit(self, events: list[Event], size: int = 0) -> None:
        for event in events:
            if type(event) is QuestionAsked and event.blocking:
                self._speaker.expect(event)
        if events:
            self.outbox.put(events, size)
        for event in events:
            kind = type(event)
            if kind is QuestionAsked:
                self._asked(event)  # type: ignore[arg-type]  # narrowed by its exact type, for speed
            elif kind is QuestionAnswered:
                self._speaker.waiting.pop(event.id, None)  # type: ignore[union-attr]  # the same
            elif self.exited is not None:
                pass  # nothing is waited for any more
            elif kind is Replied and self._stage == "running":
                self._stage = "replied"
            elif kind is MessageStarted and event.parent is None and self._stage == "replied":
                self._stage, self._stage_ends = "running", None  # it has more to say
                self._worked = False
        if self._stage == "replied" and self._stdout_open and self.exited is None:
            self._await_exit()
        self._tell_journal_trouble()

    def _tell(self, updates: Sequence[Update]) -> None:
        self._emit(self.stream.tell(updates, self._now()))

    def _read_stderr(self) -> None:
        data = _read(self._process.stderr)
        if data is None:
            return
        if not data:
            self._close(self._process.stderr)
            return
        self._last_sign = time.monotonic()
        self._tail = (self._tail + data)[-STDERR_BYTES:]
        if self._journal is not None:
            self._journal.errors(data)

    def _read_control(self) -> None:
        process = self._process
        process.news()
        if process.failed is not None and not self._started.is_set():
            self.error = self._not_executed(process.failed)
        if process.pid is not None or process.failed is not None:
            self._started.set()
        if process.exited is not None and self.exited is None:
            self.exited = process.exited
            if self._stdout_open:
                self._stage_ends = time.monotonic() + self._limits.exit_grace
            else:
                self._kill()  # whoever is left has nothing to say
        if process.gone:
            self._close(process.control)
            self._stage_ends = time.monotonic()  # nobody is left who could write: what is in the pipe is all

    def _not_executed(self, number: int) -> PenstockError:
        name = self._launch.command.argv[0]
        why = f"{name!r} cannot be executed: {os.strerror(number)}"
        if number in (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE):
            return TransportError(why, way_out="look at the limits of this machine")
        return AgentNotFound(self._launch.agent, name, why=why)

    def _speak(self) -> None:
        self._speaker.speak(working=self.stream.working)

    def _said(self, words: bytes) -> None:
        if self._journal is not None:
            self._journal.sent(words, self._now())

    def _close(self, fd: int) -> None:
        if fd in self._selector.get_map():
            self._selector.unregister(fd)
        self._process.close_fd(fd)

    # --- time --------------------------------------------------------------------------------------

    def _patience(self) -> float | None:
        """How long nothing need be done."""
        moments = [moment for moment, _ in self._alarms()]
        return max(0.0, min(LONGEST_WAIT_SECONDS, min(moments) - time.monotonic())) if moments else None

    def _alarms(self) -> list[tuple[float, Callable[[], None]]]:
        limits, stopping = self._limits, self._stage not in ("running", "replied")
        alarms: list[tuple[float, Callable[[], None]]] = []
        if self._stage_ends is not None and (stopping or not self._held):
            alarms.append((self._stage_ends, self._next_stage))
        if not stopping and limits.timeout is not None:
            alarms.append((self._begin + limits.timeout, self._too_long))
        if not stopping and limits.idle is not None and not self._held and not self._speaker.waiting:
            alarms.append((self._last_sign + limits.idle, self._too_quiet))
        return alarms

    def _keep_time(self) -> None:
        now = time.monotonic()
        for moment, act in self._alarms():
            if moment <= now:
                act()
                return

    def _await_exit(self) -> None:
        """After an answer: wait while work goes on; otherwise the agent has a short time to exit."""
        if self.stream.working:
            self._worked, self._stage_ends = True, None
        elif self._stage_ends is None:
            limits = self._limits
            grace = limits.exit_grace if self._two_way else limits.reply_grace
            self._stage_ends = time.monotonic() + (limits.work_grace if self._worked else grace)

    def _too_long(self) -> None:
        self._stop_late(f"the time limit of {self._limits.timeout:g} s was reached")

    def _too_quiet(self) -> None:
        self._stop_late(f"no output for {self._limits.idle:g} s")

    def _stop_late(self, why: str) -> None:
        if self.exited is not None or (self._stage == "replied" and not self.stream.working):
            self._next_stage()  # all is said: this only shortens its grace
            return
        self._timed_out = True
        self._cancel(why)

    def _cancel(self, why: str = "") -> None:
        if self._stage not in ("running", "replied") or self.exited is not None:
            return
        wanted = self._stage == "running" or self.stream.working  # else all is said
        if wanted:
            self._cancelled = not self._timed_out
            self._why = why
        if wanted and self._speaker.cancel():
            self._enter("asked", self._limits.ask)
            self._speak()
        else:
            self._stop(self._limits.interrupt if wanted else self._limits.step)

    def _kill_now(self) -> None:
        self._cancel()
        self._kill()

    def _stop(self, seconds: float) -> None:
        """Interrupt the agent, which then has so long."""
        self._speaker.hush()
        self._enter("interrupted", seconds)

    def _kill(self) -> None:
        """Kill all that is left."""
        self._enter("killed", END_SECONDS)

    def _enter(self, stage: Stage, seconds: float) -> None:
        order = {"interrupted": "I", "terminated": "T", "killed": "K"}.get(stage)
        self._stage = stage
        self._stage_ends = time.monotonic() + seconds
        if order is not None:
            self._stopped = self._stopped or self.exited is None
            self._process.signal(order)

    def _next_stage(self) -> None:
        """The time of a stage is up."""
        limits = self._limits
        if self._process.gone:
            # Nothing more can be written. (A process that is no child of ours may still hold the pipe.)
            self._stage_ends = None
            while self._stdout_open and (data := _read(self._process.stdout)):
                self._receive(data)
            self._close(self._process.stdout)
            self._stdout_open = False
        elif self._stage == "killed":
            self._process.abandon()
            self._stage_ends = None
        elif self.exited is not None or self._stage == "terminated":
            self._kill()
        elif self._stage == "interrupted":
            self._enter("terminated", limits.terminate if self._why or self._cancelled else limits.step)
        elif self._stage == "asked":
            self._stop(limits.interrupt)
        else:
            if self._stage == "running":
                self._why = "it closed its output and stayed, so it was stopped"
            self._stop(limits.step)

    # --- questions ---------------------------------------------------------------------------------

    def _asked(self, question: QuestionAsked) -> None:
        answer = self._speaker.asked(question) if question.blocking else None
        if answer is not None:
            self._answer(answer)

    def _understand(self, id: str, words: str) -> None:
        answer = self._speaker.understand(id, words)
        if answer is not None:
            self._answer(answer)

    def _answer(self, answer: Answer) -> None:
        self._last_sign = time.monotonic()
        self._tell(self._speaker.answer(answer))
        self._speak()

    # --- the end ------------------------------------------------------------------------------

    def _tell_journal_trouble(self) -> None:
        if self._journal is not None and self._journal.problem is not None and not self._journal_told:
            self._journal_told = True
            self._tell([Notice("error", self._journal.problem, "warning")])

    def _exit(self) -> Exit:
        exited, stderr = self.exited, self.stderr
        if isinstance(self.error, PenstockError):
            return Exit(code=127, why=str(self.error))
        if self.error is not None:
            return Exit(why=f"a bug in Penstock ended the run: {self.error!r}")
        if self._cancelled:
            return Exit(cancelled=True)
        if self._timed_out or self._why:
            return Exit(timed_out=self._timed_out, stderr=stderr, why=self._why)
        if exited is None or self._stopped:
            return Exit()
        return Exit(code=exited.code, signal=exited.signal, stderr=stderr)

    @property
    def stderr(self) -> str:
        """The last lines that the agent wrote to stderr."""
        lines = [line for line in self._tail.decode("utf-8", "replace").splitlines() if line.strip()]
        return "\n".join(lines[-STDERR_LINES:])[-STDERR_CHARS:]

    def _end_journal(self, last: list[Event]) -> None:
        ended: Any = last[-1] if last else None
        if self._journal is not None and isinstance(ended, RunEnded):
            self._journal.end(
                outcome=ended.outcome,
                reason=ended.reason,
                exit_status=self.exited.status if self.exited is not None else None,
                duration_ms=self._now(),
            )


def _read(fd: int) -> bytes | None:
    """What is there; b"" at the end, None where there is nothing yet."""
    try:
        return os.read(fd, READ_BYTES)
    except BlockingIOError:
        return None
    except OSError as error:
        raise TransportError(f"the agent's output cannot be read: {error.strerror}") from error
