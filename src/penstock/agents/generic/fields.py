"""Names that JSON formats of agents have in common, and functions that read an event by them.

An event is read as its *layers*: itself and the objects in it, the outermost first. A field is recognised by the words
of its name (`textDelta` and `text_delta` have the words text and delta), not by a list of all names. These are plain
functions of one event; the state between events is in `penstock.agents.generic.adapter`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from penstock.agents._json import as_dict, as_float, as_int, as_list, parsed, text_of, text_or
from penstock.agents.generic.classifier import words
from penstock.events import Kind
from penstock.updates import Place, Result, Usage

MAX_LAYERS = 16
"""Number of objects of one event that are opened, and the depth to which content is searched."""

NAME_KEYS = ("type", "event", "kind", "event_type", "eventType", "method", "sessionUpdate", "object", "op")
TEXT_KEYS = (
    "text", "content", "message", "response", "answer", "completion", "reply", "output", "result", "value", "parts",
)  # fmt: skip
"""Words of the names of fields with text, the clearest first."""
STOP_KEYS = ("finish_reason", "stop_reason", "finishReason", "stopReason")
WHO: dict[str, tuple[str, ...]] = {
    "session_id": (
        "session_id", "sessionId", "sessionID", "thread_id", "threadId", "conversation_id", "conversationId", "chat_id",
    ),
    "model": ("model", "model_name", "modelId", "modelVersion"),
    "cwd": ("cwd", "working_directory"),
}  # fmt: skip
USAGE: dict[str, tuple[str, ...]] = {
    "input_tokens": ("input_tokens", "prompt_tokens", "inputTokens", "promptTokens", "promptTokenCount", "input"),
    "output_tokens": (
        "output_tokens", "completion_tokens", "outputTokens", "completionTokens", "candidatesTokenCount", "output",
    ),
    "cached_tokens": (
        "cached_tokens", "cache_read_input_tokens", "cached_input_tokens", "cacheReadTokens", "cache_read_tokens",
    ),
    "reasoning_tokens": ("reasoning_tokens", "reasoning_output_tokens", "reasoningTokens", "thinking_tokens"),
}  # fmt: skip

MODEL_ROLES = frozenset({"", "assistant", "model", "ai", "agent", "bot"})
TOOL_ROLES = frozenset({"tool", "function", "environment"})
USER_ROLES = frozenset({"user", "human", "system", "developer"})
THOUGHT = frozenset({"think", "thinking", "reasoning", "thought", "thoughts"})
PIECES = frozenset({"delta", "chunk", "token", "fragment", "piece"})
SO_FAR = frozenset({"accumulated", "cumulative", "snapshot", "full", "final", "last"})
MODIFIERS = SO_FAR | {"agent", "assistant", "model", "ai", "generated", "part", "partial", "stream", "streamed", "new"}
CLOSED = frozenset({
    "usage", "stats", "metrics", "meta", "metadata", "config", "settings", "options", "env", "headers", "error",
    "input", "inputs", "arguments", "args", "parameters", "request", "context", "schema", "capabilities", "prompt",
    "user", "timing", "cost", "logprobs",
})  # fmt: skip
"""Objects without text of the model: they are not opened."""
FAILED = frozenset({
    "error", "errored", "fatal", "exception", "fail", "failed", "failure", "incomplete", "timeout", "timed",
})  # fmt: skip
CANCELLED = frozenset({"cancel", "cancelled", "canceled", "abort", "aborted", "interrupted"})
WELL = frozenset({"success", "succeeded", "successful", "ok", "done", "complete", "completed", "finished"})
ENDS = frozenset({"result", "final", "done", "complete", "completed", "finish", "finished", "end", "ended"})
RUNS = frozenset({
    "run", "turn", "session", "agent", "conversation", "chat", "stream", "task", "response", "success", "answer",
    "workflow",
})  # fmt: skip


class Layer(NamedTuple):
    """One object of an event. `piece`: it is in a field that holds only pieces."""

    body: dict[str, Any]
    piece: bool = False


class Found(NamedTuple):
    """One text. `piece`: it is in a field that holds only pieces. `key`: the field."""

    kind: Kind
    text: str
    piece: bool
    key: str = ""


def layers_of(event: dict[str, Any]) -> list[Layer]:
    """Return an event and the objects in it, the outermost first."""
    layers = [Layer(event)]
    for layer in layers:  # grows during the loop
        if len(layers) >= MAX_LAYERS:
            break
        layers += _opened(layer)
    return layers[:MAX_LAYERS]


def _opened(layer: Layer) -> Iterator[Layer]:
    body = layer.body
    for key, value in body.items():
        if key == "data" and isinstance(value, str) and value[:1] == "{":
            value = parsed(value)
        elif key in ("choices", "candidates"):
            value = next(iter(as_list(value)), None)
        said = words(key)
        if not isinstance(value, dict) or said & CLOSED:
            continue
        if len(body) == 1 and key not in _ENVELOPES and _rank(key) == NO_TEXT:
            value = {"event": key, **value}  # the event's one key is its name
        yield Layer(value, layer.piece or bool(said & PIECES))


_ENVELOPES = frozenset({"data", "event", "payload", "params", "body", "message", "delta", "msg", "result", "response"})
"""Fields of which each format that has them has only one: they do not name an event."""


def name_of(layers: Sequence[Layer]) -> str:
    """Return the names of an event and of the objects in it."""
    return "/".join(dict.fromkeys(name for layer in layers for name in _names(layer.body)))


def _names(body: dict[str, Any]) -> Iterator[str]:
    if own := first(body, NAME_KEYS):
        yield own
    for key, value in body.items():
        if value and isinstance(value, str) and _says_type(key):
            yield value


@lru_cache(maxsize=1024)
def _says_type(key: str) -> bool:
    """Return whether a field names a kind of event: `subtype`, `step_type`, `messageType`, but not a type of media."""
    said = words(key)
    return key in ("subtype", "say") or ("type" in said and len(said) > 1 and not said & {"content", "mime", "media"})


def role_of(name: str, layers: Sequence[Layer]) -> str:
    """Return the author's role, in lower case: from a field, or from the event's name."""
    for layer in layers:
        role = first(layer.body, ("role", "author", "sender")).lower()
        source = first(layer.body, ("source", "from", "speaker")).lower()
        if role or (source and source in MODEL_ROLES | TOOL_ROLES | USER_ROLES):
            return role or source
    said = words(name)
    return "user" if said & _GIVEN else "system" if "system" in said else ""


_GIVEN = frozenset({"user", "human", "prompt", "attachment", "attached", "enqueue", "queue"})
"""Words in the names of events with what the model is given, which session files of agents have beside what it said."""


def texts_in(name: str, layers: Sequence[Layer]) -> list[Found]:
    """Return the text of an event: of its pieces if it has some, else of the outermost layer that has any."""
    said = words(name)
    all_found = [_own(layer, bool(said & THOUGHT)) for layer in layers]
    pieces = next((found for found in all_found if any(each.piece for each in found)), None)
    found = pieces or next((found for found in all_found if found), None)
    if found is None and (not said or said & _TEXT_NAMES):
        data = next((text for layer in layers if (text := first(layer.body, ("data", "payload", "body")))), "")
        found = [Found("thinking" if said & THOUGHT else "text", data, False, "data")] if data[:1] not in "{[" else []
    return found or []


_TEXT_NAMES = frozenset({*TEXT_KEYS, "assistant", "agent"}) | PIECES | THOUGHT
"""Words in the names of events whose bare data is text."""


NO_TEXT = 99
"""Rank of a field whose name does not indicate text."""


@lru_cache(maxsize=1024)
def _rank(key: str) -> int:
    """Return how clearly a field's name indicates text: its place in `TEXT_KEYS`, -1 for a piece, or `NO_TEXT`."""
    said = words(key)
    core = said - MODIFIERS
    if not core or not core <= _TEXTUAL:
        return NO_TEXT
    if said & PIECES:
        return -1
    return min(TEXT_KEYS.index(word) for word in core)


