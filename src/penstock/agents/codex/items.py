"""Items, the part that the two streams of codex share, and their meaning.

`codex exec --json` and `codex app-server` report the same items, the one in snake_case and the other in camelCase. The
readers expect the first form; `item_of` converts the second to it.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from penstock.agents._json import (
    as_dict,
    as_int,
    as_list,
    as_ms,
    compact,
    id_of,
    ms_between,
    object_of,
    plan_items,
    text_of,
    text_or,
    word_of,
    words_of,
)
from penstock.agents.codex.changes import changes_of, kind_of
from penstock.events import Cause, Change, Kind, ToolKind
from penstock.updates import (
    BlockStart,
    Notice,
    Plan,
    Result,
    RoundEnd,
    Text,
    ToolCall,
    ToolReturn,
    Unknown,
    Update,
    Usage,
)

MAX_UNWRAP_CHARS = 20_000
"""Characters of a command, above which its title keeps the shell wrapper: splitting into words costs time per
character, and a title shows only the beginning."""

Fields = dict[str, Any]

_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "fish", "pwsh", "powershell", "cmd"})
_SHELL_FLAGS = frozenset({"-c", "-lc", "-ic", "-Command", "/c", "/C"})
_FAILED = frozenset({"failed", "declined", "interrupted"})
_CUT_OFF = "max_output_tokens"
"""Part of codex's error text for an answer that reached the limit of tokens; codex reports it only by an error."""


class Item(msgspec.Struct):
    """`item` of the three item events: the fields of all kinds together, distinguished by `type`."""

    # Twice in the object for a web search; the second one, the server's own id, is used.
    id: str | None = None
    type: str | None = None
    text: Any = None
    phase: Any = None
    command: Any = None
    aggregated_output: Any = None
    exit_code: Any = None
    status: Any = None
    changes: Any = None
    edits: Any = None
    """The changes with their diffs: only the app server has them."""
    duration_ms: Any = None
    server: Any = None
    tool: Any = None
    arguments: Any = None
    result: Any = None
    error: Any = None
    receiver_thread_ids: Any = None
    prompt: Any = None
    agents_states: Any = None
    query: Any = None
    action: Any = None
    items: Any = None
    plan: Any = None
    message: Any = None


def read_item(item: Item, event: str) -> Sequence[Update]:
    """Translate an item; `event` is `item.started`, `item.updated` or `item.completed`."""
    reader = _ITEMS.get(item.type or "")
    if reader is None:
        return (Unknown(wire_type=f"{event}/{item.type}", text=text_of(item.text) or text_of(item.message) or None),)
    return reader(item, event == "item.completed")


def failure(reason: str, cause: Cause | None, resets_at: int | None = None) -> Result:
    """Return the end of a turn that failed."""
    if _CUT_OFF in reason:
        return Result(is_error=True, stop_reason=_CUT_OFF)
    return Result(is_error=True, reason=reason or "the turn failed", cause=cause, resets_at=resets_at)


def _content(kind: Kind, item: Item, done: bool) -> Sequence[Update]:
    text = words_of(item.text)
    return (Text(kind, "final" if done else "snapshot", text, item.id, item.id),) if text else ()


def _agent_message(item: Item, done: bool) -> Sequence[Update]:
    return _content("text", item, done)


def _reasoning(item: Item, done: bool) -> Sequence[Update]:
    return _content("thinking", item, done)


def _tool(
    item: Item,
    done: bool,
    call: ToolCall,
    text: str,
    *,
    exit_code: int | None = None,
    failed: bool = False,
    changes: list[Change] | None = None,
) -> Sequence[Update]:
    if not done:
        return (call,)
    failed = failed or bool(exit_code) or word_of(item.status) in _FAILED
    result = ToolReturn(
        call.call_id,
        text,
        failed,
        exit_code,
        call.name,
        duration_ms=as_ms(item.duration_ms),
        changes=changes,
        refused=item.status == "declined",
    )
    return (call, result)


def _command_execution(item: Item, done: bool) -> Sequence[Update]:
    command = text_of(item.command)
    title = unwrapped(command) or None
    call = ToolCall(_call_id(item), "command_execution", {"command": item.command}, title, "execute")
    return _tool(item, done, call, text_of(item.aggregated_output), exit_code=as_int(item.exit_code))


def _file_change(item: Item, done: bool) -> Sequence[Update]:
    entries = [change for change in as_list(item.changes) if isinstance(change, dict)]
    paths = [text_of(entry.get("path")) for entry in entries]
    kinds = {text_of(entry.get("kind")) for entry in entries}
    tool_kind: ToolKind = "delete" if kinds == {"delete"} else "edit"
    changes = changes_of(item.edits if item.edits is not None else item.changes)
    title = ", ".join(paths) or None
    call = ToolCall(_call_id(item), "file_change", {"changes": item.changes}, title, tool_kind, changes=changes)
    lines = [f"{text_of(entry.get('kind'))} {path}".strip() for entry, path in zip(entries, paths, strict=True)]
    text = "" if item.status == "declined" else "\n".join(lines)  # else it would read as the reason
    return _tool(item, done, call, text, changes=changes)


