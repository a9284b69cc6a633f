"""cline: `cline --json "…"`.

Each text delta comes with all of the text so far, which is not read; the texts end late (`content_end`), that of the
thinking after that of the answer. See `docs/agents/cline.md`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec

from penstock.adapter import Command, Request, as_argument
from penstock.agents._edits import path_of, proposed
from penstock.agents._exit_status import split_status
from penstock.agents._flags import granted, option
from penstock.agents._json import (
    as_dict,
    as_float,
    as_int,
    as_list,
    id_of,
    inner_message,
    object_of,
    output_of,
    text_of,
    text_or,
    words_of,
)
from penstock.agents._unknown import unknown
from penstock.agents.cline.diff import change_of
from penstock.core import diffs
from penstock.core.bounded import BoundedDict
from penstock.core.diffs import Hunk
from penstock.events import Cause, Change
from penstock.updates import (
    Failure,
    MessageEnd,
    MessageStart,
    ModelUsage,
    Notice,
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

MAX_SUB_AGENTS = 256
"""Number of sub-agents, and of their calls, that are distinguished at once. Beyond it their ends were never
reported."""

_EDITS = frozenset({"editor", "apply_patch"})
_CAUSES: dict[str, Cause] = {"auth": "auth", "context_window_exceeded": "context"}
"""Causes by the `errorClass` of cline's errors; the third one is `unknown`."""
_LIMIT = "Model reached the maximum output token limit before completing the turn"
"""Message of cline 3.0.65 at the model's output limit."""
_SPAWN_TOOLS = frozenset({"spawn_agent"})
_BLANK = re.compile(r"\s")
_EXIT_CODE = re.compile(r"exited with code (-?\d{1,10})")
_EXIT_LINE = re.compile(r"\A\[Command exited with code (-?\d{1,10})\](?:\n|\Z)")


class Inner(msgspec.Struct, rename="camel"):
    """`event` of an `agent_event`: the fields of all kinds together, distinguished by `type`."""

    type: str | None = None
    content_type: str | None = None
    text: Any = None
    reasoning: Any = None
    redacted: Any = None
    tool_name: str | None = None
    tool_call_id: str | None = None
    input: Any = None
    update: Any = None
    output: Any = None
    media: Any = None
    duration_ms: Any = None
    error: Any = None
    error_class: Any = None
    recoverable: Any = None
    message: Any = None
    notice_type: Any = None
    reason: Any = None
    input_tokens: Any = None
    output_tokens: Any = None
    cache_read_tokens: Any = None
    cache_write_tokens: Any = None
    cost: Any = None
    total_cost: Any = None
    agent_id: str | None = None
    parent_agent_id: str | None = None


class AgentEvent(msgspec.Struct, tag_field="type", tag="agent_event"):
    """Any action of an agent. The line does not name the agent."""

    event: Inner = msgspec.field(default_factory=Inner)


class HookEvent(msgspec.Struct, tag_field="type", tag="hook_event", rename="camel"):
    """Run of a hook; the only lines that name an agent."""

    hook_event_name: str | None = None
    agent_id: str | None = None
    parent_agent_id: str | None = None


class RunBegin(msgspec.Struct, tag_field="type", tag="run_start", rename="camel"):
    """Session and model; only with `--verbose`."""

    session_id: str | None = None
    model_id: str | None = None


class RunResult(msgspec.Struct, tag_field="type", tag="run_result", rename="camel"):
    """End of the run. `text` is the answer, or the error message if `finish_reason` is `error`."""

    finish_reason: str | None = None
    text: Any = None
    usage: Any = None
    aggregate_usage: Any = None
    duration_ms: Any = None
    model: Any = None


class AbortRequested(msgspec.Struct, tag_field="type", tag="run_abort_requested"):
    """Request by a signal to end the run."""

    reason: Any = None


class Aborted(msgspec.Struct, tag_field="type", tag="run_aborted"):
    """Stop of the run; comes after the `run_result`."""

    reason: Any = None
    message: Any = None


class TeamEvent(msgspec.Struct, tag_field="type", tag="team_event"):
    """News of the team of agents that works in the background."""

    event: Any = None


class TeamRestored(msgspec.Struct, tag_field="type", tag="team_restored", rename="camel"):
    """Return of a team from an earlier run."""

    team_name: Any = None


