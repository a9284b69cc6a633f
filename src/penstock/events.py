"""The strict vocabulary: what Penstock promises to everyone who reads it.

Only the session (`penstock.core.normalizer.normalizer`) makes events. `docs/events.md` is the public format;
`penstock.testing.verify` judges any list of events by the contract in `docs/contract.md`.

On the wire an event is one JSON object with `type` first; fields that are absent are left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

Kind = Literal["text", "thinking", "tool_input", "tool_output"]
"""What a block holds. `tool_output` blocks belong to a call, the other kinds to a message."""

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
"""What a question is about."""

OptionKind = Literal["allow_once", "allow_always", "reject_once", "reject_always", "choice"]
"""What an option of a question does. `choice` is an answer that is no permission."""

AnsweredBy = Literal[
    "person",
    "allow",  # what was allowed in advance
    "nobody",  # nobody could be asked, so it was rejected
    "withdrawn",  # the agent, or the end of its turn, took the question back
]
"""Who answered a question."""

NoticeCode = Literal[
    "retry",  # the agent tries a model call again
    "rate_limit",
    "compaction",  # the agent shortens its own context
    "hook",  # a hook of the user's ran
    "status",  # the agent says what it does
    "noise",  # a line on the agent's output that is no JSON
    "error",  # the agent reports an error of its own
    "permission",  # something was allowed or refused
    "background",  # work that goes on beside the run, sub-agents among it
    "refusal",  # the model declined
    "media",  # an image, a document or audio, which text cannot show
    "redacted",  # thinking that the provider hides
    "user",  # what was said in the user's role: echoed prompts, synthetic messages
    "model",  # another model took over
    "session",  # the conversation was named, reset or moved
    "result",  # a second end that came without anything new before it
    "format",  # the input is something else than an event stream
    "decision",  # why the generic reader took a line as it did
]
"""The closed list of notice codes."""


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens and cost. Counts are tokens; `cost_usd` is US dollars.

    `cached_tokens` and `cache_write_tokens` are part of `input_tokens`, `reasoning_tokens` part of
    `output_tokens`, as every agent's figures are brought to this one reading.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost_usd: float | None = None

    def __add__(self, other: Usage) -> Usage:
        """Return the figures of both; a figure that is unknown in both stays unknown."""
        return Usage(*(_added(getattr(self, name), getattr(other, name)) for name in self.__struct_fields__))


def _added(one: float | None, other: float | None) -> Any:
    return other if one is None else one if other is None else one + other


class PlanItem(msgspec.Struct, frozen=True):
    """One line of a plan or todo list."""

    text: str
    status: Literal["pending", "in_progress", "completed"]


class Option(msgspec.Struct, frozen=True):
    """One answer that a question offers. `id` is unique in its question; `label` is for people."""

    id: str
    label: str
    kind: OptionKind


class Base(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What every event carries."""

    agent: str
    """The agent's label, e.g. `claude` or `ccs/glm`."""
    run: int | None = None
    """The run's number, where several runs share an output."""
    parent: str | None = None
    """In a sub-agent's lane, the id of the call that started it."""
    at: int | None = None
    """Milliseconds since the start, where the shell knows the time."""


class RunStarted(Base, frozen=True, omit_defaults=True, tag="run_started"):
    """The agent said who it is. May come again, when more becomes known."""

    session_id: str | None = None
    model: str | None = None
    cwd: str | None = None
    version: str | None = None
    tools: list[str] | None = None


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
    """The block's text so far was wrong; `text` is the whole new text."""

    block: int
    kind: Kind
    text: str


class BlockEnded(Base, frozen=True, omit_defaults=True, tag="block_ended"):
    """The block is over. `text` is the whole; `complete` is false where it was cut off or given up."""

    block: int
    kind: Kind
    text: str
    complete: bool
    truncated: bool = False
    """True where the block was larger than Penstock keeps; its deltas were whole."""


class MessageEnded(Base, frozen=True, omit_defaults=True, tag="message_ended"):
    """The message is over; all of its blocks have ended."""

    message: int
    status: MessageStatus
    message_id: str | None = None
    stop_reason: str | None = None


class ToolCalled(Base, frozen=True, omit_defaults=True, tag="tool_called"):
    """A tool is called. Once for each call, with its whole input."""

    call_id: str
    name: str
    input: Any
    title: str
    """The telling line: the command, the path, the pattern."""
    tool_kind: ToolKind
    message: int | None = None


class ToolReturned(Base, frozen=True, omit_defaults=True, tag="tool_returned"):
    """A call has its result. `complete` is false where the run ended before the tool did."""

    call_id: str
    text: str
    is_error: bool
    complete: bool
    name: str | None = None
    exit_code: int | None = None


class PlanChanged(Base, frozen=True, omit_defaults=True, tag="plan_changed"):
    """The agent's plan, whole."""

    items: list[PlanItem]


class UsageReported(Base, frozen=True, omit_defaults=True, tag="usage"):
    """What one model call used; see `Usage` for what is inside what."""

    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost_usd: float | None = None


class Notice(Base, frozen=True, omit_defaults=True, tag="notice"):
    """Something worth telling that is no model text."""

    level: Level
    code: NoticeCode
    text: str


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
    """Words of one's own are an answer as well; to a permission, they reject it and go to the agent."""
    call_id: str | None = None
    """The call that needs the permission."""
    tool_kind: ToolKind | None = None
    title: str | None = None
    """The command, the path, the address: what a permission is about, in one line."""


class QuestionAnswered(Base, frozen=True, omit_defaults=True, tag="question_answered"):
    """The question `id` was answered: by the option with the id `option`, in words (`text`), or not at all."""

    id: str
    by: AnsweredBy
    option: str | None = None
    text: str | None = None


class Unknown(Base, frozen=True, omit_defaults=True, tag="unknown"):
    """Valid JSON of a kind that Penstock does not know. `raw` is bounded."""

    raw: str
    wire_type: str | None = None
    text: str | None = None


class Malformed(Base, frozen=True, omit_defaults=True, tag="malformed"):
    """A line that no reader can take. `line` counts from 1; `excerpt` is bounded."""

    line: int
    reason: str
    excerpt: str


class Replied(Base, frozen=True, omit_defaults=True, tag="replied"):
    """The agent has given its answer. More may follow."""

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
    | UsageReported
    | Notice
    | QuestionAsked
    | QuestionAnswered
    | Unknown
    | Malformed
    | Replied
    | RunEnded
)

_encoder = msgspec.json.Encoder()


def encode(events: Iterable[Event]) -> bytes:
    """Events as NDJSON, one object a line, each line ended."""
    return _encoder.encode_lines(events)


def decode(line: bytes | str) -> Event:
    """One line of NDJSON back to its event.

    Raises:
        msgspec.DecodeError: the line is no JSON, or no event of this vocabulary.
    """
    event: Event = _decoder().decode(line)
    return event


def _decoder() -> msgspec.json.Decoder[Any]:
    # Made on first use: writers, which are the many, need none.
    global _cached
    if _cached is None:
        _cached = msgspec.json.Decoder(Event)
    return _cached


_cached: msgspec.json.Decoder[Any] | None = None
