"""The loose vocabulary: what an adapter says that a wire event means.

An adapter translates words and nothing else. It may repeat itself, send snapshots for deltas, forget to
start or end things: the session (`penstock.core.normalizer.normalizer`) makes the strict `penstock.events` of it.
An adapter keeps no text and no memory of what was already put out; at most it maps ids.

Identity. `lane` is None for the top agent, else the id of the call that started the sub-agent. `message`
is the wire's id of the model message, None for the one that is current. `place` tells the blocks of one
message apart (an index, a part id); None means the block of that kind that is still unfinished,
else a new one, which is how a wire without places counts: by kind and order.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from penstock.events import AnsweredBy, Ask, Kind, Level, MessageStatus, NoticeCode, Option, PlanItem, ToolKind
from penstock.events import Usage as Usage  # the same figures in both vocabularies

Mode = Literal["delta", "snapshot", "final"]
Place = int | str | None
MessagePhase = Literal["commentary", "final"]


class Traits(msgspec.Struct, frozen=True):
    """What is true of a whole wire. Constants of an adapter, never a memory.

    They are the only way in which the session treats one agent unlike another.
    """

    block_ends: bool = False
    """The wire marks the end of blocks (`BlockEnd` or a `final`), so a block may be left and returned to.
    Otherwise a block ends when another one of its message starts."""
    finals: bool = False
    """Every block that the agent accepts is repeated whole (`final`). One that a new message overtakes
    before that was given up."""
    armed: bool = False
    """A proxy may put snapshots into the delta stream; the one repair that guesses is armed (contract rule 4)."""
    regular_end: bool = False
    """The end of the stream is a regular end (outcome `ok`) even without a `Result`."""


class RunStart(msgspec.Struct, frozen=True):
    """Who the agent is. Any subset of fields, any number of times."""

    session_id: str | None = None
    model: str | None = None
    cwd: str | None = None
    version: str | None = None
    tools: list[str] | None = None


class MessageStart(msgspec.Struct, frozen=True):
    """A model message begins. The id of the message that is open means: it begins again."""

    message: str | None = None
    lane: str | None = None


class MessageEnd(msgspec.Struct, frozen=True):
    """The current message, or the one named, is over.

    `abandoned_from`: blocks from this place on (an int) were taken back by the agent.
    `status`: None lets the session judge.
    """

    message: str | None = None
    lane: str | None = None
    status: MessageStatus | None = None
    stop_reason: str | None = None
    abandoned_from: int | None = None


class Phase(msgspec.Struct, frozen=True):
    """The agent says what the text of a message is: a remark on its work, or its answer.

    It is about the message named, or the current one, which has begun. Where there is an answer, it is the reply.
    """

    phase: MessagePhase
    message: str | None = None
    lane: str | None = None


class BlockStart(msgspec.Struct, frozen=True):
    """A block begins at `place`; one that stood there before is over."""

    kind: Kind
    place: Place = None
    message: str | None = None
    lane: str | None = None
    call_id: str | None = None
    name: str | None = None


class Text(msgspec.Struct, frozen=True, gc=False):
    """Text of a block: only the new (`delta`), all so far (`snapshot`), or the truth (`final`, which ends it).

    Blocks of tool input and output are found by `call_id`.
    """

    kind: Kind
    mode: Mode
    text: str
    place: Place = None
    message: str | None = None
    lane: str | None = None
    call_id: str | None = None


class BlockEnd(msgspec.Struct, frozen=True):
    """The wire says that the block is whole. A `final` may still follow."""

    place: Place = None
    message: str | None = None
    lane: str | None = None
    kind: Kind | None = None
    call_id: str | None = None


class ToolCall(msgspec.Struct, frozen=True):
    """A call with its whole input. Said again it is silent."""

    call_id: str
    name: str
    input: Any = None
    title: str | None = None
    """None: made of name and input by `penstock.core.tool_titles`."""
    tool_kind: ToolKind | None = None
    """None: guessed from the name by `penstock.core.tool_titles`."""
    place: Place = None
    message: str | None = None
    lane: str | None = None


class ToolReturn(msgspec.Struct, frozen=True):
    """The result of a call. Said again it is silent."""

    call_id: str
    text: str = ""
    is_error: bool = False
    exit_code: int | None = None
    name: str | None = None
    lane: str | None = None


class TurnMark(msgspec.Struct, frozen=True):
    """The round is over, on wires that say so without a tool result."""

    lane: str | None = None


class Plan(msgspec.Struct, frozen=True):
    """The whole plan. An equal one said again is silent."""

    items: list[PlanItem]
    lane: str | None = None


class ModelUsage(msgspec.Struct, frozen=True):
    """What one model call used.

    With `message`, or for the current message, figures may come in parts: later ones replace earlier ones, and
    one `usage` event is made when the message ends. `whole`: this is a call of its own, told at once.
    """

    usage: Usage
    model: str | None = None
    message: str | None = None
    lane: str | None = None
    whole: bool = False


class Notice(msgspec.Struct, frozen=True):
    """Worth telling, but no model text."""

    code: NoticeCode
    text: str
    level: Level = "info"
    lane: str | None = None


class Question(msgspec.Struct, frozen=True):
    """The agent asks a person. Options may be in any order; see `penstock.events.QuestionAsked` for the fields."""

    id: str
    text: str
    ask: Ask
    options: list[Option] | None = None
    blocking: bool = False
    free_text: bool = False
    call_id: str | None = None
    tool_kind: ToolKind | None = None
    title: str | None = None
    lane: str | None = None


class Answer(msgspec.Struct, frozen=True):
    """A question was answered: by one of its options, in words, or, without either, rejected or withdrawn."""

    id: str
    by: AnsweredBy
    option: str | None = None
    text: str | None = None
    lane: str | None = None


class Work(msgspec.Struct, frozen=True):
    """Work beside the run began or ended: a sub-agent, a command in the background.

    It makes no event. While some goes on, more may follow the agent's answer, and the run is waited for.
    `id` None with `on` false: none of it goes on.
    """

    id: str | None
    on: bool


class Failure(msgspec.Struct, frozen=True):
    """The agent reports that the run failed, without this being its end. A later good `Result` takes it back."""

    reason: str


class Result(msgspec.Struct, frozen=True):
    """The agent has given its answer.

    `reply`: its explicit final text, where it has one. `usage` and `cost_usd` are totals of the run.
    `cancelled`: the agent says that it was interrupted. `stop_reason`: why the last model call ended, on wires
    that say so here and not with the message; where that is a limit of tokens, the run has failed.
    """

    reply: str | None = None
    is_error: bool = False
    reason: str | None = None
    session_id: str | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    duration_ms: int | None = None
    cancelled: bool = False
    stop_reason: str | None = None


class Unknown(msgspec.Struct, frozen=True):
    """A kind of event that the adapter does not know. The stream adds the raw line."""

    wire_type: str | None = None
    text: str | None = None
    lane: str | None = None


Update = (
    RunStart
    | MessageStart
    | MessageEnd
    | Phase
    | BlockStart
    | Text
    | BlockEnd
    | ToolCall
    | ToolReturn
    | TurnMark
    | Plan
    | ModelUsage
    | Notice
    | Question
    | Answer
    | Work
    | Failure
    | Result
    | Unknown
)
