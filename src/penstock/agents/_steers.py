"""Messages given to an agent while it works: sent once it has begun, and taken when the model begins to answer them."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.adapter import not_taken
from penstock.updates import Notice


class SentSteers:
    """The unanswered messages of one run, for an agent that reports each one on taking it up."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}  # of those that the agent has not reported, by id, in their order
        self._to_send: list[str] = []
        self._seen: list[Notice] = []  # reported by the agent; the model does not answer them yet
        self._has_begun = False

    def add(self, id: str, text: str) -> None:
        """Add a message."""
        self._texts[id] = text
        self._to_send.append(id)

    def begin(self) -> None:
        """Note that the agent works: before that, it takes no message, or would leave it in its queue."""
        self._has_begun = True

    def to_send(self) -> list[tuple[str, str]]:
        """Return the messages that can be sent now, each once."""
        if not self._has_begun:
            return []
        ids, self._to_send = self._to_send, []
        return [(id, self._texts[id]) for id in ids if id in self._texts]

    def answering(self) -> Sequence[Notice]:
        """Return the messages that the model answers from here on."""
        taken, self._seen = self._seen, []
        return taken

    def end(self) -> Sequence[Notice]:
        """Return the messages that were not taken, at the end of the run."""
        left = [*(it.steer for it in self._seen if it.steer is not None), *self._texts]
        self._texts, self._to_send, self._seen = {}, [], []
        return [not_taken(id, "the turn ended before it") for id in left]
