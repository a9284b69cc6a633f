"""A turn as updates of a session of ACP (Agent Client Protocol, version 1).

A client appends chunks and cannot take one back. So text is a message once it is certain that the agent will not
continue; text before a tool call is a thought. Calls, thoughts and plans are sent as they come.
"""

from __future__ import annotations

import os.path
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from penstock import events as ev
from penstock.chat.history.entries import Numbered
from penstock.chat.reasoning_tags import strip_tags
from penstock.chat.turn import Completed
from penstock.chat.web.doors.turn_fold import TurnFold, failure_text, question_text
from penstock.core.bounded import BoundedDict
from penstock.core.questions import PERMISSIONS, OpenQuestion

Update = dict[str, Any]

MAX_OUTPUT_CHARS = 64 * 1024
"""Characters of the result of a call; an editor shows no more, and `penstock` keeps all of it."""

MAX_CALLS = 4096
"""Number of calls that are remembered as shown."""

PERMISSION_KINDS = ("allow_once", "allow_always", "reject_once", "reject_always")
"""Kinds of options that a permission of ACP can have."""

FIELD = "answer"
"""Name of the only field of a form."""

ALLOW_OR_REJECT = [
    {"optionId": "allow", "name": "Allow", "kind": "allow_once"},
    {"optionId": "reject", "name": "Reject", "kind": "reject_once"},
]
"""Options of a permission that names none."""


