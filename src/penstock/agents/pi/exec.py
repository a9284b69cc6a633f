"""Pi: `pi --mode json`.

Each update carries the new text and, twice, the whole message so far, which runs ahead of the text: only the new text
is read. The whole message is repeated when it ends, when its turn ends and when the agent ends: only the first is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import msgspec

from penstock.adapter import Command, Request
from penstock.agents._causes import cause_of_sdk
from penstock.agents._edits import path_of, proposed
from penstock.agents._exit_status import split_status
from penstock.agents._flags import granted, piped
from penstock.agents._json import (
    as_dict,
    as_float,
    as_int,
    as_list,
    media_label,
    object_of,
    output_of,
    text_of,
    text_or,
    words_of,
)
from penstock.agents._unknown import unknown
from penstock.agents.pi.diff import hunks
from penstock.core import diffs
from penstock.core.bounded import BoundedDict
from penstock.core.misfits import note
from penstock.events import Change
from penstock.updates import (
    BlockStart,
    Failure,
    MessageEnd,
    MessageStart,
    Mode,
    ModelUsage,
    Notice,
    Result,
    RunStart,
    Text,
    ToolCall,
    ToolReturn,
    Traits,
    Unknown,
    Update,
    Usage,
)

MAX_CALLS = 256
"""Number of running edits whose paths are remembered: far more than an agent makes at once."""

_EDITS = frozenset({"edit", "write"})
_SHELL = "bash"
_EXIT_LINE = re.compile(r"(?:\A|\n\n)Command exited with code (-?\d{1,10})\Z")
"""End of the output of a command that failed, in pi 0.73.1."""


class Call(msgspec.Struct):
    """Tool call inside a message."""

    id: str = ""
    name: str = ""
    arguments: Any = None


class MessageEvent(msgspec.Struct):
    """New part of a message. `partial`, the whole so far, is read only for the name of a call that has none itself."""

    type: str = ""
    contentIndex: int | None = None
    delta: str = ""
    content: str | None = None
    id: str | None = None
    toolName: str | None = None
    toolCall: Call | None = None
    partial: msgspec.Raw = msgspec.Raw()


class Partial(msgspec.Struct):
    """The whole message so far, with the fields that are needed."""

    content: list[dict[str, Any]] = []


class Message(msgspec.Struct):
    """Message of any role."""

    role: str = ""
    content: Any = None
    model: str | None = None
    stopReason: str | None = None
    errorMessage: str | None = None
    usage: Any = None
    toolCallId: str = ""
    toolName: str | None = None
    isError: bool = False


class SessionLine(msgspec.Struct, tag="session"):
    """First line."""

    id: str | None = None
    cwd: str | None = None


class MessageUpdate(msgspec.Struct, tag="message_update"):
    """Piece of the message that is being written."""

    assistantMessageEvent: MessageEvent | None = None


class MessageStarted(msgspec.Struct, tag="message_start"):
    """Start of a message of any role."""

    message: Message | None = None


class MessageEnded(msgspec.Struct, tag="message_end"):
    """End of a message of any role, with the whole message."""

    message: Message | None = None


class ToolStarted(msgspec.Struct, tag="tool_execution_start"):
    """Start of a tool."""

    toolCallId: str = ""
    toolName: str = ""
    args: Any = None


class ToolEnded(msgspec.Struct, tag="tool_execution_end"):
    """End of a tool."""

    isError: bool
    toolCallId: str = ""
    toolName: str = ""
    result: Any = None


class AgentEnded(msgspec.Struct, tag="agent_end"):
    """Stop of the agent, perhaps to try again."""

    messages: list[Message] | None = None
    willRetry: bool = False


class RetryStarted(msgspec.Struct, tag="auto_retry_start"):
    """Retry; the last message is dropped."""

    attempt: int | None = None
    maxAttempts: int | None = None
    delayMs: float | None = None
    errorMessage: str = ""


class RetryEnded(msgspec.Struct, tag="auto_retry_end"):
    """Success of a retry, or the last failure."""

    success: bool = True
    attempt: int | None = None
    finalError: str | None = None


class SummaryRetry(RetryStarted, tag="summarization_retry_scheduled"):
    """Retry of the model call that summarises the conversation; no message is dropped."""


class CompactionStarted(msgspec.Struct, tag="compaction_start"):
    """Start of a compaction of the conversation."""

    reason: str = ""


class AutoCompactionStarted(CompactionStarted, tag="auto_compaction_start"):
    """Name of the event up to version 0.62."""


class CompactionEnded(msgspec.Struct, tag="compaction_end"):
    """End of a compaction. Without a `result` the conversation was not compacted."""

    result: Any = None
    errorMessage: str | None = None
    aborted: bool = False
    willRetry: bool = False


class AutoCompactionEnded(CompactionEnded, tag="auto_compaction_end"):
    """Name of the event up to version 0.62."""


_SILENT = frozenset(
    {
        "agent_start",
        "turn_start",
        "turn_end",
        "agent_settled",  # since 0.87, after the end of every run
        "entry_appended",  # an entry of its own session file was written
        "tool_execution_update",  # a moving window of the output, not a text that grows
        "queue_update",
        "bash_execution_update",  # output of a command that a person runs
        "summarization_retry_attempt_start",
        "summarization_retry_finished",
        "session_info_changed",
        "thinking_level_changed",
    }
)


def arguments(request: Request) -> tuple[str, ...]:
    """Return the arguments of a request, the same in each mode. pi does not support `--flag=value`."""
    model = () if request.model is None else ("--model", request.model)
    session: tuple[str, ...] = ()
    if request.session_id is not None:
        session = ("--fork" if request.fork else "--session", request.session_id)
    effort = () if request.effort is None else ("--thinking", request.effort)
    system = () if request.system_prompt is None else ("--append-system-prompt", request.system_prompt)
    tools = granted(request, read=("--tools", "read,grep,find,ls"), everything=())
    return (*tools, *model, *effort, *system, *session, *request.args)


class Pi:
    """Adapter of pi's stream. Blocks have an index in the message, and may end after later ones have begun."""

    name: ClassVar[str] = "pi"
    traits: ClassVar[Traits] = Traits(block_ends=True)
    wire: ClassVar[Any] = (
        SessionLine
        | MessageUpdate
        | MessageStarted
        | MessageEnded
        | ToolStarted
        | ToolEnded
        | AgentEnded
        | RetryStarted
        | RetryEnded
        | SummaryRetry
        | CompactionStarted
        | AutoCompactionStarted
        | CompactionEnded
        | AutoCompactionEnded
    )

    @staticmethod
    def command(request: Request) -> Command:
        """Return `pi --mode json`, with the prompt through stdin."""
        return piped(request, "pi", "--mode", "json", *arguments(request), *(f"@{it.path}" for it in request.images))

    def __init__(self) -> None:
        self._paths: BoundedDict[str, str] = BoundedDict(MAX_CALLS)  # by call, of the edits that run

    def read(self, event: Any) -> Sequence[Update]:
        """Translate one wire event into updates."""
        if type(event) is MessageUpdate:
            return _piece(event.assistantMessageEvent)
        if type(event) is ToolStarted:
            return self._tool_started(event)
        if type(event) is ToolEnded:
            return self._tool_ended(event)
        reader = _READERS.get(type(event))
        if reader is not None:
            return tuple(reader(event))
        kind = text_or(as_dict(event).get("type"), "")
        return () if kind in _SILENT else (unknown(kind, event),)

    def _tool_started(self, event: ToolStarted) -> Sequence[Update]:
        if event.toolName in _EDITS and (path := path_of(event.args)):
            self._paths[event.toolCallId] = path
        return (_call(Call(event.toolCallId, event.toolName, event.args), None),)

    def _tool_ended(self, event: ToolEnded) -> Sequence[Update]:
        result, name = as_dict(event.result), event.toolName or None
        changes = _made(self._paths.pop(event.toolCallId, None), result)
        return (_tool_return(event.toolCallId, output_of(result.get("content")), event.isError, name, changes),)


