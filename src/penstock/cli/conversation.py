"""`penstock run --interactive`: a conversation in a terminal, one run for each prompt."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING, Protocol

from penstock.cli.console import fitted, notify, notify_error, notify_problem
from penstock.cli.exit_status import OK, SIGNAL_BASE
from penstock.errors import PenstockError, UsageError

if TYPE_CHECKING:
    from penstock.cli.editor.run_edits import RunEdits
    from penstock.cli.editor.terminal_conversation import TerminalConversation
    from penstock.cli.editor.typed_ahead import TypedAhead
    from penstock.cli.options import RunOptions
    from penstock.config.settings import Config
    from penstock.events import AgentCommand, RunEnded

ENDING = frozenset({SIGNAL_BASE + signal.SIGTERM, SIGNAL_BASE + signal.SIGHUP})
"""Exit statuses of a run after which nothing is asked: somebody wants the program to end."""

PLAIN_TERMINALS = ("", "dumb", "unknown")
"""Values of `TERM` for terminals that can only append."""

UNMARKED_PASTES = (*PLAIN_TERMINALS, "linux")
"""Values of `TERM` for terminals that do not mark what is pasted: a line of it cannot be told from a typed one."""


class OneRun(Protocol):
    """Run of one prompt, with its display."""

    @property
    def session_id(self) -> str | None:
        """Conversation of the run, once it has ended."""
        ...

    @property
    def ended(self) -> RunEnded | None:
        """Last event of the run, once it has ended."""
        ...

    @property
    def edits(self) -> RunEdits | None:
        """Files that the run changed, once it has ended."""
        ...

    @property
    def level(self) -> str:
        """What the agent may do in it, in a few words."""
        ...

    @property
    def model(self) -> str | None:
        """Model that was asked for, or that the agent has reported."""
        ...

    @property
    def commands(self) -> list[AgentCommand] | None:
        """Commands that the agent offers; None: it has listed none."""
        ...

    def show(self) -> int:
        """Run it to its end and return the exit status."""
        ...


class MakeRun(Protocol):
    """Function that makes the run of one prompt."""

    def __call__(
        self, options: RunOptions, *, title: str | None = None, typed_ahead: TypedAhead | None = None
    ) -> OneRun:
        """Return the run, not started; `title` is for the history.

        Raises:
            PenstockError: it cannot be made.
        """
        ...


class Lines(Protocol):
    """Reader of prompts."""

    def read(self, text: str = "") -> str:
        """Ask for a prompt, with this text in the line; return it.

        Raises:
            EOFError: the user leaves.
        """
        ...

    def remember(self, text: str) -> None:
        """Remember a prompt from elsewhere, to be recalled by keys."""
        ...


def begins_by_itself(options: RunOptions) -> bool:
    """Return whether these options begin a conversation without `--interactive`: nothing else could be done.

    No prompt is there, and a person at a terminal can be asked for it.
    """
    if _has_prompt(options) or options.stdin == "never" or options.worktree:
        return False
    return _problem(options) is None


def check_interactive(options: RunOptions) -> None:
    """Check that a conversation is possible.

    Raises:
        UsageError: it is not.
    """
    problem = _problem(options)
    if problem is not None:
        raise problem


def _has_prompt(options: RunOptions) -> bool:
    return options.prompt is not None or (options.template is not None and not options.template.needs_prompt)


def _problem(options: RunOptions) -> UsageError | None:
    if options.to != "text":
        return UsageError(
            f"--interactive is for people, and --to {options.to} for programs", help="leave one of them out"
        )
    if "," in options.agents or options.fallback:
        return UsageError("--interactive talks to one agent", help="name one agent, without --fallback")
    if not (os.isatty(0) and os.isatty(1)):
        return UsageError("--interactive asks for prompts, and there is no terminal", help="leave it out")
    return None


def converse(options: RunOptions, config: Config, run: MakeRun) -> int:
    """Run one prompt after another in one conversation; return the exit status of the last run."""
    from penstock.cli.editor.terminal_conversation import TerminalConversation

    conversation = TerminalConversation(options, run)
    has_prompt = _has_prompt(options)
    if not has_prompt:
        conversation.check()
    return _Conversing(conversation, config, run).go_on(has_prompt=has_prompt)


class _Conversing:
    """One conversation at work: who reads the prompts, and what is typed ahead."""

    def __init__(self, conversation: TerminalConversation, config: Config, run: MakeRun) -> None:
        self._conversation = conversation
        self._run = run
        self._config = config
        self._typed_ahead: TypedAhead | None = None
        self._lines: Lines | None = None
        if os.environ.get("TERM", "") not in PLAIN_TERMINALS:
            from penstock.cli.editor.typed_ahead import TypedAhead

            self._typed_ahead = TypedAhead(conversation.step_level)
        self._is_sent = True
        """Whether queued lines are sent. After a run that failed or was stopped, they are text of the next prompt."""

    def go_on(self, *, has_prompt: bool) -> int:
        """Run prompts until the user leaves; `has_prompt`: the first one is in the options."""
        status = OK
        prompt = None if has_prompt else self._next()
        while has_prompt or prompt is not None:
            try:
                status = self._show(prompt)
            except PenstockError as error:
                if has_prompt:
                    raise
                notify_error(error)
                self._is_sent = False
            has_prompt = False
            if status in ENDING:
                return status
            prompt = self._next()
        from penstock.cli.editor.commands import going_on
        from penstock.config.data import data_path
        from penstock.run.history import History

        notify(fitted(going_on(self._conversation, History(data_path())), 2))
        return status

    def _show(self, prompt: str | None) -> int:
        """Run one prompt to its end and return its exit status."""
        conversation = self._conversation
        options = conversation.begin(prompt)
        one = self._run(options, title=conversation.title, typed_ahead=self._typed_ahead)
        conversation.level = one.level
        with self._typed_ahead or contextlib.nullcontext():
            status = one.show()
        conversation.model = one.model
        if one.commands is not None:
            conversation.offered = one.commands
        conversation.end(one.ended, one.session_id, one.edits)
        self._is_sent = status == OK
        if conversation.session_id is None:
            notify_problem("the agent did not report its conversation, so the next prompt begins a new one")
        return status

    def _next(self) -> str | None:
        """Return the next prompt; None at the end. Commands are run."""
        from penstock.cli.editor.commands import is_command, prompt_of, run_command

        while True:
            try:
                line = self._line().strip()
            except EOFError:
                return None
            if not is_command(line):
                if line:
                    return prompt_of(line)
                continue
            try:
                if line.startswith("!") and os.environ.get("TERM", "") in UNMARKED_PASTES:
                    what = "commands of the shell are not run here: a pasted line could be one"
                    raise UsageError(what, help="use a terminal that marks what is pasted, as most do")
                if run_command(self._conversation, line):
                    return None
            except PenstockError as error:
                notify_error(error)
            except KeyboardInterrupt:
                notify("\n")

    def _line(self) -> str:
        """Return the next line: one that was queued, else one that is read now."""
        lines, typed = self._reader(), self._typed_ahead
        if typed is None:
            return lines.read()
        if typed.queued and self._is_sent:
            line = typed.queued.pop(0)
            notify("\n> " + line.replace("\n", "\n  ") + "\n")  # as the editor shows it
            lines.remember(line)
            return line
        text = typed.take_text(with_queued=not self._is_sent)
        self._is_sent = True
        return lines.read(text)

    def _reader(self) -> Lines:
        """Return the reader of prompts; it is made when the first prompt is needed."""
        if self._lines is None:
            with self._typed_ahead or contextlib.nullcontext():  # what is typed until then is not shown twice
                self._lines = self._make_reader()
        return self._lines

    def _make_reader(self) -> Lines:
        if self._typed_ahead is None:
            from penstock.cli.editor.plain_line import PlainLines

            return PlainLines()
        from penstock.cli.display import decide
        from penstock.cli.editor.commands import HELP, values
        from penstock.cli.editor.line_editor import LineEditor
        from penstock.cli.editor.prompt_history import PromptHistory
        from penstock.config.data import data_path
        from penstock.repo.directory_files import DirectoryFiles

        options, directory = self._conversation.options, self._conversation.directory
        history = PromptHistory(data_path() if self._config.keeps_history else None, directory)
        color = decide(options, self._config, several=False).color
        text = f"\nA conversation with {self._conversation.agent}: /help lists commands and keys, Ctrl-D leaves.\n"
        notify(fitted(text, 2))
        return LineEditor(
            history, DirectoryFiles(directory), HELP, values(self._config), self._conversation, color=color
        )