class AcpTurn:
    """Updates of one turn, from its entries."""

    def __init__(
        self, turn: int, cwd: str, *, spent: float = 0.0, has_notices: bool = False, has_compactions: bool = False
    ) -> None:
        """`cwd`: directory of the agent; ACP has absolute paths. `spent`: US dollars of the turns before.

        `has_notices`, `has_compactions`: the client shows notices, or compactions of the agent's context.
        """
        self.turn: int = turn
        self.fold: TurnFold = TurnFold(turn)
        self._cwd = cwd
        self._spent = spent
        self._has_notices = has_notices
        self._has_compactions = has_compactions
        self._compactions = 0
        self._is_compacting = False
        self._texts: dict[int, str] = {}  # blocks of the main agent's text that may be the reply
        self._message: set[int] = set()  # those of the message that is open
        self._is_over = False  # the reply was sent
        self._calls: BoundedDict[str, bool] = BoundedDict(MAX_CALLS)  # sent, and whether they have returned

    @property
    def question(self) -> OpenQuestion | None:
        """Question that the run waits for."""
        return self.fold.question

    def take(self, rows: Sequence[Numbered]) -> list[Update]:
        """Return the updates for the next entries of the chat."""
        out: list[Update] = []
        for change in self.fold.take(rows):
            if isinstance(change, Completed):
                self._end_compaction(out)
                self._complete(change.message, out)
            elif self._has_compactions and isinstance(change, ev.Notice) and change.code == "compaction":
                self._compact(change, out)
            elif isinstance(change, ev.Base):
                self._end_compaction(out)
                self._show(change, out)
        return out

    def permission(self, question: OpenQuestion) -> dict[str, Any]:
        """Return the fields `toolCall` and `options` of the request for a permission."""
        call: dict[str, Any] = {
            "toolCallId": self._id(question.call_id or f"question.{question.id}"),
            "title": question.title or question.text,
            "kind": question.tool_kind or "other",
            "status": "pending",
        }
        content = [text_content(question.text)] if question.title and question.text != question.title else []
        if question.command:
            call["rawInput"] = {"command": question.command}
            content.append(text_content(question.command))
        content += diffs(question.changes or (), self._cwd)
        if content:
            call["content"] = content
        options = [
            {"optionId": option.id, "name": option.label, "kind": option.kind}
            for option in question.options or ()
            if option.kind in PERMISSION_KINDS
        ]
        return {"toolCall": call, "options": options or ALLOW_OR_REJECT}

    # --- the events of a run ---

    def _show(self, event: ev.Base, out: list[Update]) -> None:
        if isinstance(event, ev.ToolCalled):
            if event.parent is None:
                self._think(out)
            self._call(event, out)
        elif isinstance(event, ev.ToolReturned):
            self._return(event, out)
        elif event.parent is not None:
            return
        elif isinstance(event, ev.Delta | ev.BlockRevised):
            self._grow(event, out)
        elif isinstance(event, ev.MessageStarted):
            self._message = set()
        elif isinstance(event, ev.MessageEnded) and event.status == "superseded":
            for block in self._message:
                self._texts.pop(block, None)
        elif isinstance(event, ev.PlanChanged):
            self._think(out)
            entries = [{"content": it.text, "priority": "medium", "status": it.status} for it in event.items]
            out.append({"sessionUpdate": "plan", "entries": entries})
        elif isinstance(event, ev.RunEnded):
            out += context_use(event, self._spent)
        elif isinstance(event, ev.Notice) and self._has_notices and event.level != "info" and event.text.strip():
            out.append(notice(event.level, event.text))

    # --- compactions ---

    def _compact(self, event: ev.Notice, out: list[Update]) -> None:
        """Send that a compaction is in progress, or has failed. It has ended once the agent does something else."""
        if event.parent is not None:
            return
        if not self._is_compacting:
            self._compactions += 1
        self._is_compacting = event.level == "info"
        if self._is_compacting:
            out.append(self._compaction("in_progress"))
        else:
            out.append({**self._compaction("failed"), "error": event.text})

    def _end_compaction(self, out: list[Update]) -> None:
        if self._is_compacting:
            self._is_compacting = False
            out.append(self._compaction("completed"))

    def _compaction(self, status: str) -> Update:
        id = f"t{self.turn}.compaction{self._compactions}"
        return {"sessionUpdate": "compaction_update", "compactionId": id, "status": status}

    # --- texts ---

    def _grow(self, event: ev.Delta | ev.BlockRevised, out: list[Update]) -> None:
        if self._is_over:
            return
        if event.kind == "text":
            before = self._texts.get(event.block, "") if isinstance(event, ev.Delta) else ""
            self._texts[event.block] = before + event.text
            self._message.add(event.block)
        elif event.kind == "thinking" and isinstance(event, ev.Delta):
            out.append(self._chunk("agent_thought_chunk", event.text, f".b{event.block}"))

    def _think(self, out: list[Update]) -> None:
        """Send the text before a call as a thought: the agent continues, so it is not the reply."""
        for block, text in self._texts.items():
            self._add_thought(text, f".b{block}", out)
        self._texts.clear()

    def _complete(self, message: str, out: list[Update]) -> None:
        """Send the reply, and before it as a thought the text that it does not have."""
        self._is_over = True
        before = strip_tags("".join(self._texts.values()))
        self._texts.clear()
        if message.strip() and before.rstrip().endswith(message.strip()):
            self._add_thought(before.rstrip()[: -len(message.strip())], ".before", out)
        if message.strip():
            out.append(self._chunk("agent_message_chunk", message, ""))

    def _add_thought(self, text: str, place: str, out: list[Update]) -> None:
        text = strip_tags(text)
        if text.strip():
            out.append(self._chunk("agent_thought_chunk", text, place))

    def _chunk(self, kind: str, text: str, place: str) -> Update:
        content = {"type": "text", "text": text}
        return {"sessionUpdate": kind, "content": content, "messageId": f"t{self.turn}{place}"}

    def _id(self, call: str) -> str:
        return f"t{self.turn}.{call}"

    # --- calls ---

    def _call(self, event: ev.ToolCalled, out: list[Update]) -> None:
        if event.call_id in self._calls:
            return
        self._calls[event.call_id] = False
        call: Update = {
            "sessionUpdate": "tool_call",
            "toolCallId": self._id(event.call_id),
            "title": event.title or event.name,
            "kind": event.tool_kind,
            "status": "in_progress",
            "rawInput": event.input,
        }
        content = diffs(event.changes or (), self._cwd)
        if content:
            call["content"] = content
        places = [{"path": absolute(change.path, self._cwd)} for change in event.changes or ()]
        if places:
            call["locations"] = places
        out.append(call)

    def _return(self, event: ev.ToolReturned, out: list[Update]) -> None:
        if self._calls.get(event.call_id) is not False:
            return
        self._calls[event.call_id] = True
        failed = event.failed or event.refused or not event.complete
        content = diffs(event.changes or (), self._cwd)
        text = event.text
        if len(text) > MAX_OUTPUT_CHARS:
            text = f"{text[:MAX_OUTPUT_CHARS]}\n… [{len(text) - MAX_OUTPUT_CHARS:,} more characters]"
        if text:
            content.append(text_content(text))
        call: Update = {
            "sessionUpdate": "tool_call_update",
            "toolCallId": self._id(event.call_id),
            "status": "failed" if failed else "completed",
        }
        if content:
            call["content"] = content
        if event.exit_code is not None:
            call["rawOutput"] = {"exitCode": event.exit_code}
        out.append(call)


# --- the end ---


def stop_reason(end: Completed) -> str | None:
    """Return the reason for which a turn stopped, as ACP has it; None if it failed."""
    if end.outcome == "cancelled":
        return "cancelled"
    if end.cause == "refusal":
        return "refusal"
    if end.cause == "length":
        return "max_tokens"
    return "end_turn" if failure_text(end) is None else None


