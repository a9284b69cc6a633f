"""The loose vocabulary: updates, by which an adapter describes the meaning of a wire event.

An adapter translates and does nothing else. It may repeat itself, send snapshots for deltas, and leave out starts and
ends: the normalizer (`penstock.core.normalizer`) makes the strict `penstock.events` of its updates.
An adapter keeps no text and does not remember what was emitted; at most it maps ids.

Identity. `lane` is None for the main agent, else the id of the call that started the sub-agent. `message`
is the wire's id of the model message, None for the one that is current. `place` distinguishes the blocks of one
message (an index, a part id); None means the block of that kind that is still unfinished,
else a new one, which is how a wire without places counts: by kind and order.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from penstock.events import (
    AgentCommand,
    AnsweredBy,
    Ask,
    Cause,
    Change,
    Kind,
    Level,
    MessageStatus,
    NoticeCode,
    Option,
    PlanItem,
    ToolKind,
)
from penstock.events import Usage as Usage  # the same figures in both vocabularies

Mode = Literal["delta", "snapshot", "final"]
Place = int | str | None
MessagePhase = Literal["commentary", "final"]


class Traits(msgspec.Struct, frozen=True):
    """Constant properties of a wire.

    They are the only way in which the normalizer treats one agent unlike another.
    """

    block_ends: bool = False
    """The wire marks the end of blocks (`BlockEnd` or a `final`), so a block may be interrupted and continued.
    Otherwise a block ends when another one of its message starts."""
    finals: bool = False
    """Every block that the agent accepts is repeated in full (`final`). One that is followed by a new message without
    that is superseded."""
    repair_snapshots: bool = False
    """A proxy may put snapshots into the delta stream; the one repair that guesses is on (contract rule 4)."""
    regular_end: bool = False
    """The end of the stream is a regular end (outcome `ok`) even without a `Result`."""
    asks_for_all: bool = False
    """The agent asks for every permission by a `Question`, or marks each call that it denied, so the number of denied
    actions is known."""
    command_status: bool = True
    """The wire reports whether a command succeeded, by its exit status or as an error of the call. Otherwise a command
    has a status only if the result has one of its own."""
    runs_tools: bool = True
    """The agent runs the tools that its model calls. Otherwise a call without a result is nothing unusual."""


class RunStart(msgspec.Struct, frozen=True):
    """The agent's description of itself: any subset of fields, any number of times."""

    session_id: str | None = None
    model: str | None = None
    cwd: str | None = None
    version: str | None = None
    tools: list[str] | None = None
    program: str | None = None
    """Name that the agent gives itself, if it is not one that Penstock knows by name."""


class MessageStart(msgspec.Struct, frozen=True):
    """A model message begins. If its id is that of the open message, that one begins anew."""

    message: str | None = None
    lane: str | None = None


class MessageEnd(msgspec.Struct, frozen=True):
    """The current message, or the one named, has ended.

    `abandoned_from`: the agent withdrew the blocks from this place on (an int).
    `status`: None if the normalizer is to derive it.
    """

    message: str | None = None
    lane: str | None = None
    status: MessageStatus | None = None
    stop_reason: str | None = None
    abandoned_from: int | None = None


class Phase(msgspec.Struct, frozen=True):
    """The role of a message's text: a remark on the work, or the answer.

    It concerns the message named, or the current one, which has begun. If a run has an answer, that is its reply.
    """

    phase: MessagePhase
    message: str | None = None
    lane: str | None = None


class BlockStart(msgspec.Struct, frozen=True):
    """A block begins at `place`; an earlier one there has ended."""

    kind: Kind
    place: Place = None
    message: str | None = None
    lane: str | None = None
    call_id: str | None = None
    name: str | None = None


