"""Items of the details of a turn, and texts that are shortened if they are long.

`penstock.chat.history.details` makes them; `docs/gateway-api.md` has the public format.
"""

from __future__ import annotations

import msgspec

from penstock import events as ev

GAP = "\n…\n"
"""Mark in a shortened text, in place of the characters that are left out."""


class Item(msgspec.Struct, omit_defaults=True, kw_only=True, tag_field="kind"):
    """Fields of all items. Times are milliseconds since the turn began."""

    at: int
    parent: int | None = None
    """For an item of a sub-agent, the number, from 0, of the item of the call that it works for."""
    given_up: bool = False
    """True if it was superseded: it is not part of the reply."""
    cut: bool = False
    """True if it was cut off."""
    shortened: int = 0
    """Number of characters that are left out of its texts."""


class Thought(Item, omit_defaults=True, kw_only=True, tag="thinking"):
    """Block of thinking."""

    text: str = ""


class Said(Item, omit_defaults=True, kw_only=True, tag="text"):
    """Block of text. `round` is the number of the round of its agent, from 1."""

    text: str = ""
    round: int = 0


class Called(Item, omit_defaults=True, kw_only=True, tag="call"):
    """Call of a tool. `input` is JSON on many lines; `until` is absent while it runs.

    `changes` are those that it made; until it has succeeded, those that it proposes.
    """

    title: str = ""
    name: str = ""
    tool_kind: ev.ToolKind = msgspec.field(default_factory=lambda: "other")  # a factory, so that it is always written
    input: str = ""
    output: str = ""
    is_error: bool = False
    """Whether a call has failed: `ToolReturned.failed`."""
    exit_code: int | None = None
    until: int | None = None
    duration_ms: int | None = None
    """Duration as the events have it."""
    refused: bool = False
    """True if the permission for it was denied."""
    status_unreported: bool = False
    """True if the agent does not report whether this command succeeded."""
    output_unreported: bool = False
    """True if the agent does not report its output."""
    changes: list[ev.Change] | None = None
    more_changes: int = 0
    """Number of changes that are left out."""
    round: int = 0


class Noticed(Item, omit_defaults=True, kw_only=True, tag="notice"):
    """Notice that is shown; it is not text of a model."""

    level: ev.Level
    text: str = ""


class Planned(Item, omit_defaults=True, kw_only=True, tag="plan"):
    """Current plan of the agent, at the place where it was first reported."""

    items: list[ev.PlanItem]


class Asked(Item, omit_defaults=True, kw_only=True, tag="question"):
    """Question to a person: the labels of its options, and the answer in words, if it came in this turn."""

    text: str = ""
    options: list[str] | None = None
    answer: str | None = None
    changes: list[ev.Change] | None = None
    """Changes that the question is about, unless a call has them."""
    more_changes: int = 0


AnyItem = Thought | Said | Called | Noticed | Planned | Asked


class Clip:
    """Growing text, of which at most `limit` characters are needed, from both ends."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.set("")

    def set(self, text: str) -> None:
        """Replace the text."""
        self._parts = [text]
        self.size: int = len(text)
        self._kept = self.size
        self._bound()

    def add(self, text: str) -> None:
        """Append to the text."""
        self._parts.append(text)
        self.size += len(text)
        self._kept += len(text)
        self._bound()

    def _bound(self) -> None:
        if self._kept > 3 * self._limit:
            text = "".join(self._parts)
            self._parts = [text[: self._limit], text[-self._limit :]]
            self._kept = 2 * self._limit

    def cut(self, limit: int) -> tuple[str, int]:
        """Return at most `limit` characters, with a mark for the rest, and the number of characters left out."""
        limit = min(limit, self._limit)
        text = "".join(self._parts)
        if self.size <= limit:
            return text, 0
        end = limit // 2
        return text[: limit - end] + GAP + text[-end:], self.size - limit