def _tool_return(
    call_id: str, content: Any, failed: bool, name: str | None, changes: list[Change] | None = None
) -> ToolReturn:
    """Return the result of a call. The exit status of a command that failed is the last line of its output."""
    text, code = text_of(content), None
    if failed and name == _SHELL:
        text, code = split_status(text, _EXIT_LINE)
    return ToolReturn(call_id, text, failed, code, name, changes=changes)


def _piece(event: MessageEvent | None) -> Sequence[Update]:
    if event is None:
        return ()
    kind, index = event.type, event.contentIndex
    if index is None:
        note("a part of a message without a number")
    if kind == "text_delta":
        return (Text("text", "delta", event.delta, index),)
    if kind == "thinking_delta":
        return (Text("thinking", "delta", event.delta, index),)
    if kind == "toolcall_delta":
        return (Text("tool_input", "delta", event.delta, index),)
    if kind in ("text_end", "thinking_end") and event.content is not None:
        return (Text("text" if kind == "text_end" else "thinking", "final", event.content, index),)
    if kind in ("text_start", "thinking_start"):
        return (BlockStart("text" if kind == "text_start" else "thinking", index),)
    if kind == "toolcall_start":
        return (_call_start(event),)
    if kind == "toolcall_end" and event.toolCall is not None:
        return (_call(event.toolCall, index),)
    if kind in ("start", "done", "error", "text_end", "thinking_end", "toolcall_end"):
        return ()
    return (Unknown(f"message_update/{kind}", event.delta or event.content),)


