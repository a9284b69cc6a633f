"""gemini: `gemini -p … --output-format stream-json`.

Text comes only as deltas without message ids; the lines between two messages show that the first is over. See
`docs/agents/gemini.md`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec

from penstock.adapter import Command, Request
from penstock.agents._causes import cause_of_name, cause_of_status
from penstock.agents._edits import proposed
from penstock.agents._flags import granted, option, piped
from penstock.agents._json import (
    as_dict,
    as_int,
    id_of,
    inner_message,
    object_of,
    parsed,
    plan_items,
    text_of,
    text_or,
    words_of,
)
from penstock.agents._unknown import unknown
from penstock.events import Cause, Level
from penstock.updates import (
    Notice,
    Plan,
    Result,
    RoundEnd,
    RunStart,
    Text,
    ToolCall,
    ToolReturn,
    Traits,
    Update,
    Usage,
)

_EDITS = frozenset({"replace", "write_file"})
_API_ERROR = "[API Error: "
_AFTER_429 = re.compile(r"\]\n(?:Please wait and try again later|Possible quota limitations in place)")
"""Advice that the program adds to an error only if the provider's status is 429."""
_API_STATUS = re.compile(r"\[API Error: .* \(Status: ([A-Z_]{1,64})\)\]", re.DOTALL)
_CAUSES: dict[str, Cause] = {
    "FatalAuthenticationError": "auth",
    "ValidationRequiredError": "auth",
    "FatalTurnLimitedError": "budget",
    "TerminalQuotaError": "usage_limit",
    "RetryableQuotaError": "rate_limit",
    "ModelNotFoundError": "missing",
}
"""Causes by the classes of gemini's errors, which are the `type` of the error at the end."""
_TURN_LIMIT = "Maximum session turns exceeded"
"""Sentence of gemini 0.61.0 for the limit `model.maxSessionTurns` of its settings."""


class Init(msgspec.Struct, tag_field="type", tag="init"):
    """First line of the stream."""

    session_id: str | None = None
    model: str | None = None


class Message(msgspec.Struct, tag_field="type", tag="message", gc=False):
    """Delta of the model's text (`role` assistant), or the echoed prompt (`role` user)."""

    role: str | None = None
    content: Any = None
    delta: Any = None


class ToolUse(msgspec.Struct, tag_field="type", tag="tool_use"):
    """Tool call with its whole input."""

    tool_name: str | None = None
    tool_id: str | None = None
    parameters: Any = None


class ToolResult(msgspec.Struct, tag_field="type", tag="tool_result"):
    """Result of a call. `output` is absent if it is not a text."""

    tool_id: str | None = None
    status: str | None = None
    output: Any = None
    error: Any = None


class ErrorLine(msgspec.Struct, tag_field="type", tag="error"):
    """Report of a problem that is not the end."""

    severity: str | None = None
    message: Any = None


class Outcome(msgspec.Struct, tag_field="type", tag="result"):
    """End of the stream; `status` is `success` or `error`, and `error` may be absent even then."""

    status: str | None = None
    error: Any = None
    stats: Any = None