class Cline:
    """Adapter of `cline --json`."""

    name: ClassVar[str] = "cline"
    traits: ClassVar[Traits] = Traits(block_ends=True)
    wire: ClassVar[Any] = (
        AgentEvent | HookEvent | RunBegin | RunResult | AbortRequested | Aborted | TeamEvent | TeamRestored
    )

    @staticmethod
    def command(request: Request) -> Command:
        """Return `cline --json -- PROMPT`: with this format stdin is read only after a prompt that is an argument."""
        prompt = request.prompt
        if not _BLANK.search(prompt):
            prompt += "\n"  # cline reads a single word as a command, after `--` too; it strips the line feed
        allow = granted(request, everything=("--auto-approve=true",))
        model = option("--model", request.model)
        flags = (*model, *allow, *option("--thinking", request.effort))
        return Command(argv=("cline", "--json", *flags, *request.args, "--", as_argument("cline", prompt)))

    def __init__(self) -> None:
        self._spawns: list[str] = []  # calls for a sub-agent which has not started yet
        # Running sub-agents, the latest last, and the calls that started them.
        self._lanes: BoundedDict[str, str] = BoundedDict(MAX_SUB_AGENTS)

    def read(self, event: Any) -> Sequence[Update]:
        """Translate one wire event into updates."""
        if isinstance(event, AgentEvent):
            return self._read_agent_event(event.event)
        if isinstance(event, HookEvent):
            return self._read_hook(event)
        if isinstance(event, RunResult):
            return _read_run_result(event)
        if isinstance(event, RunBegin):
            return (RunStart(session_id=event.session_id, model=event.model_id),)
        if isinstance(event, AbortRequested):
            return (Notice("status", f"abort requested {text_of(event.reason)}".rstrip(), "warning"),)
        if isinstance(event, Aborted):
            reason = text_of(event.message) or text_of(event.reason) or "aborted"
            return (Result(is_error=True, cancelled=True, reason=reason),)
        if isinstance(event, TeamEvent):
            return _read_team_event(as_dict(event.event))
        if isinstance(event, TeamRestored):
            return (Notice("background", f"team restored: {text_of(event.team_name)}"),)
        return (unknown(text_or(as_dict(event).get("type"), ""), event),)

    def _read_hook(self, event: HookEvent) -> Sequence[Update]:
        agent, name = event.agent_id, event.hook_event_name
        if name in ("agent_start", "agent_resume"):
            if agent and event.parent_agent_id and agent not in self._lanes:
                self._lanes[agent] = self._spawns.pop(0) if self._spawns else agent
        elif name in ("agent_end", "agent_abort"):
            if event.parent_agent_id:
                self._lanes.pop(agent or "", None)
            else:
                self._lanes.clear()
        # `agent_error` ends no lane yet: the error itself is still to come.
        return ()

    def _spawn_began(self, call_id: str) -> None:
        if call_id not in self._spawns:
            self._spawns.append(call_id)
            del self._spawns[:-MAX_SUB_AGENTS]

    def _spawn_ended(self, call_id: str) -> None:
        # Also for a sub-agent that never reported its end.
        self._spawns = [spawn for spawn in self._spawns if spawn != call_id]
        self._forget_lane(call_id)

    def _forget_lane(self, lane: str | None) -> None:
        for agent in [agent for agent, at in self._lanes.items() if at == lane]:
            del self._lanes[agent]

    def _lane_of(self, event: Inner) -> str | None:
        if event.tool_name in _SPAWN_TOOLS:
            if event.type == "content_start":
                self._spawn_began(_call_id(event))
            elif event.type == "content_end":
                self._spawn_ended(_call_id(event))
        if event.parent_agent_id and event.agent_id:
            return self._lanes.get(event.agent_id, event.agent_id)
        return next(reversed(self._lanes.values())) if self._lanes else None

    def _read_agent_event(self, event: Inner) -> Sequence[Update]:
        lane = self._lane_of(event)
        match event.type:
            case "content_start":
                return _content_start(event, lane)
            case "content_update":
                return _content_update(event, lane)
            case "content_end":
                return _content_end(event, lane)
            case "usage":
                return (ModelUsage(_usage(event), lane=lane),)
            case "iteration_start":
                return (MessageStart(lane=lane),)
            case "iteration_end":
                return (MessageEnd(lane=lane),)
            case "notice":
                return (_notice(event, lane),)
            case "error":
                return self._read_error(event, lane)
            case "done":
                return ()  # `run_result` repeats all of it
        return (
            Unknown(f"agent_event/{event.type or ''}", text_of(event.text) or text_of(event.message) or None, lane),
        )

    def _read_error(self, event: Inner, lane: str | None) -> Sequence[Update]:
        message = inner_message(text_of(event.error) or text_of(event.message)) or "cline gave no message"
        if event.recoverable is True:
            return (Notice("error", message, "warning", lane),)
        cause = _CAUSES.get(text_or(event.error_class, "")) or _cause_of(message)
        if lane is None:
            return (Notice("error", message, "error", cause=cause), Failure(message, cause))
        self._forget_lane(lane)
        return (Notice("error", message, "error", lane, cause),)


