"""Which agent printed this line, and what else it is when it is no event stream.

`detect` looks at one whole line and answers only where its fields leave no doubt; for the others it says
None, and the next line is asked. `ccs` prints claude's own wire and can only be named by its user.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

MAX_SCANNED_CHARS = 200_000
"""How much of a text `explain` looks at. Known formats show themselves at once."""

Fields = dict[str, Any]


def detect(obj: object) -> str | None:
    """The name of the agent whose event this decoded line is; None where it could be another's."""
    if not isinstance(obj, dict):
        return None
    kind = obj.get("type")
    if not isinstance(kind, str):
        return _acp(obj) or _codex_server(obj) or _opencode_server(obj) or _ollama(obj)
    rule = _RULES.get(kind)
    if rule is not None:
        return rule(obj)
    return _copilot(obj) if "." in kind else None


def _has(obj: object, *keys: str) -> bool:
    return isinstance(obj, dict) and all(key in obj for key in keys)


def _acp(obj: Fields) -> str | None:
    """What an agent says over ACP: of its session, or in its very first answer."""
    if obj.get("jsonrpc") != "2.0":
        return None
    of_session = obj.get("method") in ("session/update", "session/request_permission")
    told = of_session and _has(obj.get("params"), "sessionId")
    return "acp" if told or _has(obj.get("result"), "protocolVersion", "agentCapabilities") else None


def _codex_server(obj: Fields) -> str | None:
    """One side of a dialogue with `codex app-server`: JSON-RPC that does not say its version."""
    if "jsonrpc" in obj:
        return None
    method, params = obj.get("method"), obj.get("params")
    told = isinstance(method, str) and (
        _has(params, "threadId", "turnId") if method.startswith("item/") else _has(params, "thread")
    )
    # The second is what the very first request is answered.
    return "codex/server" if told or _has(obj.get("result"), "userAgent", "codexHome") else None


def _opencode_server(obj: Fields) -> str | None:
    """What the bridge tells of `opencode serve`. Its answers to requests could be any server's."""
    event = obj.get("event")
    named = event.get("id") if isinstance(event, dict) else None
    return "opencode/server" if isinstance(named, str) and named.startswith("evt_") else None


def _ollama(obj: Fields) -> str | None:
    if isinstance(obj.get("done"), bool) and isinstance(obj.get("model"), str):
        return "ollama" if "message" in obj or "response" in obj else None
    # How a server that failed ends: nothing else, with no type, prints this and no more.
    return "ollama" if set(obj) == {"error"} and isinstance(obj["error"], str) else None


def _copilot(obj: Fields) -> str | None:
    return "copilot" if isinstance(obj.get("data"), dict) and _has(obj, "id", "timestamp") else None


def _system(obj: Fields) -> str | None:
    if "qwen_code_version" in obj or ("permission_mode" in obj and obj.get("subtype") == "init"):
        return "qwen"
    if "claude_code_version" in obj or _has(obj, "uuid", "session_id", "mcp_servers", "permissionMode"):
        return "claude"
    if obj.get("subtype") == "init":
        return "cursor" if _has(obj, "session_id", "permissionMode") and "uuid" not in obj else None
    if obj.get("subtype") == "background_shell_timeout":
        return "cursor"
    # Hooks and states come before the init; qwen keeps such things in `data`.
    return "claude" if _has(obj, "uuid", "session_id") and "data" not in obj else None


def _api_event(obj: Fields) -> str | None:
    """`assistant` and `stream_event`, where a stream begins in its middle."""
    if obj.get("type") == "assistant" and ("timestamp_ms" in obj or "model_call_id" in obj):
        return "cursor"
    event = obj.get("event")
    message = event.get("message") if isinstance(event, dict) else obj.get("message")
    if not _has(obj, "uuid", "session_id") or not isinstance(message, dict):
        return None
    named = message.get("id")
    return "claude" if isinstance(named, str) and named.startswith("msg_") else None


def _result(obj: Fields) -> str | None:
    if "stats" in obj and "status" in obj:
        return "gemini"
    if _has(obj, "exitCode", "sessionId"):
        return "copilot"
    if "uuid" in obj:
        return "claude" if "total_cost_usd" in obj or "modelUsage" in obj else "qwen"
    return "cursor" if _has(obj, "session_id", "duration_api_ms") else None


def _opencode(obj: Fields) -> bool:
    return isinstance(obj.get("sessionID"), str) and ("part" in obj or "error" in obj)


def _message(obj: Fields) -> str | None:
    return "gemini" if "timestamp" in obj and _has(obj, "role", "content") else None


def _tool_use(obj: Fields) -> str | None:
    return "opencode" if _opencode(obj) else "gemini" if _has(obj, "tool_name", "tool_id") else None


def _pi_message(obj: Fields) -> str | None:
    message = obj.get("message")
    return "pi" if _has(message, "role", "content") and "session_id" not in obj else None


def _when(agent: str, *keys: str) -> Callable[[Fields], str | None]:
    """The rule that an event with these fields is the agent's."""
    return lambda obj: agent if _has(obj, *keys) else None


def _bare(agent: str) -> Callable[[Fields], str | None]:
    """The rule that an event with no field but its type is the agent's."""
    return lambda obj: agent if len(obj) == 1 else None


def _part(obj: Fields) -> str | None:
    return "opencode" if _opencode(obj) else None


