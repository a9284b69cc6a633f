"""Cursor: `agent -p --output-format stream-json [--stream-partial-output]`.

Written from Cursor's own page on the output format and from captures that others published; never recorded by this
project, so unproven (`docs/agents/cursor.md` names the sources).

The text of a *segment*, all of it between two tool calls, comes whole in an `assistant` line (a recap), and with the
flag in pieces before that. Both are `assistant` lines; only their fields distinguish them: a piece has `timestamp_ms`
and no `model_call_id`, a recap before a tool call has `model_call_id`, the last one has neither. Comparing texts would
be wrong: a piece may well repeat the text before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec

from penstock.adapter import Command, Request
from penstock.agents._flags import granted, option, piped
from penstock.agents._json import as_dict, as_int, as_list, compact, parsed, plan_items, text_or
from penstock.agents._unknown import unknown
from penstock.agents.cursor import edits
from penstock.events import Cause
from penstock.updates import (
    BlockEnd,
    MessageEnd,
    Notice,
    Plan,
    Result,
    RunStart,
    Text,
    ToolReturn,
    Traits,
    Unknown,
    Update,
    Usage,
)
from penstock.updates import ToolCall as Called

SUFFIX = "ToolCall"
"""End of the name of a call, which is the one such member of `tool_call`: `readToolCall`, `shellToolCall`, …"""

GOOD = frozenset({"success", "complete", "registered", "startSuccess", "backgrounded"})
"""Outcomes of a call that are not errors; each is the one member of its `result`."""


class Message(msgspec.Struct):
    """`message` of `user` and `assistant`: content is a list of parts, or text."""

    role: str = ""
    content: Any = None


class System(msgspec.Struct, tag="system"):
    """`init`, first of all, and news of work in the background."""

    subtype: str = ""
    session_id: str | None = None
    model: str | None = None
    cwd: str | None = None
    message: Any = None
    description: str = ""
    status: str = ""


class User(msgspec.Struct, tag="user"):
    """Echo of the prompt."""

    message: Message | None = None


class Assistant(msgspec.Struct, tag="assistant"):
    """Piece of text, or recap of its segment."""

    message: Message | None = None
    timestamp_ms: float | None = None
    model_call_id: str | None = None


class Thinking(msgspec.Struct, tag="thinking"):
    """`delta` with text, `completed` without."""

    subtype: str = ""
    text: str = ""


class ToolCall(msgspec.Struct, tag="tool_call"):
    """`started` and `completed`; both hold the arguments, the second the result."""

    subtype: str = ""
    call_id: str = ""
    tool_call: dict[str, Any] = {}


class Interaction(msgspec.Struct, tag="interaction_query"):
    """Request of the agent for an approval, which it answers itself: no user can answer here."""

    subtype: str = ""
    query_type: str = ""
    response: Any = None


class Connection(msgspec.Struct, tag="connection"):
    """`reconnecting` and `reconnected`."""

    subtype: str = ""
    attempt: int | None = None


class Retry(msgspec.Struct, tag="retry"):
    """`starting` and `resuming`: the request is sent again, or resumed at the break."""

    subtype: str = ""
    attempt: int | None = None
    is_resume: bool | None = None


class Ended(msgspec.Struct, tag="result"):
    """End of the run. `result` joins the text of all segments without separator."""

    subtype: str = ""
    is_error: bool = False
    result: str | None = None
    session_id: str | None = None
    duration_ms: int | None = None
    usage: dict[str, Any] | None = None


class Cursor:
    """Adapter of the stream of Cursor's command line."""

    name: ClassVar[str] = "cursor"
    # A recap ends its segment's text, also if thoughts came between its pieces.
    traits: ClassVar[Traits] = Traits(block_ends=True)
    wire: ClassVar[Any] = System | User | Assistant | Thinking | ToolCall | Interaction | Connection | Retry | Ended

    @staticmethod
    def command(request: Request) -> Command:
        """Return `cursor-agent --print`, with the prompt through stdin."""
        return piped(
            request,
            "cursor-agent",
            "--print",
            "--output-format=stream-json",
            "--stream-partial-output",
            *option("--model", request.model),
            *option("--resume", request.session_id),
            *granted(request, everything=("--force",)),
            *request.args,
        )

    def __init__(self) -> None:
        self._joined = False  # `result.result` is a sum of lines that were read, not a text of its own

    def read(self, event: Any) -> Sequence[Update]:
        """Translate one line into updates."""
        match event:
            case Assistant():
                return self._assistant(event)
            case Thinking():
                return _thinking(event)
            case ToolCall():
                return _tool(event)
            case Ended():
                return self._result(event)
            case System():
                return _system(event)
            case Interaction():
                return _interaction(event)
            case Connection() | Retry():
                return _again(event)
            case User():
                return ()
        return (_unknown(event),)

    def _assistant(self, event: Assistant) -> Sequence[Update]:
        text = _text(event.message.content) if event.message else ""
        if not text:
            return ()
        self._joined = True
        piece = event.timestamp_ms is not None and not event.model_call_id
        # A piece has its kind as its place, so that the normalizer finds its block at once; a recap is found by kind.
        return (Text("text", "delta", text, "text") if piece else Text("text", "final", text),)

    def _result(self, event: Ended) -> Sequence[Update]:
        failed = event.is_error or event.subtype.startswith("error")
        text = "" if failed or self._joined else event.result or ""
        self._joined = False
        result = Result(
            reply=text or None,
            is_error=failed,
            reason=(event.result or event.subtype or None) if failed else None,
            session_id=event.session_id,
            usage=_usage(event.usage),
            duration_ms=event.duration_ms,
        )
        if failed:
            return (result,)
        # A version without recaps leaves its last text open; a version without pieces has the text only here.
        last = Text("text", "final", text) if text else BlockEnd("text", kind="text")
        return (last, result)