def _mcp_tool_call(item: Item, done: bool) -> Sequence[Update]:
    name = ".".join(part for part in (text_of(item.server), text_of(item.tool)) if part) or "mcp_tool_call"
    call = ToolCall(_call_id(item), name, item.arguments)
    result = as_dict(item.result)
    text = text_of(item.error) or text_of(result.get("content"))
    if not text:
        structured = result.get("structured_content")
        text = compact(structured) if structured is not None else ("" if result else text_of(item.result))
    return _tool(item, done, call, text, failed=bool(item.error))


def _collab_tool_call(item: Item, done: bool) -> Sequence[Update]:
    name = text_or(item.tool, "collab_tool_call")
    asked = {"prompt": item.prompt, "receiver_thread_ids": item.receiver_thread_ids}
    call = ToolCall(
        _call_id(item),
        name,
        {key: value for key, value in asked.items() if value is not None},
        text_of(item.prompt) or None,
        "think" if name == "spawn_agent" else "other",
    )
    states = [as_dict(state) for state in as_dict(item.agents_states).values()]
    lines = [text_of(state.get("message")) or text_of(state.get("status")) for state in states]
    return _tool(item, done, call, "\n".join(line for line in lines if line))


def _web_search(item: Item, done: bool) -> Sequence[Update]:
    call_id = _call_id(item)
    action = as_dict(item.action)
    if not done:
        # The query is empty until the search is over.
        return (BlockStart("tool_input", call_id=call_id, name="web_search"),)
    title = text_of(item.query) or text_of(action.get("query")) or text_of(action.get("url"))
    kind: ToolKind = "fetch" if action.get("type") == "open_page" else "search"
    call = ToolCall(call_id, "web_search", {"query": item.query, "action": item.action}, title or None, kind)
    return (call, ToolReturn(call_id, name="web_search"))


def _todo_list(item: Item, done: bool) -> Sequence[Update]:
    # The tool that changes the plan leaves no other trace: the text that follows answers its result.
    return (Plan(plan_items(item.items if item.items is not None else item.plan)), RoundEnd())


def _error_item(item: Item, done: bool) -> Sequence[Update]:
    return (Notice("error", text_of(item.message) or text_of(item.text), "warning"),)


_ITEMS: dict[str, Callable[[Item, bool], Sequence[Update]]] = {
    "agent_message": _agent_message,
    "reasoning": _reasoning,
    "plan": _agent_message,  # plan mode's proposal: text of the model
    "command_execution": _command_execution,
    "file_change": _file_change,
    "mcp_tool_call": _mcp_tool_call,
    "collab_tool_call": _collab_tool_call,
    "web_search": _web_search,
    "todo_list": _todo_list,
    "plan_update": _todo_list,
    "error": _error_item,
}


def _call_id(item: Item) -> str:
    return id_of(item.id, "a call") or item.type or "call"


def unwrapped(command: str) -> str:
    """Return a shell's command without the shell: `/bin/bash -lc 'ls | wc'` gives `ls | wc`."""
    program = command.partition(" ")[0].replace("\\", "/").rpartition("/")[2].removesuffix(".exe")
    if program not in _SHELLS or len(command) > MAX_UNWRAP_CHARS:
        return command
    try:
        words = shlex.split(command)
    except ValueError:  # a quote without its end
        return command
    return words[-1] if len(words) >= 3 and words[-2] in _SHELL_FLAGS else command


def usage_of(value: Any) -> Usage | None:
    """Return the figures of an object in snake_case, None if there are none."""
    figures = object_of(value)
    if not figures:
        return None
    return Usage(
        input_tokens=as_int(figures.get("input_tokens")),
        output_tokens=as_int(figures.get("output_tokens")),
        cached_tokens=as_int(figures.get("cached_input_tokens")),
        cache_write_tokens=as_int(figures.get("cache_write_input_tokens")),
        reasoning_tokens=as_int(figures.get("reasoning_output_tokens")),
    )


# --- the form of `codex app-server` --------------------------------------------------------------------


def item_of(raw: dict[str, Any]) -> Item:
    """Return an item in the form of `codex exec`."""
    kind = text_or(raw.get("type"), "") or None
    values = {field: raw.get(name) for field, name in _FIELDS.items()}
    item = Item(**values, id=text_or(raw.get("id"), "") or None, type=_KINDS.get(kind or "", kind))
    if item.duration_ms is None:
        item.duration_ms = ms_between(raw.get("startedAtMs"), raw.get("completedAtMs"))
    if kind == "reasoning":
        item.text = "\n".join(map(text_of, as_list(raw.get("summary")) or as_list(raw.get("content"))))
    elif kind == "fileChange":
        item.edits = [as_dict(change) for change in as_list(raw.get("changes"))]
        item.changes = [{"path": change.get("path"), "kind": kind_of(change)} for change in item.edits]
    elif kind == "collabAgentToolCall":
        item.tool = snaked(text_of(raw.get("tool")))
        states = as_dict(raw.get("agentsStates")).items()
        item.agents_states = {
            id: {**as_dict(s), "status": snaked(text_of(as_dict(s).get("status")))} for id, s in states
        }
    elif kind == "mcpToolCall":
        result = raw.get("result")
        if isinstance(result, dict):
            item.result = {"content": result.get("content"), "structured_content": result.get("structuredContent")}
    elif kind == "dynamicToolCall":
        item.server, item.result = raw.get("namespace"), {"content": raw.get("contentItems")}
        item.error = "the tool failed" if raw.get("success") is False and not raw.get("contentItems") else None
        item.status = "failed" if raw.get("success") is False else item.status
    return item