_TEXTUAL = frozenset(TEXT_KEYS) | PIECES


@lru_cache(maxsize=1024)
def _thinks(key: str) -> bool:
    """Return whether the name of a field indicates thoughts."""
    said = words(key)
    return bool(said & THOUGHT) and said <= THOUGHT | _TEXTUAL | MODIFIERS | {"summary"}


def _own(layer: Layer, thought: bool) -> list[Found]:
    """Return the thoughts and the text of one layer."""
    body = layer.body
    thoughts = [key for key in body if _thinks(key)]
    kind: Kind = "thinking" if thought or any(body[key] is True for key in thoughts) else "text"
    found = []
    for key in thoughts:
        parts = list(_parts(body[key], "thinking", MAX_LAYERS))
        if parts:
            found = [Found("thinking", text, layer.piece or bool(words(key) & PIECES), key) for _, text in parts]
            break
    for key in sorted((key for key in body if _rank(key) < NO_TEXT), key=_rank):
        if key == "result" and words(str(body[key])) & (WELL | FAILED | CANCELLED) and " " not in str(body[key]):
            continue  # the outcome, not the text
        piece = layer.piece or _rank(key) < 0
        parts = list(_parts(body[key], kind, MAX_LAYERS))
        if parts and not (isinstance(body[key], dict) and words(key) & PIECES):
            return [*found, *(Found(part_kind, text, piece, key) for part_kind, text in parts)]
    return found


