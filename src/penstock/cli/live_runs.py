"""Runs that are shown while they work, until all have ended: output, signals, questions, reports."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from typing import TYPE_CHECKING

from penstock.cli.advice import allow_advice, level_words, permission_words, resume_command
from penstock.cli.agent_groups import AgentGroups
from penstock.cli.ask import MAX_LINE_BYTES, Terminal, correction_text, prompt_text, question_text
from penstock.cli.console import Output, notify_problem, one_line
from penstock.cli.display import OutputContext, Showing, Sink, decide, make_sink
from penstock.cli.exit_status import ALL_LIMITED, FAILED, OK, REFUSED, SIGNAL_BASE
from penstock.cli.kept import RunKeeper
from penstock.cli.report import report, status_of, table
from penstock.cli.screen import Screen
from penstock.cli.silence import Silence, is_ci
from penstock.config.data import data_path
from penstock.core.questions import REJECT, resolve
from penstock.errors import AgentNotFound, PenstockError
from penstock.events import AgentCommand, CommandsChanged, Event, QuestionAnswered, QuestionAsked, RunEnded, RunStarted
from penstock.run.history import History, HistoryWriter, Kind, record_of
from penstock.run.network import Network
from penstock.run.takeover import Takeover, checked_causes
from penstock.sinks.text.display_mode import ci_of
from penstock.sinks.text.styles import duration

if TYPE_CHECKING:
    from penstock.cli.editor.live_line import LiveLine
    from penstock.cli.editor.run_edits import RunEdits
    from penstock.cli.editor.typed_ahead import TypedAhead
    from penstock.cli.github import Finished
    from penstock.cli.junit import FailedCalls
    from penstock.cli.options import RunOptions
    from penstock.cli.run_factory import RunFactory
    from penstock.config.settings import Config
    from penstock.core.health import Health
    from penstock.run.run import Run

NETWORK_WORDS: dict[Network, str] = {"all": "", "agent": "no network but its model's", "none": "no network"}
"""Network of a confined run, as its first line has it."""
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class ShownRun:
    """A run and its display."""

    def __init__(self, run: Run, showing: Showing, silence: Silence) -> None:
        self.run = run
        self.showing = showing
        self.questions: dict[str, QuestionAsked] = {}
        """Questions that wait for an answer."""
        self.history: HistoryWriter | None = None
        """Writer of the run's lines in the history, once it has started."""
        self.failed: FailedCalls | None = None
        """Collector of its calls that failed, for `--junit`."""
        self.silence = silence

    @property
    def name(self) -> str:
        """Name for people."""
        return self.run.label

    @property
    def plain(self) -> bool:
        """Return whether the output is plain text. It never is, as the agent is known."""
        return False

    @property
    def health(self) -> Health:
        """Health of its stream."""
        return self.run.health

    @property
    def ended(self) -> RunEnded | None:
        """Last event of the run; None until the run has ended."""
        return self.showing.ended


