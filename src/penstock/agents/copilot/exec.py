"""Copilot: `copilot -p … --output-format json`.

A model call (`model.call_start`) is a message; a second call in the same turn begins it again. Deltas get lost under
load: the whole `assistant.message` is the truth. An attempt that failed never gets one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import msgspec

from penstock.adapter import Command, Request
from penstock.agents._causes import cause_of_name, cause_of_status
from penstock.agents._edits import from_git, proposed
from penstock.agents._exit_status import split_status
from penstock.agents._flags import each, granted, option, path_of, piped
from penstock.agents._json import (
    as_bool,
    as_dict,
    as_float,
    as_int,
    as_list,
    name_of,
    object_of,
    output_of,
    plan_items,
    text_of,
    text_or,
    words_of,
)
from penstock.agents._unknown import unknown
from penstock.core import diffs
from penstock.core.misfits import note
from penstock.events import AnsweredBy, Ask, Cause, Change, ChangeKind, Level, NoticeCode, Option
from penstock.updates import (
    Answer,
    BlockStart,
    Failure,
    MessageEnd,
    MessageStart,
    ModelUsage,
    Notice,
    Plan,
    Question,
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


class Piece(msgspec.Struct):
    """New part of a message, of thinking or of a call."""

    messageId: str | None = None
    reasoningId: str | None = None
    toolCallId: str | None = None
    toolName: str | None = None
    parentToolCallId: str | None = None
    deltaContent: str = ""
    inputDelta: str = ""
    text: str = ""


class MessageDelta(msgspec.Struct, tag="assistant.message_delta"):
    """New text."""

    data: Piece | None = None
    agentId: str | None = None


class ReasoningDelta(msgspec.Struct, tag="assistant.reasoning_delta"):
    """New thinking."""

    data: Piece | None = None
    agentId: str | None = None


class CallDelta(msgspec.Struct, tag="assistant.tool_call_delta"):
    """New input of a call."""

    data: Piece | None = None
    agentId: str | None = None


class ShellOutput(msgspec.Struct, tag="tool.shell_output"):
    """New output of a shell command."""

    data: Piece | None = None
    agentId: str | None = None


_SILENT = frozenset(
    """
    session.skills_loaded session.mcp_servers_loaded session.background_tasks_changed session.usage_info
    session.title_changed session.mode_changed session.start session.resume session.shutdown session.idle
    session.context_changed session.snapshot_rewind session.custom_agents_updated
    session.mcp_server_status_changed session.mcp_server_tools_loaded session.extensions_loaded
    session.workspace_file_changed session.handoff
    user.message assistant.turn_start assistant.idle assistant.streaming_delta
    model.call_finished
    tool.execution_partial_result tool.execution_progress tool.user_requested
    hook.start hook.progress skill.invoked system.message external_tool.requested external_tool.completed
    subagent.configured subagent.selected subagent.deselected
    command.queued command.execute command.completed commands.changed capabilities.changed
    pending_messages.modified agent.interrupted
    """.split()  # noqa: SIM905  # as a list each would be a line
)
_STREAMED = ("", "")
_SILENT_PREFIXES = ("assistant.fusion_", "mcp.", "external_tool.")
# Lines that become notices: their code and level. `_WORDS` names the fields with their text.
_NOTICES: dict[str, tuple[NoticeCode, Level]] = {
    "session.warning": ("status", "warning"),
    "session.truncation": ("compaction", "info"),
    "session.compaction_start": ("compaction", "info"),
    "session.compaction_complete": ("compaction", "info"),
    "session.model_change": ("model", "info"),
    "session.task_complete": ("status", "info"),
    "assistant.intent": ("status", "info"),
    "system.notification": ("status", "info"),
    "subagent.started": ("background", "info"),
    "subagent.completed": ("background", "info"),
    "subagent.failed": ("background", "warning"),
    "exit_plan_mode.requested": ("permission", "info"),
    "exit_plan_mode.completed": ("permission", "info"),
}
_WORDS = (
    *("message", "content", "intent", "error", "agentDisplayName", "agentName"),
    *("newModel", "summary", "planContent"),
)
_EDITS = frozenset({"create", "edit", "apply_patch"})
_EDIT_KINDS: dict[str, ChangeKind] = {"create": "add", "edit": "update", "delete": "delete"}
_DENIED = frozenset({"denied", "rejected"})
_EXIT_LINE = re.compile(r"(?:\A|(?<=\n))<shellId: \S+ completed with exit code (-?\d{1,10})>\s*\Z")
"""Last line of the output of a command, in copilot 1.0.102."""
"""Codes in the error of a call without permission, denied by a person or by default."""
_CAUSES: dict[str, Cause] = {
    "authentication": "auth",
    "authorization": "auth",
    "quota": "usage_limit",
    "rate_limit": "rate_limit",
    "context_limit": "context",
}
"""Causes by the `errorType` of `session.error`."""


class Copilot:
    """Adapter of Copilot's stream.

    It remembers the call that started each sub-agent, and the ids of the text and thinking in progress.
    """

    name: ClassVar[str] = "copilot"
    traits: ClassVar[Traits] = Traits(block_ends=True, asks_for_all=True)  # or it marks the call as denied
    wire: ClassVar[Any] = MessageDelta | ReasoningDelta | CallDelta | ShellOutput

    @staticmethod
    def command(request: Request) -> Command:
        """Return `copilot --output-format=json`, with the prompt through stdin, which needs no flag."""
        session = option("--resume", request.session_id)
        return piped(
            request,
            "copilot",
            "--output-format=json",
            # Without the second flag it may also write to the directory for temporary files.
            *_options(request, edits=("--allow-tool=write", "--disallow-temp-dir")),
            *each("--attachment", (image.path for image in request.images)),
            *session,
            *request.args,
        )

    def __init__(self) -> None:
        self._started_by: dict[str, str] = {}
        self._writing: dict[str | None, str] = {}
        self._thinking: dict[str | None, tuple[str, str]] = {}  # the place that thinking has, and its id
        self._failed: dict[str | None, tuple[Cause | None, int | None]] = {}  # cause and attempt of the last failure

    def read(self, event: Any) -> Sequence[Update]:
        """Translate one wire event into updates."""
        kind = type(event)
        if kind is dict:
            return tuple(self._line(event))
        piece = event.data if kind in (MessageDelta, ReasoningDelta, CallDelta, ShellOutput) else None
        if piece is None:
            return (Unknown(),) if not isinstance(event, msgspec.Struct) else ()
        agent, parent = event.agentId, piece.parentToolCallId
        lane = self._lane(agent, parent) if agent or parent else None
        if kind is MessageDelta:
            return (Text("text", "delta", piece.deltaContent, piece.messageId, None, lane),)
        if kind is ReasoningDelta:
            self._thinking[lane] = _STREAMED
            return (Text("thinking", "delta", piece.deltaContent, piece.reasoningId, None, lane),)
        call_id = piece.toolCallId or ""
        if kind is CallDelta:
            return (
                BlockStart("tool_input", call_id, None, lane, call_id, piece.toolName),
                Text("tool_input", "delta", piece.inputDelta, call_id, None, lane, call_id),
            )
        return (Text("tool_output", "delta", piece.text, lane=lane, call_id=call_id),)

    def _lane(self, agent_id: str | None, parent: str | None = None) -> str | None:
        if not agent_id:
            return parent or None
        return self._started_by.get(agent_id) or parent or agent_id

    def _line(self, event: dict[str, Any]) -> Iterator[Update]:  # noqa: C901, PLR0912 - one branch for each kind of line
        kind, data = text_or(event.get("type"), ""), as_dict(event.get("data"))
        agent_id = text_or(event.get("agentId"), "")
        if kind == "subagent.started" and agent_id and data.get("toolCallId"):
            self._started_by[agent_id] = text_of(data["toolCallId"])
        lane = self._lane(agent_id, text_or(data.get("parentToolCallId"), ""))
        if kind == "result":
            # After an abort it is a second end, but the only line with the session.
            yield RunStart(session_id=text_of(event.get("sessionId")) or None)
            yield _result(event)
        elif kind == "model.call_failure":
            self._failed[lane] = (_cause(data), as_int(data.get("retryAttempt")))
        elif kind in _SILENT or kind.startswith(_SILENT_PREFIXES):
            return
        elif kind == "assistant.reasoning":
            yield self._thought(data, lane)
        elif kind in _ATTEMPTS:
            yield from self._attempt(kind, data, lane)
        elif kind.startswith(("assistant.", "model.", "tool.")) and kind not in _NOTICES:
            yield from _work(kind, data, lane)
        elif kind == "session.info":
            yield self._info(data, lane)
        elif kind == "session.error":
            cause = _cause(data) or self._failed.pop(lane, (None, None))[0]
            yield Notice("error", text_of(data.get("message")), "error", lane, cause)
            if lane is None:
                yield Failure(text_of(data.get("message")) or "the session failed", cause)
        elif kind == "session.tools_updated":
            yield RunStart(model=text_of(data.get("model")) or None)
        elif kind in ("session.todos_changed", "session.plan_changed"):
            if items := plan_items(data.get("todos") or data.get("items")):
                yield Plan(items, lane)
        elif kind == "abort":
            yield Result(cancelled=True, reason=text_of(data.get("reason")) or "interrupted")
        elif kind == "hook.end":
            if data.get("success") is False:
                yield Notice("hook", f"hook failed: {text_of(data.get('error'))}", "warning", lane)
        elif kind in ("permission.requested", "user_input.requested", "elicitation.requested"):
            yield _question(data, lane)
        elif kind in ("permission.completed", "user_input.completed", "elicitation.completed"):
            yield _answer(data, lane)
        elif kind in _NOTICES:
            words = next((text for key in _WORDS if (text := text_of(data.get(key)))), "")
            what = kind if kind.startswith("subagent") else kind.split(".", 1)[1]
            what = what.replace(".", " ").replace("_", " ")
            yield Notice(_NOTICES[kind][0], f"{what}: {words}" if words else what, _NOTICES[kind][1], lane)
        else:
            yield unknown(kind, data, lane)

    def _info(self, data: dict[str, Any], lane: str | None) -> Notice:
        text = text_of(data.get("message"))
        if data.get("infoType") != "model_retry":
            return Notice("status", text, lane=lane)
        cause, attempt = self._failed.get(lane, (None, None))
        return Notice("retry", text, "warning", lane, cause, attempt=None if attempt is None else attempt + 1)

    def _attempt(self, kind: str, data: dict[str, Any], lane: str | None) -> Iterator[Update]:
        """Read the start and the end of a model call."""
        writing = self._writing.get(lane)
        if kind == "assistant.message_start":
            self._writing[lane] = text_of(data.get("messageId"))
            if writing is not None and writing != self._writing[lane]:  # and its text never came whole
                yield MessageEnd(lane=lane, status="superseded")
                yield MessageStart(lane=lane)
            return
        if kind == "model.call_final_result" and data.get("result") in (None, "success"):
            return
        self._writing.pop(lane, None)
        if kind == "assistant.message":
            self._failed.pop(lane, None)
            yield from self._message(data, lane)
            return
        self._thinking.pop(lane, None)
        if kind == "model.call_start":
            if lane is None:
                yield RunStart(model=text_of(data.get("model")) or None)
            yield MessageStart(text_of(data.get("turnId")) or None, lane)
        elif kind == "assistant.turn_retry":
            yield MessageEnd(lane=lane, status="superseded")
        elif kind == "model.call_final_result":
            yield MessageEnd(lane=lane, status="cut")
        else:
            yield MessageEnd(lane=lane, status=None if writing is None else "cut")

    def _message(self, data: dict[str, Any], lane: str | None) -> Iterator[Update]:
        place = text_of(data.get("messageId")) or None
        if place is not None and (part := as_int(data.get("chunkIndex"))):
            place = f"{place}/{part}"  # each line has a part of a long text
        if (thought := text_of(data.get("reasoningText"))) and lane not in self._thinking:
            first = f"{place}/thinking"  # it did not stream, and its own line follows this one
            self._thinking[lane] = (first, "")
            yield Text("thinking", "final", thought, first, lane=lane)
        yield Text("text", "final", words_of(data.get("content")), place, lane=lane)
        for request in map(as_dict, as_list(data.get("toolRequests"))):
            yield _call(request, request.get("name"), lane)

    def _thought(self, data: dict[str, Any], lane: str | None) -> Update:
        place, (first_place, owner) = text_of(data.get("reasoningId")), self._thinking.get(lane, _STREAMED)
        if first_place and owner in ("", place):
            self._thinking[lane] = (first_place, place)
            place = first_place
        return Text("thinking", "final", words_of(data.get("content")), place or None, lane=lane)


_ATTEMPTS = frozenset(
    """
    model.call_start model.call_final_result assistant.message_start assistant.message assistant.turn_retry
    assistant.turn_end
    """.split()  # noqa: SIM905  # as a list each would be a line
)


def acp(request: Request) -> Command:
    """Return `copilot --acp`; the dialogue sets the session, and decides about each edit."""
    return Command(argv=("copilot", "--acp", *_options(request, edits=()), *request.args))


def _options(request: Request, edits: tuple[str, ...]) -> tuple[str, ...]:
    read = ("--deny-tool=write", "--deny-tool=shell")
    allow = granted(request, read=read, edits=edits, everything=("--allow-all",))
    # Without the flag a run may begin with the download of another version than the installed one.
    return (
        "--no-auto-update",
        *option("--model", request.model),
        *allow,
        *option("--reasoning-effort", request.effort),
        # Over ACP too: copilot 1.0.102 does not use the servers that a client names for the session.
        *option("--additional-mcp-config", path_of(request.mcp_config, "@")),
        *each("--allow-tool", request.allow_tools),
        *each("--deny-tool", request.deny_tools),
    )


def _work(kind: str, data: dict[str, Any], lane: str | None) -> Iterator[Update]:
    if kind == "assistant.usage":
        yield ModelUsage(_figures(data), text_of(data.get("model")) or None, lane=lane, whole=True)
    elif kind == "tool.execution_start":
        yield _call(data, data.get("toolName"), lane)
    elif kind == "tool.execution_complete":
        exit_code = as_int(object_of(data.get("shellExecution")).get("exitCode"))
        error = text_of(data.get("error"))
        text = text_of(as_dict(data.get("result")).get("content")) or error or text_of(output_of(data.get("result")))
        if exit_code is not None:
            text, _ = split_status(text, _EXIT_LINE)
        elif split_status(text, _EXIT_LINE)[1]:
            note("a command without an exit status")
        failed = as_bool(data.get("success")) is False or bool(exit_code)
        refused = text_or(as_dict(data.get("error")).get("code"), "") in _DENIED
        changes = _made(data)
        yield ToolReturn(
            text_of(data.get("toolCallId")), text, failed, exit_code, lane=lane, changes=changes, refused=refused
        )
    else:
        yield Unknown(kind, text_of(data.get("content")) or None, lane)


def _call(data: dict[str, Any], name: Any, lane: str | None) -> ToolCall:
    called, value = name_of(name), data.get("arguments")
    changes = proposed(value) if called in _EDITS else None
    if called == "create" and changes:  # it rejects a file that exists
        changes = [msgspec.structs.replace(change, removed=0) for change in changes]
    return ToolCall(text_of(data.get("toolCallId")), called, value, lane=lane, changes=changes)


def _made(data: dict[str, Any]) -> list[Change] | None:
    """Return the changes that the result of an edit shows; None if it shows none, or a new file, as its input does."""
    edits = [(text_of(edit.get("path")), edit.get("kind")) for edit in map(as_dict, as_list(data.get("fileEdits")))]
    if not edits or all(kind == "create" for _, kind in edits):
        return None
    shown = from_git(text_of(as_dict(data.get("result")).get("detailedContent")), [path for path, _ in edits])
    kinds = [_EDIT_KINDS.get(text_or(kind, ""), "update") for _, kind in edits]
    if shown is None:
        return [diffs.named(path, kind) for (path, _), kind in zip(edits, kinds, strict=True)]
    return [msgspec.structs.replace(change, kind=kind) for change, kind in zip(shown, kinds, strict=True)]


def _cause(data: dict[str, Any]) -> Cause | None:
    """Return the cause of a failed model call, or of an error of the session."""
    code, kind = (text_or(data.get(key), "") for key in ("errorCode", "errorType"))
    return _CAUSES.get(kind) or cause_of_status(as_int(data.get("statusCode"))) or cause_of_name(code)


def _figures(data: dict[str, Any]) -> Usage:
    counts = [as_int(data.get(key)) for key in ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")]
    return Usage(*counts)


def _question(data: dict[str, Any], lane: str | None) -> Question:
    request = as_dict(data.get("permissionRequest"))
    asked = data.get("question") or data.get("message") or request.get("intention") or request.get("fullCommandText")
    options = [Option(text, text, "choice") for choice in as_list(data.get("choices")) if (text := text_of(choice))]
    ask: Ask = "choice" if options else "text"
    if request:
        ask = _ASKS.get(text_or(request.get("kind"), ""), "tool")
    path, diff = request.get("fileName"), request.get("diff")
    changes = from_git(diff, [path]) if isinstance(path, str) and isinstance(diff, str) else None
    title = request.get("fullCommandText") or request.get("fileName") or request.get("path") or request.get("url")
    return Question(
        text_of(data.get("requestId")),
        text_of(asked or request),
        ask,
        options or None,
        call_id=text_or(request.get("toolCallId"), "") or None,
        title=text_of(title) or None,
        lane=lane,
        changes=changes,
    )


def _answer(data: dict[str, Any], lane: str | None) -> Answer:
    """Return who answered, and the answer. copilot names the decision on a permission; other answers are a person's."""
    kind = text_of(as_dict(data.get("result")).get("kind"))
    words = text_of(data.get("answer") or kind or data.get("action")) or None
    by: AnsweredBy = "person"
    if kind and "user" not in kind.removesuffix("could-not-request-from-user"):
        by = "allow" if kind.startswith("approved") else "nobody"
    return Answer(text_of(data.get("requestId")), by, text=words, lane=lane)


_ASKS: dict[str, Ask] = {"shell": "command", "write": "edit", "path": "outside", "url": "network"}
"""Subjects of copilot's kinds of permission requests. The others are each for a tool."""


def _result(event: dict[str, Any]) -> Result:
    code = as_int(event.get("exitCode"))
    usage = object_of(event.get("usage"))
    milliseconds = as_float(usage.get("sessionDurationMs"))
    return Result(
        is_error=bool(code),
        session_id=text_of(event.get("sessionId")) or None,
        duration_ms=None if milliseconds is None else int(milliseconds),
    )
