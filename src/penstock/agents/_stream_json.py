"""Reader of `stream-json`, the wire of Claude Code, its proxies and Qwen Code: lines to updates."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

from penstock.agents import _stream_json_edits as edits
from penstock.agents._commands import commands_of
from penstock.agents._exit_status import split_status
from penstock.agents._json import (
    as_bool,
    as_dict,
    as_float,
    as_int,
    as_list,
    id_of,
    media_label,
    name_of,
    object_of,
    output_of,
    plan_items,
    text_of,
    text_or,
    word_of,
    words_of,
)
from penstock.agents._stream_json_causes import cause_of_end, cause_of_error, reason_of_limit
from penstock.agents._stream_json_notices import limit_notice, system_notice, task_report, text_of_system
from penstock.agents._stream_json_wire import (
    ApiMessage,
    Assistant,
    BlockBegin,
    BlockDelta,
    BlockStop,
    CitationsDelta,
    InputDelta,
    MessageBegin,
    MessageDelta,
    MessageStop,
    ResultLine,
    SignatureDelta,
    StreamEvent,
    System,
    TextDelta,
    ThinkingDelta,
    User,
    Wire,
)
from penstock.agents._unknown import unknown
from penstock.core import tool_titles
from penstock.core.bounded import BoundedDict
from penstock.core.misfits import note, note_type
from penstock.core.questions import ASK_OF
from penstock.events import PlanItem, added
from penstock.updates import (
    BlockEnd,
    BlockStart,
    ContextUse,
    MessageEnd,
    MessageStart,
    ModelUsage,
    Notice,
    Plan,
    Question,
    Result,
    RoundEnd,
    RunStart,
    Text,
    ToolCall,
    ToolReturn,
    Traits,
    Unknown,
    Update,
    Usage,
    Work,
)

_SILENT_TYPES = frozenset(
    {
        "tool_progress",
        "prompt_suggestion",
        "keep_alive",
        "command_lifecycle",
        "control_response",
        "control_cancel_request",
    }
)
_DIAGNOSTIC = "[ede_diagnostic]"
"""Beginning of an entry among claude's errors that describes its own state and not an error."""

_SILENT_SYSTEM = frozenset(
    {
        "thinking_tokens",
        "hook_started",
        "hook_progress",
        "task_progress",
        "task_updated",
        "background_tasks_changed",
        "files_persisted",
        "session_state_changed",
        "turn_duration",
        "elicitation_complete",
        "file_snapshot",
        "post_turn_summary",
        "away_summary",
        "code_change_published",
        "control_request_progress",
        "dev_intent",
        "feedback_draft_queued",
        "instruction_size_warning",
        "per_turn_effort_changed",
        "permission_check_status",
        "session_end",
        "session_start",
        "session_title_changed",
        "shell_cwd",
        "task_list_statuses",
        "turn_handoff_available",
        "vcs_state_changed",
        "worktree_restored",
        "worktree_started",
    }
)
TASK_ENDS = frozenset({"completed", "failed", "killed", "stopped", "cancelled"})
_SILENT_EVENTS = frozenset({"ping", "goal_state", "tool_progress"})
TOOL_USES = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
_ERROR_FRAME = re.compile(r"<tool_use_error>(.*)</tool_use_error>", re.DOTALL)
_OUTPUT_FRAME = re.compile(r"<persisted-output>\n(.*)\n</persisted-output>", re.DOTALL)
_LAUNCHED = re.compile(r"([^\n(]+) \(This tool result is internal metadata\b.*", re.DOTALL)
_EXIT_LINE = re.compile(r"\A(?:Error: )?Exit code:? (\d{1,10})(?:\n|\Z)")
"""The agent's own line about the exit status in the result of a command that failed."""
_DURATIONS = ("durationMs", "totalDurationMs")
_FAILURES = ("Error: ", "User rejected ")
"""Beginnings of the details of a failed call. Those of nearly all others are objects."""
_COMMAND_OUTPUT = re.compile(r"<local-command-std(?:out|err)>(.*)</local-command-std(?:out|err)>", re.DOTALL)
_INTERRUPTED = "The user doesn't want to proceed with this tool use."
"""Beginning of the result of a call that was interrupted, by whomever. A rejected call has other words."""
PLAN_TOOLS = frozenset({"TodoWrite", "todo_write"})
MAX_PLANS = 64
"""Maximum number of calls with a new plan that wait for their results."""


