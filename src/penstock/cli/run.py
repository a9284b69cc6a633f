"""The shell of `penstock run`: one agent or several side by side, shown as they work, stopped when told to."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.agents.registry import AGENTS
from penstock.cli import piped
from penstock.cli.ask import MAX_LINE_BYTES, Terminal, can_ask, correction_text, prompt_text, question_text
from penstock.cli.console import columns
from penstock.cli.read import Showing, make_sink, report, status_of
from penstock.core.questions import REJECT, resolve
from penstock.errors import UsageError
from penstock.events import Event, QuestionAnswered, QuestionAsked, RunEnded

if TYPE_CHECKING:
    from penstock.cli.console import Output
    from penstock.cli.read import Options, RunOptions, Sink
    from penstock.config.settings import Config
    from penstock.core.health import Health
    from penstock.run.run import Run

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
STOPPED_BASE = 128
"""A shell's exit status for a program that a signal ended is this and the signal's number."""


def make_runs(options: RunOptions, config: Config, notify: piped.Notify) -> list[Run]:
    """The runs that were asked for, none of them started. `notify` gets what the user should know meanwhile.

    Raises:
        UsageError: something of it cannot be done.
        AgentNotFound: one of the agents is not installed.
    """
    from penstock.run.agent import Agent

    names = [name.strip() for name in split_names(options.agents)]
    if len(names) > 1 and (options.label or options.to == "chunks"):
        what, way = (
            ("--label names", "each has its own name") if options.label else ("--to chunks shows", "--to ndjson")
        )
        raise UsageError(f"{what} one agent, and there are {len(names)}", way_out=way)
    if len(names) > 1 and options.session:
        raise UsageError("a session belongs to one agent", expected=f"one agent with --session, not {len(names)}")
    prompt, stdin_text = _prompt(options, notify)
    env = {name: value for name, _, value in (text.partition("=") for text in options.env)}
    ask = can_ask()
    runs = []
    for number, name in enumerate(names, 1):
        agent = Agent(name, {}, config)
        runs.append(
            agent.run(
                prompt,
                session_id=options.session,
                fork=options.fork,
                model=options.model,
                stdin_text=stdin_text,
                route=options.route,
                label=options.label or (f"{name}-{names[:number].count(name)}" if names.count(name) > 1 else None),
                allow=options.allow,
                cwd=options.cwd,
                env=env,
                args=options.args,
                timeout=options.timeout,
                idle_timeout=options.idle_timeout,
                record=options.record,
                ask=ask,
                number=number if len(names) > 1 else None,
                trust=options.trust,
            )
        )
    return runs


def split_names(agents: str) -> list[str]:
    """The names of a list with commas; a command after `acp:` keeps the commas that it has."""
    names: list[str] = []
    for word in agents.split(","):
        if names and names[-1].startswith("acp:") and word.partition("/")[0].strip() not in AGENTS:
            names[-1] += "," + word
        else:
            names.append(word)
    return names


def _prompt(options: RunOptions, notify: piped.Notify) -> tuple[str, str]:
    """The prompt, and the text from stdin that goes with it."""
    word = options.prompt
    if word is not None and word != "-":
        return word, piped.read_beside(notify) if word.strip() and options.stdin == "auto" else ""
    if word is None and os.isatty(0):
        raise UsageError("there is no prompt", expected="it after the agent's name, or from stdin")
    if options.stdin == "never":
        raise UsageError("--stdin never leaves no prompt", expected="one after the agent's name")
    return piped.read_prompt(notify), ""


class Shown:
    """A run, and what is shown of it."""

    def __init__(self, run: Run, showing: Showing) -> None:
        self.run = run
        self.showing = showing
        self.questions: dict[str, QuestionAsked] = {}
        """Questions that wait for an answer."""

    @property
    def name(self) -> str:
        """What people call it."""
        return self.run.label

    @property
    def health(self) -> Health:
        """How its stream is."""
        return self.run.health

    @property
    def ended(self) -> RunEnded | None:
        """Its last event, once it has come."""
        return self.showing.ended


class Shell:
    """Shows runs until all have ended. Use `show`."""

    def __init__(self, runs: Sequence[Run], options: Options, config: Config, output: Output, errors: Output) -> None:
        several = len(runs) > 1

        def sink(name: str | None) -> Sink:
            return make_sink(options, config, name, several=several)

        self._shown = [Shown(run, Showing(sink)) for run in runs]
        self._options = options
        self._output = output
        self._errors = errors
        self._stopped_by = 0  # the signal
        self._stops = 0
        self._wake_out, self._wake_in = -1, -1
        self._terminal: Terminal | None = None

    def show(self) -> int:
        """Run all of them to their ends; the exit status.

        Signals and news of the runs come through one pipe, so that a signal interrupts nothing half way.

        Raises:
            AgentNotFound: one of them cannot be executed; the others are ended.
            BrokenPipeError: nobody reads the output any more; all are ended.
            KeyboardInterrupt: the third signal, for somebody whose terminal stands still; all are ended.
        """
        self._wake_out, self._wake_in = os.pipe()
        os.set_blocking(self._wake_in, False)
        os.set_blocking(self._wake_out, False)
        wakeup = signal.set_wakeup_fd(self._wake_in, warn_on_full_buffer=False)
        # What the caller has ignored stays so: `nohup` does, and a shell for what runs in the background.
        heeded = [number for number in STOPPING if signal.getsignal(number) is not signal.SIG_IGN]
        previous = {number: signal.signal(number, self._count) for number in heeded}
        self._terminal = Terminal.find()
        try:
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
            for shown in self._shown:
                shown.run.start()
                shown.run.on_news(self._wake)
            while not all(shown.ended for shown in self._shown):
                self._turn()
        finally:
            for shown in self._shown:
                shown.run.stop()
        report([*self._shown], self._options, self._output, self._errors)
        self._tell_records()
        if len(self._shown) > 1 and self._options.to == "text":
            self._errors.write(table([(shown.name, shown.ended) for shown in self._shown]))
        return STOPPED_BASE + self._stopped_by if self._stopped_by else status_of(self._shown, interrupted=False)

    def _turn(self) -> None:
        for shown in self._shown:
            while batch := shown.run.poll():
                self._output.write(shown.showing.render(batch, shown.run.agent))
                self._ask(shown, batch)
            if shown.ended:
                self._output.write(shown.showing.pause())
        if not all(shown.ended for shown in self._shown):
            self._wait()

    def _wake(self) -> None:
        try:
            os.write(self._wake_in, b"\0")
        except BlockingIOError:
            pass  # it will wake as it is

    def _count(self, number: int, frame: object) -> None:
        self._stops += 1
        if self._stops > 2:
            raise KeyboardInterrupt

    def _wait(self, *more: int) -> bool:
        """Wait for news, a signal, or something to be read; whether there is something to be read."""
        ready, _, _ = select.select([self._wake_out, *more], [], [])
        if self._wake_out in ready:
            for number in os.read(self._wake_out, 4096):
                if number in STOPPING:
                    self._stop(number)
        return any(fd in ready for fd in more)

    def _stop(self, number: int) -> None:
        """The first time agents are asked to stop, the second time they are killed."""
        for shown in self._shown:
            if self._stopped_by:
                shown.run.kill()
            else:
                shown.run.cancel()
        self._stopped_by = self._stopped_by or number

    # --- questions ---------------------------------------------------------------------------------

    def _ask(self, shown: Shown, batch: list[Event]) -> None:
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
                self._output.write(shown.showing.pause())
                self._ask_person(self._terminal, shown, question)

    def _ask_person(self, terminal: Terminal, shown: Shown, question: QuestionAsked) -> None:
        """Ask until there is an answer. The question is written once: on stderr, unless the output shows it there."""
        if self._options.to != "text" or not os.isatty(1):
            self._errors.write(question_text(shown.name, question))
        while self._awaits(shown, question):
            terminal.forget_input()
            self._errors.write(prompt_text(shown.name, question))
            line = self._line(terminal, shown, question)
            if not line.endswith("\n"):
                self._errors.write("\n")  # the end of the input, or of the question: what comes next has its own line
            if not line:
                if self._awaits(shown, question):
                    shown.run.answer(question.id, REJECT)
                return
            answer = resolve(question, line, numbered=True)
            if answer is not None:
                shown.run.answer(question.id, answer.option or answer.text or REJECT)
                return
            self._errors.write(correction_text(line, question))

    def _awaits(self, shown: Shown, question: QuestionAsked) -> bool:
        """Whether an answer is still of use: no signal came, and the agent has not ended or taken the question back."""
        return not self._stopped_by and shown.run.awaits(question.id)

    def _line(self, terminal: Terminal, shown: Shown, question: QuestionAsked) -> str:
        """Read what a person types, up to the end of the line; "" at the end of the input, or if it is of no use."""
        data = b""
        while not data.endswith(b"\n") and len(data) < MAX_LINE_BYTES and self._awaits(shown, question):
            if self._wait(terminal.fd):
                piece = terminal.read()
                if not piece:
                    break
                data += piece
        return data.decode(errors="replace") if self._awaits(shown, question) else ""

    def _tell_records(self) -> None:
        for shown in self._shown:
            if shown.run.record is not None:
                self._errors.write(f"penstock: {shown.name}: recorded in {shown.run.record}\n")


def table(rows: Sequence[tuple[str, RunEnded | None]]) -> str:
    """What became of several runs: outcome, time, tokens, cost; a line each."""
    cells = [("", "outcome", "time", "tokens in", "out", "cost")]
    for name, ended in rows:
        if ended is not None:
            usage = ended.usage
            cells.append(
                (
                    name,
                    ended.outcome.replace("_", " "),
                    f"{(ended.at or 0) / 1000:.1f} s",
                    f"{usage.input_tokens:,}" if usage is not None and usage.input_tokens is not None else "–",
                    f"{usage.output_tokens:,}" if usage is not None and usage.output_tokens is not None else "–",
                    f"${ended.cost_usd:.2f}" if ended.cost_usd is not None else "–",
                )
            )
    return columns(cells, right_from=2)
