"""Tool calls of the Agent Client Protocol: patches of one object, merged until the call is complete enough to emit.

`tool_call` and `tool_call_update` name the fields that changed; `content` and `rawInput` are snapshots, and the first
patch of a call may be any of them. A call is emitted when its input is certainly whole: when it leaves `pending`, when
a permission is asked for it, or when its output comes.
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from typing import Any

from penstock.agents._edits import from_git
from penstock.agents._exit_status import split_status
from penstock.agents._facts import AcpQuirks
from penstock.agents._json import (
    as_dict,
    as_int,
    as_list,
    object_of,
    parsed,
    text_of,
    text_or,
    word_of,
)
from penstock.agents._stream_json_edits import made as made_in_meta
from penstock.agents.acp import changes
from penstock.core import tool_titles
from penstock.core.bounded import BoundedDict
from penstock.events import Change, ToolKind
from penstock.updates import Text, ToolCall, ToolReturn, Update

MAX_CALLS = 1024
"""Maximum number of open calls, and of ended ones that are remembered. The end of a further call is never emitted."""

NO_QUIRKS = AcpQuirks(called="")
"""Quirks of an unknown agent."""

_ENDED = frozenset({"completed", "failed", "cancelled", "canceled"})
_KINDS: dict[str, ToolKind] = {
    "read": "read",
    "edit": "edit",
    "delete": "delete",
    "move": "move",
    "search": "search",
    "execute": "execute",
    "think": "think",
    "fetch": "fetch",
    "switch_mode": "other",
}
_CHANGING = frozenset({"edit", "delete", "move"})
_PATCH_TOOLS = frozenset({"apply_patch", "editor"})
"""Tools that edit files, though some agents report no kind for them."""
_PATCHED = ("name", "title", "kind", "status", "content", "rawInput", "rawOutput", "locations")
_NAMES_PATH = re.compile(r"path|^(?:file|filename|fileName|source|destination|target|from|to)$", re.IGNORECASE)
"""Keys of an input whose value is a path."""
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_NAMED_ID = re.compile(r"([a-z][a-z0-9_]*?)(?:__|-\d)")
_NAMED_TITLE = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*): ")
_FENCED = re.compile(r"(`{3,})[^\n`]*\n(.*?)\n?\1\s*", re.DOTALL)
_TOOL_ERROR = re.compile(r"<tool_use_error>(.*)</tool_use_error>", re.DOTALL)
_OUTPUTS = ("aggregated_output", "output", "stdout", "content", "result", "text", "message", "error", "stderr")
_EXIT_KEYS = ("exit_code", "exitCode", "exit")


class AcpCall:
    """One call, with the fields that its patches gave so far."""

    __slots__ = ("edit_tools", "emitted", "exit_code", "fields", "id", "lane", "name", "reported", "terminal", "whole")

    def __init__(self, call_id: str, lane: str | None, quirks: AcpQuirks) -> None:
        self.id: str = call_id
        self.lane: str | None = lane
        self.whole: bool = quirks.whole_texts
        self.edit_tools: Container[str] = quirks.edit_tools or _PATCH_TOOLS
        self.reported: list[Change] | None = None  # that came in `_meta`
        self.terminal: list[str] = []  # output that came in `_meta`
        self.exit_code: int | None = None  # of a command, that came in `_meta`
        self.fields: dict[str, Any] = {}
        self.name: str = ""
        self.emitted: bool = False

    @property
    def title(self) -> str:
        """The agent's title of the call, for people; "" if it gave none."""
        return text_of(self.fields.get("title"))

    @property
    def kind(self) -> str:
        """ACP's kind of the tool; "" if the agent gave none."""
        return text_or(self.fields.get("kind"), "")

    @property
    def tool_kind(self) -> ToolKind:
        """Kind of the tool, guessed from its name if the agent gave none."""
        return _KINDS.get(self.kind) or tool_titles.tool_kind(self.name)

    @property
    def edits(self) -> bool:
        """True if the tool changes files."""
        marked = self.kind in _CHANGING or self.name in self.edit_tools
        return marked or any(as_dict(part).get("type") == "diff" for part in as_list(self.fields.get("content")))

    @property
    def proposed(self) -> list[Change] | None:
        """Changes that the call proposes; None if it shows none."""
        return changes.proposed(self.fields, self.whole) if self.edits else None

    @property
    def input_title(self) -> str:
        """One-line title of the input; "" if the input has no key that describes the call."""
        return _input_title(self.name, self.fields.get("rawInput"))

    def as_update(self) -> ToolCall:
        """Return the update that emits the call."""
        kind, given = self.kind, self.fields.get("rawInput")
        name = self.name or (kind if kind not in ("", "other") else "tool")
        shown = self.title.removeprefix(f"{name}: ")
        title = None if self.input_title or not shown else tool_titles.title(name, shown)
        return ToolCall(self.id, name, given, title, _KINDS.get(kind), lane=self.lane, changes=self.proposed)