def _parts(value: Any, kind: Kind, depth: int) -> Iterator[tuple[Kind, str]]:
    """Yield the texts in a string, in a list of content blocks, or in one block."""
    if isinstance(value, str):
        if value:
            yield kind, value
    elif isinstance(value, list) and depth:
        for part in value:
            yield from _parts(part, kind, depth - 1)
    elif isinstance(value, dict) and depth:
        said = words(text_or(value.get("type"), ""))
        if said & TOOL_WORDS or (text_or(value.get("role"), "") not in MODEL_ROLES):
            return
        thoughts = [key for key in value if _thinks(key)]
        for key in thoughts:
            if isinstance(value[key], str):
                yield from _parts(value[key], "thinking", 0)
                return
        inner = next((value[key] for key in ("text", "content", "parts") if value.get(key)), None)
        thought = said & THOUGHT or any(value[key] is True for key in thoughts)
        yield from _parts(inner, "thinking" if thought else kind, depth - 1)


TOOL_WORDS = frozenset({"tool", "tools", "function", "toolcall", "tooluse"})


def ends_run(name: str, layers: Sequence[Layer]) -> bool:
    """Return whether an event is the end of the run, not of a message or a block: a result, or `done: true`."""
    top = layers[0].body
    if top.get("done") is True:
        return True
    said = words(first(top, NAME_KEYS) or name)
    if "completion" in said and any(words(key) & {"final"} for key in top):
        return True
    return bool(said & (ENDS | CANCELLED)) and said <= ENDS | RUNS | FAILED | CANCELLED


def result_of(name: str, layers: Sequence[Layer], usage: Usage | None) -> Result:
    """Return the result that the end of a run contains."""
    bodies = [layer.body for layer in layers]
    error = next((body["error"] for body in bodies if body.get("error")), None)
    verdict, status = verdict_of(name, layers)
    found = [found for found in texts_in("", layers) if found.kind == "text" and not found.piece]
    text = "".join(each.text for each in found)
    reply = text if verdict == "ok" or not is_reason(found, error) else ""
    cost = next((as_float(body[key]) for body in bodies for key in _COSTS if key in body), None)
    return Result(
        reply=reply if verdict == "ok" and reply else None,
        is_error=verdict != "ok",
        reason=(text_of(error) or ("" if reply else text) or status or None) if verdict != "ok" else None,
        usage=usage,
        cost_usd=cost,
        duration_ms=next((took for body in bodies if (took := _duration(body)) is not None), None),
        cancelled=verdict == "cancelled",
        stop_reason=next((why for body in bodies if (why := first(body, STOP_KEYS))), None),
    )


_COSTS = ("total_cost_usd", "cost_usd", "cost")
_REASONS = frozenset({"text", "content", "message", "output", "result", "value"})


