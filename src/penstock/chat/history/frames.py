"""Frames that a client of a chat gets: a snapshot of the whole chat, then the changes, one by one.

The frames of one turn are the events of `penstock.chat.turn`. `penstock.chat.history.timeline` makes all frames from a
chat's entries; `docs/gateway-api.md` is the public format.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from penstock import events as ev
from penstock.chat.history.denied import DeniedAction, NeededAllow
from penstock.chat.history.entries import OWNER, Asker, AttachedFile
from penstock.chat.turn import Assistant, Completed, FinalMessageStart, OpenQuestion, Streaming, Thinking

TurnState = Literal["queued", "running", "completed"]

SteerState = Literal["given", "taken", "late"]
"""State of a message for the agent of a running turn: on its way, a part of that turn, or still a turn of its own, as
the agent did not take it."""


class PlanProgress(msgspec.Struct, frozen=True, omit_defaults=True):
    """How much of the agent's plan is done. Its texts are in the activity and in the details, never here."""

    done: int = 0
    all: int = 0


class ChangedFiles(msgspec.Struct, frozen=True, omit_defaults=True):
    """Number of files that a turn changed, and of the lines that were added and removed, as far as they are known."""

    files: int
    added: int | None = None
    removed: int | None = None


class UndoneFiles(msgspec.Struct, frozen=True, omit_defaults=True):
    """Number of files of a turn that are as they were before it, since a person took its changes back."""

    files: int
    stayed: int = 0
    """Number of files that could not be taken back."""
    at: int = 0
    """Time at which it was done, in milliseconds since 1970."""
    person: str = msgspec.field(default_factory=lambda: OWNER)
    """Person who did it."""


class Steer(msgspec.Struct, frozen=True):
    """How far a message is that was given to the agent of a running turn."""

    into: int
    """Number of that turn."""
    state: SteerState


class TurnView(msgspec.Struct, omit_defaults=True):
    """View of a turn for clients. Times are milliseconds since 1970, by the clock that stamped its entries."""

    turn: int
    prompt: str
    # A default from a factory is written like any other value: readers interpret an absent field as null or empty.
    by: Asker = msgspec.field(default_factory=lambda: "person")
    key: str | None = None
    state: TurnState = msgspec.field(default_factory=lambda: "queued")
    asked_at: int = 0
    began_at: int | None = None
    completed_at: int | None = None
    agent: str | None = None
    model: str | None = None
    held: bool = False
    """True if it waits until a person releases it: the turn before it was stopped."""
    person: str = msgspec.field(default_factory=lambda: OWNER)
    """Person who asked for it."""
    attachments: list[AttachedFile] | None = None
    """Pictures and files of the message; None if it has none."""
    edits: int = 0
    """Number of changes of its text while it waited."""
    place: int = 0
    """Place among the turns that wait; of two with the same place, the lower number begins first."""

    steer: Steer | None = None
    """State of its text as a message within another turn; None if it was never given to one."""

    # --- while it runs ---
    steerable: bool = False
    """True if its agent takes messages while it works."""
    status: str | None = None
    """Status line; None if something else has replaced it."""
    reply: str | None = None
    """Reply so far; None until its first text."""
    question: OpenQuestion | None = None
    """Question of the agent: the run waits for the answer, or, in a completed turn, the next prompt answers it."""
    plan: PlanProgress | None = None
    """Progress of the agent's plan; None until it has one."""

    # --- once it is completed ---
    message: str = ""
    """Text of the turn that remains in the thread."""
    outcome: ev.Outcome | None = None
    reason: str | None = None
    cause: ev.Cause | None = None
    resets_at: int | None = None
    """Time at which the limit resets, if the cause is one that does."""

    # --- once its run is over ---
    finalized: bool = False
    """True once the details of the turn are complete: nothing more is added to them."""
    steps: int = 0
    """Number of thoughts, texts and calls in its details."""
    refused: int = 0
    """Number of actions that were denied, as far as the agent reports them."""
    rejected: int = 0
    """Number of those that a person rejected."""
    denied: list[DeniedAction] | None = None
    """The first of them whose names are known."""
    needs_allow: NeededAllow | None = None
    """Permission to allow the actions denied by a policy; None if there are none, or if they are unknown."""
    duration_ms: int | None = None
    usage: ev.Usage | None = None
    cost_usd: float | None = None
    context_tokens: int | None = None
    """Tokens that the conversation fills in the model's context; None if unknown, or if its size is unknown."""
    context_window: int | None = None
    """Tokens that the context can hold."""
    changed: ChangedFiles | None = None
    """Files that its calls changed; None if there are none, or if it was summed up by an earlier version."""
    found: int = 0
    """Number of other files in the directory of which git found that they were changed meanwhile, by whomever."""
    undone: UndoneFiles | None = None
    """Files that were taken back; None if none were, or if they were made again."""
    undos: dict[str, int] | None = None
    """Numbers of the newest entries that took its changes back or made them again, by the keys of their requests."""
    first: int = 0
    """Number of its first entry."""
    last: int = 0
    """Number of its last entry, once it is recorded."""

    @property
    def whole(self) -> int | None:
        """Number of the turn of which this one became a part, as its agent took the text while it worked."""
        return self.steer.into if self.steer is not None and self.steer.state == "taken" else None


