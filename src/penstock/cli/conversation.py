"""`penstock run --interactive`: a conversation in a terminal, one run for each prompt."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

import msgspec

from penstock.cli.console import notify, notify_problem
from penstock.errors import UsageError

if TYPE_CHECKING:
    from penstock.cli.options import RunOptions

PROMPT = "\nNext prompt (/stop or Ctrl-D ends, /model NAME changes the model):\n> "

WAKE_SECONDS = 0.1
"""Seconds between two interruptions of the wait for a key. A Ctrl-C that the wait missed is noticed after this time."""


class OneRun(Protocol):
    """Run of one prompt, with its display."""

    @property
    def session_id(self) -> str | None:
        """Conversation of the run, once it has ended."""
        ...

    def show(self) -> int:
        """Run it to its end and return the exit status."""
        ...


def check_interactive(options: RunOptions) -> None:
    """Check that a conversation is possible.

    Raises:
        UsageError: it is not.
    """
    if options.to != "text":
        raise UsageError(
            f"--interactive is for people, and --to {options.to} for programs", help="leave one of them out"
        )
    if "," in options.agents or options.fallback:
        raise UsageError("--interactive talks to one agent", help="name one agent, without --fallback")
    if not (os.isatty(0) and os.isatty(1)):
        raise UsageError("--interactive asks for prompts, and there is no terminal", help="leave it out")


def converse(options: RunOptions, run: Callable[[RunOptions], OneRun]) -> int:
    """Run one prompt after another in one conversation; return the exit status of the last run."""
    status = 0
    has_prompt = options.prompt is not None or (options.template is not None and not options.template.needs_prompt)
    following = options if has_prompt else _next(options)
    while following is not None:
        options = following
        one = run(options)
        status = one.show()
        if one.session_id is None:
            notify_problem("the agent did not report its conversation, so it cannot be resumed")
            break
        asked = {**options.asked, "session_id": one.session_id, "fork": False, "files": []}
        following = _next(
            msgspec.structs.replace(options, asked=asked, resumes_newest=False, stdin="never", template=None)
        )
    return status


def _next(options: RunOptions) -> RunOptions | None:
    """Return the options with the next prompt and the model that the user wants; None at the end.

    Ctrl-C discards the line being typed; at an empty line it ends the conversation.
    """
    while True:
        try:
            words = read_line(PROMPT).strip()
        except EOFError:
            notify("\n")
            return None
        except KeyboardInterrupt:
            notify("\n")
            if not _is_half_typed():
                return None
            continue
        name, _, rest = words.partition(" ")
        if name == "/stop":
            return None
        if name == "/model":
            model = rest.strip() or None
            options = msgspec.structs.replace(options, asked={**options.asked, "model": model})
            notify(f"The model of the next prompt is {model or 'the default one of the agent'}.\n")
        elif words:
            return msgspec.structs.replace(options, prompt=words)


def _is_half_typed() -> bool:
    """Return whether the line interrupted by Ctrl-C has text."""
    try:
        import readline
    except ImportError:
        return False
    return bool(readline.get_line_buffer().strip())


def read_line(prompt: str) -> str:
    """Read a line from the terminal after a prompt, with keys to edit it and to recall earlier lines.

    Raises:
        EOFError: the input has ended.
        KeyboardInterrupt: Ctrl-C was pressed.
    """
    try:
        import readline  # `input` uses it once it is imported
    except ImportError:
        pass
    else:
        readline.parse_and_bind("set enable-bracketed-paste on")  # pasted lines are one prompt, sent by Enter
    with _wakes():
        return input(prompt)


@contextlib.contextmanager
def _wakes() -> Iterator[None]:
    """Interrupt system calls of the main thread at intervals.

    `input` handles a signal only when the signal interrupts its wait for a key. Without these interruptions, a Ctrl-C
    that arrives while `input` draws the prompt or the last key, or in another thread, would have no effect until the
    next key.
    """
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    signal.siginterrupt(signal.SIGALRM, False)  # a write is resumed; the wait for a key is still interrupted
    signal.setitimer(signal.ITIMER_REAL, WAKE_SECONDS, WAKE_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