class ClaudeLike:
    """Base of the dialects. They differ in how a message ends and in what identifies it."""

    name: ClassVar[str]
    wire: ClassVar[Any] = Wire
    traits: ClassVar[Traits] = Traits(block_ends=True, finals=True)
    _is_notified: bool = False
    """The end of background work was reported: the next message of the main agent answers it."""
    _last_message: str | None = None
    """Id of the main agent's latest message."""
    _last_model: str | None = None
    """Model of the main agent's latest message."""
    _used: Usage | None = None
    _cost: float | None = None
    """Usage and cost of the run by the parts that its results report; None if they report none."""
    cached_inside: ClassVar[bool] = False
    """True if the figure of the input includes the cached tokens, as OpenAI's does; False if it excludes them."""

    def __init__(self) -> None:
        self._plans: BoundedDict[str, list[PlanItem]] = BoundedDict(MAX_PLANS)  # by call, until it has succeeded

    def read(self, event: Any) -> Sequence[Update]:
        if type(event) is StreamEvent:
            api = event.event
            if type(api) is BlockDelta:
                delta = api.delta
                if type(delta) is TextDelta:  # fast path: nearly all lines
                    return (Text("text", "delta", delta.text, api.index, None, event.parent_tool_use_id),)
                return _delta(delta, api.index, event.parent_tool_use_id)
            return tuple(self._api(api, event.parent_tool_use_id))
        reader = self._readers.get(type(event))
        return tuple(reader(self, event)) if reader is not None else tuple(_other(event))

    def _api(self, api: Any, lane: str | None) -> Iterator[Update]:
        if isinstance(api, BlockBegin):
            yield from _block(api, lane)
        elif isinstance(api, BlockStop):
            yield BlockEnd(api.index, lane=lane)
        elif isinstance(api, MessageBegin):
            message = api.message or ApiMessage()
            yield from self._answers_work(message, lane)
            yield MessageStart(message.id, lane)
            if (usage := self._figures(message.usage, output=False)) is not None:
                yield ModelUsage(usage, message.model, lane=lane)
        elif isinstance(api, MessageDelta):
            yield from self._message_delta(api, lane)
        elif isinstance(api, MessageStop):
            yield from self._message_stop(api, lane)
        elif (kind := text_or(as_dict(api).get("type"), "")) not in _SILENT_EVENTS:
            yield unknown(f"stream_event/{kind}", api, lane)

    def _answers_work(self, message: ApiMessage, lane: str | None) -> Iterator[Update]:
        """Begin a round with the first message after the end of background work, which is the answer to it."""
        if lane is None and message.id != self._last_message:
            if self._is_notified:
                yield RoundEnd()
            self._is_notified, self._last_message = False, message.id
        if lane is None:
            self._last_model = message.model or self._last_model

    def _message_delta(self, api: MessageDelta, lane: str | None) -> Iterator[Update]:
        if (usage := self._figures(api.usage)) is not None:
            yield ModelUsage(usage, lane=lane)

    def _message_stop(self, api: MessageStop, lane: str | None) -> Iterator[Update]:
        yield MessageEnd(lane=lane)

    def _key(self, message: ApiMessage) -> str | None:
        """Return the id by which a whole line names its message, if the dialect has any."""
        return message.id

    def _assistant(self, event: Assistant) -> Iterator[Update]:
        message, lane = event.message, event.parent_tool_use_id
        if message.model == "<synthetic>":  # the CLI's own words, not the model's
            text = text_of(message.content)
            if event.error:
                yield Notice("error", text, "error", lane, cause_of_error(event.error, text=text))
            else:
                yield Notice("status", text, "info", lane)
            return
        yield from self._answers_work(message, lane)
        key = self._key(message)
        content = message.content
        if not isinstance(content, list):
            # A value of a type that no version has is a kind that is not known, and never shown as text.
            block = {"type": "text", "text": content} if isinstance(content, str) else content
            content = [block] if content else []
            if block is None:
                note("a message without content")
        for block in content:
            yield from self._whole(as_dict(block), key, lane)
        if (usage := self._figures(message.usage, output=False)) is not None:
            yield ModelUsage(usage, message.model, key, lane)

    def _whole(self, block: dict[str, Any], key: str | None, lane: str | None) -> Iterator[Update]:
        kind = text_or(block.get("type"), "")
        if kind == "text":
            yield Text("text", "final", words_of(block.get("text")), message=key, lane=lane)
        elif kind == "thinking":
            yield Text("thinking", "final", words_of(block.get("thinking")), message=key, lane=lane)
        elif kind in TOOL_USES:
            name = name_of(block.get("name"))
            value = block.get("input")
            yield ToolCall(
                id_of(block.get("id"), "a call"),
                name,
                value,
                message=key,
                lane=lane,
                changes=edits.proposed(name, value),
            )
            if name in PLAN_TOOLS and lane is None and (items := plan_items(as_dict(value).get("todos"))):
                self._plans[text_of(block.get("id"))] = items
        elif kind.endswith("_tool_result"):
            yield _server_result(block, lane)
        elif kind == "redacted_thinking":
            yield Notice("redacted", "thinking that the provider hides", lane=lane)
        elif kind in ("image", "document", "container_upload"):
            yield Notice("media", media_label(block), lane=lane)
        else:
            yield Unknown(f"assistant/{kind}", text_of(block.get("text")) or None, lane)

    def _user(self, event: User) -> Iterator[Update]:
        # Texts in the user's role are echoes and the CLI's own prompts: never blocks.
        content, lane = event.message.content, event.parent_tool_use_id
        if isinstance(content, str) and (said := _COMMAND_OUTPUT.fullmatch(content.strip())) and said[1].strip():
            yield Notice("status", said[1].strip(), lane=lane)
        if content is None:
            note("a message without content")
        elif not isinstance(content, str | list):
            note_type(content, "a list")
        parts = [as_dict(block) for block in as_list(content)]
        details = as_dict(event.tool_use_result) if len(parts) == 1 else {}
        for part in parts:
            kind = text_or(part.get("type"), "")
            if kind == "tool_result":
                call_id = text_of(part.get("tool_use_id"))
                yield from self._details(call_id, details, lane)
                items = self._plans.pop(call_id, None)
                if items is not None and part.get("is_error") is not True:
                    yield Plan(items)
                report = event.tool_use_result if len(parts) == 1 else None
                if isinstance(report, str) and report.startswith(_FAILURES) and part.get("is_error") is None:
                    note("a failed result without is_error")
                yield self._tool_result(part, details, lane)
            elif kind in ("image", "document"):
                yield Notice("media", media_label(part), lane=lane)
            elif kind not in ("", "text"):
                yield Unknown(f"user/{kind}", text_of(part.get("text")) or None, lane)

    def _tool_result(self, block: dict[str, Any], details: dict[str, Any], lane: str | None) -> ToolReturn:
        failed = as_bool(block.get("is_error")) is True
        text, exit_code = self._output(_unframed(text_of(output_of(block.get("content"))), failed, details), failed)
        return ToolReturn(
            id_of(block.get("tool_use_id"), "a result"),
            text,
            failed,
            exit_code,
            lane=lane,
            duration_ms=next((ms for key in _DURATIONS if (ms := as_int(details.get(key))) is not None), None),
            changes=edits.made(details),
        )

    def _output(self, text: str, failed: bool) -> tuple[str, int | None]:
        """Return the result of a call without the program's own lines about the command, and the exit status."""
        return split_status(text, _EXIT_LINE) if failed else (text, None)

    def _details(self, call_id: str, details: dict[str, Any], lane: str | None) -> Iterator[Update]:
        """Read what the details of a result mean beside the result."""
        yield from ()

    def _system(self, event: System) -> Iterator[Update]:
        event = task_report(event)
        kind = event.subtype
        if kind == "init":
            tools = [tool for tool in as_list(event.tools) if isinstance(tool, str)]
            version = event.claude_code_version or event.qwen_code_version
            yield MessageEnd(status="cut")  # a new start ends what an older one left open
            yield RunStart(event.session_id, event.model, event.cwd, version, tools or None)
            if event.slash_commands is not None:
                yield commands_of(event.slash_commands)
        elif kind == "commands_changed":
            yield commands_of(event.commands)
        elif kind == "status":
            if event.status == "compacting":
                yield Notice("compaction", "compacting the conversation")
        elif (notice := system_notice(event)) is not None:
            yield notice
            if kind == "agents_killed":
                yield Work(None, on=False)
            elif kind in ("task_started", "task_notification"):
                self._is_notified = self._is_notified or kind == "task_notification"
                if event.task_id:
                    yield Work(event.task_id, on=kind == "task_started")
        elif kind == "task_updated" and text_of(as_dict(event.patch).get("status")) in TASK_ENDS:
            yield Work(event.task_id, on=False)
        elif kind not in _SILENT_SYSTEM:
            yield Unknown(f"system/{kind}", text_of_system(event))

    def _result(self, event: ResultLine) -> Iterator[Update]:
        text = None if event.result is None else word_of(event.result)
        failed = event.is_error or event.subtype.startswith("error")
        if not (failed or text or event.num_turns) and text_or(as_dict(event.origin).get("kind"), "human") != "human":
            yield Notice("result", "work of an earlier run has ended")  # precedes the turn; not an answer
            return
        errors = event.errors
        if isinstance(errors, list):
            errors = [error for error in errors if not text_of(error).startswith(_DIAGNOSTIC)]
        cause = cause_of_end(event.subtype, event.terminal_reason, event.api_error_status, event.stop_reason)
        cost, at_limit = as_float(event.total_cost_usd), failed and cause == "budget"
        stopped = text_of(event.terminal_reason).startswith("aborted")
        # The subtype of a run that was stopped only says that it failed.
        kind = "" if stopped else event.subtype.replace("_", " ") or "error"
        reason = text_of(errors) or text_of(event.error) or text or kind
        if at_limit:
            reason = reason_of_limit(reason, cost)
        if not text and event.structured_output is not None:
            text = text_of(event.structured_output)
        self._add_part(event.usage_since_result)
        if window := _window_of(event.model_usage, self._last_model):
            yield ContextUse(window=window)
        yield Result(
            None if failed else text,
            failed,
            (reason or None) if failed else None,
            event.session_id,
            self._used or _totals(event.model_usage) or self._figures(event.usage),
            cost if self._cost is None else self._cost,
            as_int(event.duration_ms),
            cancelled=stopped or at_limit,
            stop_reason=event.stop_reason,
            cause=cause,
            refused=_denials(event),
        )

    def _add_part(self, models: Any) -> None:
        """Add what was used since the last result. The totals of a resumed session are not those of the run."""
        used = _totals(models)
        if used is None:
            return
        self._used = used if self._used is None else self._used + used
        for figures in map(as_dict, as_dict(models).values()):
            self._cost = added(self._cost, as_float(figures.get("costUSD")))

    def _figures(self, usage: Any, output: bool = True) -> Usage | None:
        """Convert the wire's usage. `output` is false if the wire's figure is a placeholder."""
        data = object_of(usage)
        whole, cached = as_int(data.get("input_tokens")), as_int(data.get("cache_read_input_tokens"))
        written = as_int(data.get("cache_creation_input_tokens"))
        if whole is not None and not self.cached_inside:
            whole += (cached or 0) + (written or 0)
        made = as_int(data.get("output_tokens")) if output else None
        return None if whole is None and made is None else Usage(whole, made, cached, written)

    _readers: ClassVar[dict[type, Callable[[Any, Any], Iterator[Update]]]] = {
        Assistant: _assistant,
        User: _user,
        System: _system,
    }

    def __init_subclass__(cls) -> None:
        # A dialect may read results and reports in its own way.
        cls._readers = {**ClaudeLike._readers, Assistant: cls._assistant, System: cls._system, ResultLine: cls._result}


