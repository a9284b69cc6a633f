"""Messages given to Claude Code while it works: held, sent while a tool runs, and taken once the model goes on.

Claude Code reads such a message between the results of tools and its next model call. One that comes later would wait
for the end of the turn, and Claude Code would then begin another turn by itself. So a message is sent only while the
model's message has a tool call, and one that a model call begins without is withdrawn.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence

from penstock.adapter import not_taken
from penstock.updates import Notice

CAPABILITY = "msg_lifecycle_v1"
"""Ability of a version of Claude Code to report what becomes of each message that has an id."""


class ClaudeSteers:
    """Messages of one run that were not answered so far."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}  # of the messages that Claude Code has not begun with, by id, in their order
        self._sent: dict[str, str] = {}  # their ids, by those that they have on the wire
        self._withdrawing: set[str] = set()  # ids on the wire
        self._kept: dict[str, None] = {}  # the same of those that were not withdrawn and are not reported on
        self._begun: list[Notice] = []

    def add(self, id: str, text: str) -> None:
        """Add a message."""
        self._texts[id] = text

    @property
    def are_out(self) -> bool:
        """True if Claude Code may still begin with a message."""
        return bool(self._sent)

    def to_send(self) -> Iterator[tuple[str, str]]:
        """Yield the messages that Claude Code does not have, each with a new id on the wire."""
        sent = {*self._sent.values()}
        for id, text in self._texts.items():
            if id not in sent:
                name = str(uuid.uuid4())  # one that was used before, in any run of the conversation, would be dropped
                self._sent[name] = id
                yield name, text

    def to_withdraw(self) -> Sequence[str]:
        """Return the ids on the wire of the messages that are to be withdrawn, each once."""
        names = [name for name in self._sent if name not in self._withdrawing]
        self._withdrawing.update(names)
        return names

    def withdrawn(self, name: str) -> None:
        """Note that Claude Code has dropped a message before it began with it."""
        self._sent.pop(name, None)
        self._withdrawing.discard(name)

    def kept(self, name: str) -> None:
        """Note that Claude Code could not drop a message: it has read it, or begins another turn with it at once."""
        if name in self._sent:
            self._kept[name] = None

    def began(self, name: str) -> None:
        """Note that Claude Code has begun with a message. A recording has no text of it, so there it is not shown."""
        id = self._sent.pop(name, None)
        self._withdrawing.discard(name)
        self._kept.pop(name, None)
        if id is not None:
            self._begun.append(Notice("user", self._texts.pop(id), steer=id))

    def answering(self) -> Sequence[Notice]:
        """Return the messages that the model answers from here on, also those that no report has named."""
        taken, self._begun = [*self._begun, *self.unreported()], []
        return taken

    def unreported(self) -> Sequence[Notice]:
        """Return the messages that Claude Code could not drop and has not reported on."""
        return [Notice("user", self._texts.pop(id), steer=id) for id in map(self._sent.pop, self._take_kept())]

    def _take_kept(self) -> list[str]:
        kept, self._kept = [*self._kept], {}
        self._withdrawing.difference_update(kept)
        return kept

    def end(self, reason: str = "the turn ended before it") -> Sequence[Notice]:
        """Return the messages that were not taken, at the end of the run or for another reason."""
        left = [*(it.steer for it in self._begun if it.steer is not None), *self._texts]
        self._texts, self._sent, self._kept, self._begun = {}, {}, {}, []
        return [not_taken(id, reason) for id in left]
