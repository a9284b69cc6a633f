"""Messages given to pi while it works: queued at once, and taken when the model begins to answer them.

pi reports its queue whenever that changes, then answers the command that has added a message, and repeats the message
as one of the user when it leaves the queue. Only the answer has the id, and only the queue has the text as the model
gets it: pi expands the names of its templates.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from penstock.adapter import not_taken
from penstock.agents._steers import SentSteers
from penstock.updates import Notice


class _Queued(msgspec.Struct):
    """Message in pi's queue. `id` is None until pi has answered its command."""

    text: str
    id: str | None = None


class PiSteers(SentSteers):
    """Messages of one run that were not answered so far."""

    def __init__(self) -> None:
        super().__init__()
        self._queue: list[_Queued] = []
        self._leaving: list[_Queued] = []  # no longer in the queue, and not repeated so far

    def queue_changed(self, texts: Sequence[str]) -> None:
        """Read the whole queue. A message leaves it at its beginning, and is added at its end."""
        gone = next(
            (at for at in range(len(self._queue) + 1) if self._begins_with(texts, at)),
            len(self._queue),
        )
        self._leaving += self._queue[:gone]
        self._queue = self._queue[gone:]
        self._queue += map(_Queued, texts[len(self._queue) :])

    def _begins_with(self, texts: Sequence[str], at: int) -> bool:
        """Return whether a queue is the known one from `at` on, and perhaps more."""
        rest = [it.text for it in self._queue[at:]]
        return list(texts[: len(rest)]) == rest

    def queued(self, id: str) -> None:
        """Note the id of a message that pi has just added to its queue."""
        unnamed = [it for it in (*self._leaving, *self._queue) if it.id is None]
        given = self._texts.get(id)
        found = next((it for it in unnamed if it.text == given), unnamed[-1] if unnamed else None)
        if found is not None:
            found.id = id

    def handled(self, id: str) -> Sequence[Notice]:
        """Read that an extension of pi has used a message up: the model does not get it."""
        text = self._texts.pop(id, None)
        return (Notice("user", text, steer=id),) if text is not None else ()

    def rejected(self, id: str, reason: str) -> Sequence[Notice]:
        """Read that pi does not take a message."""
        return (not_taken(id, reason),) if self._texts.pop(id, None) is not None else ()

    def seen(self, text: str) -> None:
        """Note a message of the user that pi repeats."""
        found = next((it for it in self._leaving if it.text == text), None)
        if found is None:
            return  # the prompt, or a message of an extension
        self._leaving.remove(found)
        if found.id is not None:
            self._seen.append(Notice("user", self._texts.pop(found.id, text), steer=found.id))

    def end(self) -> Sequence[Notice]:
        """Return the messages that were not taken, at the end of the run."""
        self._queue, self._leaving = [], []
        return super().end()