def _totals(models: Any) -> Usage | None:
    """Return the sum of the totals of all models; None if there are none."""
    total: Usage | None = None
    for figures in map(object_of, object_of(models).values()):
        given, cached, written, made = (as_int(figures.get(name)) for name in _TOTALS)
        if given is not None and made is not None:
            used = Usage(given + (cached or 0) + (written or 0), made, cached, written)
            total = used if total is None else total + used
    return total


def _window_of(models: Any, model: str | None) -> int | None:
    """Return the size of a model's context, of the figures of all models; None if it is not clear which are meant."""
    windows = {name: as_int(as_dict(figures).get("contextWindow")) for name, figures in as_dict(models).items()}
    # The figures may be those of a variant, as `opus[1m]`.
    own = {size for name, size in windows.items() if name.partition("[")[0] == model}
    sizes = own or set(windows.values())
    return sizes.pop() if len(sizes) == 1 else None


_TOTALS = ("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens", "outputTokens")


def _delta(delta: Any, index: int | None, lane: str | None) -> Sequence[Update]:
    if isinstance(delta, ThinkingDelta):
        return (Text("thinking", "delta", delta.thinking, index, None, lane),)
    if isinstance(delta, InputDelta):
        return (Text("tool_input", "delta", delta.partial_json, index, None, lane),)
    if isinstance(delta, SignatureDelta | CitationsDelta):
        return ()
    if delta is None:
        note("a piece without a delta")
        return ()
    data = as_dict(delta)
    return (Unknown(f"stream_event/{text_of(data.get('type'))}", text_of(data.get("text")) or None, lane),)


