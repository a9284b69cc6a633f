"""A terminal with a program in it, by tmux: keys are pressed, and the screen is read."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from waiting import until


class Screen:
    """A terminal of its own with a program in it."""

    def __init__(self, command: str, env: Mapping[str, str], cwd: Path, columns: int = 100, rows: int = 30) -> None:
        self._socket = f"penstock-{os.getpid()}-{id(self)}"
        words = ["new-session", "-d", "-x", str(columns), "-y", str(rows), command]
        subprocess.run([*self._tmux, "-f", "/dev/null", *words], env=env, cwd=cwd, check=True)

    @property
    def _tmux(self) -> list[str]:
        return ["tmux", "-L", self._socket]

    def type(self, *keys: str) -> None:
        """Press keys, by their names or as text."""
        subprocess.run([*self._tmux, "send-keys", *keys], check=True)

    def resize(self, columns: int) -> None:
        """Change the width of the terminal."""
        subprocess.run([*self._tmux, "resize-window", "-x", str(columns)], check=True)

    @property
    def text(self) -> str:
        """What is on the screen."""
        return self._captured()

    @property
    def styled(self) -> str:
        """What is on the screen, with its codes for colours."""
        return self._captured("-e")

    @property
    def history(self) -> str:
        """What is on the screen, and what has moved out of it before."""
        return self._captured("-S", "-")

    def _captured(self, *options: str) -> str:
        words = [*self._tmux, "capture-pane", "-p", *options]
        return subprocess.run(words, capture_output=True, text=True, encoding="utf-8", check=True).stdout

    def shows(self, words: str) -> str:
        """Wait until the screen shows these words, and return all of it."""
        return str(until(lambda: words in (text := self.text) and text, f"the screen shows {words!r}"))

    def matches(self, pattern: str) -> str:
        """Wait until the screen matches this regular expression, and return all of it."""
        return str(until(lambda: re.search(pattern, text := self.text) and text, f"the screen matches {pattern!r}"))

    def close(self) -> None:
        """End the terminal and what runs in it."""
        subprocess.run([*self._tmux, "kill-server"], check=False)
