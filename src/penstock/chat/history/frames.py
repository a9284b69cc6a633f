"""What a viewer of a chat is told: the whole as a snapshot, then frame by frame what changes.

The frames of one turn are those of `penstock.chat.turn`, with the number of their turn. All of it is made of the log's
rows by `penstock.chat.history.timeline`; `docs/gateway-api.md` is the public format.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from penstock import events as ev
from penstock.chat.history.entries import Asker
from penstock.chat.turn import Question

TurnState = Literal["queued", "running", "completed"]


class TurnView(msgspec.Struct, omit_defaults=True):
    """A turn as it is shown. Times are milliseconds since 1970, by the log's clock."""

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
    hint: Question | None = None
    """What the agent asks: the run waits for it, or, in a completed turn, the next prompt answers it."""

    # --- once it is completed ---
    message: str = ""
    """All of the turn that stays in the thread."""
    outcome: ev.Outcome | None = None
    reason: str | None = None

    # --- once its run is over ---
    recorded: bool = False
    """The record of the turn is whole: nothing is added to it any more."""
    steps: int = 0
    """The thoughts, texts and calls in its record."""
    duration_ms: int | None = None
    usage: ev.Usage | None = None
    cost_usd: float | None = None
    first: int = 0
    """The number of its first row in the log."""
    last: int = 0
    """The number of its last row, once it is recorded."""


class Snapshot(msgspec.Struct, frozen=True, omit_defaults=True, tag="snapshot"):
    """The chat as it stands after row `number`; it takes the place of all that a viewer knew of it."""

    number: int
    turns: list[TurnView]
    """The newest, oldest first."""
    earlier: bool = False
    """There are turns before these."""


class Prompted(msgspec.Struct, frozen=True, omit_defaults=True, tag="prompted"):
    """A turn was asked for."""

    turn: int
    prompt: str
    by: Asker
    asked_at: int
    key: str | None = None


class Streaming(msgspec.Struct, frozen=True, omit_defaults=True, tag="streaming"):
    """As `penstock.chat.turn.Streaming`. The first of a turn says that it runs."""

    turn: int
    status: str
    hint: Question | None = None
    began_at: int | None = None
    """With the first of a turn."""


class Thinking(msgspec.Struct, frozen=True, tag="thinking"):
    """As `penstock.chat.turn.Thinking`; pieces that follow each other may come as one."""

    turn: int
    content: str


class FinalMessageStart(msgspec.Struct, frozen=True, tag="final_message_start"):
    """As `penstock.chat.turn.FinalMessageStart`."""

    turn: int


class Assistant(msgspec.Struct, frozen=True, omit_defaults=True, tag="assistant"):
    """As `penstock.chat.turn.Assistant`: the reply so far, whole."""

    turn: int
    content: str
    replace: bool = False


class AssistantDelta(msgspec.Struct, frozen=True, omit_defaults=True, tag="assistant"):
    """The same for who asked for `delta=1`: the reply is its first `offset` characters and then `delta`.

    Characters are Unicode code points. An `offset` before the reply's end is no error: what stood behind it goes.
    """

    turn: int
    delta: str
    offset: int
    replace: bool = False


class Completed(msgspec.Struct, frozen=True, omit_defaults=True, tag="completed"):
    """As `penstock.chat.turn.Completed`."""

    turn: int
    message: str
    outcome: ev.Outcome
    completed_at: int
    reason: str | None = None
    hint: Question | None = None


class Recorded(msgspec.Struct, frozen=True, omit_defaults=True, tag="recorded"):
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
    | Prompted
    | Streaming
    | Thinking
    | FinalMessageStart
    | Assistant
    | AssistantDelta
    | Completed
    | Recorded
    | Deleted
    | Goodbye
)


class Checkpoint(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the rows up to `number` left, where no turn runs: it spares a reader all rows before.

    It is made of the log alone, and kept beside it (`docs/event-log.md`).
    """

    number: int
    turns: list[TurnView]
    """Those recorded since the checkpoint before."""
    queued: list[TurnView] = []
