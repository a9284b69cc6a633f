"""The names that JSON formats of agents have in common, and how to read an event by them.

An event is taken as its *layers*: itself and the objects that it envelopes, the outermost first. These are
plain functions of one event; what must be remembered between events is `penstock.agents.generic`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from penstock.agents._values import as_dict, as_float, as_int, as_list, text_of, text_or
from penstock.classifier import words
from penstock.events import Kind
from penstock.updates import Place, Result, Usage

MAX_LAYERS = 16
"""So many envelopes of one event are opened, and content is looked through so deep."""

NAME_KEYS = ("type", "event", "kind", "event_type", "eventType", "method", "sessionUpdate", "object", "op")
ENVELOPES = (
    "data", "event", "payload", "params", "update", "msg", "message", "item", "part", "delta", "body", "content_block",
)  # fmt: skip
THINKING_KEYS = ("thinking", "reasoning", "reasoning_content", "thought")
PIECE_KEYS = ("delta", "chunk", "token", "textDelta", "text_delta", "deltaContent")
TEXT_KEYS = (
    "text", "content", "message", "response", "answer", "completion", "output_text", "output", "result", "value",
)  # fmt: skip
NAMES_OF_TOOLS = ("name", "tool_name", "toolName", "tool", "function_name")
INPUTS = ("input", "arguments", "args", "parameters")
OUTPUTS = ("aggregated_output", "output", "result", "content", "text", "response", "message")
CALL_IDS = (
    "tool_call_id", "tool_use_id", "toolCallId", "toolUseId", "call_id", "callId", "callID", "tool_id", "toolId", "id",
)  # fmt: skip
WHO = {
    "session_id": (
        "session_id", "sessionId", "sessionID", "thread_id", "threadId", "conversation_id", "conversationId", "chat_id",
    ),
    "model": ("model", "model_name", "modelId"),
    "cwd": ("cwd", "working_directory"),
}  # fmt: skip
USAGE = {
    "input_tokens": ("input_tokens", "prompt_tokens", "inputTokens", "promptTokens", "input"),
    "output_tokens": ("output_tokens", "completion_tokens", "outputTokens", "completionTokens", "output"),
    "cached_tokens": ("cached_tokens", "cache_read_input_tokens", "cached_input_tokens", "cacheReadTokens"),
    "reasoning_tokens": ("reasoning_tokens", "reasoning_output_tokens", "reasoningTokens"),
}

MODEL_ROLES = frozenset({"", "assistant", "model", "ai", "agent", "bot"})
TOOL_ROLES = frozenset({"tool", "function"})
THOUGHT = frozenset({"thinking", "reasoning", "thought", "thoughts"})
FAILED = frozenset({"error", "errored", "fatal", "exception", "failed", "failure", "aborted", "cancelled"})
ENDS = frozenset({"result", "final", "done", "complete", "completed", "finish", "finished", "end", "ended"})
RUNS = frozenset(
    {"run", "turn", "session", "agent", "conversation", "chat", "stream", "task", "response", "success", "answer"}
)
TOOLS = frozenset({"tool", "tools", "function", "toolcall", "tooluse"})
SHELLS = frozenset({"shell", "bash", "exec", "execution", "command"})
OUTCOMES = frozenset({"success", "ok", "done", "completed", "failed", "failure", "error"})
RETURNS = frozenset({"result", "results", "output", "response", "return", "returned"}) | ENDS


class Found(NamedTuple):
    """One text. `piece`: it stands where only pieces stand."""

    kind: Kind
    text: str
    piece: bool


def layers_of(event: dict[str, Any]) -> list[dict[str, Any]]:
    """An event and what it envelopes, the outermost first."""
    layers = [event]
    at = 0
    while at < len(layers) < MAX_LAYERS:
        layer = layers[at]
        at += 1
        for key in ENVELOPES:
            inner = layer.get(key)
            if key == "data" and isinstance(inner, str) and inner[:1] == "{":
                inner = parsed(inner)
            if isinstance(inner, dict):
                layers.append(inner)
        if isinstance(layer.get("state"), dict) and first(layer, NAMES_OF_TOOLS):
            layers.append({**layer, **layer["state"], "state": None})
        for key in ("choices", "candidates"):
            layers += [choice for choice in as_list(layer.get(key))[:1] if isinstance(choice, dict)]
    return layers


def name_of(layers: list[dict[str, Any]]) -> str:
    """The names of an event and of what it envelopes."""
    names = (first(layer, keys) for layer in layers for keys in (NAME_KEYS, ("subtype",)))
    return "/".join(dict.fromkeys(name for name in names if name))


def role_of(name: str, layers: list[dict[str, Any]]) -> str:
    """Who speaks, lower case: told by a field, or by the event's name."""
    role = next((role for layer in layers if (role := first(layer, ("role", "author", "sender")))), "").lower()
    return role or ("user" if words(name) & {"user", "human", "prompt"} else "")


