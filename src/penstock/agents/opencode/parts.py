"""Parts of opencode's messages, which both routes share, and the meaning of a finished one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from penstock.agents._json import (
    as_dict,
    as_float,
    as_int,
    as_list,
    id_of,
    media_label,
    ms_between,
    object_of,
    output_of,
    plan_items,
    text_of,
    word_of,
    words_of,
)
from penstock.agents.opencode import changes
from penstock.core.misfits import note
from penstock.events import Kind
from penstock.updates import (
    Failure,
    MessageEnd,
    ModelUsage,
    Notice,
    Plan,
    Result,
    RoundEnd,
    Text,
    ToolCall,
    ToolReturn,
    Update,
    Usage,
)

_REJECTED = "The user rejected permission to use this specific tool call"
_FORBIDDEN = "The user has specified a rule which prevents you from using this specific tool call"
"""Beginnings of the errors of a call that a person, or the configuration, did not permit (1.18.33)."""

_FRAMES = {
    "read": re.compile(
        r"<path>[^\n]*</path>\n<type>(?:file|directory)</type>\n<(content|entries)>\n(?P<text>.*)\n</\1>", re.DOTALL
    ),
    "task": re.compile(r'<task id="[^"\n]*" state="\w+">\n<(task_\w+)>\n(?P<text>.*)\n</\1>\n</task>', re.DOTALL),
}
"""Frames around the output of tools; their path and id are in the call and in its sub-agent."""


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


def read_part(kind: Kind, part: Part, lane: str | None = None) -> Sequence[Update]:
    """Translate a finished text or thought."""
    if kind == "text" and part.synthetic is True:
        # The CLI's own words, sent to the model in the user's role.
        compaction = any("compact" in key for key in as_dict(part.metadata))
        notice = Notice("compaction" if compaction else "user", text_of(part.text), lane=lane)
        return (notice, RoundEnd(lane))
    text = words_of(part.text)
    return (Text(kind, "final", text, place=part.id, message=part.message_id, lane=lane),) if text else ()


def read_tool(part: Part, lane: str | None = None) -> Sequence[Update]:
    """Translate a finished call: its input, its result, and its other content."""
    state = as_dict(part.state)
    call = read_call(part, lane)
    name = call.name
    updates: list[Update] = [call]
    if name == "todowrite":
        items = plan_items(as_dict(state.get("input")).get("todos"))
        updates += [Plan(items, lane)] if items else []
    updates.append(_tool_return(call, state))
    updates += [
        Notice("media", f"{name}: {media_label(file)}", lane=lane)
        for file in as_list(state.get("attachments"))
        if as_dict(file)
    ]
    error = text_of(state.get("error"))
    if state.get("status") == "error" and error.startswith(_REJECTED):
        # Unless the agent goes on and answers, the run ends here, with exit 0.
        updates += [Notice("permission", f"{name} was not allowed", "warning", lane), Failure(error)]
    return updates


def read_call(part: Part, lane: str | None = None) -> ToolCall:
    """Return the call itself. opencode's own title comes only with the result, too late, and is not used."""
    call_id, value = part.call_id or id_of(part.id, "a call") or "call", as_dict(part.state).get("input")
    edits = changes.proposed(part.tool, value)
    return ToolCall(call_id, part.tool or "tool", value, message=part.message_id, lane=lane, changes=edits)


def status_of(state: dict[str, Any]) -> str:
    """Return the status of a call; "" if there is none, which is noted."""
    if state.get("status") is None:
        note("a call without a status")
    return word_of(state.get("status"))


def _tool_return(call: ToolCall, state: dict[str, Any]) -> ToolReturn:
    metadata, time, error = object_of(state.get("metadata")), as_dict(state.get("time")), text_of(state.get("error"))
    status, exit_code = status_of(state), as_int(metadata.get("exit"))
    if call.name == "bash" and status == "completed" and "exit" not in metadata:
        note("a command without an exit status")
    failed = status == "error" or call.name == "invalid" or bool(exit_code)
    return ToolReturn(
        call.call_id,
        error or _unframed(call.name, text_of(output_of(state.get("output")))),
        failed,
        exit_code,
        call.name,
        call.lane,
        duration_ms=ms_between(time.get("start"), time.get("end")),
        changes=None if failed else changes.made(call, metadata),
        refused=error.startswith((_REJECTED, _FORBIDDEN)),
    )


def _unframed(tool: str, output: str) -> str:
    frame = _FRAMES.get(tool)
    found = frame.fullmatch(output) if frame is not None else None
    return output if found is None else found["text"]


def read_finish(part: Part, lane: str | None = None) -> list[Update]:
    """Translate the end of a model call, without the answer that may end with it."""
    usage = _usage(part)
    updates: list[Update] = [ModelUsage(usage, message=part.message_id, lane=lane, whole=True)] if usage else []
    updates.append(MessageEnd(part.message_id, lane, stop_reason=part.reason))
    match part.reason:
        case "length" if lane is not None:  # the top agent's is the outcome of the run
            text = "the answer was cut off at the model's output limit"
            updates.append(Notice("status", text, "warning", lane))
        case "content-filter":
            text = "the provider's content filter stopped the answer"
            updates.append(Notice("refusal", text, "warning", lane))
    return updates


def answer_of(reason: str | None) -> Result | None:
    """Return the answer for the reason that ended a model call; None if the run goes on."""
    if reason in (None, "tool-calls"):
        return None
    return Result(is_error=True, reason="the model call ended with an error") if reason == "error" else Result()


def _usage(part: Part) -> Usage | None:
    tokens = object_of(part.tokens)
    if not tokens:
        return None
    cache = object_of(tokens.get("cache"))
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
