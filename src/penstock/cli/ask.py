"""Questions of agents that the user answers at the terminal."""

from __future__ import annotations

import os
import termios

from penstock.core.questions import SHORT_WORDS, expected, label_of, numbers, short_words
from penstock.events import QuestionAsked
from penstock.sinks.sanitize import clean_line
from penstock.sinks.text.edits import MAX_ASKED_DIFF_LINES, Paths, diffs
from penstock.sinks.text.theme import question_words

MAX_LINE_BYTES = 4096
"""Bytes of the longest line that is read. A terminal delivers no longer line; the limit also ends the wait for a
program that never ends its line."""


class Terminal:
    """Terminal at which the user answers. Use `find`."""

    def __init__(self, fd: int, *, own: bool) -> None:
        self.fd = fd
        self._own = own

    @classmethod
    def find(cls) -> Terminal | None:
        """Open the terminal of the user who reads stderr: stdin, or `/dev/tty` if stdin is something else.

        Return None if stderr is not a terminal, or there is no terminal to read from. In the background only stdin is
        used: reading from `/dev/tty` there would stop a job whose input comes from elsewhere.
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
        """Discard the input typed so far: it cannot answer a later question."""
        try:
            termios.tcflush(self.fd, termios.TCIFLUSH)
        except termios.error:
            pass  # it hung up; the next read reports that

    def read(self) -> bytes:
        """Wait for one byte and return it; b"" at the end of the input."""
        try:
            return os.read(self.fd, 1)
        except OSError:
            return b""  # it hung up

    def close(self) -> None:
        """Close the descriptor that `find` opened."""
        if self._own:
            os.close(self.fd)


def can_ask() -> bool:
    """Return whether there is a user to ask."""
    terminal = Terminal.find()
    if terminal is not None:
        terminal.close()
    return terminal is not None


def question_text(name: str, question: QuestionAsked, cwd: str | None) -> str:
    """Return the question of a run in `cwd` for stderr, sanitized: no line of the agent's can look like Penstock's."""
    paths = Paths(cwd)
    text = question_words(question, paths)
    text += "".join(row for _, row in diffs(question.changes or (), paths, MAX_ASKED_DIFF_LINES, named=True))
    text = text.replace("\n", "\n    ")
    lines = [f"  {number}. {clean_line(label_of(option))}\n" for number, option in enumerate(question.options or (), 1)]
    return f"penstock: {name} {text}\n{''.join(lines)}"


def prompt_text(name: str, question: QuestionAsked) -> str:
    """Return the prompt for the answer."""
    short = [f"{key} {SHORT_WORDS[key]}" for key in short_words(question)]
    ways = [numbers(question), *short] + ["or your own words"] * question.free_text
    return f"Answer {name} ({', '.join(filter(None, ways))}): "


def correction_text(line: str, question: QuestionAsked) -> str:
    """Return the reason why a line is not an answer."""
    word = clean_line(line.strip())
    what = f'"{word[:40]}" is not one of the answers' if word else "nothing was typed"
    return f"{what}; type {expected(question)}.\n"