_RULES: dict[str, Callable[[Fields], str | None]] = {
    "system": _system,
    "assistant": _api_event,
    "stream_event": _api_event,
    "result": _result,
    "thread.started": _when("codex", "thread_id"),
    "turn.started": _bare("codex"),
    "turn.completed": _when("codex", "usage"),
    "turn.failed": _when("codex", "error"),
    "item.started": _when("codex", "item"),
    "item.updated": _when("codex", "item"),
    "item.completed": _when("codex", "item"),
    "init": _when("gemini", "session_id", "model"),
    "message": _message,
    "tool_use": _tool_use,
    "tool_result": _when("gemini", "tool_id", "status"),
    "step_start": _part,
    "step_finish": _part,
    "text": _part,
    "reasoning": _part,
    "error": _part,
    "session": _when("pi", "version", "id"),
    "agent_start": _bare("pi"),
    "turn_start": _bare("pi"),
    "message_start": _pi_message,
    "message_end": _pi_message,
    "message_update": _when("pi", "assistantMessageEvent"),
    "tool_execution_start": _when("pi", "toolCallId", "toolName"),
    "tool_execution_end": _when("pi", "toolCallId", "toolName"),
    "agent_end": _when("pi", "messages"),
    "hook_event": _when("cline", "hookEventName"),
    "agent_event": _when("cline", "ts", "event"),
    "run_start": _when("cline", "ts"),
    "run_result": _when("cline", "ts", "finishReason"),
    "run_aborted": _when("cline", "ts"),
    "tool_call": _when("cursor", "call_id", "tool_call"),
    "thinking": _when("cursor", "subtype", "session_id"),
    "interaction_query": _when("cursor", "query_type"),
    "connection": _when("cursor", "subtype", "session_id"),
    "retry": _when("cursor", "attempt", "session_id"),
}


def explain(obj_or_text: object) -> str | None:
    """One line that names the right flag, where the input is a known format that is no event stream.

    Args:
        obj_or_text: a decoded line, or text: the beginning of the input, or all of it.

    Returns:
        None where it may well be an event stream, or is nothing known.
    """
    if isinstance(obj_or_text, bytes):
        obj_or_text = obj_or_text.decode("utf-8", "replace")
    if isinstance(obj_or_text, str):
        return _explain_text(obj_or_text[:MAX_SCANNED_CHARS].lstrip("\ufeff \t\r\n"))
    if isinstance(obj_or_text, list):
        return _explain_list(obj_or_text)
    return _explain_object(obj_or_text) if isinstance(obj_or_text, dict) else None


CLAUDE_JSON = (
    "This is the output of `--output-format json`, one JSON value at the end and no event stream: "
    "use `--output-format stream-json --verbose` (claude; add `--include-partial-messages` for live text)."
)
GEMINI_JSON = (
    "This is the output of `--output-format json`, one JSON object at the end and no event stream: "
    "use `--output-format stream-json` (gemini, qwen)."
)
PRETTY_JSON = (
    "This is JSON over several lines and no event stream, which is one JSON object a line: "
    "ask the agent for its streaming format (`--output-format stream-json` with most)."
)
STREAM_FLAGS = {
    "claude": "claude -p --output-format stream-json --verbose",
    "codex": "codex exec --json",
    "gemini": "gemini --output-format stream-json",
    "opencode": "opencode run --format json",
    "cursor": "cursor-agent -p --output-format stream-json",
    "qwen": "qwen --output-format stream-json",
    "copilot": "copilot --output-format json",
    "pi": "pi --mode json",
    "cline": "cline --json",
}
"""How each agent is asked for its stream of events."""
PLAIN_TEXT = (
    'this is plain text, not a stream of events: let Penstock start the agent (penstock run claude "…"), '
    f'or pipe its stream ({STREAM_FLAGS["claude"]} "…" | penstock; other agents: penstock --help)'
)
CODEX_TEXT = "This is the plain text of `codex exec` and no event stream: use `codex exec --json`."
JSON_RPC = (
    "This is JSON-RPC, one direction of a dialogue (ACP, for one) and no event stream: use the agent's "
    "own streaming output (`--output-format stream-json`; `codex exec --json`)."
)
SSE = (
    "This is a server's event stream (SSE) and not one JSON object a line: "
    "send the lines' `data:` alone (`curl -N … | sed -n 's/^data: *//p'`)."
)


def _explain_list(values: list[Any]) -> str | None:
    first = values[0] if values else None
    if isinstance(first, dict) and detect(first) in ("claude", "qwen", "cursor"):
        return CLAUDE_JSON
    return PRETTY_JSON if isinstance(first, dict) else None


def _explain_object(obj: Fields) -> str | None:
    if obj.get("type") == "result" and obj.get("subtype") == "success" and "session_id" in obj:
        return CLAUDE_JSON
    if "type" in obj:
        return None
    if _has(obj, "response", "stats"):
        return GEMINI_JSON
    if _acp(obj) is not None or _codex_server(obj) is not None:
        return None
    if "jsonrpc" in obj or ("id" in obj and ("result" in obj or "method" in obj)) or _has(obj, "method", "params"):
        return JSON_RPC
    return None


def _explain_text(text: str) -> str | None:
    if text.startswith(("data:", "event:", "id:", ":")) and "data:" in text:
        return SSE
    if text.startswith(("OpenAI Codex v", "Reading prompt from stdin...\nOpenAI Codex v")):
        return CODEX_TEXT
    if not text.startswith(("{", "[")):
        return None
    line = text.split("\n", 1)[0]
    for part in (text, line):
        try:
            value = msgspec.json.decode(part)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            continue
        said = explain(value)
        if said is not None or part is line:
            return said
        return PRETTY_JSON if "\n" in text.rstrip() else None
    # Cut off, or over many lines, whose first one is an opening bracket or little more.
    if '"stats"' in text and '"response"' in text:
        return GEMINI_JSON
    if line.startswith("[") and '"type":"system"' in text:
        return CLAUDE_JSON
    return PRETTY_JSON if line.rstrip() in ("{", "[", "[{") else None
