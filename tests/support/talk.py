"""A conversation with Penstock in a terminal: keys are typed, and the screen is read as a person sees it."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyte

PATIENCE = 60.0
"""Seconds after which a test fails that waits for something on the screen."""
ROWS = 200
"""Rows of the screen: nothing scrolls out of sight."""


class Talk:
    """A program in a terminal of its own: the words after `python`."""

    def __init__(self, folder: Path, env: Mapping[str, str], *words: str, term: str = "vt100", columns: int = 100):
        self.shown = ""
        """All that the program has written, with its codes."""
        self.screen = pyte.Screen(columns, ROWS)
        self._has_ended = False
        self._stream = pyte.ByteStream(self.screen)
        self.process, self._terminal = pty.fork()
        if self.process == 0:
            os.chdir(folder)
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
            os.execvpe(sys.executable, [sys.executable, *words], {**env, "TERM": term})

    @property
    def text(self) -> str:
        """What is on the screen, without spaces at the ends of lines."""
        return "\n".join(line.rstrip() for line in self.screen.display).rstrip()

    @property
    def line(self) -> str:
        """The line that the cursor is in."""
        return self.screen.display[self.screen.cursor.y].rstrip()

    def wait(self, true: Callable[[], Any], what: str) -> None:
        """Read the terminal until something is true of the screen."""
        end = time.monotonic() + PATIENCE
        while not true():
            if not self._read(end - time.monotonic()):
                raise AssertionError(f"waited for {what}; the screen is:\n{self.text}\n\n{self.shown[-2000:]!r}")

    def until(self, text: str, times: int = 1) -> None:
        """Read the terminal until a text is on the screen, as often as this."""
        self.wait(lambda: self.text.count(text) >= times, f"{times} times {text!r}")

    def asked(self, text: str = "") -> None:
        """Read the terminal until a prompt is asked for, with this text in the line."""
        wanted = f"> {text}".rstrip()
        self.wait(lambda: self.line == wanted, f"a line {wanted!r}")

    def _read(self, seconds: float) -> bool:
        """Wait for output and take it; return whether there was any."""
        if seconds <= 0 or not select.select([self._terminal], [], [], seconds)[0]:
            return False
        try:
            piece = os.read(self._terminal, 65_536)
        except OSError:
            return False  # nobody has the terminal open any more
        self.shown += piece.decode(errors="replace")
        self._stream.feed(piece)
        return bool(piece)

    def type(self, keys: str) -> None:
        """Type keys."""
        os.write(self._terminal, keys.encode())

    def end(self, keys: str = "") -> int:
        """Type keys and return the exit status, once it has ended."""
        if keys:
            self.type(keys)
        end = time.monotonic() + PATIENCE
        while self._read(end - time.monotonic()):
            pass
        if time.monotonic() > end:
            os.kill(self.process, signal.SIGKILL)
        _, status = os.waitpid(self.process, 0)
        os.close(self._terminal)
        self._has_ended = True
        return os.waitstatus_to_exitcode(status)

    def close(self) -> None:
        """End the program if it still runs."""
        if not self._has_ended:
            os.kill(self.process, signal.SIGKILL)
            self.end()