def _thinking(event: Thinking) -> Sequence[Update]:
    said = (Text("thinking", "delta", event.text, "thinking"),) if event.text else ()
    if event.subtype == "completed":
        return (*said, BlockEnd("thinking", kind="thinking"))
    return said


def _tool(event: ToolCall) -> Sequence[Update]:
    name, given, result = _call(event.tool_call)
    call_id = event.call_id or text_or(event.tool_call.get("toolCallId"), "")
    if not call_id:
        return (Unknown(wire_type=f"tool_call/{event.subtype}"),)
    called = Called(call_id, name, given)
    if event.subtype != "completed":
        return (called,)
    plan = _plan(given, result)
    return (called, _returned(call_id, name, given, result), *((plan,) if plan else ()))


def _call(call: dict[str, Any]) -> tuple[str, Any, dict[str, Any]]:
    """Return the name, arguments and result of a call."""
    function = call.get("function")
    if isinstance(function, dict):
        return (
            text_or(function.get("name"), "function"),
            parsed(function.get("arguments")),
            as_dict(call.get("result")),
        )
    for key, body in call.items():
        if key.endswith(SUFFIX) and isinstance(body, dict):
            name, given, result = key.removesuffix(SUFFIX), body.get("args"), as_dict(body.get("result"))
            if name == "mcp" and isinstance(given, dict):
                name = text_or(given.get("toolName"), text_or(given.get("name"), name))
                given = given.get("args", given)
            return name, given, result
    return "tool", None, {}


def _returned(call_id: str, name: str, given: Any, result: dict[str, Any]) -> ToolReturn:
    dicts = (key for key, value in result.items() if isinstance(value, dict) and key not in ("content", "output"))
    outcome = next(dicts, "")
    inner = result[outcome] if outcome else result
    failed = bool(outcome) and outcome not in GOOD
    text = _result_text(inner)
    if failed and outcome != "error" and outcome != "failure":
        text = f"{outcome}: {text}" if text else outcome
    return ToolReturn(
        call_id,
        text,
        is_error=failed or inner.get("isError") is True,
        exit_code=as_int(inner.get("exitCode")),
        name=name,
        duration_ms=as_int(inner.get("executionTime")),
        changes=edits.made(name, as_dict(given), inner) if outcome == "success" else None,
        refused=outcome == "rejected",
    )


