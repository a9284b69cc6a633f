"""Supervisor of one run, in a thread of its own: moves bytes, and carries out the decisions of its lifecycle.

::

    process ──stdout──► recording ──► Stream ──events──► EventQueue ──► reader of the run
       ▲                                │
       └──stdin──◄── prompt, dialogue ──┘                stderr: its end, for the reason of a failure

Because of the thread, an agent is read, answered and timed whatever its reader does: a terminal that is stopped
costs memory (up to `MAX_WAITING_BYTES`), never text. All decisions are in `lifecycle`; the guarantees of a run are
in `docs/processes.md`.
"""

from __future__ import annotations

import errno
import os
import selectors
import signal
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from penstock.adapter import Dialogue
from penstock.config.data import data_path
from penstock.core.normalizer.outcome import Exit
from penstock.core.questions import SAME_COMMAND
from penstock.errors import AgentNotFound, PenstockError, TransportError
from penstock.events import BlockStarted, Event, MessageStarted, QuestionAnswered, QuestionAsked, RunEnded, RunStarted
from penstock.run import drift_log
from penstock.run.allowed import AllowedCommands, CommandRule, HasRule, rule_of
from penstock.run.inside import depth
from penstock.run.lifecycle import Action, Fact, Lifecycle, Limits, Trigger
from penstock.run.limits import Budget, Spending
from penstock.run.made_files import MadeFiles
from penstock.run.planted import Record
from penstock.run.process import Exited, Process
from penstock.run.queues import CallQueue, EventQueue
from penstock.run.read_sizes import READ_BYTES
from penstock.run.stdin import StdinWriter
from penstock.run.tried import forget_all
from penstock.stream import Stream
from penstock.updates import Answer, Notice, Question

if TYPE_CHECKING:
    from penstock.config.command_rules import Verdict
    from penstock.run.launch import Launch
    from penstock.run.proxy import Proxy
    from penstock.run.recording import RecordingWriter
    from penstock.run.retries import RetryWait

STDERR_BYTES = 64 * 1024
"""Bytes of stderr that are kept: its end has the reasons, and an agent may write any amount."""
STDERR_LINES = 8
"""Number of last lines of stderr in the reason for a failure."""
STDERR_CHARS = 2000
"""Maximum number of characters of stderr in the reason for a failure."""
OPENING = (RunStarted, MessageStarted, BlockStarted)
"""Types of the events after which reading does not pause: a person waits for the first text that follows. Nor does it
pause after bytes without an event, such as a request of a protocol or a part of a long line."""
LONGEST_WAIT_SECONDS = 3600.0
"""Seconds of one wait: a time limit may be longer than a selector can wait."""


