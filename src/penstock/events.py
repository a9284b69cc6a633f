"""The strict vocabulary: the events that Penstock promises to its readers.

Only the normalizer (`penstock.core.normalizer`) makes events. `docs/events.md` is the public format;
`penstock.testing.verify` judges any list of events by the contract in `docs/contract.md`.

On the wire an event is one JSON object with `type` first; fields that are absent are left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

Kind = Literal["text", "thinking", "tool_input", "tool_output"]
"""Content of a block. `tool_output` blocks belong to a call, the other kinds to a message."""

Level = Literal["info", "warning", "error"]
MessageStatus = Literal["ok", "superseded", "cut"]
Outcome = Literal["ok", "error", "cancelled", "timed_out", "cut_off", "empty"]
ToolKind = Literal["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "other"]
"""ACP's list of tool kinds."""

Ask = Literal[
    "command",  # run a command
    "edit",  # change, move or delete a file
    "outside",  # work outside the directory of the run
    "network",  # use the network
    "tool",  # use any other tool
    "choice",  # choose one of the options
    "text",  # answer in words
]
"""Subject of a question."""

OptionKind = Literal["allow_once", "allow_always", "reject_once", "reject_always", "choice"]
"""Effect of an option of a question. `choice` is an answer that is not a permission."""

AnsweredBy = Literal[
    "person",
    "allow",  # the level of the run: what it allows in advance, or rejects since the agent may only read
    "rule",  # a rule for commands, which allows or denies it
    "nobody",  # nobody could be asked, so it was rejected
    "withdrawn",  # the agent, or the end of its turn, withdrew the question
]
"""Source of an answer."""

NoticeCode = Literal[
    "retry",  # the agent tries a model call again
    "rate_limit",
    "compaction",  # the agent shortens its own context
    "hook",  # a hook of the user's ran
    "status",  # the agent reports what it does
    "noise",  # a line of the agent's output that is not JSON
    "error",  # the agent reports an error of its own
    "permission",  # an action was allowed or rejected
    "background",  # work beside the run, sub-agents among it
    "refusal",  # the model declined
    "media",  # an image, a document or audio, which text cannot show
    "redacted",  # thinking that the provider hides
    "user",  # text in the user's role: echoed prompts, synthetic messages
    "model",  # another model took over
    "session",  # the conversation was named, reset or moved
    "result",  # a second end of the run, without anything new before it
    "format",  # the input is not an event stream
    "decision",  # why the generic adapter read a line as it did
]
"""Closed list of notice codes."""


Cause = Literal[
    "usage_limit",  # a quota that is used up, and resets at some time
    "rate_limit",  # too many requests for the moment
    "overloaded",  # the provider has no capacity
    "provider",  # another failure of the provider
    "auth",  # no login, or one that is not accepted
    "missing",  # there is no such model, or no such program
    "context",  # the conversation is too long for the model
    "length",  # the reply met the limit of its length
    "refusal",  # the model declined
    "network",  # the provider could not be reached
    "budget",  # a limit that the user has set
    "agent",  # a fault of the agent itself
]
"""Cause of a failure. It comes from fields of the wire, or from a fixed sentence of a program, never from prose."""

ChangeKind = Literal["add", "update", "delete", "move"]