class AcpCalls:
    """Calls of one session."""

    def __init__(self) -> None:
        self.quirks = NO_QUIRKS
        self._open: BoundedDict[str, AcpCall] = BoundedDict(MAX_CALLS)
        self._ended: BoundedDict[str, None] = BoundedDict(MAX_CALLS)
        self._rejected: list[AcpCall] = []

    @property
    def any_open(self) -> bool:
        """True if a call is open."""
        return bool(self._open)

    def open(self) -> list[AcpCall]:
        """Return the calls that have not ended, the oldest first, without those that a person rejected."""
        return [call for call in self._open.values() if call not in self._rejected]

    def find(self, patch: dict[str, Any]) -> AcpCall | None:
        """Return the open call that a patch is for."""
        return self._open.get(text_of(patch.get("toolCallId")))

    def begin(self, call_id: str | None) -> list[Update]:
        """Emit a call that was only announced, once there is a sign that it runs."""
        call = self._open.get(call_id or "")
        return self._emit(call) if call is not None else []

    def waiting(self, lane: str | None) -> bool:
        """Return whether a call of this lane was emitted and has not returned."""
        return any(call.emitted and call.lane == lane for call in self._open.values())

    def patch(self, patch: dict[str, Any], lane: str | None) -> Sequence[Update]:
        """Apply a `tool_call` or `tool_call_update`."""
        call_id = text_of(patch.get("toolCallId"))
        if call_id in self._ended:
            return ()
        announced = patch.get("sessionUpdate") == "tool_call"
        call = self._patched(call_id, patch, lane, announced)
        status = word_of(patch.get("status"))
        ended = status in _ENDED
        is_input = not ended and _is_input(call)
        has_news = status == "in_progress" or _is_output(patch) or (announced and self.quirks.announces_running)
        runs = ended or bool(_new_output(patch)) or (has_news and (not is_input or "rawInput" in call.fields))
        emitted = self._emit(call) if runs else []
        if ended:
            self._end(call)
            return (*emitted, _returned(call, status == "failed", self.quirks))
        if new := _new_output(patch):
            emitted.append(Text("tool_output", "delta", new, lane=call.lane, call_id=call.id))
        elif runs and not announced and not is_input and call.kind == "execute" and (output := _content(call)):
            emitted.append(Text("tool_output", "snapshot", output, lane=call.lane, call_id=call.id))
        return emitted

    def ask(self, patch: dict[str, Any], lane: str | None) -> tuple[AcpCall, Sequence[Update]]:
        """Return the call that a permission is asked for, and emit it: its input is whole now."""
        call_id = text_of(patch.get("toolCallId"))
        known = self._open.get(call_id)
        had = as_dict(known.fields.get("rawInput")) if known is not None else {}
        if had and not _grew(had, patch.get("rawInput")):
            patch = {**patch, "rawInput": None}  # phrased for a dialogue, not as the tool gets it
        call = self._patched(call_id, patch, lane, announced=False)
        return call, self._emit(call) if call.id not in self._ended else ()

    def reject(self, call: AcpCall) -> None:
        """Note that a person rejected the call. Some agents send nothing more about it."""
        self._rejected.append(call)

    def settle(self) -> list[Update]:
        """Return the results of the rejected calls that the agent did not report before it went on."""
        rejected, self._rejected = self._rejected, []
        open_ones = [call for call in rejected if call.id in self._open]
        for call in open_ones:
            self._end(call)
        return [ToolReturn(call.id, "", True, lane=call.lane) for call in open_ones]

    def _patched(self, call_id: str, patch: dict[str, Any], lane: str | None, announced: bool) -> AcpCall:
        call = self._open.get(call_id)
        if call is None:
            call = AcpCall(call_id, lane, self.quirks)
            if call_id not in self._ended:
                self._open[call_id] = call
        for key in _PATCHED:
            if patch.get(key) is not None:
                call.fields[key] = patch[key]
        if "_meta" in patch:
            call.reported = made_in_meta(_response(patch)) or call.reported
            _take_terminal(call, as_dict(patch.get("_meta")))
        call.name = call.name or self._name(call, patch, announced)
        return call

    def _name(self, call: AcpCall, patch: dict[str, Any], announced: bool) -> str:
        """Return the tool's own name, if the agent reports it; the protocol itself has none."""
        name = text_of(patch.get("name")) or meta_of(patch, "toolName", "tool_name") or _tool_in_meta(patch)
        if name:
            return name
        match self.quirks.tool_name:
            case "id":
                found = _NAMED_ID.match(call.id)
                return found[1] if found else ""
            case "title":
                return titled_name(call.fields)
            case "pending title" if announced and patch.get("status") == "pending":
                return call.title if _WORD.fullmatch(call.title) else ""
        return ""

    def _emit(self, call: AcpCall) -> list[Update]:
        if call.emitted:
            return []
        call.emitted = True
        return [call.as_update()]

    def _end(self, call: AcpCall) -> None:
        self._open.pop(call.id, None)
        self._ended[call.id] = None