class Snapshot(msgspec.Struct, frozen=True, omit_defaults=True, tag="snapshot"):
    """State of the chat after entry `number`; it replaces the client's whole state of the chat."""

    number: int
    turns: list[TurnView]
    """Newest turns, oldest first."""
    earlier: bool = False
    """True if there are turns before these."""


class PromptedFrame(msgspec.Struct, frozen=True, omit_defaults=True, tag="prompted"):
    """A turn was submitted."""

    turn: int
    prompt: str
    by: Asker
    asked_at: int
    key: str | None = None
    person: str = msgspec.field(default_factory=lambda: OWNER)
    attachments: list[AttachedFile] | None = None


class HeldTurns(msgspec.Struct, frozen=True, tag="held"):
    """All turns that wait until a person releases them."""

    turns: list[int]


class QueueFrame(msgspec.Struct, frozen=True, tag="queue"):
    """All turns that wait, in the order in which they begin."""

    turns: list[int]


class EditedFrame(msgspec.Struct, frozen=True, tag="edited"):
    """The text of a turn that waits was changed."""

    turn: int
    prompt: str
    edits: int
    """Number of its changes so far."""


class SteerFrame(msgspec.Struct, frozen=True, tag="steer"):
    """A message was given to the agent of a running turn, taken by it, or came too late."""

    turn: int
    steer: Steer


class SteerableFrame(msgspec.Struct, frozen=True, tag="steerable"):
    """The agent of a turn that has begun takes messages while it works."""

    turn: int


class PlanFrame(msgspec.Struct, frozen=True, omit_defaults=True, tag="plan"):
    """The plan of the agent was made or changed: so many of its items are done."""

    turn: int
    done: int = 0
    all: int = 0


class AssistantDelta(msgspec.Struct, frozen=True, omit_defaults=True, tag="assistant"):
    """`Assistant` for a client that asked for `delta=1`: the reply is its first `offset` characters and then `delta`.

    Characters are Unicode code points. An `offset` before the reply's end is not an error: the text after it is
    dropped.
    """

    turn: int
    delta: str
    offset: int
    replace: bool = False


class Finalized(msgspec.Struct, frozen=True, omit_defaults=True, tag="finalized"):
    """The run of a completed turn is over, and its details are complete."""

    turn: int
    steps: int
    duration_ms: int | None = None
    usage: ev.Usage | None = None
    cost_usd: float | None = None
    agent: str | None = None
    model: str | None = None
    refused: int = 0
    needs_allow: NeededAllow | None = None
    rejected: int = 0
    denied: list[DeniedAction] | None = None
    context_tokens: int | None = None
    context_window: int | None = None
    changed: ChangedFiles | None = None
    found: int = 0


class UndoneFrame(msgspec.Struct, frozen=True, omit_defaults=True, tag="undone"):
    """The changes of a turn that is over were taken back, or made again: then `undone` is missing."""

    turn: int
    undone: UndoneFiles | None = None


class Deleted(msgspec.Struct, frozen=True, tag="deleted"):
    """The chat was deleted. No frame follows, and there is no reason to reconnect."""


class Missing(msgspec.Struct, frozen=True, tag="missing"):
    """There is no such chat, or its client may no longer see it. No frame of the chat follows in the stream.

    Only a stream of several chats has it.
    """


class StoreChanged(msgspec.Struct, frozen=True, omit_defaults=True, tag="store"):
    """The store of the server fails, so nothing more is shown, or works again.

    The frame has no number. A client that gets no such frame can assume that the store works. Everything shown before
    is kept.
    """

    works: bool
    reason: str = ""
    """Reason of the failure."""
    help: str = ""
    """Advice on what to do about it."""


class Goodbye(msgspec.Struct, frozen=True, tag="goodbye"):
    """The server ends. A client that reconnects with the last number loses nothing."""


Frame = (
    Snapshot
    | PromptedFrame
    | HeldTurns
    | QueueFrame
    | EditedFrame
    | SteerFrame
    | SteerableFrame
    | Streaming
    | Thinking
    | PlanFrame
    | FinalMessageStart
    | Assistant
    | AssistantDelta
    | Completed
    | Finalized
    | UndoneFrame
    | Deleted
    | StoreChanged
    | Goodbye
)
