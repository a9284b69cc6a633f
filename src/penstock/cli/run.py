"""`penstock run`: run one agent or several side by side, and show their work until they end or a signal stops them."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.agents.registry import AGENTS
from penstock.cli import piped
from penstock.cli.ask import MAX_LINE_BYTES, Terminal, can_ask, correction_text, prompt_text, question_text
from penstock.cli.console import Output, notify_problem, stdout_encoding
from penstock.cli.display import Showing, Sink, make_sink
from penstock.cli.exit_status import SIGNAL_BASE
from penstock.cli.options import RunOptions, display_flags, run_flags
from penstock.cli.parser import Parser
from penstock.cli.read import configured
from penstock.cli.report import report, status_of, table
from penstock.config.data import data_path
from penstock.core.questions import REJECT, resolve
from penstock.errors import UsageError
from penstock.events import Event, QuestionAnswered, QuestionAsked, RunEnded
from penstock.run.history import History, HistoryWriter, record_of

if TYPE_CHECKING:
    from penstock.config.settings import Config
    from penstock.core.health import Health
    from penstock.run.run import Run

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


RUN_EXAMPLES = """\
examples:
  penstock run claude "fix the failing test" --model sonnet
  penstock run claude --continue "now write the docs"       go on with the newest conversation here
  penstock run codex - < PROMPT.md --session 019a… --fork --record runs/
  answer=$(penstock run codex "summarise README.md" --to reply)
  git diff | penstock run claude,codex "review this"        side by side, both with what is piped in
  penstock run ccs/glm "…"                                  a profile of ccs
  penstock run acp:"PROGRAM --acp" "…"                      any program that speaks ACP
  penstock run claude -- "- a prompt that begins with a dash"

exit status:
  0 the run ended well · 1 the agent reported an error, or said nothing · 2 wrong usage · 3 cut off
  124 a time limit · 126 cannot be executed · 127 not installed · 130 interrupted · of several, the highest