class Gemini:
    """Adapter of `gemini --output-format stream-json`."""

    name: ClassVar[str] = "gemini"
    traits: ClassVar[Traits] = Traits(command_status=False)
    wire: ClassVar[Any] = Init | Message | ToolUse | ToolResult | ErrorLine | Outcome

    @staticmethod
    def command(request: Request) -> Command:
        """Return `gemini --output-format=stream-json` with the prompt through stdin, which needs no flag."""
        session = option("--resume", request.session_id)
        return piped(request, "gemini", "--output-format=stream-json", *_options(request), *session, *request.args)

    def read(self, event: Any) -> Sequence[Update]:
        """Translate one wire event into updates."""
        if type(event) is Message:
            text = event.content
            if type(text) is str and text and event.role == "assistant" and event.delta:  # fast path: nearly all lines
                return (Text("text", "delta", text, "text"),)
            return _read_message(event)
        if isinstance(event, ToolUse):
            return _read_tool_use(event)
        if isinstance(event, ToolResult):
            failed = event.status == "error" or bool(event.error)
            text = (text_of(event.error) if failed else "") or text_of(event.output)
            # No id separates messages: whichever call this result answers, the model's next text is a new message.
            has_output = event.output is not None or event.error is not None
            return (ToolReturn(id_of(event.tool_id, "a result"), text, failed, output_reported=has_output), RoundEnd())
        if isinstance(event, ErrorLine):
            level: Level = "warning" if event.severity == "warning" else "error"
            text = inner_message(text_of(event.message))
            return (Notice("error", text, level, cause="budget" if text == _TURN_LIMIT else None),)
        if isinstance(event, Outcome):
            return (_read_result(event),)
        if isinstance(event, Init):
            return (RunStart(session_id=event.session_id, model=event.model),)
        return (unknown(text_or(as_dict(event).get("type"), ""), event),)


def acp(request: Request) -> Command:
    """Return the command `gemini --acp`; the dialogue sets the session."""
    return Command(argv=("gemini", "--acp", *_options(request), *request.args))


def _options(request: Request) -> tuple[str, ...]:
    default = ("--approval-mode=default",)  # the user's settings may have another one
    allow = granted(
        request, read=default, ask=default, edits=("--approval-mode=auto_edit",), everything=("--approval-mode=yolo",)
    )
    return (*option("--model", request.model), *allow)


def _read_message(event: Message) -> Sequence[Update]:
    if event.role == "user":
        return ()
    text = words_of(event.content, "")
    if not text:
        return ()
    if event.role not in ("assistant", "model", None):
        return (Notice("status", text),)
    # Only an explicit false marks a whole message: a delta that is read as a whole would discard text.
    return (Text("text", "final" if event.delta is False else "delta", text, "text"),)


def _read_tool_use(event: ToolUse) -> Sequence[Update]:
    name = event.tool_name or "tool"
    changes = proposed(event.parameters) if name in _EDITS else None
    call = ToolCall(id_of(event.tool_id, "a call"), name, event.parameters, changes=changes)
    if name == "write_todos" and isinstance(event.parameters, dict) and "todos" in event.parameters:
        return (call, Plan(plan_items(event.parameters["todos"])))
    return (call,)


def _read_result(event: Outcome) -> Result:
    stats = object_of(event.stats)
    usage = Usage(
        input_tokens=as_int(stats.get("input_tokens")),
        output_tokens=as_int(stats.get("output_tokens")),
        cached_tokens=as_int(stats.get("cached")),
    )
    reason = None
    if failed := event.status != "success":
        reason = _api_message(text_of(event.error)) or "gemini ended with an error and gave no message"
    return Result(
        is_error=failed,
        reason=reason,
        usage=usage if stats else None,
        duration_ms=as_int(stats.get("duration_ms")),
        cause=_cause(event.error) if failed else None,
    )


def _cause(error: Any) -> Cause | None:
    """Return the cause that the class of an error names, or the status that the provider gave."""
    fields = as_dict(error)
    named = _CAUSES.get(text_or(fields.get("type"), ""))
    text = text_or(fields.get("message"), "")
    if named is not None or not text.startswith(_API_ERROR):
        return named
    if found := _API_STATUS.match(text):
        return cause_of_name(found[1])
    answer = as_dict(as_dict(parsed(text[len(_API_ERROR) : text.rfind("]")])).get("error"))
    cause = cause_of_status(as_int(answer.get("code"))) or cause_of_name(text_or(answer.get("status"), ""))
    return "rate_limit" if cause is None and _AFTER_429.search(text) else cause


def _api_message(text: str) -> str:
    """Return the server's own words from `[API Error: {…}]`."""
    if not (text.startswith(_API_ERROR) and text.endswith("]")):
        return inner_message(text)
    inside = text[len(_API_ERROR) : -1]
    message = inner_message(inside)
    return text if message == inside else f"API Error: {message}"