class Supervisor:
    """Runs one agent to its end: `start` it, read `events`; `join` waits until no process is left.

    `cancel`, `kill`, `answer` and `steer` may be called from any thread.
    """

    def __init__(
        self,
        launch: Launch,
        limits: Limits,
        *,
        ask: bool,
        recording: RecordingWriter | None,
        read_pause: float = 0.0,
        budget: Budget | None = None,
        wait: RetryWait | None = None,
        has_rule: HasRule | None = None,
    ) -> None:
        """`has_rule`: function that returns whether a command is allowed by a rule of the caller, at each question.

        `wait`: the pause before the agent is started, if the run is a retry; `start` returns before it.

        `read_pause`: seconds between two reads of growing output, for a reader that shows it at a pace of its own.
        Each read wakes two threads, so fewer of them take less time of the processor. A pause ends early with anything
        else that happens.
        """
        self.stream: Stream = Stream(launch.reader, label=launch.label, run=launch.number)
        self.events: EventQueue = EventQueue()
        self.events.on_space = lambda: self._calls.put(lambda: None)
        self.exited: Exited | None = None
        self.error: BaseException | None = None
        """Bug in Penstock that ended the run, or the error that prevented its start."""
        self._launch = launch
        self._limits = limits
        self._budget = budget or Budget()
        self._retry_wait = wait
        self._starts_at = 0.0
        self._given_up = threading.Event()
        self._dialogue = launch.reader if isinstance(launch.reader, Dialogue) else None
        self._stdin = StdinWriter(
            launch.command.stdin, self._dialogue, allow=launch.allow, ask=ask, record=self._record_sent
        )
        self._allowed = AllowedCommands(launch.agent, launch.cwd)
        self._has_rule = has_rule
        self._recording = recording
        self._record: Record | None = None
        """Record of what a confined run could plant."""
        self._recording_problem_reported = False
        self._proxy: Proxy | None = None
        self._made = MadeFiles(launch.cwd)
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._supervise, name=f"penstock {launch.label}", daemon=True)
        self._calls = CallQueue()
        self._stderr = b""
        self._stdout_open = True
        self._read_pause = read_pause
        self._next_read: float | None = None  # end of the pause in which the selector does not report stdout
        self._ended = False

    # --- from any thread ---------------------------------------------------------------------------

    def start(self) -> None:
        """Start the agent, and return when it runs.

        Raises:
            AgentNotFound: it cannot be executed.
            TransportError: no process can be started.
        """
        try:
            self._calls.open()
            self._thread.start()
            self._started.wait()
        except (OSError, RuntimeError) as error:
            self._release()
            raise TransportError(
                f"no run can be started: {error}", help="look at the limits of this machine"
            ) from error
        except BaseException:  # Ctrl-C: no caller will own the started process
            self.kill()
            self.join()
            raise
        if isinstance(self.error, PenstockError):
            self._thread.join()
            raise self.error

    def cancel(self) -> None:
        """Stop the run: by the protocol's own cancel, then SIGINT, SIGTERM, SIGKILL, each after its grace period."""
        self._given_up.set()
        self._calls.put(lambda: self._report(Trigger.CANCEL))

    def kill(self) -> None:
        """Stop the run at once."""
        self._given_up.set()
        self._calls.put(lambda: self._report(Trigger.KILL))

    def answer(self, id: str, text: str) -> None:
        """Answer a question of the agent. If it no longer waits, nothing happens."""
        self._calls.put(lambda: self._answer(self._stdin.parse_answer(id, text)))

    def steer(self, id: str, text: str) -> None:
        """Give the agent a message while it works. After the end of the run nothing happens."""
        self._calls.put(lambda: self._steer(id, text))

    def rule_of(self, id: str) -> CommandRule | None:
        """Return the rule that allows the command of an open question; None if there is no such command."""
        asked = self.stream.asked(id)
        return None if asked is None else rule_of(asked)

    def awaits(self, id: str) -> bool:
        """Return whether this question of the agent still waits for an answer. Any thread may call it."""
        return self.exited is None and id in self._stdin.waiting

    def join(self, seconds: float | None = None) -> bool:
        """Wait for the end of the process and all it started; return False if `seconds` have passed before that."""
        if self._thread.ident is not None:
            self._thread.join(seconds)
        return not self._thread.is_alive()

    @property
    def pause(self) -> float:
        """Seconds until the agent of a retry is started."""
        return max(0.0, self._starts_at - time.monotonic())

    @property
    def stderr(self) -> str:
        """Last lines that the agent wrote to stderr, with a note in place of each secret."""
        text = self._stderr.decode("utf-8", "replace")
        if not text.strip():
            return ""
        from penstock.run.secrets import redacted_output, secrets_of  # its patterns are slow to load

        known = secrets_of(self._launch.env) | dict.fromkeys(self._launch.secrets, "a value of the MCP configuration")
        shown = redacted_output(text, known)  # before it is cut, since half of a secret would not be recognised
        lines = [line for line in shown.splitlines() if line.strip()]
        return "\n".join(lines[-STDERR_LINES:])[-STDERR_CHARS:]

    def _spending(self) -> Spending | None:
        """Return the counter of what the run spends; None without a limit."""
        if not self._budget.limits:
            return None
        status, has_next = self._launch.command.turn_limit_status, self._launch.has_next_turn
        return Spending(self._budget, status, has_next_turn=has_next)

    # --- the thread --------------------------------------------------------------------------------

    def _supervise(self) -> None:
        is_given_up = self._retry_wait is not None and not self._wait_to_retry(self._retry_wait)
        self._began = time.monotonic()
        self._lifecycle = Lifecycle(
            self._limits,
            two_way=self._dialogue is not None,
            now=self._began,
            spending=self._spending(),
        )
        process: Process | None = None
        if is_given_up:
            self._lifecycle.on(Trigger.KILL, self._began)
            self._finish(process)
            return
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGPIPE})  # a program may have set its default, which kills
        try:
            launch = self._launch
            if launch.confinement.watched is not None:
                self._record = Record(str(data_path()), launch.confinement.watched)
            reach = launch.confinement.reach
            self._process = process = Process(
                launch.command.argv,
                launch.env,
                launch.cwd,
                launch.mark,
                confinement=launch.confinement.words,
                ports=reach.ports if reach is not None else (),
            )
            if reach is not None:
                from penstock.run.proxy import Proxy  # imports asyncio, which few runs need

                self._proxy = Proxy(reach, process.take_ports(), self._note_denial, depth(launch.env))
            with selectors.DefaultSelector() as selector:
                self._selector = selector
                self._loop()
        except OSError as error:
            self.error = TransportError(f"the run failed: {error}", help="look at the limits of this machine")
        except BaseException as error:
            self.error = error
        finally:
            self._finish(process)

    def _wait_to_retry(self, wait: RetryWait) -> bool:
        """Announce a retry and wait for its time; return False if the run was stopped meanwhile."""
        self._began = time.monotonic()
        self._starts_at = self._began + wait.seconds
        self.events.put(self.stream.apply([wait.notice], 0), 0)
        self._started.set()
        return not self._given_up.wait(wait.seconds)

    def _loop(self) -> None:
        process, selector = self._process, self._selector
        handlers: dict[int, Callable[[], None]] = {
            process.stdout: self._read_stdout,
            process.stderr: self._read_stderr,
            process.control: self._read_control,
            self._calls.fd: self._calls.run,
        }
        for fd, handler in handlers.items():
            selector.register(fd, selectors.EVENT_READ, handler)
        self._stdin.attach(process, selector)
        self._calls.run()  # what was requested before there was a thread to wake
        self._write_stdin()
        while not self._ended:
            is_paused = self._next_read is not None
            for key, _ in selector.select(self._wait_seconds()):
                if selector.get_map().get(key.fd) is key:  # else a handler before it has closed what it reads
                    key.data()
            if is_paused:
                self._end_pause()
            if self._stdout_open:
                self._observe(Fact.READING, not self.events.full)
            self._report(Trigger.TICK)
        if process.stderr in selector.get_map():
            self._read_stderr()

    def _wait_seconds(self) -> float | None:
        times = [at for at in (self._lifecycle.deadline, self._next_read) if at is not None]
        return max(0.0, min(LONGEST_WAIT_SECONDS, min(times) - time.monotonic())) if times else None

    def _now(self) -> int:
        return int((time.monotonic() - self._began) * 1000)

    # --- the lifecycle -----------------------------------------------------------------------------

    def _report(self, trigger: Trigger) -> None:
        self._carry_out(self._lifecycle.on(trigger, time.monotonic()))

    def _observe(self, fact: Fact, value: bool) -> None:
        self._carry_out(self._lifecycle.observe(fact, value, time.monotonic()))

    def _carry_out(self, actions: Sequence[Action]) -> None:
        for action in actions:
            match action:
                case Action.CANCEL_OVER_PROTOCOL:
                    self._cancel_over_protocol()
                case Action.CLOSE_STDIN:
                    self._stdin.finish()
                case Action.INTERRUPT:
                    self._process.signal("I")
                case Action.TERMINATE:
                    self._process.signal("T")
                case Action.KILL:
                    self._process.signal("K")
                case Action.KILL_GUARD:
                    self._process.kill_guard()
                case Action.PAUSE_READING:
                    self._stop_reading()
                case Action.RESUME_READING:
                    self._resume_reading()
                case Action.READ_REST:
                    self._read_rest()
                case Action.END:
                    self._ended = True

    def _cancel_over_protocol(self) -> None:
        if self._stdin.cancel():
            self._write_stdin()
        else:
            self._report(Trigger.CANNOT_CANCEL)

    @property
    def has_left(self) -> bool:
        """Whether a process of the run could not be killed."""
        return hasattr(self, "_process") and self._process.has_left

    # --- bytes -------------------------------------------------------------------------------------

    def _read_stdout(self) -> None:
        data = _read(self._process.stdout) if self._stdout_open else None  # closed since the selector reported it
        if data:
            self._report(Trigger.OUTPUT)
            events = self._receive(data)
            if self._read_pause and len(data) < READ_BYTES and events and type(events[-1]) not in OPENING:
                self._stop_reading()
                self._next_read = time.monotonic() + self._read_pause
        elif data is not None:
            self._close_stdout()
            self._report(Trigger.STDOUT_CLOSED)

    def _end_pause(self) -> None:
        """Read what was written during a pause. If that is nothing, the next output is read at once."""
        self._next_read = None
        self._read_stdout()
        if self._next_read is None:
            self._resume_reading()

    def _stop_reading(self) -> None:
        self._next_read = None
        if self._process.stdout in self._selector.get_map():
            self._selector.unregister(self._process.stdout)

    def _receive(self, data: bytes) -> list[Event]:
        """Record, then decode, then emit: all that a reader has seen is in the recording, whatever happens next."""
        at = self._now()
        if self._recording is not None:
            self._recording.received(data, at)
        events = self.stream.feed(data, at)
        self._emit(events, len(data))
        self._write_stdin()
        return events

    def _read_rest(self) -> None:
        """Read the data in the pipe, without waiting: a process that is not a child of ours may hold it open."""
        while self._stdout_open and (data := _read(self._process.stdout)):
            self._receive(data)
        self._close_stdout()

    def _resume_reading(self) -> None:
        if self._stdout_open and self._process.stdout not in self._selector.get_map():
            self._selector.register(self._process.stdout, selectors.EVENT_READ, self._read_stdout)

    def _read_stderr(self) -> None:
        data = _read(self._process.stderr)
        if data:
            self._report(Trigger.ERROR_OUTPUT)
            self._stderr = (self._stderr + data)[-STDERR_BYTES:]
            if self._recording is not None:
                self._recording.errors(data)
        elif data is not None:
            self._close(self._process.stderr)

    def _read_control(self) -> None:
        process = self._process
        process.read_reports()
        if process.failed is not None and self.error is None:
            self.error = self._not_executed(process.failed)
        if process.pid is not None or process.failed is not None:
            self._started.set()
        if process.exited is not None and self.exited is None:
            self.exited = process.exited
            self._report(Trigger.EXITED)
        if process.gone:
            self._close(process.control)
            self._report(Trigger.GONE)

    def _not_executed(self, number: int) -> PenstockError:
        name = self._launch.command.argv[0]
        why = f"{name!r} cannot be executed: {os.strerror(number)}"
        if self._launch.confinement.words:
            forget_all(str(data_path()))  # whether bubblewrap still works here is tried again
            if self._process.stderr in self._selector.get_map():
                self._read_stderr()
            why = f"{name!r} cannot be executed where it is confined: {self.stderr or os.strerror(number)}"
        if number in (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE):
            return TransportError(why, help="look at the limits of this machine")
        return AgentNotFound(self._launch.agent, name, why=why)

    def _write_stdin(self) -> None:
        self._stdin.write(working=self.stream.working)

    def _record_sent(self, data: bytes) -> None:
        if self._recording is not None:
            self._recording.sent(data, self._now())

    def _close_stdout(self) -> None:
        self._close(self._process.stdout)
        self._stdout_open = False

    def _close(self, fd: int) -> None:
        if fd in self._selector.get_map():
            self._selector.unregister(fd)
        self._process.close_fd(fd)

    # --- events ------------------------------------------------------------------------------------

    def _emit(self, events: list[Event], size: int = 0) -> None:
        """Pass on events, then act on them.

        What becomes of a question is decided before its reader sees it: a person is asked only what waits for a person.
        """
        answers: list[Answer] = []
        for event in events:
            if type(event) is RunStarted and event.session_id is not None and event.parent is None:
                self._allowed.enter(event.session_id)
            if type(event) is QuestionAsked and event.blocking:
                answer = self._stdin.automatic_answer(event, self._verdict(event))
                if answer is None:
                    self._stdin.expect(event)
                else:
                    answers.append(answer)
        self._made.observe(events)
        if events:
            self.events.put(events, size)
        self._carry_out(self._lifecycle.on_events(events, working=self.stream.working, now=time.monotonic()))
        for event in events:
            if type(event) is QuestionAnswered:
                self._stdin.waiting.pop(event.id, None)
        for answer in answers:
            self._answer(answer)
        self._observe(Fact.QUESTION, bool(self._stdin.waiting))
        self._report_recording_problem()

    def _verdict(self, event: QuestionAsked) -> Verdict | None:
        """Return the verdict of the rules, and of earlier answers, on the command of a question; None without one."""
        asked = self.stream.asked(event.id)
        if asked is None:
            return None
        verdict: Verdict | None = None
        if event.ask == "command" and asked.command is not None:
            verdict = self._launch.rules.verdict(asked.command, asked.command_cwd, self._launch.cwd)
        return verdict or ("allow" if self._allowed.covers(asked) or self._is_by_rule(asked) else None)

    def _is_by_rule(self, asked: Question) -> bool:
        rule = rule_of(asked) if self._has_rule is not None else None
        return rule is not None and self._has_rule is not None and self._has_rule(rule.id)

    def _answer(self, answer: Answer | None) -> None:
        if answer is not None and answer.option == SAME_COMMAND.id:
            asked, once = self.stream.asked(answer.id), self.stream.allow_same(answer.id)
            if asked is not None and once is not None:
                self._allowed.add(asked)
                answer = once
        if answer is not None:
            self._emit(self.stream.apply(self._stdin.answer(answer), self._now()))
            self._write_stdin()

    def _steer(self, id: str, text: str) -> None:
        self._emit(self.stream.apply(self._stdin.steer(id, text), self._now()))
        self._write_stdin()

    def _note_denial(self, text: str) -> None:
        """Report an address that the run may not reach. The proxy's thread calls it."""
        notice = Notice("permission", text, "warning")
        self._calls.put(lambda: self._emit(self.stream.apply([notice], self._now())))

    def _report_recording_problem(self) -> None:
        recording = self._recording
        if recording is None or not recording.is_announced:
            return
        if recording.problem is not None and not self._recording_problem_reported:
            self._recording_problem_reported = True
            self._emit(self.stream.apply([Notice("error", recording.problem, "warning")], self._now()))

    # --- the end -----------------------------------------------------------------------------------

    def _finish(self, process: Process | None) -> None:
        try:
            if process is not None:
                process.end()
        except OSError as error:
            self.error = self.error or error
        if self._proxy is not None:
            self._proxy.close()
        last: list[Event] = []
        try:
            missing = self._made.missing()  # before anything is put aside
            planted = [Notice("error", text, "warning") for text in self._settle(process)]
            last = self.stream.apply(planted, self._now()) if planted else []
            last += self.stream.close(self._exit(), self._now())
            if missing is not None:
                self.stream.health.checks.append(missing)
            self._end_recording(last)
        except BaseException as error:
            self.error = self.error or error
        finally:
            self._release(last)

    def _settle(self, process: Process | None) -> list[str]:
        """Put aside what a confined run has planted, unless a process of it is left; return sentences about it."""
        record = self._record
        if record is None:
            return []
        if process is not None and process.has_left:
            record.close()
            return []
        return record.settle()

    def _release(self, last: Sequence[Event] = ()) -> None:
        """Release all waiters, however the thread ended."""
        self._calls.close()
        self._started.set()
        self.events.put(list(last), 0, last=True)
        if self._recording is not None:
            self._recording.close()

    def _exit(self) -> Exit:
        if isinstance(self.error, PenstockError):
            return Exit(code=127, why=str(self.error))
        if self.error is not None:
            return Exit(why=f"a bug in Penstock ended the run: {self.error!r}")
        code, killer = (self.exited.code, self.exited.signal) if self.exited is not None else (None, None)
        return self._lifecycle.exit(code, killer, self.stderr)

    def _end_recording(self, last: list[Event]) -> None:
        ended: Any = last[-1] if last else None
        if self._recording is not None:
            drift_log.append(self.stream.label or "generic", self.stream.health)
        if self._recording is not None and isinstance(ended, RunEnded):
            self._recording.end(
                outcome=ended.outcome,
                reason=ended.reason,
                cause=ended.cause,
                exit_status=self.exited.status if self.exited is not None else None,
                duration_ms=self._now() if ended.at is None else ended.at,
            )


def _read(fd: int) -> bytes | None:
    """Return the available bytes; b"" at the end, None if there are none yet."""
    try:
        return os.read(fd, READ_BYTES)
    except BlockingIOError:
        return None
    except OSError as error:
        raise TransportError(f"the agent's output cannot be read: {error.strerror}") from error
