"""Texts that came twice: a sign of a retry that the wire does not mark, or of a text that lost its place."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.core.normalizer.state import Lane, Message

MIN_CHARS = 20
"""Minimum characters of a text for which it is suspicious to come twice in a round."""
MIN_HEAD_CHARS = 32
"""Minimum characters of a beginning that comes twice in one text: a shorter one, such as that of a list, is chance."""
MAX_TRIES = 8
"""Maximum number of places at which the beginning of a text is searched again."""
MAX_KEPT = 64
"""Maximum number of texts of a round that are remembered."""


class Doubles:
    """Counter of the top agent's texts that came twice. They are only counted: the model may mean to repeat them."""

    def __init__(self) -> None:
        self._round = 0
        self._seen: set[tuple[int, int]] = set()  # lengths and hashes
        self._count = 0
        self._longest = 0

    def note(self, lane: Lane, message: Message) -> None:
        """Note the texts of a message that has ended and was not superseded."""
        if lane.parent is not None:
            return
        if lane.rounds != self._round:
            self._round = lane.rounds
            self._seen.clear()
        for block in message.blocks:
            if block.kind != "text" or block.superseded or not block.ended or block.size < MIN_CHARS:
                continue
            text = block.text
            key = (len(text), hash(text))
            if key in self._seen:
                self._found(len(text))
            elif twice := begins_twice(text):
                self._found(twice)
            if len(self._seen) < MAX_KEPT:
                self._seen.add(key)

    def _found(self, size: int) -> None:
        self._count += 1
        self._longest = max(self._longest, size)

    def disagreements(self) -> Iterator[str]:
        """Yield a sentence if a text came twice."""
        if self._count == 1:
            yield f"a text of {self._longest:,} characters came twice"
        elif self._count:
            yield f"{self._count:,} texts came twice, the longest of {self._longest:,} characters"


def begins_twice(text: str) -> int:
    """Return the number of characters after which a text begins again from its start; 0 if it does not.

    Such a text is an attempt that broke off, followed by the next attempt.
    """
    head = text[:MIN_HEAD_CHARS]
    if len(text) < 2 * MIN_HEAD_CHARS or head in (head + head)[1:-1]:  # the beginning is a pattern, such as a rule
        return 0
    place = text.find(head, 1)
    for _ in range(MAX_TRIES):
        if place < 0:
            return 0
        if text.startswith(text[:place], place):
            return place
        place = text.find(head, place + 1)
    return 0