def _cause_of(message: str) -> Cause | None:
    return "length" if message == _LIMIT else None


def acp(request: Request) -> Command:
    """Return `cline --acp`; the dialogue sets the session.

    cline ignores `--model` here. It reads the variable, but silently ignores a model that it does not list for its
    provider: only the answer to `session/new` names the model in use.
    """
    env = {} if request.model is None else {"CLINE_MODEL": request.model}
    allow = ("--auto-approve=true",) if request.allow == "all" else ()
    return Command(argv=("cline", "--acp", *allow, *request.args), env=env)


def _content_start(event: Inner, lane: str | None) -> Sequence[Update]:
    match event.content_type:
        case "text":
            text = words_of(event.text)
            return (Text("text", "delta", text, "text", lane=lane),) if text else ()
        case "reasoning":
            if event.redacted and not event.reasoning:
                return (Notice("redacted", "thinking that the provider hides", lane=lane),)
            thought = words_of(event.reasoning)
            return (Text("thinking", "delta", thought, "reasoning", lane=lane),) if thought else ()
        case "tool":
            name = event.tool_name or "tool"
            changes = proposed_by(event.input) if name in _EDITS else None
            return (ToolCall(_call_id(event), name, event.input, _title(event.input), lane=lane, changes=changes),)
    return (_unknown_content(event, lane),)


def _title(given: Any) -> str | None:
    """Return the path of the first of several files to read; None if the input is another one."""
    files = as_list(as_dict(given).get("files"))
    path = path_of(files[0]) if files else ""
    return (f"{path} …" if len(files) > 1 else path) or None


def _content_update(event: Inner, lane: str | None) -> Sequence[Update]:
    if event.content_type != "tool":
        return (_unknown_content(event, lane),)
    update = event.update
    chunk = text_of(update.get("chunk") or update.get("text")) if isinstance(update, dict) else text_of(update)
    return (Text("tool_output", "delta", chunk, lane=lane, call_id=_call_id(event)),) if chunk else ()


def _content_end(event: Inner, lane: str | None) -> Sequence[Update]:
    match event.content_type:
        case "text":
            text = words_of(event.text)
            return (Text("text", "final", text, "text", lane=lane),) if text else ()
        case "reasoning":
            thought = words_of(event.reasoning) if event.reasoning or not event.redacted else ""
            return (Text("thinking", "final", thought, "reasoning", lane=lane),) if thought else ()
        case "tool":
            return (_tool_return(event, lane),)
        case "media":
            media = as_dict(event.media)
            place = text_of(media.get("path")) or text_of(as_dict(media.get("source")).get("url"))
            return (Notice("media", place or "media was made", lane=lane),)
    return (_unknown_content(event, lane),)


def _unknown_content(event: Inner, lane: str | None) -> Unknown:
    return Unknown(f"agent_event/{event.type}/{event.content_type or ''}", text_of(event.text) or None, lane)


def _call_id(event: Inner) -> str:
    return event.tool_call_id or id_of(event.tool_name, "a call") or "call"


def _tool_return(event: Inner, lane: str | None) -> ToolReturn:
    """`output` is one `{query, result, success, error}`, a list of them (one for each command), or anything."""
    failed = bool(event.error)
    exit_code = None
    texts = []
    output = event.output if event.error else output_of(event.output)
    for entry in output if isinstance(output, list) else [output]:
        if not isinstance(entry, dict) or not ("result" in entry or "error" in entry):
            texts.append(text_of(entry))
            continue
        error = text_of(entry.get("error"))
        text = text_of(entry.get("result")) or error
        texts.append(split_status(text, _EXIT_LINE)[0] if error else text)
        failed = failed or bool(error) or entry.get("success") is False
        if exit_code is None and (found := _EXIT_CODE.search(error)):
            exit_code = int(found[1])
    text = "\n".join(text for text in texts if text) or text_of(event.error)
    return ToolReturn(
        _call_id(event),
        text,
        failed,
        exit_code,
        event.tool_name,
        lane,
        duration_ms=as_int(event.duration_ms),
        changes=_made(event),
    )


