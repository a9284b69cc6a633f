"""The frames that a viewer of a chat gets: a snapshot of all of it, then the changes, one by one.

The frames of one turn are the events of `penstock.chat.turn`. All frames are made of a chat's entries by
`penstock.chat.history.timeline`; `docs/gateway-api.md` is the public format.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from penstock import events as ev
from penstock.chat.history.entries import Asker
from penstock.chat.turn import Assistant, Completed, FinalMessageStart, OpenQuestion, Streaming, Thinking

TurnState = Literal["queued", "running", "completed"]


class TurnView(msgspec.Struct, omit_defaults=True):
    """A turn as it is shown. Times are milliseconds since 1970, by the clock that stamped its entries."""

    turn: int
    prompt: str
    # A default that a factory gives is written like any other value: readers take an absent field for null or empty.
    by: Asker = msgspec.field(default_factory=lambda: "person")
    key: str | None = None
    state: TurnState = msgspec.field(default_factory=lambda: "queued")
    asked_at: int = 0
    began_at: int | None = None
    completed_at: int | None = None
    agent: str | None = None
    model: str | None = None

    # --- while it runs ---
    status: str | None = None
    """The quiet line; None where something else took its place."""
    reply: str | None = None
    """The reply so far; None until its first text."""
    question: OpenQuestion | None = None
    """What the agent asks: the run waits for it, or, in a completed turn, the next prompt answers it."""

    # --- once it is completed ---
    message: str = ""
    """All of the turn that stays in the thread."""
    outcome: ev.Outcome | None = None
    reason: str | None = None

    # --- once its run is over ---
    finalized: bool = False
    """The record of the turn is whole: nothing is added to it any more."""
    steps: int = 0
    """The thoughts, texts and calls in its record."""
    duration_ms: int | None = None
    usage: ev.Usage | None = None
    cost_usd: float | None = None
    first: int = 0
    """The number of its first entry."""
    last: int = 0
    """The number of its last entry, once it is recorded."""


class Snapshot(msgspec.Struct, frozen=True, omit_defaults=True, tag="snapshot"):
    """The chat as it stands after entry `number`; it takes the place of all that a viewer knew of it."""

    number: int
    turns: list[TurnView]
    """The newest, oldest first."""
    earlier: bool = False
    """There are turns before these."""


class PromptedFrame(msgspec.Struct, frozen=True, omit_defaults=True, tag="prompted"):
    """A turn was asked for."""

    turn: int
    prompt: str
    by: Asker
    asked_at: int
    key: str | None = None


class AssistantDelta(msgspec.Struct, frozen=True, omit_defaults=True, tag="assistant"):
    """The same for who asked for `delta=1`: the reply is its first `offset` characters and then `delta`.

    Characters are Unicode code points. An `offset` before the reply's end is no error: what stood behind it goes.
    """

    turn: int
    delta: str
    offset: int
    replace: bool = False


class Finalized(msgspec.Struct, frozen=True, omit_defaults=True, tag="finalized"):
    """The run of a completed turn is over, and its record whole."""

    turn: int
    steps: int
    duration_ms: int | None = None
    usage: ev.Usage | None = None
    cost_usd: float | None = None
    agent: str | None = None
    model: str | None = None


class Deleted(msgspec.Struct, frozen=True, tag="deleted"):
    """The chat was deleted. Nothing follows, and coming back is of no use."""


class Goodbye(msgspec.Struct, frozen=True, tag="goodbye"):
    """The server ends. Come back with the last number: nothing is lost."""


Frame = (
    Snapshot
    | PromptedFrame
    | Streaming
    | Thinking
    | FinalMessageStart
    | Assistant
    | AssistantDelta
    | Completed
    | Finalized
    | Deleted
    | Goodbye
)