def usage_of(usage: ev.Usage | None) -> dict[str, int] | None:
    """Return the usage of a turn, as ACP has it; None if it is unknown."""
    if usage is None or usage.input_tokens is None or usage.output_tokens is None:
        return None
    found = {
        "totalTokens": usage.input_tokens + usage.output_tokens,
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "cachedReadTokens": usage.cached_tokens,
        "cachedWriteTokens": usage.cache_write_tokens,
        "thoughtTokens": usage.reasoning_tokens,
    }
    return {name: value for name, value in found.items() if value is not None}


def context_use(end: ev.RunEnded, spent: float) -> list[Update]:
    """Return how full the context is after a run, with what the session has cost; nothing if that is unknown.

    `spent`: US dollars of the turns before.
    """
    if end.context_tokens is None or end.context_window is None:
        return []
    update: Update = {"sessionUpdate": "usage_update", "used": end.context_tokens, "size": end.context_window}
    cost = ev.added(spent, end.cost_usd)
    return [{**update, "cost": {"amount": cost, "currency": "USD"}} if cost else update]


def commands_listed(commands: Iterable[ev.AgentCommand]) -> Update:
    """Return the commands that a prompt of the session can begin with."""
    listed = [
        {"name": it.name, "description": it.description, **({"input": {"hint": it.argument}} if it.argument else {})}
        for it in commands
    ]
    return {"sessionUpdate": "available_commands_update", "availableCommands": listed}


def is_permission(question: OpenQuestion) -> bool:
    """Return whether a question asks for a permission, and not for a choice or words."""
    return question.ask in PERMISSIONS


def form_of(question: OpenQuestion) -> dict[str, Any]:
    """Return the fields of a form that asks for a choice or for words."""
    field: dict[str, Any] = {"type": "string", "title": "Answer"}
    if question.options and not question.free_text:
        field["oneOf"] = [{"const": option.id, "title": option.label} for option in question.options]
    schema = {"type": "object", "properties": {FIELD: field}, "required": [FIELD]}
    message = question_text(question) if question.free_text else question.text
    return {"mode": "form", "message": message, "requestedSchema": schema}


def notice(severity: str, text: str) -> Update:
    """Return a remark for the person, which is not part of the session."""
    title, _, rest = text.strip().partition("\n")
    made = {"sessionUpdate": "notice", "severity": severity, "title": title.strip()}
    return {**made, "description": rest.strip()} if rest.strip() else made


# --- content ---


def text_content(text: str) -> dict[str, Any]:
    """Return text as content of a call."""
    return {"type": "content", "content": {"type": "text", "text": text}}


def absolute(path: str, cwd: str) -> str:
    """Return a path of an agent that works in `cwd` as an absolute one."""
    return os.path.normpath(os.path.join(cwd, path))


def diffs(changes: Iterable[ev.Change], cwd: str) -> list[dict[str, Any]]:
    """Return changes as content of a call: each hunk with its text before and after."""
    return [part for change in changes for part in _parts(change, cwd)]


def _parts(change: ev.Change, cwd: str) -> Iterator[dict[str, Any]]:
    path = absolute(change.to or change.path, cwd)
    if change.kind == "move" and change.to is not None:
        yield text_content(f"{change.path} → {change.to}")
    if change.diff is None:
        if change.kind != "move":
            yield text_content(f"{change.kind} {change.path}")
        return
    for old, new in _hunks(change.diff):
        part: dict[str, Any] = {"type": "diff", "path": path, "newText": new}
        if change.kind != "add":
            part["oldText"] = old
        yield part
    if change.truncated:
        yield text_content(f"… [the rest of the changes of {change.path} is not shown]")


def _hunks(diff: str) -> Iterator[tuple[str, str]]:
    """Yield the text before and after of each hunk of a unified diff."""
    old: list[str] = []
    new: list[str] = []
    is_open, last = False, ""
    for line in diff.split("\n"):
        sign, text = line[:1], line[1:] + "\n"
        if sign == "@":
            if is_open:
                yield "".join(old), "".join(new)
            old, new, is_open = [], [], True
        elif sign == "\\":  # the line before has no newline
            for side in _sides(last, old, new):
                side[-1] = side[-1].removesuffix("\n")
        elif sign:
            for side in _sides(sign, old, new):
                side.append(text)
        last = sign
    if is_open:
        yield "".join(old), "".join(new)


def _sides(sign: str, old: list[str], new: list[str]) -> list[list[str]]:
    return {" ": [old, new], "-": [old], "+": [new]}.get(sign, [])