def _call_start(event: MessageEvent) -> BlockStart:
    """Return the start of a call. Versions before 1.0 have its id and name in the whole message only."""
    if event.id or event.toolName:
        return BlockStart("tool_input", event.contentIndex or 0, call_id=event.id or None, name=event.toolName or None)
    index = event.contentIndex or 0
    try:
        block = msgspec.json.decode(event.partial, type=Partial).content[index]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, IndexError):  # undecoded until now
        block = {}
    call_id, name = text_of(block.get("id")) or None, text_of(block.get("name")) or None
    return BlockStart("tool_input", index, call_id=call_id, name=name)


def _call(call: Call, index: int | None) -> ToolCall:
    changes = proposed(call.arguments) if call.name in _EDITS else None
    return ToolCall(call.id, call.name or "tool", call.arguments, place=index, changes=changes)


def _made(path: str | None, result: dict[str, Any]) -> list[Change] | None:
    """Return the change that the result of an edit shows; None if it shows none."""
    diff = as_dict(result.get("details")).get("diff")
    found = hunks(diff) if path is not None and isinstance(diff, str) else None
    return [diffs.from_hunks(path, found)] if path is not None and found else None


def _session(event: SessionLine) -> Iterator[Update]:
    yield RunStart(event.id, cwd=event.cwd)


def _started(event: MessageStarted) -> Iterator[Update]:
    if event.message is not None and event.message.role == "assistant":
        yield RunStart(model=event.message.model)
        yield MessageStart()


def _ended(event: MessageEnded) -> Iterator[Update]:
    message = event.message or Message()
    if message.role == "toolResult":
        yield _tool_return(message.toolCallId, message.content, message.isError, message.toolName)
    elif message.role == "assistant":
        yield from _whole(message)
    elif message.role != "user" and (text := text_of(message.content)):
        yield Notice("status", text)  # an extension's text: the roles `custom`, `bashExecution`, …


