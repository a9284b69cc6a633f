"""Messages given to pi while it works: queued at once, and taken when the model begins to answer them.

pi reports its queue whenever that changes, then answers the command that has added a message, and repeats the message
as one of the user when it leaves the queue. Only the answer has the id, and only the queue has the text as the model
gets it: pi expands the names of its templates.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from penstock.adapter import not_taken
from penstock.updates import Notice


class _Queued(msgspec.Struct):
    """Message in pi's queue. `id` is None until pi has answered its command."""

    text: str
    id: str | None = None


class PiSteers:
    """Messages of one run that were not answered so far."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}  # of those that pi has not repeated, by id, in their order
        self._to_send: list[str] = []
        self._has_begun = False
        self._queue: list[_Queued] = []
        self._leaving: list[_Queued] = []  # no longer in the queue, and not repeated so far
        self._seen: list[Notice] = []  # repeated by pi; the model does not answer them yet

    def add(self, id: str, text: str) -> None:
        """Add a message."""
        self._texts[id] = text
        self._to_send.append(id)

    def begin(self) -> None:
        """Note that pi works: before that, a message would stay in its queue."""
        self._has_begun = True

    def to_send(self) -> list[tuple[str, str]]:
        """Return the messages that can be sent now, each once."""
        if not self._has_begun:
            return []
        ids, self._to_send = self._to_send, []
        return [(id, self._texts[id]) for id in ids]

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

    def answering(self) -> Sequence[Notice]:
        """Return the messages that the model answers from here on."""
        taken, self._seen = self._seen, []
        return taken

    def end(self) -> Sequence[Notice]:
        """Return the messages that were not taken, at the end of the run."""
        left = [*(it.steer for it in self._seen if it.steer is not None), *self._texts]
        self._texts, self._to_send, self._queue, self._leaving, self._seen = {}, [], [], [], []
        return [not_taken(id, "the turn ended before it") for id in left]
