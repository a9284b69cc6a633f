"""What stands in the record of a turn: items, and texts that are shortened where they are long.

`penstock.chat.history.details` makes them; `docs/gateway-api.md` has the public format.
"""

from __future__ import annotations

import msgspec

from penstock import events as ev

GAP = "\n…\n"
"""Stands in a shortened text for what is left out."""


class Item(msgspec.Struct, omit_defaults=True, kw_only=True, tag_field="kind"):
    """What all items have. Times are milliseconds since the turn began."""

    at: int
    parent: int | None = None
    """Of a sub-agent: the number of the call's item that it works for, from 0."""
    given_up: bool = False
    """The agent took it back: it is no part of the reply."""
    cut: bool = False
    """It was cut off."""
    shortened: int = 0
    """The characters that are left out of its texts."""


class Thought(Item, omit_defaults=True, kw_only=True, tag="thinking"):
    """A block of thinking."""

    text: str = ""


class Said(Item, omit_defaults=True, kw_only=True, tag="text"):
    """A block of text. `round`: of its agent, from 1."""

    text: str = ""
    round: int = 0


class Called(Item, omit_defaults=True, kw_only=True, tag="call"):
    """A call of a tool. `input` is JSON on many lines; `until` is absent while it runs."""

    title: str = ""
    name: str = ""
    tool_kind: ev.ToolKind = msgspec.field(default_factory=lambda: "other")  # so it is always written
    input: str = ""
    output: str = ""
    is_error: bool = False
    exit_code: int | None = None
    until: int | None = None
    round: int = 0


class Noticed(Item, omit_defaults=True, kw_only=True, tag="notice"):
    """Something worth telling that no model said."""

    level: ev.Level
    text: str = ""


class Planned(Item, omit_defaults=True, kw_only=True, tag="plan"):
    """The agent's plan as it stands now, where it was first told."""

    items: list[ev.PlanItem]


class Asked(Item, omit_defaults=True, kw_only=True, tag="question"):
    """A question to a person: the labels of its options, and the answer in words, if it came in this turn."""

    text: str = ""
    options: list[str] | None = None
    answer: str | None = None


AnyItem = Thought | Said | Called | Noticed | Planned | Asked


class Clip:
    """A text that grows, of which at most `limit` characters are wanted, from both ends."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.set("")

    def set(self, text: str) -> None:
        """Another text."""
        self._parts = [text]
        self.size = self._kept = len(text)
        self._bound()

    def add(self, text: str) -> None:
        """More of it."""
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
        """At most `limit` characters of it, with a mark for those between, and how many these are."""
        limit = min(limit, self._limit)
        text = "".join(self._parts)
        if self.size <= limit:
            return text, 0
        end = limit // 2
        return text[: limit - end] + GAP + text[-end:], self.size - limit
