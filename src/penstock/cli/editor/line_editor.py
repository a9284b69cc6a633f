"""Line editor of a conversation, with `prompt_toolkit`. It owns the input line while no agent works, and nothing else.

What is above the line stays as it is: the editor draws only below, and removes what it has drawn but for the line. It
never asks the terminal for a position, because the answer would arrive among the keys.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import termios
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any, NoReturn, Protocol

from prompt_toolkit import PromptSession
from prompt_toolkit.application.current import get_app
from prompt_toolkit.completion import CompleteEvent, get_common_complete_suffix
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, has_completions, has_focus
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.shortcuts import CompleteStyle
from prompt_toolkit.styles import Style

from penstock.cli.console import notify
from penstock.cli.editor.live_line import fitting
from penstock.cli.editor.prompt_history import PromptHistory
from penstock.cli.editor.reflow import Reflow, SizedOutput
from penstock.cli.editor.suggestions import Suggestions
from penstock.cli.editor.typed_ahead import in_foreground
from penstock.cli.exit_status import SIGNAL_BASE
from penstock.events import AgentCommand
from penstock.repo.directory_files import DirectoryFiles

ENDING = (signal.SIGTERM, signal.SIGHUP)
"""Signals that end the program; the terminal gets its modes back first."""

LEAVES = "Ctrl-C again, or Ctrl-D, leaves.\n"


class NextRun(Protocol):
    """Agent, model and level of the next run."""

    offered: Sequence[AgentCommand]
    """Commands that the agent offers."""

    def status(self) -> list[str]:
        """Return them for the line below the prompt, the most important first."""
        ...

    def step_level(self) -> str:
        """Change the level to the next one."""
        ...


class LineEditor:
    """Reader of prompts from a terminal.

    Args:
        history: earlier prompts of the directory.
        files: files of the directory.
        commands: what each command does, by its name.
        values: function that returns the values of a command's argument.
        next_run: agent, model and level of the next run, which are shown below the line.
        color: whether colours are used.
    """

    def __init__(
        self,
        history: PromptHistory,
        files: DirectoryFiles,
        commands: Mapping[str, str],
        values: Callable[[str], Sequence[str]],
        next_run: NextRun,
        *,
        color: bool,
    ) -> None:
        self._next_run = next_run
        self._color = color
        self._kept = _KeptPrompts(history)
        self._is_warned = False
        self._ended_by = 0
        """Number of the signal that ended the editor; 0 for none."""
        suggestions, output = Suggestions(files, commands, values, lambda: next_run.offered), SizedOutput()
        self._session: PromptSession[str] = PromptSession(
            "> ",
            multiline=True,
            prompt_continuation="  ",
            history=self._kept,
            completer=suggestions,
            complete_in_thread=True,
            complete_while_typing=Condition(lambda: suggestions.may_follow(get_app().current_buffer.document)),
            complete_style=CompleteStyle.COLUMN,
            reserve_space_for_menu=len(commands) + 1,
            key_bindings=self._keys(suggestions),
            enable_suspend=True,
            tempfile_suffix=".md",
            color_depth=None if color else ColorDepth.DEPTH_1_BIT,
            output=output,
            bottom_toolbar=lambda: self._status(output.get_size().columns - 1),
            style=Style.from_dict({"bottom-toolbar": "noreverse"}),
        )
        self._session.default_buffer.on_text_changed += self._unwarn
        self._session.app.terminal_size_polling_interval = None  # a signal tells it; drawing twice flickers
        Reflow(self._session.app, output)

    def read(self, text: str = "") -> str:
        """Ask for a prompt, with this text in the line; return it.

        Raises:
            EOFError: the user leaves, or the terminal hung up.
            SystemExit: a signal ended the program.
        """
        notify("\n")
        modes = _modes()
        before = {number: signal.getsignal(number) for number in ENDING}
        try:
            while True:
                try:
                    line = self._ask(text)
                except KeyboardInterrupt:
                    if self._is_warned:
                        raise EOFError from None
                    self._is_warned, text = True, ""
                    notify(LEAVES)
                else:
                    self._is_warned = False
                    return line
        except SystemExit:  # a signal, wherever it came: the editor may not have put the terminal back
            if modes is not None and in_foreground(0):
                with contextlib.suppress(OSError, termios.error):
                    termios.tcsetattr(0, termios.TCSANOW, modes)
            raise
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _ask(self, text: str) -> str:
        """Return what was typed.

        Raises:
            SystemExit: a signal ended the program. It counts whatever else went wrong, as the terminal may be gone.
        """
        self._ended_by = 0
        for number in ENDING:
            signal.signal(number, _end)
        try:
            return self._session.prompt(default=text, pre_run=self._follow_signals)
        finally:
            if self._ended_by:
                raise SystemExit(SIGNAL_BASE + self._ended_by)

    def _follow_signals(self) -> None:
        """Let signals end the editor between two steps of its loop: raised within one, they could leave it waiting."""
        loop = asyncio.get_running_loop()
        for number in ENDING:
            loop.add_signal_handler(number, self._leave, number)

    def _leave(self, number: int) -> None:
        self._ended_by = number
        with contextlib.suppress(Exception):  # it has ended already
            self._session.app.exit(exception=EOFError)

    def remember(self, text: str) -> None:
        """Remember a prompt from elsewhere, to be recalled by keys."""
        self._kept.append_string(text)

    def _status(self, width: int) -> ANSI:
        """Return the line below the prompt, for this number of columns."""
        text = fitting([*self._next_run.status(), "Shift-Tab changes the level"], width)
        return ANSI(f"\x1b[2m{text}\x1b[0m" if self._color else text)

    def _unwarn(self, _: object) -> None:
        self._is_warned = False

    def _keys(self, suggestions: Suggestions) -> KeyBindings:
        """Return the keys that differ from those of the library."""
        keys = KeyBindings()
        in_line = has_focus(DEFAULT_BUFFER)
        has_text = Condition(lambda: bool(get_app().current_buffer.text))

        @keys.add("enter", filter=in_line)
        def send(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
                buffer.complete_state = None  # the completion is chosen; another Enter sends the prompt
            else:
                buffer.validate_and_handle()

        @keys.add("escape", "enter", filter=in_line)
        def break_line(event: KeyPressEvent) -> None:
            event.current_buffer.newline(copy_margin=False)

        @keys.add("c-c", filter=in_line & has_text)
        @keys.add("<sigint>", filter=in_line & has_text)
        def clear(event: KeyPressEvent) -> None:
            event.current_buffer.reset()

        @keys.add("tab", filter=in_line)
        def complete(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            if buffer.complete_state is not None:
                buffer.complete_next()
                return
            # Not in a thread: keys that follow at once are meant for the line with the completion.
            requested = CompleteEvent(completion_requested=True)
            found = list(suggestions.get_completions(buffer.document, requested))
            if len(found) == 1:
                buffer.apply_completion(found[0])
            elif found:
                buffer.insert_text(get_common_complete_suffix(buffer.document, found), fire_event=False)
                buffer.start_completion()

        @keys.add("s-tab", filter=in_line & ~has_completions)
        def step_level(event: KeyPressEvent) -> None:
            self._next_run.step_level()

        @keys.add("c-x", "c-e", filter=in_line)
        def edit(event: KeyPressEvent) -> None:
            event.current_buffer.open_in_editor()

        return keys


class _KeptPrompts(History):
    """Earlier prompts, as the library wants them."""

    def __init__(self, history: PromptHistory) -> None:
        super().__init__()
        self._history = history

    def load_history_strings(self) -> list[str]:
        """Return the prompts, the newest first."""
        return self._history.load()[::-1]

    def store_string(self, string: str) -> None:
        """Keep a prompt."""
        self._history.append(string)


def _modes() -> list[Any] | None:
    """Return the modes of the terminal; None if there is none."""
    try:
        return termios.tcgetattr(0)
    except (OSError, termios.error):
        return None


def _end(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(SIGNAL_BASE + number)