def texts_in(name: str, layers: list[dict[str, Any]]) -> list[Found]:
    """The text of an event: of the pieces in it if there are some, else of the outermost layer that has any."""
    thought = bool(words(name) & THOUGHT)
    all_found = [_own(layer, thought, any(other.get("delta") is layer for other in layers)) for layer in layers]
    for found in all_found:
        if any(each.piece for each in found):
            return found
    return next((found for found in all_found if found), [])


def _own(layer: dict[str, Any], thought: bool, piece: bool) -> list[Found]:
    """The thoughts and the text that stand in one layer."""
    found = [
        Found("thinking", value, piece) for key in THINKING_KEYS if isinstance(value := layer.get(key), str) and value
    ][:1]
    kind: Kind = "thinking" if thought else "text"
    for key in PIECE_KEYS:
        value = layer.get(key)
        if isinstance(value, str) and value:
            return [*found, Found(kind, value, True)]
    for key in TEXT_KEYS:
        if key == "result" and str(layer.get(key)).lower() in OUTCOMES:
            continue  # how it went, not what was said
        parts = list(_parts(layer.get(key), kind, MAX_LAYERS))
        if parts:
            return [*found, *(Found(part_kind, text, piece) for part_kind, text in parts)]
    return found


def _parts(value: Any, kind: Kind, depth: int) -> Iterator[tuple[Kind, str]]:
    """The texts in a string, in a list of content blocks, or in one block."""
    if isinstance(value, str):
        if value:
            yield kind, value
    elif isinstance(value, list) and depth:
        for part in value:
            yield from _parts(part, kind, depth - 1)
    elif isinstance(value, dict) and depth:
        said = words(text_or(value.get("type"), ""))
        if said & TOOLS or (text_or(value.get("role"), "") not in MODEL_ROLES):
            return
        for key in THINKING_KEYS:
            if isinstance(value.get(key), str):
                yield from _parts(value[key], "thinking", 0)
                return
        inner = next((value[key] for key in ("text", "content", "parts") if value.get(key)), None)
        yield from _parts(inner, "thinking" if said & THOUGHT else kind, depth - 1)


