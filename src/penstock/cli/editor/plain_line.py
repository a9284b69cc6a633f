"""Lines of a terminal that can only append: read with the editing of the system, or of `readline`."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

from penstock.cli.console import notify

PROMPT = "\nNext prompt (/stop or Ctrl-D ends, /model NAME changes the model):\n> "

WAKE_SECONDS = 0.1
"""Seconds between two interruptions of the wait for a key. A Ctrl-C that the wait missed is noticed after this time."""


class PlainLines:
    """Reader of prompts, one line each."""

    def read(self, text: str = "") -> str:
        """Ask for a line; return it. `text` is what should be in the line, which this reader cannot do.

        Ctrl-C discards the line being typed; at an empty line it ends the conversation.

        Raises:
            EOFError: the input has ended, or Ctrl-C at an empty line.
        """
        while True:
            try:
                return read_line(PROMPT)
            except EOFError:
                notify("\n")
                raise
            except KeyboardInterrupt:
                notify("\n")
                if not _is_half_typed():
                    raise EOFError from None

    def remember(self, text: str) -> None:
        """Do nothing: `readline` itself remembers what was typed."""


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