class Text(msgspec.Struct, frozen=True, gc=False):
    """Text of a block: what is new (`delta`), all so far (`snapshot`), or all of it (`final`, which ends the block).

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
    """The end of a block, as the wire marks it. A `final` may still follow."""

    place: Place = None
    message: str | None = None
    lane: str | None = None
    kind: Kind | None = None
    call_id: str | None = None


class ToolCall(msgspec.Struct, frozen=True):
    """A call with its complete input. A repeat has no effect."""

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
    changes: list[Change] | None = None
    """Changes that the input proposes; `penstock.core.diffs` makes them."""


class ToolReturn(msgspec.Struct, frozen=True):
    """The result of a call. A repeat has no effect.

    `changes`: what the call has changed. None: what its input proposed, unless it failed; an empty list: nothing.
    `refused`: the wire reports that the permission was denied. `status_reported`: the wire reports whether the call
    succeeded; None: it does, except for commands on wires without `Traits.command_status`. `output_reported`: the wire
    has a place for the output of this call, empty or not.
    """

    call_id: str
    text: str = ""
    is_error: bool = False
    exit_code: int | None = None
    name: str | None = None
    lane: str | None = None
    duration_ms: int | None = None
    changes: list[Change] | None = None
    refused: bool = False
    status_reported: bool | None = None
    output_reported: bool = True


class RoundEnd(msgspec.Struct, frozen=True):
    """The end of a round, on wires that report it without a tool result."""

    lane: str | None = None


class Plan(msgspec.Struct, frozen=True):
    """The complete plan. An equal one has no effect."""

    items: list[PlanItem]
    lane: str | None = None


class Commands(msgspec.Struct, frozen=True):
    """All commands that the agent offers. An equal list has no effect.

    A command without a description has that of an earlier list: some wires repeat the names alone.
    """

    commands: list[AgentCommand]


class ModelUsage(msgspec.Struct, frozen=True):
    """Usage of one model call.

    With `message`, or for the current message, figures may come in parts: later ones replace earlier ones, and
    one `usage` event is made when the message ends. `whole`: these are the figures of a call of its own.
    """

    usage: Usage
    model: str | None = None
    message: str | None = None
    lane: str | None = None
    whole: bool = False


class ContextUse(msgspec.Struct, frozen=True):
    """How full the context of the main agent's model is; an absent figure leaves the earlier one as it is.

    `tokens`: the agent's own count of what the conversation fills. Without one, it is counted by the main agent's last
    model call. `window`: the most that the context can hold.
    """

    tokens: int | None = None
    window: int | None = None


class Notice(msgspec.Struct, frozen=True):
    """A remark about the run that is not model text.

    `resets_at`: the time at which a limit resets, in milliseconds since 1970; it is the run's if the run fails of it.
    `steer`: id of the message that was given to the agent while it worked, see `penstock.events.Notice`.
    """

    code: NoticeCode
    text: str
    level: Level = "info"
    lane: str | None = None
    cause: Cause | None = None
    attempt: int | None = None
    max_attempts: int | None = None
    wait_ms: int | None = None
    resets_at: int | None = None
    steer: str | None = None


class Question(msgspec.Struct, frozen=True):
    """A question of the agent. Options may be in any order; see `penstock.events.QuestionAsked` for the fields."""

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
    changes: list[Change] | None = None
    command: str | tuple[str, ...] | None = None
    """Command that needs the permission, as the wire has it for the shell or the system, never a title for people: a
    line, or the words of a program and its arguments. Rules are matched with it."""
    command_cwd: str | None = None
    """Directory in which the command would run, if the wire names it."""
    action: str | None = None
    """Everything that the permission for a command covers, without words for people. The same command that is asked for
    again has the same `action`; None if the wire does not show enough of it."""


class Answer(msgspec.Struct, frozen=True):
    """The answer to a question: one of its options, or words; without either it was rejected or withdrawn."""

    id: str
    by: AnsweredBy
    option: str | None = None
    text: str | None = None
    lane: str | None = None


class Work(msgspec.Struct, frozen=True):
    """The start or end of work beside the run: a sub-agent, a command in the background.

    It makes no event. While there is such work, more may follow the agent's answer, and the run does not end.
    `id` None with `on` false: all of it has ended.
    """

    id: str | None
    on: bool


class Failure(msgspec.Struct, frozen=True):
    """A failure of the run that is not its end. A later good `Result` cancels it."""

    reason: str
    cause: Cause | None = None
    resets_at: int | None = None


class Result(msgspec.Struct, frozen=True):
    """The agent's answer.

    `reply`: its explicit final text, if the wire has one. `usage` and `cost_usd` are totals of the run.
    `cancelled`: the agent reports that it was interrupted. `stop_reason`: why the last model call ended, on wires that
    report it here and not with the message; if that is a limit of tokens, the run has failed. `refused`: the number of
    actions that were denied, by the agent's own count.
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
    cause: Cause | None = None
    resets_at: int | None = None
    refused: int | None = None


class Unknown(msgspec.Struct, frozen=True):
    """A wire event of a kind that the adapter does not know. The stream adds the raw line."""

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
    | RoundEnd
    | Plan
    | Commands
    | ModelUsage
    | ContextUse
    | Notice
    | Question
    | Answer
    | Work
    | Failure
    | Result
    | Unknown
)
