"""droid: `droid exec --output-format stream-json`.

Messages are printed when they are finished; nothing streams. See `docs/agents/droid.md`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec

from penstock.adapter import Command, Request
from penstock.agents._causes import cause_of_sdk
from penstock.agents._edits import proposed
from penstock.agents._exit_status import split_status
from penstock.agents._flags import each, granted, option, piped
from penstock.agents._json import (
    as_bool,
    as_dict,
    as_int,
    id_of,
    inner_message,
    object_of,
    output_of,
    parsed,
    text_of,
    text_or,
    words_of,
)
from penstock.agents._unknown import unknown
from penstock.agents.droid.diff import change_of
from penstock.updates import (
    Failure,
    MessageEnd,
    MessageStart,
    Notice,
    Result,
    RoundEnd,
    RunStart,
    Text,
    ToolCall,
    ToolReturn,
    Traits,
    Unknown,
    Update,
    Usage,
)

_EDITS = frozenset({"Edit", "Create", "ApplyPatch"})
_SHELL = "Execute"
_EXIT_LINE = re.compile(r"\n{0,2}\[Process exited with code (-?\d{1,10})\]\Z")
"""End of the output of a command, in droid 0.225.2."""
_FAILED = re.compile(r"\AError: Command failed \(exit code: -?\d{1,10}\)\n")
_REFUSED = re.compile(
    r"Error: (?:Exec ended early: insufficient permission|Tool \S+ is not permitted in this exec session)"
)


class System(msgspec.Struct, tag_field="type", tag="system"):
    """First line (`subtype` init)."""

    subtype: str | None = None
    session_id: str | None = None
    model: str | None = None
    cwd: str | None = None
    tools: Any = None
    text: Any = None


class Message(msgspec.Struct, tag_field="type", tag="message"):
    """Finished text of the model, or of the user's role: the prompt, and the news of a task in the background."""

    role: str | None = None
    id: str | None = None
    text: Any = None


class Reasoning(msgspec.Struct, tag_field="type", tag="reasoning"):
    """Finished thinking. `id` is that of the message. With some providers the whole line is printed twice."""

    id: str | None = None
    text: Any = None
    timestamp: Any = None


class Call(msgspec.Struct, tag_field="type", tag="tool_call", rename="camel"):
    """Tool call with its whole input."""

    id: str | None = None
    message_id: str | None = None
    tool_name: str | None = None
    parameters: Any = None


class Return(msgspec.Struct, tag_field="type", tag="tool_result", rename="camel"):
    """Result of a call: `value`, or `error` if it has failed."""

    id: str | None = None
    tool_id: str | None = None
    is_error: Any = None
    value: Any = None
    error: Any = None


class ErrorLine(msgspec.Struct, tag_field="type", tag="error"):
    """Error, after which nothing follows but that of the program itself (`source` cli), which has no reason."""

    source: str | None = None
    message: Any = None


class Completion(msgspec.Struct, tag_field="type", tag="completion"):
    """End of a run with an answer, whose text is that of the messages. The figures are those of the whole session."""

    num_turns: Any = msgspec.field(default=None, name="numTurns")
    duration_ms: Any = msgspec.field(default=None, name="durationMs")
    session_id: str | None = None
    usage: Any = None