def titled_name(fields: dict[str, Any]) -> str:
    """Return the tool's name at the beginning of a call's title (`spawn_agent: …`), for agents that put it there."""
    found = _NAMED_TITLE.match(text_of(fields.get("title")))
    return found[1] if found else ""


def changes_asked(call: AcpCall, patch: dict[str, Any]) -> list[Change] | None:
    """Return the changes for which a permission is asked. The request may show them in more detail than the call."""
    given = as_dict(patch.get("rawInput"))
    path, diff = given.get("fileName"), given.get("diff")
    shown = from_git(diff, [path]) if isinstance(path, str) and isinstance(diff, str) else None
    proposed = call.proposed
    return proposed if shown is None or (proposed and proposed[0].kind == "add") else shown


def paths_asked(call: AcpCall, patch: dict[str, Any]) -> list[str]:
    """Return the paths of all files that a call names, for which a permission is asked."""
    found = [path for change in changes_asked(call, patch) or () for path in (change.path, change.to) if path]
    for fields in (call.fields, patch):
        found += [text_of(as_dict(place).get("path")) for place in as_list(fields.get("locations"))]
        found += [text_of(as_dict(part).get("path")) for part in as_list(fields.get("content"))]
        given = as_dict(fields.get("rawInput"))
        found += [value for key, value in given.items() if isinstance(value, str) and _NAMES_PATH.search(key)]
    return [path for path in dict.fromkeys(found) if path]


def question_of(call: AcpCall, patch: dict[str, Any]) -> str:
    """Return what a person needs to know to allow a call: the title, and the object of the call.

    The request for the permission may name the object too.
    """
    title, input_title = call.title, _input_title(call.name, patch.get("rawInput")) or call.input_title
    places = [text_of(as_dict(place).get("path")) for place in as_list(patch.get("locations"))]
    about = input_title or ", ".join(place for place in places if place)
    if not title or title == about:
        return about or call.name or "the agent asks for a permission"
    return title if not about or about in title else f"{title}: {about}"


def _input_title(name: str, given: Any) -> str:
    if not isinstance(given, dict) or not any(key in tool_titles.STRONG for key in given):
        return ""
    return tool_titles.title(name, given)


def meta_of(update: dict[str, Any], *keys: str) -> str:
    """Return a text in `_meta` or in one of its objects; agents put there what the protocol lacks."""
    meta = object_of(update.get("_meta"))
    for layer in (meta, *(value for value in meta.values() if isinstance(value, dict))):
        for key in keys:
            if isinstance(layer.get(key), str) and layer[key]:
                return str(layer[key])
    return ""


def _tool_in_meta(patch: dict[str, Any]) -> str:
    """Return the name of a tool that an agent has in an object for the call in its part of `_meta`."""
    own = (as_dict(as_dict(value).get("toolCall")) for value in as_dict(patch.get("_meta")).values())
    return next((name for fields in own if (name := text_or(fields.get("toolName"), ""))), "")


def _grew(before: dict[str, Any], after: Any) -> bool:
    return isinstance(after, dict) and all(key in after and after[key] == value for key, value in before.items())


def _is_output(patch: dict[str, Any]) -> bool:
    """Return whether a patch has content and nothing else: the tool then runs, whatever its status is."""
    return bool(patch.get("content")) and not any(patch.get(key) for key in ("rawInput", "title", "status", "kind"))


def _is_input(call: AcpCall) -> bool:
    """Return whether the content is the input as JSON, which some agents put there while the model writes it."""
    given, parts = call.fields.get("rawInput"), as_list(call.fields.get("content"))
    text = text_of(as_dict(parts[0]).get("content")) if len(parts) == 1 else ""
    return text.startswith("{") and (given is None or parsed(text) == given)


def _content(call: AcpCall) -> str:
    """Return the texts of the call's content, without the code fences around them."""
    texts = []
    for part in as_list(call.fields.get("content")):
        if as_dict(part).get("type") == "content":
            texts.append(_unfenced(text_of(part.get("content"))))
    return "\n".join(text for text in texts if text)


def _unfenced(text: str) -> str:
    found = _FENCED.fullmatch(text) if text.startswith("```") else None
    return found[2] if found and f"\n{found[1]}" not in found[2] else text


