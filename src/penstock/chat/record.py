"""The record of a turn: all that the agent thought, said and did, in the order of its beginning.

A pure fold of the turn's rows, for the page that a person opens behind the reply. Where `penstock.turns` hides,
this shows; long texts are shortened, and say so. `docs/gateway-api.md` has the public format.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from penstock import events as ev
from penstock import titles
from penstock.chat.rows import Entry, Numbered, Prompted, TurnBegan, TurnEnded
from penstock.chat.steps import Steps
from penstock.chat.views import TurnView

MAX_TEXT_CHARS = 262_144
"""Of one text or thought: longer than any reply seen, and no more than a browser shows at once."""

MAX_PART_CHARS = 20_000
"""Of what goes into a call or comes out of it, and of a notice: a person reads its beginning and its end."""

MAX_ALL_CHARS = 8 * 2**20
"""Of all texts of a record together; what comes behind them has `LEAST_CHARS` each."""

LEAST_CHARS = 400
"""What is kept of a text in any case: enough to know what it was."""

MAX_ITEMS = 10_000
"""More are only counted: nobody scrolls further, and the turn's events have all."""

MAX_NAMES = 3
"""Kinds of events that are not known and are named."""

GAP = "\n…\n"
"""Stands in a shortened text for what is left out."""

TOLD: frozenset[ev.NoticeCode] = frozenset({
    *("retry", "rate_limit", "compaction", "background", "model", "permission", "refusal", "media", "session")
})  # fmt: skip
"""Notices of level `info` that tell a person something about the work. Warnings and errors are always there."""


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
    """A call of a tool. `input` is JSON, indented; `until` is absent while it runs."""

    title: str = ""
    name: str = ""
    tool_kind: ev.ToolKind = "other"
    input: str = ""
    output: str = ""
    is_error: bool = False
    exit_code: int | None = None
    until: int | None = None
    round: int = 0


class Told(Item, omit_defaults=True, kw_only=True, tag="notice"):
    """Something worth telling that no model said."""

    level: ev.Level
    text: str


class Planned(Item, omit_defaults=True, kw_only=True, tag="plan"):
    """The agent's plan as it stands now, where it was first told."""

    items: list[ev.PlanItem]


class Asked(Item, omit_defaults=True, kw_only=True, tag="question"):
    """A question to a person, with the answer, where it came in this turn."""

    text: str
    options: list[str] | None = None
    answer: str | None = None


class Record(msgspec.Struct):
    """A turn and its items. `whole`: its run is over, nothing is added any more."""

    turn: TurnView
    whole: bool
    items: list[Thought | Said | Called | Told | Planned | Asked]


def record(turn: TurnView, rows: Iterable[Numbered]) -> Record:
    """The record of a turn, made of its rows; rows of other turns between them are passed over."""
    recorder = Recorder(turn.turn)
    recorder.take(rows)
    return Record(turn, recorder.over, recorder.items())


class Recorder:
    """Takes the rows of one turn as they come. How they are cut makes no difference."""

    def __init__(self, turn: int) -> None:
        self.over = False
        self._turn = turn
        self._mine: bool | None = None  # None: nothing was seen yet that says whose the events are
        self._began: int | None = None
        self._fold = _Fold()

    def take(self, rows: Iterable[Numbered]) -> None:
        """The next rows."""
        for _, at, what in rows:
            if not self.over:
                self._take(at, what)

    def _take(self, at: int, what: Entry | ev.Event | None) -> None:
        if isinstance(what, TurnBegan):
            self.over = bool(self._mine)  # another one began: there is no more of this one
            self._mine, self._began = what.turn == self._turn, at
        elif isinstance(what, Prompted):
            self._mine = False if what.turn == self._turn else self._mine
        elif isinstance(what, TurnEnded):
            self.over = what.turn == self._turn
        elif self._mine is not False and (what is None or isinstance(what, ev.Base)):
            self._began = at if self._began is None else self._began
            stamp = what.at if what is not None else None
            self._fold.take(what, max(0, at - self._began if stamp is None else stamp))
            self.over = isinstance(what, ev.RunEnded)
        if self.over:
            self._fold.close()

    def items(self) -> list[Thought | Said | Called | Told | Planned | Asked]:
        """The items so far."""
        return self._fold.items()


class _Clip:
    """A text that grows, of which no more than `limit` characters are needed at each end."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.set("")

    def set(self, text: str) -> None:
        """Another text."""
        self.size = len(text)
        self._head = text[: self._limit]
        self._tail = [text[self._limit :][-self._limit :]]
        self._kept = len(self._tail[0])  # of the tail

    def add(self, text: str) -> None:
        """More of it."""
        self.size += len(text)
        room = self._limit - len(self._head)
        if room > 0:
            self._tail.append(text[:room])
            self._head, self._tail = self._head + "".join(self._tail), []
            text = text[room:]
        self._tail.append(text)
        self._kept += len(text)
        if self._kept > 2 * self._limit:
            self._tail = ["".join(self._tail)[-self._limit :]]
            self._kept = self._limit

    def cut(self, limit: int) -> str:
        """At most `limit` characters of it, and the mark of what is left out between them."""
        text = self._head + "".join(self._tail)
        limit = min(limit, self._limit)
        if self.size <= limit:
            return text
        return text[: limit - limit // 2] + GAP + text[-(limit // 2) :]

    def left_out(self, limit: int) -> int:
        """How many characters `cut` leaves out."""
        return max(0, self.size - min(limit, self._limit))