class Droid:
    """Adapter of `droid exec --output-format stream-json`."""

    name: ClassVar[str] = "droid"
    traits: ClassVar[Traits] = Traits()
    wire: ClassVar[Any] = System | Message | Reasoning | Call | Return | ErrorLine | Completion

    @staticmethod
    def command(request: Request) -> Command:
        """Return `droid exec` with the prompt through stdin."""
        return piped(
            request,
            "droid",
            "exec",
            "--output-format=stream-json",
            *option("--model", request.model),
            *option("--fork" if request.fork else "--session-id", request.session_id),
            *granted(request, everything=("--skip-permissions-unsafe",)),
            *option("--reasoning-effort", request.effort),
            *option("--append-system-prompt", request.system_prompt),
            *each("--remove-tools", request.deny_tools),
            *request.args,
        )

    def __init__(self) -> None:
        self._turns = 0  # model messages so far
        self._message: str | None = None  # the model's latest message, if nothing but its own lines has followed
        self._failed = False
        self._thought = 0  # hash of the latest line of thinking
        self._thoughts = 0  # lines of thinking that differ from the one before

    def read(self, event: Any) -> Sequence[Update]:
        """Translate one wire event into updates."""
        if isinstance(event, Message):
            return self._read_message(event)
        if isinstance(event, Reasoning):
            return self._read_reasoning(event)
        if isinstance(event, Call):
            return (*self._turn(event.message_id), _read_call(event))
        if isinstance(event, Return):
            # Messages are printed when they are whole: all calls of this one have been.
            ended, self._message = self._message, None
            return (*((MessageEnd(ended),) if ended is not None else ()), _read_return(event))
        if isinstance(event, Completion):
            return (self._read_completion(event),)
        if isinstance(event, ErrorLine):
            return self._read_error(event)
        if isinstance(event, System):
            if event.subtype == "init":
                return (_read_init(event),)
            return (Unknown(f"system/{event.subtype}", text_of(event.text) or None),)
        return (unknown(text_or(as_dict(event).get("type"), ""), event),)

    def _turn(self, id: str | None) -> Sequence[Update]:
        """Begin the message with this id, if its lines so far were another's."""
        if not id_of(id, "a message") or id == self._message:
            return ()
        previous, self._message = self._message, id
        self._turns += 1
        # Without a call the answer is complete. If the model is asked again all the same, it had met its limit of
        # tokens: droid asks for the rest, and does not print that.
        cut = () if previous is None else (MessageEnd(previous, stop_reason="length"),)
        return (*cut, MessageStart(id))

    def _read_reasoning(self, event: Reasoning) -> Sequence[Update]:
        text = words_of(event.text)
        line = hash((event.id, text, text_of(event.timestamp)))
        if line != self._thought:
            self._thought = line
            self._thoughts += 1
        return (*self._turn(event.id), Text("thinking", "final", text, f"reasoning {self._thoughts}", event.id))

    def _read_message(self, event: Message) -> Sequence[Update]:
        text = words_of(event.text)
        if event.role == "assistant":
            begun = self._turn(event.id)
            return (*begun, Text("text", "final", text, message=event.id)) if text else begun
        self._message = None
        if (event.id or "").startswith("task-completion:"):
            return (RoundEnd(), Notice("background", text.partition("\n\n")[0]))
        return () if event.role == "user" else (Unknown(f"message/{event.role}", text or None),)

    def _read_error(self, event: ErrorLine) -> Sequence[Update]:
        if event.source == "cli" and self._failed:
            return ()  # "Exec failed"
        self._failed = True
        message = inner_message(text_of(event.message)) or "droid gave no message"
        cause = cause_of_sdk(message)
        return (Notice("error", message, "error", cause=cause), Failure(message, cause))

    def _read_completion(self, event: Completion) -> Result:
        # A run that goes on with a session has the turns and the tokens of the earlier runs among its own.
        is_of_run = (as_int(event.num_turns) or 0) <= self._turns
        return Result(
            stop_reason="end_turn",  # of an answer that meets the limit of tokens droid asks for the rest
            session_id=event.session_id,
            usage=_usage(object_of(event.usage)) if is_of_run else None,
            duration_ms=as_int(event.duration_ms),
        )


def _read_init(event: System) -> RunStart:
    tools = [name for name in event.tools if isinstance(name, str)] if isinstance(event.tools, list) else None
    return RunStart(session_id=event.session_id, model=event.model, cwd=event.cwd, tools=tools)


def _read_call(event: Call) -> ToolCall:
    name = event.tool_name or "tool"
    changes = proposed(event.parameters) if name in _EDITS else None
    return ToolCall(id_of(event.id, "a call"), name, event.parameters, message=event.message_id, changes=changes)


def _read_return(event: Return) -> ToolReturn:
    failed = as_bool(event.is_error) is True or event.error is not None
    text, exit_code = text_of(event.error) or text_of(output_of(event.value)), None
    refused = failed and _REFUSED.match(text) is not None
    changes = None
    if event.tool_id == _SHELL:
        text, exit_code = split_status(text, _EXIT_LINE)
        text = _FAILED.sub("", text, count=1) if exit_code is not None else text
    elif event.tool_id in _EDITS and not failed:
        change = change_of(parsed(event.value))
        changes = None if change is None else [change]
    return ToolReturn(
        id_of(event.id, "a result"), text, failed, exit_code, event.tool_id, changes=changes, refused=refused
    )


def _usage(fields: dict[str, Any]) -> Usage | None:
    read, write = as_int(fields.get("cache_read_input_tokens")), as_int(fields.get("cache_creation_input_tokens"))
    given = as_int(fields.get("input_tokens"))
    if given is None:
        return None
    return Usage(
        input_tokens=given + (read or 0) + (write or 0),
        output_tokens=as_int(fields.get("output_tokens")),
        cached_tokens=read,
        cache_write_tokens=write,
        reasoning_tokens=as_int(fields.get("thinking_tokens")),
    )