def is_reason(found: Sequence[Found], error: Any) -> bool:
    """Return whether the text of a failed end is its reason: the end has no error, and the field is not a response."""
    return not error and all(words(each.key) <= _REASONS for each in found)


def verdict_of(name: str, layers: Sequence[Layer]) -> tuple[str, str]:
    """Return how a run ended, by the words of its status, `ok`, `error` or `cancelled`; and these words."""
    status = "".join(words_of[:1]) if (words_of := [*_statuses(layers)]) else ""
    said = words(" ".join(words_of)) | words(name)
    bodies = [layer.body for layer in layers]
    if said & CANCELLED:
        return "cancelled", next((each for each in words_of if words(each) & CANCELLED), status).lower()
    flags = ("is_error", "isError")
    failed = bool(said & FAILED) or any(body.get("error") or body.get("success") is False for body in bodies)
    failed = failed or any(body.get(key) is True for body in bodies for key in flags)
    return ("error" if failed else "ok"), next((each for each in words_of if words(each) & FAILED), status).lower()


def _statuses(layers: Sequence[Layer]) -> Iterator[str]:
    for layer in layers:
        for key in ("status", "subtype", "outcome", "state", "result", *STOP_KEYS):
            value = layer.body.get(key)
            if isinstance(value, str) and value and " " not in value:
                yield value


def _duration(body: dict[str, Any]) -> int | None:
    for key in ("duration_ms", "durationMs", "elapsed_ms"):
        if key in body:
            return as_int(body[key])
    seconds = next((as_float(body[key]) for key in ("duration_seconds", "durationSeconds") if key in body), None)
    return None if seconds is None else round(seconds * 1000)


_OWN_COUNTS = ("input_tokens", "output_tokens", "inputTokens", "outputTokens", "prompt_tokens", "completion_tokens")
"""Names of figures that an event may have without an object around them: they can be nothing else."""


def usage_of(body: dict[str, Any]) -> Usage | None:
    """Return the figures of `usage`, `stats` or `tokens`. Whether the input includes the cached ones is unknown."""
    keys = ("usage", "usageMetadata", "usage_metadata", "stats", "tokens")
    figures = next((as_dict(body[key]) for key in keys if body.get(key)), {})
    if not figures and any(key in body for key in _OWN_COUNTS):
        figures = {key: body[key] for key in _OWN_COUNTS if key in body}
    if not figures:
        return None
    counts = {
        field: next((count for key in keys if (count := as_int(figures.get(key))) is not None), None)
        for field, keys in USAGE.items()
    }
    return Usage(**counts) if any(count is not None for count in counts.values()) else None


def flag_of(layers: Sequence[Layer]) -> str:
    """Return the flags of an event's text, in the words of event names."""
    for layer in layers:
        for key in ("delta", "partial", "is_partial", "isPartial", "streaming"):
            if layer.body.get(key) is True:
                return ".delta"
        for key in ("final", "is_final", "isFinal", "complete", "completed"):
            if layer.body.get(key) is True:
                return ".final"
    return ""


def index_of(body: dict[str, Any]) -> int | None:
    """Return the place of a content block or of a streamed call in its message."""
    value = body.get("index", body.get("contentBlockIndex"))
    return value if type(value) is int else None


def place_of(name: str, layers: Sequence[Layer]) -> Place:
    """Return the place of a block in its message, if the event has it."""
    for layer in layers:
        given = first(layer.body, ("item_id", "itemId", "part_id", "partID", "partId", "block_id", "blockId"))
        if given:
            return given
        if "block" in words(name) and (index := index_of(layer.body)) is not None:
            return index
    return None


def message_id_of(layers: Sequence[Layer]) -> str | None:
    """Return the id of the event's message, if the event has it."""
    for layer in layers:
        given = first(layer.body, ("message_id", "messageId", "messageID"))
        given = given or first(as_dict(layer.body.get("message")), ("id",))
        if given:
            return given
    return None


def first(body: dict[str, Any], keys: Sequence[str]) -> str:
    """Return the first of these fields that is a string and not empty."""
    for key in keys:
        value = body.get(key)
        if value and isinstance(value, str):
            return value
    return ""
