"""opencode: `opencode run --format json`.

Parts are printed when they are finished; nothing streams. There is no closing event: the step that ends without asking
for tools is the end of the answer. See `docs/agents/opencode.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec

from penstock.agents._values import as_dict, as_float, as_int, as_list, media_label, plan_items, text_of, text_or
from penstock.events import Kind
from penstock.updates import (
    Failure,
    MessageEnd,
    MessageStart,
    ModelUsage,
    Notice,
    Plan,
    Result,
    RunStart,
    Text,
    ToolCall,
    ToolReturn,
    Traits,
    TurnMark,
    Unknown,
    Update,
    Usage,
)


class Part(msgspec.Struct):
    """`part` of all events but `error`: the fields of all kinds together."""

    id: str | None = None
    message_id: str | None = msgspec.field(default=None, name="messageID")
    text: Any = None
    synthetic: Any = None
    metadata: Any = None
    tool: str | None = None
    call_id: str | None = msgspec.field(default=None, name="callID")
    state: Any = None
    reason: str | None = None
    tokens: Any = None
    cost: Any = None


class Line(msgspec.Struct, tag_field="type"):
    """What every line has."""

    session_id: str | None = msgspec.field(default=None, name="sessionID")
    part: Part = msgspec.field(default_factory=Part)


class StepStart(Line, tag="step_start"):
    """A model call begins; again with the same message for each retry."""


class TextLine(Line, tag="text"):
    """A finished text."""


class ReasoningLine(Line, tag="reasoning"):
    """Finished thinking; only with `--thinking`."""


class ToolUse(Line, tag="tool_use"):
    """A finished call: input and result in one."""


class StepFinish(Line, tag="step_finish"):
    """A model call is over."""


class ErrorLine(Line, tag="error"):
    """An error. More may follow."""

    error: Any = None


class OpenCode:
    """Reads `opencode run --format json`."""

    name: ClassVar[str] = "opencode"
    traits: ClassVar[Traits] = Traits()
    wire: ClassVar[Any] = StepStart | TextLine | ReasoningLine | ToolUse | StepFinish | ErrorLine

    def read(self, event: Any) -> Sequence[Update]:
        """The updates that one wire event means."""
        if isinstance(event, TextLine):
            return _read_text(event.part)
        if isinstance(event, ReasoningLine):
            return _content("thinking", event.part)
        if isinstance(event, ToolUse):
            return _read_tool(event.part)
        if isinstance(event, StepStart):
            return (RunStart(session_id=event.session_id), MessageStart(event.part.message_id))
        if isinstance(event, StepFinish):
            return _read_finish(event.part)
        if isinstance(event, ErrorLine):
            return _read_error(event)
        fields = as_dict(event)
        text = text_of(as_dict(fields.get("part")).get("text")) or text_of(fields.get("text"))
        return (Unknown(wire_type=text_or(fields.get("type"), "") or None, text=text or None),)


def _content(kind: Kind, part: Part) -> Sequence[Update]:
    text = text_of(part.text)
    return (Text(kind, "final", text, place=part.id, message=part.message_id),) if text else ()


def _read_text(part: Part) -> Sequence[Update]:
    if part.synthetic is not True:
        return _content("text", part)
    # The CLI's own words, said to the model in the user's role.
    compaction = any("compact" in key for key in as_dict(part.metadata))
    return (Notice("compaction" if compaction else "user", text_of(part.text)), TurnMark())


def _read_tool(part: Part) -> Sequence[Update]:
    state = as_dict(part.state)
    name = part.tool or "tool"
    call_id = part.call_id or part.id or "call"
    # A command's own title may be a description of it; the command says more.
    title = None if name == "bash" else text_of(state.get("title")) or None
    call = ToolCall(call_id, name, state.get("input"), title, message=part.message_id)
    updates: list[Update] = [call]
    if name == "todowrite":
        items = plan_items(as_dict(state.get("input")).get("todos"))
        updates += [Plan(items)] if items else []
    updates.append(_tool_return(call_id, name, state))
    updates += [
        Notice("media", f"{name}: {media_label(file)}") for file in as_list(state.get("attachments")) if as_dict(file)
    ]
    if state.get("status") == "error" and "rejected permission" in text_of(state.get("error")):
        # No one is there to be asked: the run stops here, with exit 0 and without an answer.
        updates += [
            Notice("permission", f"{name} was not allowed", "warning"),
            Failure(text_of(state.get("error"))),
        ]
    return updates


def _tool_return(call_id: str, name: str, state: dict[str, Any]) -> ToolReturn:
    exit_code = as_int(as_dict(state.get("metadata")).get("exit"))
    failed = state.get("status") == "error" or name == "invalid" or bool(exit_code)
    error = text_of(state.get("error"))
    output = text_of(state.get("output"))
    return ToolReturn(call_id, error or output, failed, exit_code, name)


def _read_finish(part: Part) -> Sequence[Update]:
    usage = _usage(part)
    updates: list[Update] = [ModelUsage(usage, message=part.message_id, whole=True)] if usage else []
    updates.append(MessageEnd(part.message_id, stop_reason=part.reason))
    match part.reason:
        case None | "tool-calls":
            pass
        case "error":
            updates.append(Result(is_error=True, reason="the model call ended with an error"))
        case "length":
            updates += [Notice("status", "the answer was cut off at the model's output limit", "warning"), Result()]
        case "content-filter":
            updates += [Notice("refusal", "the provider's content filter stopped the answer", "warning"), Result()]
        case _:
            updates.append(Result())
    updates.append(TurnMark())  # what follows is another model call: after tool results, or after a compaction
    return updates


def _usage(part: Part) -> Usage | None:
    tokens = as_dict(part.tokens)
    if not tokens:
        return None
    cache = as_dict(tokens.get("cache"))
    read, write = as_int(cache.get("read")), as_int(cache.get("write"))
    reasoning = as_int(tokens.get("reasoning"))
    return Usage(
        input_tokens=_sum(as_int(tokens.get("input")), read, write),
        output_tokens=_sum(as_int(tokens.get("output")), reasoning),
        cached_tokens=read,
        cache_write_tokens=write,
        reasoning_tokens=reasoning,
        cost_usd=as_float(part.cost),
    )


def _sum(*counts: int | None) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _read_error(event: ErrorLine) -> Sequence[Update]:
    error = as_dict(event.error)
    reason = (
        text_of(as_dict(error.get("data")).get("message"))
        or text_of(error.get("message"))
        or text_of(error.get("name"))
        or text_of(event.error)
        or "opencode reported an error and gave no message"
    )
    return (RunStart(session_id=event.session_id), Notice("error", reason, "error"), Failure(reason))