def _block(api: BlockBegin, lane: str | None) -> Iterator[Update]:
    block = as_dict(api.content_block)
    kind = text_or(block.get("type"), "")
    if kind in ("text", "thinking"):
        yield BlockStart("text" if kind == "text" else "thinking", api.index, lane=lane)
        if text := words_of(block.get(kind)):
            yield Text("text" if kind == "text" else "thinking", "delta", text, api.index, lane=lane)
    elif kind in TOOL_USES:
        call_id = text_of(block.get("id")) or None
        yield BlockStart("tool_input", api.index, None, lane, call_id, name_of(block.get("name")))
    elif kind.endswith("_tool_result"):
        yield _server_result(block, lane)
    # The whole line that follows has the content of other kinds.


def _unframed(text: str, failed: bool, details: dict[str, Any]) -> str:
    """Return a result without what the program adds to it for the model.

    Such are tags around its own error and around a long output, advice after an interrupt, and figures after the
    report of a sub-agent, or the rules for one that works in the background.
    """
    if failed and text.startswith(_INTERRUPTED):
        return "interrupted"
    if "agentId" in details and (report := text_of(details.get("content"))) and text.startswith(report):
        return report
    if "agentId" in details and (launched := _LAUNCHED.fullmatch(text)):
        return launched[1]
    framed = (_ERROR_FRAME if failed else _OUTPUT_FRAME).fullmatch(text)
    return framed[1] if framed is not None and (failed or "persistedOutputPath" in details) else text


