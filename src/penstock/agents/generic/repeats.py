"""Texts that a stream of unknown format repeats: in pieces and then whole, or whole under two names."""

from __future__ import annotations

from typing import Literal

from penstock.agents.generic.classifier import MIN_PREFIX_CHARS
from penstock.agents.generic.fields import Found
from penstock.events import Kind
from penstock.updates import Mode

MAX_KEPT_CHARS = 256 * 1024
"""Characters of a message that are kept. A longer one is not recognised when it comes again: text shown twice, at that
length, is better than memory without a bound."""


class _Said:
    """The text of one kind in the message that is being written, or in the last one."""

    __slots__ = ("closed", "names", "parts", "size")

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.size = 0
        self.names: set[str] = set()  # the names of the events that it came in: a few
        self.closed = False

    @property
    def text(self) -> str | None:
        """The text so far; None if it was too long to be kept."""
        if self.size > MAX_KEPT_CHARS:
            return None
        if len(self.parts) > 1:
            self.parts = ["".join(self.parts)]
        return "".join(self.parts)

    def equals(self, text: str) -> bool:
        return abs(self.size - len(text)) <= 2 and (self.text or "").strip() == text.strip() != ""

    def put(self, text: str, *, instead: bool) -> None:
        if instead:
            self.parts, self.size = [], 0
        self.size += len(text)
        if self.size <= MAX_KEPT_CHARS:
            self.parts.append(text)
        else:
            self.parts = []


class Repeats:
    """The last texts, to recognise them when they come again under another name."""

    def __init__(self) -> None:
        self._said: dict[Kind, _Said] = {}
        self.any_text: bool = False
        """Text was read: a result's text repeats it."""

    def is_whole(self, found: Found, name: str) -> bool:
        """Return whether a text is the whole of the pieces that came under another name."""
        said = self._said.get(found.kind)
        return said is not None and name not in said.names and said.equals(found.text)

    def is_again(self, found: Found, name: str) -> bool:
        """Return whether a text is the message before it, repeated under another name."""
        said = self._said.get(found.kind)
        return said is not None and said.closed and not found.piece and self.is_whole(found, name)

    def is_end(self, found: Found) -> bool:
        """Return whether the last text ends with this one: an agent may know only the last of several pieces."""
        said = self._said.get(found.kind)
        return said is not None and (said.text or "").rstrip().endswith(found.text.strip()) and bool(found.text.strip())

    def relation(self, found: Found, name: str) -> Literal["new", "piece", "whole", "other"]:
        """Return the relation of a text that seems whole to the open one.

        `new`: no text is open. `piece`: the open one came under the same name, so this is a piece of it. `whole`: this
        text contains the open one. `other`: it is another text.
        """
        said = self._said.get(found.kind)
        if said is None or said.closed:
            return "new"
        same = name in said.names
        so_far = said.text
        if so_far is not None and found.text.startswith(so_far) and (not same or len(so_far) >= MIN_PREFIX_CHARS):
            return "whole"
        return "piece" if same else "other"

    def add(self, found: Found, name: str, mode: Mode) -> None:
        """Add a text that was emitted."""
        self.any_text = self.any_text or found.kind == "text"
        said = self._said.get(found.kind)
        if said is None or said.closed:
            said = self._said[found.kind] = _Said()
        said.names.add(name)
        said.put(found.text, instead=mode != "delta")
        said.closed = mode == "final"

    def settle(self) -> None:
        """Close the open texts: they are whole."""
        for said in self._said.values():
            said.closed = True
