"""Messages given to opencode while it works: sent while a tool runs, and taken once a model call answers them.

opencode adds such a message to the conversation at once, and its next model call reads it. A message of the model names
the message of the user that it answers, which is the newest one; it answers those before it as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.adapter import not_taken
from penstock.updates import Notice


class OpenCodeSteers:
    """Messages of one run that were not answered so far."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}  # of those that the server has not reported, by id, in their order
        self._sent: dict[str, None] = {}
        self._asked: dict[int, str] = {}  # ids by those of our requests
        self._seen: dict[str, Notice] = {}  # by the id that the server gives to the message

    def add(self, id: str, text: str) -> None:
        """Add a message."""
        self._texts[id] = text

    def to_send(self) -> Iterator[tuple[str, str]]:
        """Yield the messages that were not sent."""
        for id, text in self._texts.items():
            if id not in self._sent:
                self._sent[id] = None
                yield id, text

    def sent(self, id: str, request: int) -> None:
        """Note the request by which a message is sent."""
        self._asked[request] = id

    def rejected(self, request: int | None, reason: str) -> Sequence[Notice] | None:
        """Read an error in the answer to a request; return None if it is the request of no message."""
        id = self._asked.pop(request, None) if request is not None else None
        if id is None:
            return None
        return (not_taken(id, reason),) if self._texts.pop(id, None) is not None else ()

    def seen(self, message: str, text: str, *, is_recorded: bool) -> None:
        """Note a message of the user that the server reports while the agent works.

        `is_recorded`: the wire is a recording, so the messages that were given are known from it alone.
        """
        if message in self._seen:
            return
        id = next((known for known in self._sent if self._texts.get(known) == text), None)
        if id is not None:
            del self._texts[id]
        elif is_recorded:
            id = message
        else:
            return
        self._seen[message] = Notice("user", text, steer=id)

    def answering(self, message: str) -> Sequence[Notice]:
        """Return the messages that a message of the model answers, which names the newest of them."""
        if message not in self._seen:
            return ()
        taken = []
        for name in [*self._seen]:
            taken.append(self._seen.pop(name))
            if name == message:
                break
        return taken

    def end(self) -> Sequence[Notice]:
        """Return the messages that were not taken, at the end of the turn."""
        left = [*(it.steer for it in self._seen.values() if it.steer is not None), *self._texts]
        self._texts, self._seen = {}, {}
        return [not_taken(id, "the turn ended before it") for id in left]