def _denials(event: ResultLine) -> int | None:
    """Return the number of denied actions; None after an abort, which adds the call that it interrupted."""
    denials = event.permission_denials
    aborted = text_of(event.terminal_reason).startswith("aborted")
    return len(denials) if isinstance(denials, list) and not aborted else None


def _server_result(block: dict[str, Any], lane: str | None) -> ToolReturn:
    """Return the result of a tool that ran at the provider: a list of hits, or an error."""
    content = block.get("content")
    failed = as_bool(block.get("is_error")) is True or text_or(as_dict(content).get("type"), "").endswith("_error")
    if failed and isinstance(content, dict):
        return ToolReturn(text_of(block.get("tool_use_id")), text_of(content.get("error_code")), True, lane=lane)
    lines = [
        " ".join(text_of(hit.get(key)) for key in ("title", "url") if hit.get(key)) or text_of(hit)
        for hit in map(as_dict, as_list(content))
    ]
    return ToolReturn(text_of(block.get("tool_use_id")), "\n".join(lines) or text_of(content), lane=lane)


def _other(event: Any) -> Iterator[Update]:
    """Read a line of another type, which is plain data."""
    data = as_dict(event)
    kind = text_or(data.get("type"), "")
    if kind == "rate_limit_event":
        if (notice := limit_notice(as_dict(data.get("rate_limit_info")))) is not None:
            yield notice
    elif kind == "control_request":
        request = as_dict(data.get("request"))
        if request.get("subtype") == "can_use_tool":
            yield _permission(text_of(data.get("request_id")), request)
    elif kind == "tool_use_summary":
        yield Notice("status", text_of(data.get("summary")))
    elif kind == "auth_status":
        error = text_of(data.get("error"))
        yield Notice("status", error or text_of(data.get("output")) or "signing in", "error" if error else "info")
    elif kind == "conversation_reset":
        yield Notice("session", "the conversation was reset")
    elif kind not in _SILENT_TYPES:
        yield unknown(kind, data)


def _permission(id: str, request: dict[str, Any]) -> Question:
    """Return the question for a tool that needs a permission; who started the CLI answers it, on the CLI's stdin."""
    name, given = text_or(request.get("tool_name"), "tool"), request.get("input")
    kind = tool_titles.tool_kind(name)
    return Question(
        id,
        f"may {name} run? {text_of(given)}",
        "outside" if request.get("blocked_path") else ASK_OF.get(kind, "tool"),
        call_id=text_or(request.get("tool_use_id"), "") or None,
        tool_kind=kind,
        title=tool_titles.title(name, given),
    )