def _new_output(patch: dict[str, Any]) -> str:
    """Return the output of a command that a patch adds in `_meta`; "" if it adds none."""
    meta = as_dict(patch.get("_meta"))
    notification = as_dict(meta.get("toolNotification"))
    if notification.get("type") == "live_output":
        chunks = as_list(as_dict(notification.get("params")).get("chunks"))
        return "".join(text_of(as_dict(chunk).get("output")) for chunk in chunks)
    return text_of(as_dict(meta.get("terminal_output_delta")).get("data"))


def _take_terminal(call: AcpCall, meta: dict[str, Any]) -> None:
    """Keep a command's output and its exit status in `_meta`, where some agents put what a client's terminal shows."""
    if whole := text_of(as_dict(meta.get("terminal_output")).get("data")):
        call.terminal = [whole]
    elif new := text_of(as_dict(meta.get("terminal_output_delta")).get("data")):
        call.terminal.append(new)
    code = as_int(as_dict(meta.get("terminal_exit")).get("exit_code"))
    call.exit_code = call.exit_code if code is None else code


def _response(patch: dict[str, Any]) -> Any:
    """Return the result of the tool itself, which some agents put into `_meta`."""
    return as_dict(as_dict(patch.get("_meta")).get("claudeCode")).get("toolResponse")


def _returned(call: AcpCall, failed: bool, quirks: AcpQuirks) -> ToolReturn:
    raw = call.fields.get("rawOutput")
    skipped = quirks.skipped != "" and raw is None and re.match(quirks.skipped, _content(call)) is not None
    failed = failed or skipped or _reports_failure(raw)
    found = None
    if call.edits and not failed:  # the input may come after the announcement of the call, and alone show the change
        found = call.reported or changes.made(call.fields, call.whole) or call.proposed
    text = _raw_text(raw) or _content(call) or "".join(call.terminal) or "\n".join(map(_summary, found or ()))
    if quirks.created and found:
        found = changes.of_content(found, is_new=re.match(quirks.created, text) is not None)
    if failed and (wrapped := _TOOL_ERROR.fullmatch(text)):
        text = wrapped[1]
    text, code = _with_status(call, text, quirks)
    code = call.exit_code if code is None else code
    return ToolReturn(
        call.id,
        text,
        failed,
        code,
        lane=call.lane,
        duration_ms=_duration_ms(raw),
        changes=found,
        refused=skipped,
        status_reported=None if quirks.command_status or code is not None or call.tool_kind != "execute" else False,
        output_reported=raw is not None
        or bool(call.fields.get("content") or call.terminal)
        or call.exit_code is not None
        or call.tool_kind != "execute",
    )


def _reports_failure(raw: Any) -> bool:
    """Return whether the raw output reports a failure; in some agents such calls are `completed`."""
    return any(as_dict(part).get("success") is False for part in (raw if isinstance(raw, list) else [raw]))


def _duration_ms(raw: Any) -> int | None:
    """Return the duration in the raw output."""
    duration = as_dict(as_dict(raw).get("duration"))
    seconds, rest = as_int(duration.get("secs")), as_int(duration.get("nanos"))
    return None if seconds is None or rest is None else seconds * 1000 + rest // 1_000_000


def _raw_text(raw: Any, depth: int = 4) -> str:
    if isinstance(raw, str):
        return raw
    if isinstance(raw, list) and depth:
        return "\n".join(text for part in raw if (text := _raw_text(part, depth - 1)))
    if isinstance(raw, dict) and depth:
        streams = (raw.get("stdout"), raw.get("stderr"))
        if all(isinstance(text, str) and text for text in streams):
            return "\n".join(map(text_of, streams))
        return next((text for key in _OUTPUTS if (text := _raw_text(raw.get(key), depth - 1))), "")
    return ""


def _with_status(call: AcpCall, text: str, quirks: AcpQuirks) -> tuple[str, int | None]:
    """Return the output of a call without the agent's own line about the exit status, and the status."""
    raw, code = as_dict(call.fields.get("rawOutput")), None
    if quirks.exit_line and call.tool_kind == "execute":
        own_line, content = re.compile(quirks.exit_line), _content(call)
        if quirks.frame and text != content:  # the text is the command's, and may have such a line of its own
            code = split_status(content, own_line)[1]
        else:
            text, code = split_status(text, own_line)
            framed = re.fullmatch(quirks.frame, text) if quirks.frame and code is not None else None
            text = framed[1] if framed is not None else text
    for layer in (raw, as_dict(raw.get("metadata"))):
        for key in _EXIT_KEYS:
            if (found := as_int(layer.get(key))) is not None:
                return text, found
    return text, code


def _summary(change: Change) -> str:
    return f"{change.path} (+{change.added or 0} -{change.removed or 0})"