"""


def command(args: list[str]) -> int:
    """Run `penstock run` and return the exit status."""
    options = _options(args)
    config = configured()
    runs = make_runs(options, config, notify_problem)
    output = Output(1, stdout_encoding() if options.to == "text" else "utf-8")
    return RunCommand(runs, options, config, output, Output(2, stdout_encoding())).show()


def _options(args: list[str]) -> RunOptions:
    text = "Start an agent, or several side by side, give it a prompt, and show what it does."
    parser = Parser("run", text, examples=RUN_EXAMPLES, arguments="AGENT[,AGENT…] [PROMPT] [options]")
    add = parser.add_argument
    add("agents", metavar="AGENT", help="see penstock agents; also AGENT/PROFILE and acp:COMMAND")
    add("prompt", nargs="?", metavar="PROMPT", help="prompt, in quotes; without it, or with -, it is read from stdin")
    add("--stdin", choices=("auto", "never"), default="auto", help="auto: add piped input to the prompt (default) "
        "· never: do not read stdin, as in a loop over lines")  # fmt: skip
    add("--continue", "-c", dest="resumes_newest", action="store_true",
        help="resume the newest conversation of the agent in this directory; see penstock sessions")  # fmt: skip
    fields = run_flags(parser)
    display_flags(parser)
    words = vars(parser.parse(args))
    asked = {name: words.pop(name) for name in fields}
    asked["env"] = {name: value for name, _, value in (text.partition("=") for text in asked["env"])}
    if words["resumes_newest"] and asked["session_id"] is not None:
        parser.error("--continue and --session both name a conversation; leave one of them out")
    if asked["fork"] and asked["session_id"] is None and not words["resumes_newest"]:
        parser.error("there is nothing to fork: --fork needs --continue or --session ID, the conversation to branch")
    return RunOptions(**words, asked=asked)


def make_runs(options: RunOptions, config: Config, notify: piped.Notify) -> list[Run]:
    """Return the runs that the options ask for, none of them started. `notify` gets messages to the user meanwhile.

    Raises:
        UsageError: a part of the request cannot be done.
        AgentNotFound: one of the agents is not installed.
    """
    from penstock.run.agent import Agent

    names = [name.strip() for name in split_names(options.agents)]
    if len(names) > 1 and (options.label or options.to == "chunks"):
        what, way = (
            ("--label names", "each has its own name") if options.label else ("--to chunks shows", "--to ndjson")
        )
        raise UsageError(f"{what} one agent, and there are {len(names)}", help=way)
    if len(names) > 1 and options.asked["session_id"]:
        raise UsageError("a session belongs to one agent", expected=f"one agent with --session, not {len(names)}")
    sessions = [_newest_session(name, options) if options.resumes_newest else None for name in names]
    prompt, stdin_text = _prompt(options, notify)
    ask = can_ask()
    runs = []
    for number, (name, session_id) in enumerate(zip(names, sessions, strict=True), 1):
        asked = {**options.asked, "session_id": session_id} if session_id is not None else options.asked
        label = options.label or (f"{name}-{names[:number].count(name)}" if names.count(name) > 1 else None)
        runs.append(
            Agent(name, {}, config).run(
                prompt,
                stdin_text=stdin_text,
                label=label,
                ask=ask,
                number=number if len(names) > 1 else None,
                **asked,
            )
        )
    return runs


def _newest_session(agent: str, options: RunOptions) -> str:
    """Return the newest conversation of an agent in the directory of the run.

    Raises:
        UsageError: there is none.
    """
    history = History(data_path())
    try:
        newest = history.newest(agent, options.asked["cwd"] or os.getcwd())
    except OSError as error:
        raise UsageError(f"{history.path} cannot be read: {error.strerror}") from error
    if newest is None or newest.session_id is None:
        raise UsageError(
            f"{agent} has no earlier conversation in this directory",
            help="penstock sessions lists those of all agents, penstock sessions --all those of all directories",
        )
    return newest.session_id


def split_names(agents: str) -> list[str]:
    """Return the names of a comma-separated list; a command after `acp:` keeps its commas."""
    names: list[str] = []
    for word in agents.split(","):
        if names and names[-1].startswith("acp:") and word.partition("/")[0].strip() not in AGENTS:
            names[-1] += "," + word
        else:
            names.append(word)
    return names


def _prompt(options: RunOptions, notify: piped.Notify) -> tuple[str, str]:
    """Return the prompt, and the text from stdin that accompanies it."""
    word = options.prompt
    if word is not None and word != "-":
        return word, piped.read_beside(notify) if word.strip() and options.stdin == "auto" else ""
    if word is None and os.isatty(0):
        raise UsageError("there is no prompt", expected="it after the agent's name, or from stdin")
    if options.stdin == "never":
        raise UsageError("--stdin never leaves no prompt", expected="one after the agent's name")
    return piped.read_prompt(notify), ""


class ShownRun:
    """A run, and its display."""

    def __init__(self, run: Run, showing: Showing) -> None:
        self.run = run
        self.showing = showing
        self.questions: dict[str, QuestionAsked] = {}
        """Questions that wait for an answer."""
        self.recorder: HistoryWriter | None = None
        """Writer of its lines of the history, once it has started."""

    @property
    def name(self) -> str:
        """Name for people."""
        return self.run.label

    @property
    def plain(self) -> bool:
        """Return whether the output is plain text: never, as the agent is known."""
        return False

    @property
    def health(self) -> Health:
        """Health of its stream."""
        return self.run.health

    @property
    def ended(self) -> RunEnded | None:
        """Last event of the run; None before it."""
        return self.showing.ended


class RunCommand:
    """Display of runs until all have ended. Use `show`."""

    def __init__(
        self, runs: Sequence[Run], options: RunOptions, config: Config, output: Output, errors: Output
    ) -> None:
        several = len(runs) > 1

        def sink(name: str | None) -> Sink:
            return make_sink(options, config, name, several=several)

        self._shown = [ShownRun(run, Showing(sink)) for run in runs]
        self._keeps_history = config.keeps_history
        self._options = options
        self._output = output
        self._errors = errors
        self._stopped_by = 0  # the signal
        self._stops = 0
        self._wake_out, self._wake_in = -1, -1
        self._terminal: Terminal | None = None

    def show(self) -> int:
        """Run all of them to their ends and return the exit status.

        Signals and wake-ups of the runs arrive through one pipe, so that a signal does not interrupt anything halfway.

        Raises:
            AgentNotFound: one of them cannot be executed; the others are ended.
            BrokenPipeError: the reader of the output has closed the pipe; all are ended.
            KeyboardInterrupt: the third signal, for a user whose terminal is blocked; all are ended.
        """
        self._wake_out, self._wake_in = os.pipe()
        os.set_blocking(self._wake_in, False)
        os.set_blocking(self._wake_out, False)
        wakeup = signal.set_wakeup_fd(self._wake_in, warn_on_full_buffer=False)
        # Signals that the caller ignores stay ignored: `nohup` ignores some, and so does a shell for background jobs.
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
                if self._keeps_history:
                    shown.recorder = HistoryWriter(History(data_path()), record_of(shown.run))
            while not all(shown.ended for shown in self._shown):
                self._turn()
        finally:
            for shown in self._shown:
                shown.run.stop()
        report([*self._shown], self._options, self._output, self._errors)
        self._print_files()
        if len(self._shown) > 1 and self._options.to == "text":
            self._errors.write(table([(shown.name, shown.ended) for shown in self._shown]))
        return SIGNAL_BASE + self._stopped_by if self._stopped_by else status_of(self._shown, interrupted=False)

    def _turn(self) -> None:
        for shown in self._shown:
            while batch := shown.run.poll():
                if shown.recorder is not None:
                    shown.recorder.apply_batch(batch)
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
            pass  # the pipe is full, so the reader will wake anyway

    def _count(self, number: int, frame: object) -> None:
        self._stops += 1
        if self._stops > 2:
            raise KeyboardInterrupt

    def _wait(self, *more: int) -> bool:
        """Wait for a run, a signal, or input on `more`; return whether there is input."""
        ready, _, _ = select.select([self._wake_out, *more], [], [])
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
                self._output.write(shown.showing.pause())
                self._ask_person(self._terminal, shown, question)

    def _ask_person(self, terminal: Terminal, shown: ShownRun, question: QuestionAsked) -> None:
        """Ask until there is an answer. The question is written once: to stderr, unless the output shows it there."""
        if self._options.to != "text" or not os.isatty(1):
            self._errors.write(question_text(shown.name, question))
        while self._awaits(shown, question):
            terminal.forget_input()
            self._errors.write(prompt_text(shown.name, question))
            line = self._line(terminal, shown, question)
            if not line.endswith("\n"):
                self._errors.write("\n")  # end of the input or of the question: further output begins on its own line
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
        """Return the line that the user types; "" at the end of the input, or if the answer is no longer useful."""
        data = b""
        while not data.endswith(b"\n") and len(data) < MAX_LINE_BYTES and self._awaits(shown, question):
            if self._wait(terminal.fd):
                piece = terminal.read()
                if not piece:
                    break
                data += piece
        return data.decode(errors="replace") if self._awaits(shown, question) else ""

    def _print_files(self) -> None:
        for shown in self._shown:
            if shown.recorder is not None and shown.recorder.error is not None and os.isatty(2):
                self._errors.write(f"penstock: the history cannot be written: {shown.recorder.error}\n")
            if shown.run.record is not None:
                self._errors.write(f"penstock: {shown.name}: recorded in {shown.run.record}\n")