def proposed_by(given: Any) -> list[Change] | None:
    """Return the changes that the input of cline's `editor` or `apply_patch` proposes; None if it shows none."""
    fields = as_dict(given)
    path, new = path_of(fields), fields.get("new_text")
    if not path or not isinstance(new, str) or isinstance(fields.get("old_text"), str):
        return proposed(given)
    line = as_int(fields.get("insert_line"))
    if line is None:  # cline rejects a file that exists
        return [diffs.from_texts(path, None, new)]
    lines = new.removesuffix("\n").split("\n")
    return [diffs.from_hunks(path, [Hunk(line, 0, line, len(lines), [f"+{text}" for text in lines])])]


def _made(event: Inner) -> list[Change] | None:
    """Return the change that the result of an edit shows; None if it shows none."""
    found = None
    if event.tool_name in _EDITS:
        found = change_of(text_of(as_dict(event.output).get("result")))
    return [found] if found is not None else None


def _notice(event: Inner, lane: str | None) -> Notice:
    text = text_of(event.message) or text_of(event.text)
    reason = text_of(event.reason)
    if "compaction" in reason:
        return Notice("compaction", text, lane=lane)
    if event.notice_type == "recovery":
        return Notice("retry", text, "warning", lane)
    return Notice("status", text, "warning" if event.notice_type == "stop" else "info", lane)


def _read_team_event(event: dict[str, Any]) -> Sequence[Update]:
    kind = text_or(event.get("type"), "team event")
    if kind == "agent_event" or event.get("message") == "heartbeat":
        return ()
    who = next((found for key in ("agentId", "run", "task", "outcome") if (found := _name_of(event.get(key)))), "")
    what = _name_of(event.get("message"))
    return (Notice("background", ": ".join(part for part in (f"{kind} {who}".rstrip(), what) if part)),)


def _name_of(value: Any) -> str:
    fields = as_dict(value)
    if not fields:
        return text_of(value)
    return next((found for key in ("subject", "title", "agentId", "id") if (found := text_of(fields.get(key)))), "")


def _usage(figures: Inner) -> Usage:
    return Usage(
        input_tokens=as_int(figures.input_tokens),
        output_tokens=as_int(figures.output_tokens),
        cached_tokens=as_int(figures.cache_read_tokens),
        cache_write_tokens=as_int(figures.cache_write_tokens),
        cost_usd=_cost(figures),
    )


def _cost(figures: Inner) -> float | None:
    """Return the cost of a call. cline leaves it out if it is 0, but always has the total."""
    cost = as_float(figures.cost)
    return 0.0 if cost is None and as_float(figures.total_cost) is not None else cost


def _total(value: Any) -> Usage | None:
    if not object_of(value):
        return None
    return Usage(
        input_tokens=as_int(value.get("inputTokens")),
        output_tokens=as_int(value.get("outputTokens")),
        cached_tokens=as_int(value.get("cacheReadTokens")),
        cache_write_tokens=as_int(value.get("cacheWriteTokens")),
    )


def _read_run_result(event: RunResult) -> Sequence[Update]:
    totals = object_of(event.aggregate_usage) or event.usage
    text = text_of(event.text)
    finish = event.finish_reason or "completed"
    reply = reason = None
    if finish == "completed":
        reply = text
    elif finish == "error":
        reason = inner_message(text) or "cline ended with an error and gave no message"
    else:
        reason = f"cline stopped: {finish}"
    result = Result(
        reply=reply,
        is_error=finish != "completed",
        reason=reason,
        usage=_total(totals),
        cost_usd=as_float(as_dict(totals).get("totalCost")),
        duration_ms=as_int(event.duration_ms),
        cancelled=finish == "aborted",
        cause=_cause_of(text) if finish == "error" else None,
    )
    # A run that failed leaves its iteration open, and only this line names the model.
    end = MessageEnd(status="cut" if result.is_error else None)
    model = text_of(as_dict(event.model).get("id"))
    return (end, RunStart(model=model), result) if model else (end, result)