class LiveRuns:
    """Runs of agents that are shown until all have ended. Use `show`.

    `kind` and `title` are for the lines of these runs in the history. Without a title, the beginning of the prompt is
    used. In a conversation, `typed_ahead` reads what is typed while they work, and `said_before` has the facts in the
    first lines of its last run.
    """

    def __init__(
        self,
        factory: RunFactory,
        options: RunOptions,
        config: Config,
        output: Output,
        errors: Output,
        kind: Kind = "run",
        title: str | None = None,
        typed_ahead: TypedAhead | None = None,
        said_before: set[str] | None = None,
    ) -> None:
        self._typed_ahead = typed_ahead
        self._said_before = said_before
        self._screen = Screen(options)
        self._live_line: LiveLine | None = None
        if typed_ahead is not None and self._screen.width is not None:
            from penstock.cli.editor.live_line import LiveLine

            is_dim = decide(options, config, several=False).color
            self._live_line = LiveLine(self._status, is_dim=is_dim)
        self._began = time.monotonic()
        self.model: str | None = options.asked["model"]
        """Model of a conversation's run: the one that was asked for, until the agent reports its own."""
        self.commands: list[AgentCommand] | None = None
        """Commands that the agent of a conversation's run offers; None: it has listed none."""
        self._config = config
        self._factory = factory
        for name in options.fallback:
            factory.check_fallback(name)
        self._takeover: Takeover[Run] = Takeover(
            factory.names[0],
            options.fallback,
            factory.fallback,
            lambda text: notify_problem(one_line(text)),
            checked_causes(options.fallback_on),
        )
        runs = self._first_runs()
        self._label_width = max(len(run.label) for run in runs) if len(runs) > 1 else 0
        self._keeps_history = config.keeps_history
        self._keeper = RunKeeper.of(config, options) if kind == "run" else None
        self._kind = kind
        self._title = title
        self._options = options
        self._junit = os.path.realpath(options.junit) if options.junit is not None else None
        self._is_quiet = options.to != "text" or options.detail == "quiet"
        self._grows = options.to == "text" and decide(options, config, several=len(runs) > 1).mode == "full"
        self._groups: AgentGroups | None = None
        if self._label_width and options.to == "text" and ci_of(os.environ) == "github" and not os.isatty(1):
            self._groups = AgentGroups([run.label for run in runs], output.write)
        self.edits: RunEdits | None = None
        """Files that the runs changed, once they have ended; None outside of a conversation."""
        if options.interactive:
            from penstock.cli.editor.run_edits import RunEdits  # imports what a single run does not need

            directory = os.path.abspath(options.asked["cwd"] or ".")
            self.edits = RunEdits(directory, may_edit=options.asked["allow"] != "read")
        self._shown = [self._display(run, number) for number, run in enumerate(runs)]
        self._group = runs[0].mark
        self._output = output
        self._errors = errors
        self._stopped_by = 0  # the signal
        self._stops = 0
        self._wake_out, self._wake_in = -1, -1
        self._terminal: Terminal | None = None

    def _first_runs(self) -> list[Run]:
        """Return the first runs. If the agent is not installed, the next one of `--fallback` is used.

        Raises:
            UsageError: a part of the request cannot be done.
            AgentNotFound: none of the agents is installed.
        """
        try:
            return self._factory.runs()
        except AgentNotFound as error:
            return [self._takeover.run_instead(error)]

    def _display(self, run: Run, number: int) -> ShownRun:
        agent = record_of(run).agent
        context = OutputContext(
            several=self._label_width > 0,
            is_grouped=self._groups is not None,
            number=number,
            label=run.label if self._label_width else "",
            label_width=self._label_width,
            cwd=os.path.abspath(run.spec.cwd or "."),  # with --worktree not the directory of the command
            is_live=True,
            is_confined=run.confinement.mode == "on",
            network=NETWORK_WORDS[run.confinement.network],
            not_confined=run.confinement.problem,
            resume=lambda session: self._resume_command(run, session),
            allow=allow_advice(agent, run.route, run.allow, can_ask=self._factory.can_ask),
            permission=self._permission(agent, run),
            has_rules=bool(self._config.command_rules),
            said_before=self._said_before,
            prompt=self._factory.prompt,
            began_ms=time.time_ns() // 1_000_000,
        )

        def sink(name: str | None) -> Sink:
            return make_sink(self._options, self._config, name, self._screen, context)

        if self._keeper is not None:
            self._keeper.keep(run, context)
        is_early = not self._is_quiet and self._live_line is None  # the line has the time
        shown = ShownRun(run, Showing(sink), Silence(time.monotonic(), is_early=is_early))
        if self._options.junit is not None:
            from penstock.cli.junit import FailedCalls  # imports a writer of XML

            shown.failed = FailedCalls()
        return shown

    def _permission(self, agent: str, run: Run) -> str:
        """Return what an agent may do, in words; "" if its configured command has arguments that may change it."""
        command = self._config.agent(agent).command
        if command is not None and len(command) > 1:
            return ""
        is_confined = run.confinement.mode == "on"
        return permission_words(
            agent, run.route, run.allow, self._options, can_ask=self._factory.can_ask, is_confined=is_confined
        )

    def _resume_command(self, run: Run, session_id: str) -> str:
        """Return the command that continues the conversation of a run; "" if none should be shown."""
        if self._kind != "run" or not os.isatty(1) or self._options.interactive:
            return ""
        record, is_newest = record_of(run), False
        if self._keeps_history and self._factory.names.count(record.agent) < 2:
            with contextlib.suppress(OSError):
                is_newest = History(data_path()).is_newest(record)
        return resume_command(record.agent, run.spec.cwd, None if is_newest else session_id, self._options.asked)

    @property
    def level(self) -> str:
        """What the last of the runs may do, in a few words."""
        run = self.last
        return level_words(run.allow, self._permission(record_of(run).agent, run))

    def _status(self, width: int) -> str:
        """Return the line below the output of a conversation's run, for this number of columns."""
        from penstock.cli.editor.live_line import fitting

        seconds = int(time.monotonic() - self._began)
        time_words = duration(seconds * 1000, whole=True)
        return fitting([time_words, self.level, self.last.label, self.model or "", "Esc stops"], width)

    @property
    def last(self) -> Run:
        """Last of the runs. With `--fallback`, it is the run of the agent that took over."""
        return self._shown[-1].run

    @property
    def ended(self) -> RunEnded | None:
        """Last event of the last run, once it has ended."""
        return self._shown[-1].ended

    @property
    def session_id(self) -> str | None:
        """Conversation of the last run, once it has ended; None if unknown."""
        return self.ended.session_id if self.ended is not None else None

    def show(self) -> int:
        """Run all of them to their ends and return the exit status.

        Signals and wake-ups from the runs arrive through one pipe, so that a signal interrupts nothing halfway.

        Raises:
            AgentNotFound: one of them cannot be executed; the others are ended.
            BrokenPipeError: the reader of the output has closed the pipe; all are ended.
            KeyboardInterrupt: the third signal, for a user whose terminal is blocked; all are ended.
        """
        self._wake_out, self._wake_in = os.pipe()
        os.set_blocking(self._wake_in, False)
        os.set_blocking(self._wake_out, False)
        wakeup = signal.set_wakeup_fd(self._wake_in, warn_on_full_buffer=False)
        # Signals that the caller ignores stay ignored, as with `nohup` and background jobs of a shell.
        handled = [number for number in STOPPING if signal.getsignal(number) is not signal.SIG_IGN]
        previous = {number: signal.signal(number, self._count) for number in handled}
        self._terminal = Terminal.find()
        try:
            with self._screen:
                return self._show()
        finally:
            if self._terminal is not None:
                self._terminal.close()
            for number, handler in previous.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(wakeup)
            os.close(self._wake_in)
            os.close(self._wake_out)

    def _show(self) -> int:
        try:
            if self.edits is not None:
                self.edits.begin()
            for shown in self._shown:
                self._start(shown)
            if self._keeper is not None:
                self._keeper.started()
            self._began = time.monotonic()
            with self._live_line or contextlib.nullcontext():
                while not all(shown.ended for shown in self._shown):
                    self._turn()
        finally:
            for shown in self._shown:
                shown.run.stop()
                self._remember_rest(shown)
            if self._groups is not None:
                self._groups.close()
            if self.edits is not None:
                self.edits.end()
        report([*self._shown], self._options, self._output, self._errors)
        self._print_files()
        if ci_of(os.environ) == "github":
            self._report_to_github()
        if len(self._shown) > 1 and self._options.to == "text":
            self._errors.write(table([(shown.name, shown.ended) for shown in self._shown]))
        are_saved = self._save_trees() & self._write_junit()
        if self._takeover.exhausted:
            return ALL_LIMITED
        if self._stopped_by:
            return SIGNAL_BASE + self._stopped_by
        status = status_of(self._shown, interrupted=False) or (OK if are_saved else FAILED)
        denied = any(shown.ended is not None and shown.ended.refused for shown in self._shown)
        return REFUSED if status == OK and denied and self._options.fails_if_denied else status

    def _save_trees(self) -> bool:
        """Save the results of the agents' trees and print them; return whether all are saved."""
        trees = self._factory.trees
        if trees is None:
            return True
        from penstock.cli.worktree import report as report_trees

        finished = trees.finish(self._factory.prompt)
        self._errors.write("\n" + report_trees(finished, with_stat=self._options.to == "text"))
        return all(one.result is not None for one in finished)

    def _finished(self) -> list[Finished]:
        """Return the runs for a report."""
        from penstock.cli.github import Finished  # imported on first use: few runs are reported

        return [
            Finished(shown.name, shown.run.result, shown.ended.at, os.path.abspath(shown.run.spec.cwd or "."))
            for shown in self._shown
            if shown.ended is not None
        ]

    def _write_junit(self) -> bool:
        """Write the report of `--junit`, if it is asked for; return whether that was possible."""
        file = self._junit
        if file is None:
            return True
        from penstock.cli.junit import write_report

        failed = [shown.failed.text for shown in self._shown if shown.ended is not None and shown.failed is not None]
        try:
            write_report(
                file, [*zip(self._finished(), failed, strict=True)], fails_if_denied=self._options.fails_if_denied
            )
        except OSError as error:
            notify_problem(one_line(f"{file} cannot be written: {error.strerror}"))
            return False
        return True

    def _report_to_github(self) -> None:
        from penstock.cli import github

        runs = self._finished()
        (self._output if self._options.to == "text" else self._errors).write(github.annotation_lines(runs))
        for problem in github.write_files(runs, os.environ):
            notify_problem(problem)

    def _start(self, shown: ShownRun) -> None:
        shown.run.start()
        shown.run.on_news(self._wake)
        if self._keeps_history:
            shown.history = HistoryWriter(
                History(data_path()), record_of(shown.run, self._kind, self._title, self._group)
            )

    def _note_facts(self, batch: list[Event]) -> None:
        """Note what the agent reports about itself, for the line editor."""
        for event in batch:
            if type(event) is RunStarted:
                self.model = event.model or self.model
            elif type(event) is CommandsChanged:
                self.commands = event.commands

    def _remember(self, shown: ShownRun, batch: list[Event]) -> None:
        if shown.history is not None:
            shown.history.apply_batch(batch)

    def _remember_rest(self, shown: ShownRun) -> None:
        """Note the events that are left over if the output failed: they have the end of the run, and its tokens."""
        if shown.history is not None:
            with contextlib.suppress(PenstockError):  # of the run itself, which has been raised
                while rest := shown.run.poll():
                    self._remember(shown, rest)

    def _turn(self) -> None:
        for index, shown in enumerate(self._shown):
            while batch := shown.run.poll():
                self._remember(shown, batch)
                if shown.failed is not None:
                    shown.failed.observe(batch)
                if self.edits is not None:
                    self.edits.observe(batch)
                    self._note_facts(batch)
                output = shown.showing.render(batch, shown.run.agent)
                if self._options.to != "reply":  # before the line on stderr about another agent
                    self._write(index, output)
                follower = self._follower(shown, index)
                if follower is None and self._options.to == "reply":  # only the last run has the reply
                    self._write(index, output)
                self._ask(shown, batch)
                if self._grows or (output and not self._is_quiet):
                    pause = 0.0 if is_ci(os.environ) else shown.run.pause  # the line of a retry has it
                    shown.silence.end(time.monotonic() + pause)
                if follower is not None:
                    self._write(index, shown.showing.pause())
                    shown.run.stop()
                    self._shown[index] = follower
                    self._start(follower)
                    self._wake()
            if shown.ended:
                self._write(index, shown.showing.pause())
                if self._groups is not None and self._shown[index] is shown:
                    self._groups.end(index)
        if not all(shown.ended for shown in self._shown):
            self._wait(*(self._typed_ahead.fds if self._typed_ahead is not None else ()))
            self._note_typed()
            for index, shown in enumerate(self._shown):
                self._write(index, shown.showing.flush_held(time.monotonic()))
            self._report_silence()

    def _write(self, number: int, output: str | bytes) -> None:
        """Write output of the agent with this number, from 0."""
        if self._groups is not None:
            self._groups.write(number, output)
        else:
            self._output.write(output)

    def _note_typed(self) -> None:
        """Take what was typed for the next prompt, and show what is queued. Esc stops the run, as Ctrl-C does."""
        for line in self._typed_ahead.read() if self._typed_ahead is not None else ():
            for shown in self._shown:
                self._output.write(shown.showing.pause())
            notify_problem(line)
        if self._typed_ahead is not None and self._typed_ahead.stops_run and not self._stopped_by:
            self._stop(signal.SIGINT)

    def _report_silence(self) -> None:
        """Write a line for each run from which nothing has come for some time; in CI even if the output is silent."""
        for shown in self._working():
            seconds = shown.silence.due(time.monotonic())
            if seconds is None:
                continue
            if self._is_quiet:
                notify_problem(f"{shown.name}: still working, {duration(seconds * 1000, whole=True)}")
            else:
                self._write(self._shown.index(shown), shown.showing.silent(seconds, shown.run.agent, shown.name))

    def _working(self) -> list[ShownRun]:
        return [] if self._is_quiet and not is_ci(os.environ) else [shown for shown in self._shown if not shown.ended]

    def _follower(self, shown: ShownRun, index: int) -> ShownRun | None:
        """Return the follower of a run that has just ended: its retry, or the run of the agent that takes over."""
        if shown.ended is None or self._stopped_by:
            return None
        number = max(one.run.spec.number or 1 for one in self._shown)
        run = shown.run.next_attempt(number + 1)
        if run is not None and self._is_quiet:
            notify_problem(one_line(f"{shown.name}: {shown.ended.reason or shown.ended.outcome}; it is tried again"))
        if run is None:
            called_tools = shown.run.called_tools
            run = self._takeover.run_after(shown.ended, shown.name, number, called_tools=called_tools)
        return None if run is None else self._display(run, index)

    def _wake(self) -> None:
        try:
            os.write(self._wake_in, b"\0")
        except BlockingIOError:
            pass  # the pipe is full, so the reader will wake anyway

    def _count(self, number: int, frame: object) -> None:
        self._stops += 1
        if self._stops > 2:
            raise KeyboardInterrupt

    def _wait(self, *more: int, is_asking: bool = False) -> bool:
        """Wait for a run, a signal, or input on `more`; return whether there is input."""
        # While a question waits for its answer, nothing is written between the question and what the user types.
        now = time.monotonic()
        times = [] if is_asking else [shown.silence.left(now) for shown in self._working()]
        times += [left for shown in self._shown if (left := shown.showing.held_left(now)) is not None]
        if self._typed_ahead is not None and (escape := self._typed_ahead.seconds_left(now)) is not None:
            times.append(escape)
        fds, ready = [self._wake_out, *more], list[int]()
        if self._live_line is not None and not is_asking:
            ready, _, _ = select.select(fds, [], [], 0)
            if not ready:  # else there is more to write first
                self._live_line.draw()
                times.append(1 - (now - self._began) % 1)
        if not ready:
            ready, _, _ = select.select(fds, [], [], min(times, default=None))
        if self._wake_out in ready:
            for number in os.read(self._wake_out, 4096):
                if number in STOPPING:
                    self._stop(number)
        return any(fd in ready for fd in more)

    def _stop(self, number: int) -> None:
        """Cancel all runs at the first signal; kill them at the second."""
        for shown in self._shown:
            if self._stopped_by:
                shown.run.kill()
            else:
                shown.run.cancel()
        self._stopped_by = self._stopped_by or number

    # --- questions ---------------------------------------------------------------------------------

    def _ask(self, shown: ShownRun, batch: list[Event]) -> None:
        if self._terminal is None:
            return
        for event in batch:
            if isinstance(event, QuestionAsked) and event.blocking:
                shown.questions[event.id] = event
            elif isinstance(event, QuestionAnswered):
                shown.questions.pop(event.id, None)
        if shown.ended:
            shown.questions.clear()
        for question in list(shown.questions.values()):
            del shown.questions[question.id]
            if self._awaits(shown, question):
                self._write(self._shown.index(shown), shown.showing.pause())
                with self._typed_ahead.lent() if self._typed_ahead is not None else contextlib.nullcontext():
                    self._ask_person(self._terminal, shown, question)

    def _ask_person(self, terminal: Terminal, shown: ShownRun, question: QuestionAsked) -> None:
        """Ask until there is an answer. The question is written once: to stderr, unless the output there shows it."""
        if self._options.to != "text" or not os.isatty(1):
            self._errors.write(question_text(shown.name, question, shown.run.spec.cwd))
        while self._awaits(shown, question):
            terminal.forget_input()
            self._errors.write(prompt_text(shown.name, question))
            line = self._line(terminal, shown, question)
            if not line.endswith("\n"):
                self._errors.write("\n")  # the input or the question has ended: further output begins on its own line
            if not line:
                if self._awaits(shown, question):
                    shown.run.answer(question.id, REJECT)
                return
            answer = resolve(question, line, numbered=True)
            if answer is not None:
                shown.run.answer(question.id, answer.option or answer.text or REJECT)
                return
            self._errors.write(correction_text(line, question))

    def _awaits(self, shown: ShownRun, question: QuestionAsked) -> bool:
        """Return whether the question is still open: no signal came, and the agent has not ended or withdrawn it."""
        return not self._stopped_by and shown.run.awaits(question.id)

    def _line(self, terminal: Terminal, shown: ShownRun, question: QuestionAsked) -> str:
        """Return the line that the user types; "" at the end of the input, or if the answer is no longer needed."""
        data = b""
        while not data.endswith(b"\n") and len(data) < MAX_LINE_BYTES and self._awaits(shown, question):
            if self._wait(terminal.fd, is_asking=True):
                piece = terminal.read()
                if not piece:
                    break
                data += piece
        return data.decode(errors="replace") if self._awaits(shown, question) else ""

    def _print_files(self) -> None:
        for shown in self._shown:
            if shown.history is not None and shown.history.error is not None and os.isatty(2):
                notify_problem(f"{History(data_path()).path} cannot be written: {shown.history.error.strerror}")
            if shown.run.spec.record is not None and self._kind == "run":  # runs of documents are always recorded
                notify_problem(f"{shown.name}: recorded in {shown.run.record}")
        if self._keeper is not None:
            self._keeper.over()
