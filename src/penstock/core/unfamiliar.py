"""Unknown kinds of lines, with their place in the run, which shows whether they may have changed the output."""

from __future__ import annotations

from typing import Literal

import msgspec

MAX_KINDS = 64
"""Maximum number of kinds that are kept by name: an agent could print a new name in each line."""

MAX_NAME_CHARS = 120
"""Maximum characters of a name; names come from the agent."""

SUSPECT = ("retry", "discard", "replace", "supersede", "continue", "error")
"""Parts of names, in lower case, of kinds that may change what other lines mean."""

OTHERS = ("system/", "user/")
"""Beginnings of the names of kinds in which a text is not the model's: reports of the agent on itself, and texts in the
user's role."""

UnfamiliarPlace = Literal["between texts", "in a call", "elsewhere"]
"""Place of a kind: between two texts; between a call and its result; anywhere else."""


class Unfamiliar(msgspec.Struct):
    """Unknown kind of a line, or unknown name in `_meta`."""

    name: str
    count: int = 1
    place: UnfamiliarPlace = "elsewhere"
    warns: bool = False
    """It may have changed what is shown."""


class _Noted:
    """Count of a kind's lines, and the numbers of texts and results at its first line after a text or in a call."""

    __slots__ = ("count", "has_text", "results", "texts")

    def __init__(self) -> None:
        self.count = 0
        self.has_text = False
        self.texts: int | None = None
        self.results: int | None = None


class PlacesOfKinds:
    """Places of the unknown kinds of one run. What follows a line is known only at the end."""

    def __init__(self) -> None:
        self._noted: dict[str, _Noted] = {}

    def note(self, name: str, texts: int, results: int, *, waiting: bool, has_text: bool = False) -> None:
        """Note a line. `texts`, `results`: how many came before it. `waiting`: a call has no result yet.

        `has_text`: the line has a text, which may be the agent's.
        """
        name = name[:MAX_NAME_CHARS]
        found = self._noted.get(name)
        if found is None:
            if len(self._noted) >= MAX_KINDS:
                return
            found = self._noted[name] = _Noted()
        found.count += 1
        found.has_text = found.has_text or has_text
        if texts and found.texts is None:
            found.texts = texts
        if waiting and found.results is None:
            found.results = results

    def close(self, texts: int, results: int) -> list[Unfamiliar]:
        """Return the kinds, judged by what followed them. `texts`, `results`: totals of the run."""
        return [self._judged(name, noted, texts, results) for name, noted in self._noted.items()]

    def _judged(self, name: str, noted: _Noted, texts: int, results: int) -> Unfamiliar:
        place: UnfamiliarPlace = "elsewhere"
        if noted.texts is not None and texts > noted.texts:
            place = "between texts"
        elif noted.results is not None and results > noted.results:
            place = "in a call"
        may_lack = noted.has_text and not name.startswith(OTHERS)
        return Unfamiliar(name, noted.count, place, place != "elsewhere" or may_lack or is_suspect(name))


def is_suspect(name: str) -> bool:
    """Return whether a name says that it may change what other lines mean, or is of a line that lacks its kind.

    Such a name is the line's fields, or ends where the kind would be (`assistant/`). Nothing is known of the line: the
    agent may have put another form around all that it prints.
    """
    lower = name.lower()
    lacks_kind = (lower.startswith("{") and lower != "{}") or lower.endswith("/")
    return lacks_kind or any(part in lower for part in SUSPECT)