def blocks_in(layer: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The content blocks and calls that a layer lists."""
    for key in ("content", "tool_calls", "toolCalls", "parts"):
        for block in as_list(layer.get(key)):
            if isinstance(block, dict):
                yield block


def is_call(said: frozenset[str], body: dict[str, Any]) -> bool:
    """Whether a body is a tool's call, told by the event's words and the body's fields."""
    if said & SHELLS and isinstance(body.get("command"), str):
        return True
    has_input = any(key in body for key in INPUTS)
    if first(body, ("tool", "tool_name", "toolName")) and has_input:
        return True
    return bool(said & TOOLS) and has_input and bool(first(body, NAMES_OF_TOOLS))


def is_return(said: frozenset[str], body: dict[str, Any]) -> bool:
    """Whether a body is a tool's result."""
    has_output = any(key in body for key in (*OUTPUTS, "error"))
    if said & TOOLS and said & RETURNS and (has_output or first(body, CALL_IDS)):
        return True
    return has_output and bool(first(body, ("tool_call_id", "tool_use_id", "toolCallId", "call_id")))


def ends_run(name: str, layers: list[dict[str, Any]]) -> bool:
    """Whether an event is the end of the run: a result, or `done: true`; not that of a message or a block."""
    if layers[0].get("done") is True:
        return True
    said = words(first(layers[0], NAME_KEYS) or name)
    return bool(said & ENDS) and said <= ENDS | RUNS | FAILED


def result_of(name: str, layers: list[dict[str, Any]], usage: Usage | None) -> Result:
    """What the end of a run says."""
    top = layers[0]
    status = first(top, ("status", "subtype", "outcome")).lower()
    error = next((layer["error"] for layer in layers if layer.get("error")), None)
    failed = bool(error) or bool(words(status) & FAILED) or bool(words(name) & FAILED)
    failed = failed or top.get("is_error") is True or top.get("success") is False
    reply = "".join(found.text for found in texts_in("", layers) if found.kind == "text" and not found.piece)
    cost = next((as_float(top[key]) for key in ("total_cost_usd", "cost_usd", "cost") if key in top), None)
    return Result(
        reply=None if failed else reply or None,
        is_error=failed,
        reason=(text_of(error) or reply or status or None) if failed else None,
        usage=usage,
        cost_usd=cost,
        duration_ms=next((as_int(top[key]) for key in ("duration_ms", "durationMs") if key in top), None),
    )


def usage_of(layer: dict[str, Any]) -> Usage | None:
    """Figures of `usage`, `stats` or `tokens`. Whether the cached ones are inside the input nobody knows here."""
    figures = next((as_dict(layer[key]) for key in ("usage", "stats", "tokens") if layer.get(key)), {})
    if not figures:
        return None
    counts = {
        field: next((count for key in keys if (count := as_int(figures.get(key))) is not None), None)
        for field, keys in USAGE.items()
    }
    return Usage(**counts) if any(count is not None for count in counts.values()) else None


def flag_of(layers: list[dict[str, Any]]) -> str:
    """What fields say of an event's text, in the words of event names."""
    for layer in layers:
        for key in ("delta", "partial", "is_partial", "isPartial", "streaming"):
            if layer.get(key) is True:
                return ".delta"
        for key in ("final", "is_final", "isFinal", "complete", "completed"):
            if layer.get(key) is True:
                return ".final"
    return ""


def index_of(body: dict[str, Any]) -> int | None:
    """The place of a content block or of a streamed call in its message."""
    value = body.get("index")
    return value if type(value) is int else None


def place_of(name: str, layers: list[dict[str, Any]]) -> Place:
    """Where a block stands in its message, if the event says so."""
    for layer in layers:
        given = first(layer, ("item_id", "itemId", "part_id", "partID", "partId", "block_id", "blockId"))
        if given:
            return given
        if "block" in words(name) and (index := index_of(layer)) is not None:
            return index
    return None


def message_id_of(layers: list[dict[str, Any]]) -> str | None:
    """The id of the event's message, if it tells one."""
    for layer in layers:
        given = first(layer, ("message_id", "messageId", "messageID")) or first(as_dict(layer.get("message")), ("id",))
        if given:
            return given
    return None


def first(body: dict[str, Any], keys: Sequence[str]) -> str:
    """The first of these fields that is a string with something in it."""
    for key in keys:
        value = body.get(key)
        if value and isinstance(value, str):
            return value
    return ""


def parsed(value: Any) -> Any:
    """JSON text as data; what is no JSON text, as it is."""
    if isinstance(value, str):
        try:
            return msgspec.json.decode(value)
        except (msgspec.DecodeError, ValueError, RecursionError):
            return value
    return value
