"""Log of several agents on GitHub: a group for each, in their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.sinks.sanitize import clean_line
from penstock.sinks.text.folding import fold

Text = str | bytes


class AgentGroups:
    """Writer that keeps the lines of several agents apart.

    The first agent that works is written as it goes. What the others write waits until those before them have ended.

    Args:
        labels: labels of the agents.
        write: gets the text.
    """

    def __init__(self, labels: Sequence[str], write: Callable[[Text], None]) -> None:
        self._around = [fold("github", label, number, clean_line(label)) for number, label in enumerate(labels)]
        self._write = write
        self._waiting: list[list[Text]] = [[] for _ in labels]
        self._has_ended = [False] * len(labels)
        self._current = 0
        self._is_open = False

    def write(self, number: int, text: Text) -> None:
        """Write text of the agent with this number, at once or when it is its turn."""
        if not text:
            return
        if number != self._current:
            self._waiting[number].append(text)
            return
        self._open()
        self._write(text)

    def end(self, number: int) -> None:
        """Note that no text of this agent follows."""
        self._has_ended[number] = True
        while self._current < len(self._around) and self._has_ended[self._current]:
            self._next()

    def close(self) -> None:
        """Write all that waits, whether or not the agents have ended."""
        while self._current < len(self._around):
            self._next()

    def _open(self) -> None:
        if not self._is_open:
            self._write(self._around[self._current][0])
            self._is_open = True

    def _next(self) -> None:
        if self._is_open:
            self._write(self._around[self._current][1])
            self._is_open = False
        self._current += 1
        if self._current < len(self._around) and self._waiting[self._current]:
            self._open()
            waiting, self._waiting[self._current] = self._waiting[self._current], []
            for text in waiting:
                self._write(text)
