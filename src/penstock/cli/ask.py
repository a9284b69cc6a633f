"""Questions of agents, asked of the person at the terminal."""

from __future__ import annotations

import os
import termios

from penstock.core.questions import ASKS, SHORT_WORDS, expected, numbers, short_words
from penstock.events import QuestionAsked
from penstock.sinks.sanitize import clean, clean_line

MAX_LINE_BYTES = 4096
"""A terminal hands over no longer line; a program behind it that never ends one is not waited for."""


class Terminal:
    """The terminal at which a person answers. Use `find`."""

    def __init__(self, fd: int, *, own: bool) -> None:
        self.fd = fd
        self._own = own

    @classmethod
    def find(cls) -> Terminal | None:
        """Open the terminal of the person who reads stderr: stdin, or `/dev/tty` if stdin is something else.

        None if stderr is no terminal, or there is none to read from. In the background only stdin is taken:
        reading from `/dev/tty` there would stop a job whose input was given elsewhere.
        """
        if not os.isatty(2):
            return None
        if os.isatty(0):
            return cls(0, own=False)
        try:
            fd = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError:
            return None
        terminal = cls(fd, own=True)
        try:
            if os.tcgetpgrp(fd) == os.getpgrp():
                return terminal
        except OSError:
            pass  # no longer the terminal of this process
        terminal.close()
        return None

    def forget_input(self) -> None:
        """Drop what was typed so far: it cannot answer what was not asked yet."""
        try:
            termios.tcflush(self.fd, termios.TCIFLUSH)
        except termios.error:
            pass  # it hung up; reading from it will say so

    def read(self) -> bytes:
        """Read one byte, once there is one; b"" at the end of the input."""
        try:
            return os.read(self.fd, 1)
        except OSError:
            return b""  # it hung up

    def close(self) -> None:
        """Close what `find` opened."""
        if self._own:
            os.close(self.fd)


def can_ask() -> bool:
    """Whether a person can be asked."""
    terminal = Terminal.find()
    if terminal is not None:
        terminal.close()
    return terminal is not None


def question_text(name: str, question: QuestionAsked) -> str:
    """Lay the question out for stderr, made harmless: its text is the agent's, so no line of it can look like ours."""
    text = clean(question.text).replace("\n", "\n    ")
    lines = [f"  {number}. {clean_line(option.label)}\n" for number, option in enumerate(question.options or (), 1)]
    return f"penstock: {name} {ASKS[question.ask]}: {text}\n{''.join(lines)}"


def prompt_text(name: str, question: QuestionAsked) -> str:
    """Make the line behind which the answer is typed."""
    short = [f"{key} {SHORT_WORDS[key]}" for key in short_words(question)]
    ways = [numbers(question), *short] + ["or your own words"] * question.free_text
    return f"Answer {name} ({', '.join(filter(None, ways))}): "


def correction_text(line: str, question: QuestionAsked) -> str:
    """Say why a line was no answer."""
    word = clean_line(line.strip())
    what = f'"{word[:40]}" is not one of the answers' if word else "nothing was typed"
    return f"{what}; type {expected(question)}.\n"