def _result_text(result: dict[str, Any]) -> str:
    """Return the text of a result: its output, its content, its reason, else all of it as JSON."""
    streams = [text_or(result.get(key), "") for key in ("stdout", "stderr")]
    if any(streams) or "exitCode" in result:
        return "".join(streams)
    for key in ("content", "output", "error", "errorMessage", "message", "reason", "diffString"):
        text = _text(result.get(key))
        if text:
            return text
    return compact(result) if result else ""


def _plan(given: Any, result: dict[str, Any]) -> Plan | None:
    """Return the whole list of a call that wrote todos; if the call merges some into the list, its result has it."""
    todos = as_dict(result.get("success")).get("todos")
    if not isinstance(todos, list) and not as_dict(given).get("merge"):
        todos = as_dict(given).get("todos")
    if not isinstance(todos, list):
        return None
    return Plan(plan_items([_todo(as_dict(todo)) for todo in as_list(todos)]))


def _todo(todo: dict[str, Any]) -> dict[str, Any]:
    """Normalize the status of a todo: Cursor writes TODO_STATUS_IN_PROGRESS, too."""
    return {**todo, "status": text_or(todo.get("status"), "").lower().removeprefix("todo_status_")}


def _system(event: System) -> Sequence[Update]:
    if event.subtype in ("init", ""):
        return (RunStart(session_id=event.session_id, model=event.model, cwd=event.cwd),)
    said = _text(event.message) or event.description or event.status
    if event.subtype == "background_shell_timeout":
        return (Notice("background", said or "commands that were still running were stopped", "warning"),)
    if event.subtype == "task_notification":
        return (Notice("background", said or "a task in the background has news"),)
    return (Unknown(wire_type=f"system/{event.subtype}", text=said or None),)


def _interaction(event: Interaction) -> Sequence[Update]:
    refused, reason = _rejection(event.response)
    if not refused:
        return ()
    what = event.query_type.removesuffix("Query").removesuffix("Request") or "a request"
    return (Notice("permission", f"{what} was refused" + (f": {reason}" if reason else ""), "warning"),)


def _rejection(value: Any, depth: int = 4) -> tuple[bool, str]:
    """Return whether an answer contains `rejected` at any level, and its reason."""
    if not isinstance(value, dict) or not depth:
        return False, ""
    if "rejected" in value:
        return True, text_or(as_dict(value["rejected"]).get("reason"), "")
    for inner in value.values():
        found = _rejection(inner, depth - 1)
        if found[0]:
            return found
    return False, ""


def _again(event: Connection | Retry) -> Sequence[Update]:
    number = f", attempt {event.attempt}" if event.attempt is not None else ""
    if isinstance(event, Connection):
        text = f"connection: {event.subtype or 'changed'}{number}"
        cause: Cause | None = "network" if event.subtype == "reconnecting" else None
        return (Notice("retry", text, cause=cause, attempt=event.attempt),)
    notice = Notice("retry", f"retry: {event.subtype or 'started'}{number}", "warning", attempt=event.attempt)
    if event.is_resume is False:
        # The model is asked anew: it repeats the text that it had begun.
        return (MessageEnd(status="superseded"), notice)
    return (notice,)


def _usage(usage: dict[str, Any] | None) -> Usage | None:
    if not usage:
        return None
    fresh, out, cached, written = (
        as_int(usage.get(key)) for key in ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")
    )
    # Cursor's input figure excludes the tokens from the cache.
    total = None if fresh is None else fresh + (cached or 0) + (written or 0)
    return Usage(input_tokens=total, output_tokens=out, cached_tokens=cached, cache_write_tokens=written)


def _unknown(event: Any) -> Update:
    if not isinstance(event, dict):
        return Unknown(wire_type=type(event).__name__)
    kind, subtype = text_or(event.get("type"), ""), text_or(event.get("subtype"), "")
    return unknown("/".join(part for part in (kind, subtype) if part), event)


def _text(value: Any, depth: int = 4) -> str:
    """Return the text of a string, of a part, or of a list of parts; parts of MCP results nest it once more."""
    if isinstance(value, str):
        return value
    if not depth:
        return ""
    if isinstance(value, list):
        return "".join(_text(part, depth - 1) for part in value)
    if isinstance(value, dict):
        return _text(value.get("text", value.get("content")), depth - 1)
    return ""