class Change(msgspec.Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """Change of one file by an edit; see `penstock.core.diffs`."""

    path: str
    """Path as the agent gave it."""
    kind: ChangeKind
    to: str | None = None
    """New path of a file that was moved."""
    added: int | None = None
    """Number of lines added; None if unknown."""
    removed: int | None = None
    """Number of lines removed; None if unknown."""
    diff: str | None = None
    """Hunks of a unified diff, without file headers. A header `@@` alone: the line numbers are not known."""
    truncated: bool = False
    """True if `diff` is only the beginning. The counts are always of the whole change."""


class Usage(msgspec.Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """Tokens and cost. Counts are tokens; `cost_usd` is US dollars.

    `cached_tokens` and `cache_write_tokens` are part of `input_tokens`, `reasoning_tokens` part of
    `output_tokens`, whatever the agent's own figures mean.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost_usd: float | None = None

    def __add__(self, other: Usage) -> Usage:
        """Return the figures of both; a figure that is unknown in both stays unknown."""
        return Usage(*(added(getattr(self, name), getattr(other, name)) for name in self.__struct_fields__))


def added(one: float | None, other: float | None) -> Any:
    """Return the sum of two figures; an unknown one counts as 0, and the sum of two unknown ones is unknown.

    A sum of decimals is exact: costs of 0.1 and 0.2 are 0.3, not 0.30000000000000004.
    """
    if one is None or other is None:
        return other if one is None else one
    if type(one) is not float and type(other) is not float:
        return one + other
    from decimal import Decimal  # most wires give a total, and no sum is needed

    return float(Decimal(repr(one)) + Decimal(repr(other)))


class PlanItem(msgspec.Struct, frozen=True):
    """One line of a plan or todo list."""

    text: str
    status: Literal["pending", "in_progress", "completed"]


class AgentCommand(msgspec.Struct, frozen=True):
    """Command that an agent offers. A prompt that begins with a slash and its name calls it.

    Its texts are one line each, without control characters and changes of direction.
    """

    name: str
    """Name without the slash."""
    description: str = ""
    """What it does, for people; "" if the agent does not describe it."""
    argument: str = msgspec.field(default="", name="hint")
    """What follows the name, for people, such as `branch name`; "" if that is nothing or unknown."""


class Option(msgspec.Struct, frozen=True, omit_defaults=True):
    """One answer that a question offers. `id` is unique in its question; `label` is for people."""

    id: str
    label: str
    kind: OptionKind
    wide: bool = False
    """Of `allow_always`: it allows more than the kind of action that is asked for, such as all edits. Only its number,
    id or label chooses it, never a short word."""


class Base(msgspec.Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True, kw_only=True):
    """Fields of every event."""

    agent: str
    """The agent's label, e.g. `claude` or `ccs/glm`."""
    run: int | None = None
    """Number of the run, if several runs share an output."""
    parent: str | None = None
    """In a sub-agent's lane, the id of the call that started it."""
    at: int | None = None
    """Milliseconds since the start of the run, if known."""

    @property
    def type(self) -> str:
        """Kind of the event, as on the wire: `delta`, `tool_called`, `run_ended`."""
        return str(self.__struct_config__.tag)


class RunStarted(Base, frozen=True, omit_defaults=True, tag="run_started"):
    """The agent has started and described itself. Repeated when more becomes known."""

    session_id: str | None = None
    model: str | None = None
    cwd: str | None = None
    version: str | None = None
    tools: list[str] | None = None
    program: str | None = None
    """Name that the agent gives itself over ACP, if it is not one that Penstock knows by name."""


class MessageStarted(Base, frozen=True, omit_defaults=True, tag="message_started"):
    """A model message begins. `message` is its number in the run."""

    message: int
    message_id: str | None = None


class BlockStarted(Base, frozen=True, omit_defaults=True, tag="block_started"):
    """A block begins: its first text that is not empty follows, or, for a tool call, its name is known."""

    block: int
    kind: Kind
    message: int | None = None
    name: str | None = None
    call_id: str | None = None


class Delta(Base, frozen=True, omit_defaults=True, tag="delta", gc=False):
    """New text of an open block, never empty, never a repeat."""

    block: int
    kind: Kind
    text: str


class BlockRevised(Base, frozen=True, omit_defaults=True, tag="block_revised"):
    """The block's text so far was wrong; `text` is the complete new text."""

    block: int
    kind: Kind
    text: str


class BlockEnded(Base, frozen=True, omit_defaults=True, tag="block_ended"):
    """A block has ended. `text` is all of it; `complete` is false if it was cut off or superseded."""

    block: int
    kind: Kind
    text: str
    complete: bool
    truncated: bool = False
    """True if the block was larger than Penstock keeps; its deltas were complete."""


class MessageEnded(Base, frozen=True, omit_defaults=True, tag="message_ended"):
    """A message has ended, and all of its blocks before it."""

    message: int
    status: MessageStatus
    message_id: str | None = None
    stop_reason: str | None = None


class ToolCalled(Base, frozen=True, omit_defaults=True, tag="tool_called"):
    """A tool is called: once for each call, with its complete input."""

    call_id: str
    name: str
    input: Any
    title: str
    """One-line summary of the input: the command, path or pattern."""
    tool_kind: ToolKind
    message: int | None = None
    changes: list[Change] | None = None
    """Changes that the input proposes, if it holds an edit."""


class ToolReturned(Base, frozen=True, omit_defaults=True, tag="tool_returned"):
    """A call has its result. `complete` is false if the run ended before the tool did."""

    call_id: str
    text: str
    is_error: bool
    complete: bool
    name: str | None = None
    exit_code: int | None = None
    duration_ms: int | None = None
    """Duration of the call: by the agent's clock if its wire has it, else by that of Penstock. The time in which a
    question about it was open is not part of it."""
    changes: list[Change] | None = None
    """Changes that the call made. A call that failed has none."""
    refused: bool = False
    """True if the permission for the call was denied."""
    status_reported: bool = True
    """False if the agent does not report whether this command succeeded: then `is_error` is false in any case."""
    output_reported: bool = True
    """False if the agent does not report the output of this call: then `text` is empty in any case."""

    @property
    def failed(self) -> bool:
        """True if the agent or the command reports a failure: an error, or an exit status other than 0."""
        return self.is_error or bool(self.exit_code)


class PlanChanged(Base, frozen=True, omit_defaults=True, tag="plan_changed"):
    """The agent's plan, with all of its items."""

    items: list[PlanItem]


class CommandsChanged(Base, frozen=True, omit_defaults=True, tag="commands_changed"):
    """The commands that the agent offers, with all of them; the list replaces the one before."""

    commands: list[AgentCommand]


class UsageReported(Base, frozen=True, omit_defaults=True, tag="usage"):
    """Usage of one model call; see `Usage` for which figure includes which."""

    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost_usd: float | None = None


class Notice(Base, frozen=True, omit_defaults=True, tag="notice"):
    """A remark about the run that is not model text."""

    level: Level
    code: NoticeCode
    text: str
    cause: Cause | None = None
    attempt: int | None = None
    """Number of the attempt that follows, from 1, if the agent retries."""
    max_attempts: int | None = None
    wait_ms: int | None = None
    """Time until the next attempt in milliseconds."""
    steer: str | None = None
    """Id of a message that was given to the agent while it worked: the agent took it, and `text` is the message (code
    `user`), or did not, for the reason in `text` (code `error`)."""


class QuestionAsked(Base, frozen=True, omit_defaults=True, tag="question_asked"):
    """The agent asks a person. `blocking`: the route can take the answer and the run waits for it.

    `options` are in one order for all agents: by their kind, as `OptionKind` lists them.
    """

    id: str
    text: str
    blocking: bool
    ask: Ask
    options: list[Option] | None = None
    free_text: bool = False
    """An answer in words is possible as well; it rejects a permission and is passed to the agent."""
    call_id: str | None = None
    """The call that needs the permission."""
    tool_kind: ToolKind | None = None
    title: str | None = None
    """Subject of a permission in one line: the command, path or address."""
    changes: list[Change] | None = None
    """Changes for which the permission is asked."""


class QuestionAnswered(Base, frozen=True, omit_defaults=True, tag="question_answered"):
    """The question `id` was answered: by the option with the id `option`, in words (`text`), or not at all."""

    id: str
    by: AnsweredBy
    option: str | None = None
    text: str | None = None


class Unknown(Base, frozen=True, omit_defaults=True, tag="unknown"):
    """Valid JSON of an unknown kind. `raw` is bounded."""

    raw: str
    wire_type: str | None = None
    text: str | None = None


class Malformed(Base, frozen=True, omit_defaults=True, tag="malformed"):
    """A line that cannot be read. `line` counts from 1; `excerpt` is bounded."""

    line: int
    reason: str
    excerpt: str


class Replied(Base, frozen=True, omit_defaults=True, tag="replied"):
    """The agent has answered. More may follow."""

    reply: str
    is_error: bool
    session_id: str | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    duration_ms: int | None = None


class RunEnded(Base, frozen=True, omit_defaults=True, tag="run_ended"):
    """The last event of every run, exactly once."""

    outcome: Outcome
    reply: str
    rounds: int
    session_id: str | None = None
    reason: str | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    duration_ms: int | None = None
    cause: Cause | None = None
    """Cause of an outcome other than `ok`, if known."""
    resets_at: int | None = None
    """Time at which the limit resets, in milliseconds since 1970, if the cause is one that does."""
    refused: int | None = None
    """Number of actions that were denied; None if the wire cannot say."""
    asked_ms: int | None = None
    """Milliseconds in which the run waited for a person's answers; None without questions, or without times."""
    context_tokens: int | None = None
    """Tokens of the model's context that the conversation fills at the end; None unless `context_window` is known."""
    context_window: int | None = None
    """Tokens that the context of the main agent's model can hold; None unless `context_tokens` is known."""


Event = (
    RunStarted
    | MessageStarted
    | BlockStarted
    | Delta
    | BlockRevised
    | BlockEnded
    | MessageEnded
    | ToolCalled
    | ToolReturned
    | PlanChanged
    | CommandsChanged
    | UsageReported
    | Notice
    | QuestionAsked
    | QuestionAnswered
    | Unknown
    | Malformed
    | Replied
    | RunEnded
)
"""Any event: a closed union, so that a type checker can see whether a `match` handles all."""

_encoder = msgspec.json.Encoder()


def encode(events: Iterable[Event]) -> bytes:
    """Return events as NDJSON, one object a line, with a newline after each."""
    return _encoder.encode_lines(events)


def decode(line: bytes | str) -> Event:
    """Return the event of one line of NDJSON.

    Raises:
        msgspec.DecodeError: the line is not JSON, or not an event of this vocabulary.
    """
    event: Event = _decoder().decode(line)
    return event


def _decoder() -> msgspec.json.Decoder[Any]:
    # Made on first use: most programs only write events.
    global _cached
    if _cached is None:
        _cached = msgspec.json.Decoder(Event)
    return _cached


_cached: msgspec.json.Decoder[Any] | None = None