_KINDS = {
    "agentMessage": "agent_message",
    "commandExecution": "command_execution",
    "fileChange": "file_change",
    "mcpToolCall": "mcp_tool_call",
    "dynamicToolCall": "mcp_tool_call",
    "collabAgentToolCall": "collab_tool_call",
    "webSearch": "web_search",
}
"""Names of the kinds of items in `codex exec`; others have the same name, or none."""

_FIELDS = {
    "text": "text",
    "phase": "phase",
    "command": "command",
    "aggregated_output": "aggregatedOutput",
    "exit_code": "exitCode",
    "status": "status",
    "server": "server",
    "tool": "tool",
    "arguments": "arguments",
    "result": "result",
    "error": "error",
    "receiver_thread_ids": "receiverThreadIds",
    "prompt": "prompt",
    "query": "query",
    "action": "action",
    "message": "message",
    "duration_ms": "durationMs",
}

COMPLETED_ITEMS: dict[str, Callable[[Fields], Sequence[Update]]] = {
    "contextCompaction": lambda raw: (Notice("compaction", "the context was compacted"),),
    "hookPrompt": lambda raw: (Notice("hook", text_of(raw.get("fragments"))),),
    "imageView": lambda raw: (Notice("media", text_of(raw.get("path"))),),
    "imageGeneration": lambda raw: (Notice("media", text_of(raw.get("savedPath")) or "an image was made"),),
    "enteredReviewMode": lambda raw: (Notice("status", f"review: {text_of(raw.get('review'))}"),),
    "exitedReviewMode": lambda raw: (Notice("status", text_of(raw.get("review"))),),
    "subAgentActivity": lambda raw: (
        Notice("background", f"{text_of(raw.get('agentPath'))} {text_of(raw.get('kind'))}"),
    ),
    "sleep": lambda raw: (Notice("status", f"slept {text_of(raw.get('durationMs'))} ms"),),
    "functionCallOutput": lambda raw: (Notice("status", f"{text_of(raw.get('name'))}: {text_of(raw.get('output'))}"),),
}
"""Items that are emitted once they are completed, and that `codex exec` does not print."""


def _server_status(params: Fields) -> Sequence[Update]:
    error = text_of(params.get("error"))
    return (Notice("error", f"{text_of(params.get('name'))}: {error}", "warning"),) if error else ()


NOTICES: dict[str, Callable[[Fields], Sequence[Update]]] = {
    "warning": lambda params: (Notice("error", text_of(params.get("message")), "warning"),),
    "guardianWarning": lambda params: (Notice("permission", text_of(params.get("message")), "warning"),),
    "autoApprovalReview/strictReviewRequired": lambda params: (
        Notice("permission", "codex now reviews actions more strictly", "warning"),
    ),
    "configWarning": lambda params: (Notice("status", text_of(params.get("summary"))),),
    "mcpServer/startupStatus/updated": _server_status,
    "model/rerouted": lambda params: (
        Notice("model", f"the model is now {text_of(params.get('toModel'))}", "warning"),
    ),
}
"""Notifications that become notices as they are."""

SILENT = frozenset(
    {
        "account/updated", "app/list/updated", "deprecationNotice", "fs/changed",
        "hook/completed", "hook/started", "item/autoApprovalReview/completed", "item/autoApprovalReview/started",
        "item/commandExecution/terminalInteraction", "item/fileChange/outputDelta", "item/fileChange/patchUpdated",
        "item/mcpToolCall/progress", "mcpServer/event/stream/notification", "modelProvider/authRecoveryCompleted",
        "modelProvider/authRecoveryStarted", "item/reasoning/summaryPartAdded", "model/safetyBuffering/updated",
        "model/verification", "project/changed", "rawResponse/completed", "rawResponseItem/completed",
        "remoteControl/status/changed", "skills/changed", "thread/closed", "thread/compacted",
        "thread/environment/connected", "thread/environment/disconnected", "thread/goal/cleared",
        "thread/goal/updated", "thread/name/updated", "thread/prediction/updated", "thread/queue/changed",
        "thread/readState/changed", "thread/settings/updated", "thread/status/changed", "turn/diff/updated",
        "turn/moderationMetadata",
    }
)  # fmt: skip
"""Notifications that do not concern the work, or repeat others."""


def snaked(name: str) -> str:
    """Return `inProgress` as `in_progress`."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def in_lane(updates: Sequence[Update], lane: str | None) -> Sequence[Update]:
    """Return updates as those of a lane; None is the top one."""
    if lane is None:
        return updates
    return [msgspec.structs.replace(update, lane=lane) if hasattr(update, "lane") else update for update in updates]