def _whole(message: Message) -> Iterator[Update]:
    failed = message.stopReason in ("error", "aborted")
    mode: Mode = "snapshot" if failed else "final"
    for index, block in enumerate(map(as_dict, as_list(message.content))):
        kind = block.get("type")
        if kind == "text":
            yield Text("text", mode, words_of(block.get("text")), index)
        elif kind == "thinking":
            yield Text("thinking", mode, words_of(block.get("thinking")), index)
            if block.get("redacted") is True:
                yield Notice("redacted", "thinking that the provider hides")
        elif kind == "toolCall" and failed:
            pass  # it is never made
        elif kind == "toolCall":
            call = Call(text_of(block.get("id")), text_of(block.get("name")), block.get("arguments"))
            yield _call(call, index)
        elif kind == "image":
            yield Notice("media", media_label(block))
        else:
            yield Unknown(f"message/{text_of(kind)}", text_of(block.get("text")) or None)
    if (usage := _figures(message.usage)) is not None:
        yield ModelUsage(usage, message.model)
    if message.stopReason == "error":
        yield _failure(message)
    # A message that failed stays open: a retry drops it; without a retry it is kept.
    if not failed:
        yield MessageEnd(stop_reason=message.stopReason)


def _failure(message: Message) -> Failure:
    return Failure(message.errorMessage or "the model call failed", cause_of_sdk(message.errorMessage))


def _figures(usage: Any) -> Usage | None:
    data = object_of(usage)
    fresh, cached, written = (as_int(data.get(key)) for key in ("input", "cacheRead", "cacheWrite"))
    if not fresh and not data.get("output"):
        return None
    cost = as_float(object_of(data.get("cost")).get("total"))
    whole = (fresh or 0) + (cached or 0) + (written or 0)
    return Usage(whole, as_int(data.get("output")), cached, written, cost_usd=cost)


def _agent_ended(event: AgentEnded) -> Iterator[Update]:
    answers = [message for message in event.messages or [] if message.role == "assistant"]
    last = answers[-1] if answers else Message()
    if last.stopReason == "error":
        yield _failure(last)
    else:
        yield Result(cancelled=last.stopReason == "aborted", reason=last.errorMessage)


def _retry(event: RetryStarted) -> Iterator[Update]:
    if not isinstance(event, SummaryRetry):
        yield MessageEnd(status="superseded")
    yield Notice(
        "retry",
        event.errorMessage or "the model call failed",
        "warning",
        cause=cause_of_sdk(event.errorMessage),
        attempt=event.attempt,
        max_attempts=event.maxAttempts,
        wait_ms=as_int(event.delayMs),
    )


def _retry_ended(event: RetryEnded) -> Iterator[Update]:
    if not event.success:
        yield Failure(event.finalError or "no retries are left", cause_of_sdk(event.finalError))


def _compaction(event: CompactionStarted) -> Iterator[Update]:
    yield Notice("compaction", f"compacting the conversation ({event.reason or 'no reason given'})")


def _compaction_ended(event: CompactionEnded) -> Iterator[Update]:
    if event.willRetry:  # the message that did not fit is asked for anew
        yield MessageEnd(status="superseded")
    if event.errorMessage:
        yield Notice("compaction", f"the conversation could not be compacted: {event.errorMessage}", "warning")
    elif event.aborted:
        yield Notice("compaction", "compaction aborted")
    else:
        yield Notice("compaction", "conversation compacted" if event.result else "nothing was compacted")


_READERS: dict[type, Callable[[Any], Iterator[Update]]] = {
    SessionLine: _session,
    MessageStarted: _started,
    MessageEnded: _ended,
    AgentEnded: _agent_ended,
    RetryStarted: _retry,
    RetryEnded: _retry_ended,
    SummaryRetry: _retry,
    CompactionStarted: _compaction,
    AutoCompactionStarted: _compaction,
    CompactionEnded: _compaction_ended,
    AutoCompactionEnded: _compaction_ended,
}
