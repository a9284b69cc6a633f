"""codex: `codex exec --json`.

Text comes in whole items and nothing is printed while the model writes. Each `agent_message` and each
`reasoning` item is a message of its own; see `docs/agents/codex.md`.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import msgspec

from penstock.agents._values import (
    as_dict,
    as_int,
    as_list,
    compact,
    inner_message,
    plan_items,
    text_of,
    text_or,
)
from penstock.events import Kind, ToolKind
from penstock.updates import (
    BlockStart,
    MessageEnd,
    Notice,
    Plan,
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

MAX_UNWRAP_CHARS = 20_000
"""Commands longer than this keep their shell wrapper in the title: taking words apart costs time per character,
and a title shows only the beginning."""

_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "fish", "pwsh", "powershell", "cmd"})
_SHELL_FLAGS = frozenset({"-c", "-lc", "-ic", "-Command", "/c", "/C"})
_FAILED = frozenset({"failed", "declined"})


class Item(msgspec.Struct):
    """`item` of the three item events: the fields of all kinds together, told apart by `type`."""

    # Twice in the object for a web search; the second one, the server's own id, is taken.
    id: str | None = None
    type: str | None = None
    text: Any = None
    command: Any = None
    aggregated_output: Any = None
    exit_code: Any = None
    status: Any = None
    changes: Any = None
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


class ThreadStarted(msgspec.Struct, tag_field="type", tag="thread.started"):
    """The first line: the id of the conversation."""

    thread_id: str | None = None


class TurnStarted(msgspec.Struct, tag_field="type", tag="turn.started"):
    """The prompt was taken."""


class ItemStarted(msgspec.Struct, tag_field="type", tag="item.started"):
    """An item is under way."""

    item: Item = msgspec.field(default_factory=Item)


class ItemUpdated(msgspec.Struct, tag_field="type", tag="item.updated"):
    """An item changed; the item is whole."""

    item: Item = msgspec.field(default_factory=Item)


class ItemCompleted(msgspec.Struct, tag_field="type", tag="item.completed"):
    """An item is finished, well or not."""

    item: Item = msgspec.field(default_factory=Item)


class TurnCompleted(msgspec.Struct, tag_field="type", tag="turn.completed"):
    """The regular end; `usage` sums over the turn's model calls."""

    usage: Any = None


class TurnFailed(msgspec.Struct, tag_field="type", tag="turn.failed"):
    """The end after an error."""

    error: Any = None


class StreamError(msgspec.Struct, tag_field="type", tag="error"):
    """An error that is not the end: retries are told this way too."""

    message: Any = None


class Codex:
    """Reads `codex exec --json`."""

    name: ClassVar[str] = "codex"
    traits: ClassVar[Traits] = Traits()
    wire: ClassVar[Any] = (
        ThreadStarted
        | TurnStarted
        | ItemStarted
        | ItemUpdated
        | ItemCompleted
        | TurnCompleted
        | TurnFailed
        | StreamError
    )

    def read(self, event: Any) -> Sequence[Update]:
        """The updates that one wire event means."""
        if isinstance(event, ItemCompleted):
            return _read_item(event.item, "item.completed")
        if isinstance(event, ItemStarted):
            return _read_item(event.item, "item.started")
        if isinstance(event, ItemUpdated):
            return _read_item(event.item, "item.updated")
        if isinstance(event, StreamError):
            return _read_error(text_of(event.message))
        if isinstance(event, TurnCompleted):
            return (Result(usage=_usage(event.usage)),)
        if isinstance(event, TurnFailed):
            return (Result(is_error=True, reason=inner_message(text_of(event.error)) or "the turn failed"),)
        if isinstance(event, ThreadStarted):
            return (RunStart(session_id=event.thread_id),)
        if isinstance(event, TurnStarted):
            return ()
        return (_unknown(event),)


def _unknown(event: Any) -> Unknown:
    fields = as_dict(event)
    text = next((found for key in ("text", "message", "delta") if (found := text_of(fields.get(key)))), None)
    return Unknown(wire_type=text_or(fields.get("type"), "") or None, text=text)


def _read_error(message: str) -> Sequence[Update]:
    if message.startswith("Reconnecting"):
        # What the broken attempt left comes again, under a new item id.
        return (MessageEnd(status="superseded"), Notice("retry", message, "warning"))
    return (Notice("error", inner_message(message), "error"),)


def _read_item(item: Item, event: str) -> Sequence[Update]:
    reader = _ITEMS.get(item.type or "")
    if reader is None:
        return (Unknown(wire_type=f"{event}/{item.type}", text=text_of(item.text) or text_of(item.message) or None),)
    return reader(item, event == "item.completed")


def _content(kind: Kind, item: Item, done: bool) -> Sequence[Update]:
    text = text_of(item.text)
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
) -> Sequence[Update]:
    if not done:
        return (call,)
    failed = failed or bool(exit_code) or (isinstance(item.status, str) and item.status in _FAILED)
    return (call, ToolReturn(call.call_id, text, failed, exit_code, call.name))


def _command_execution(item: Item, done: bool) -> Sequence[Update]:
    command = text_of(item.command)
    title = unwrapped(command) or None
    call = ToolCall(_call_id(item), "command_execution", {"command": item.command}, title, "execute")
    return _tool(item, done, call, text_of(item.aggregated_output), exit_code=as_int(item.exit_code))


def _file_change(item: Item, done: bool) -> Sequence[Update]:
    changes = [change for change in as_list(item.changes) if isinstance(change, dict)]
    paths = [text_of(change.get("path")) for change in changes]
    kinds = {text_of(change.get("kind")) for change in changes}
    tool_kind: ToolKind = "delete" if kinds == {"delete"} else "edit"
    call = ToolCall(_call_id(item), "file_change", {"changes": item.changes}, ", ".join(paths) or None, tool_kind)
    lines = [f"{text_of(change.get('kind'))} {path}".strip() for change, path in zip(changes, paths, strict=True)]
    return _tool(item, done, call, "\n".join(lines))


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
    return (Plan(plan_items(item.items if item.items is not None else item.plan)),)


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
    return item.id or item.type or "call"


def unwrapped(command: str) -> str:
    """What a shell is told to do, without the shell: `/bin/bash -lc 'ls | wc'` gives `ls | wc`."""
    program = command.partition(" ")[0].replace("\\", "/").rpartition("/")[2].removesuffix(".exe")
    if program not in _SHELLS or len(command) > MAX_UNWRAP_CHARS:
        return command
    try:
        words = shlex.split(command)
    except ValueError:  # a quote without its end
        return command
    return words[-1] if len(words) >= 3 and words[-2] in _SHELL_FLAGS else command


def _usage(value: Any) -> Usage | None:
    if not isinstance(value, dict):
        return None
    return Usage(
        input_tokens=as_int(value.get("input_tokens")),
        output_tokens=as_int(value.get("output_tokens")),
        cached_tokens=as_int(value.get("cached_input_tokens")),
        cache_write_tokens=as_int(value.get("cache_write_input_tokens")),
        reasoning_tokens=as_int(value.get("reasoning_output_tokens")),
    )
