"""kimi: `kimi --output-format stream-json --prompt "…"`.

Whole messages in OpenAI's form, which has neither ids nor a flag for errors of tools, and lines about the run (`role`
meta). See `docs/agents/kimi.md`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec

from penstock.adapter import Command, Request, as_argument
from penstock.agents._causes import cause_of_status
from penstock.agents._edits import proposed
from penstock.agents._exit_status import split_status
from penstock.agents._flags import option
from penstock.agents._json import (
    as_dict,
    as_int,
    as_list,
    id_of,
    name_of,
    parsed,
    text_of,
    text_or,
    words_of,
)
from penstock.agents._unknown import unknown
from penstock.updates import (
    MessageEnd,
    MessageStart,
    Notice,
    Result,
    RunStart,
    Text,
    ToolCall,
    ToolReturn,
    Traits,
    Unknown,
    Update,
)

_EDITS = frozenset({"Write", "Edit"})
_EXIT_LINE = re.compile(r"(?:\A|\n)Command failed with exit code: (-?\d{1,10})\.\Z")
"""End of the output of a command that failed, in kimi 2.1.0."""


class Assistant(msgspec.Struct, tag_field="role", tag="assistant"):
    """Message of the model with its calls."""

    content: Any = None
    tool_calls: Any = None


class Tool(msgspec.Struct, tag_field="role", tag="tool"):
    """Result of a call, good or bad."""

    tool_call_id: str | None = None
    content: Any = None


class Meta(msgspec.Struct, tag_field="role", tag="meta"):
    """Line about the run, by its `type`."""

    type: str | None = None
    version: str | None = None
    session_id: str | None = None
    failed_attempt: Any = None
    max_attempts: Any = None
    status_code: Any = None
    error_message: Any = None
    content: Any = None


class Kimi:
    """Adapter of `kimi --output-format stream-json`."""

    name: ClassVar[str] = "kimi"
    traits: ClassVar[Traits] = Traits(command_status=False)
    wire: ClassVar[Any] = Assistant | Tool | Meta

    @staticmethod
    def command(request: Request) -> Command:
        """Return `kimi --output-format stream-json`. The prompt is an argument: kimi reads no stdin."""
        flags = (*option("--model", request.model), *option("--session", request.session_id))
        prompt = as_argument("kimi", request.prompt)
        return Command(argv=("kimi", "--output-format=stream-json", *flags, *request.args, "--prompt", prompt))

    def read(self, event: Any) -> Sequence[Update]:
        """Translate one wire event into updates."""
        if isinstance(event, Assistant):
            calls = [_read_call(as_dict(call)) for call in as_list(event.tool_calls)]
            text = "" if calls and event.content is None else words_of(event.content)
            said = (Text("text", "final", text),) if text else ()
            return (MessageStart(), *said, *calls, MessageEnd())
        if isinstance(event, Tool):
            text, status = split_status(text_of(event.content), _EXIT_LINE)
            failed = bool(status)
            # Whether a file was written is only in the words of the result: nothing is known to be made.
            done = ToolReturn(
                id_of(event.tool_call_id, "a result"), text, failed, status, changes=[], status_reported=failed
            )
            return (done,)
        if isinstance(event, Meta):
            return (_read_meta(event),)
        return (unknown(text_or(as_dict(event).get("type"), ""), event),)


def _read_call(call: dict[str, Any]) -> ToolCall:
    function = as_dict(call.get("function"))
    name, given = name_of(function.get("name")), parsed(function.get("arguments"))
    changes = proposed(given) if name in _EDITS else None
    return ToolCall(id_of(call.get("id"), "a call"), name, given, changes=changes)


def _read_meta(event: Meta) -> Update:
    if event.type == "system.version":
        return RunStart(version=event.version)
    if event.type == "session.resume_hint":
        return Result(session_id=event.session_id)
    if event.type == "turn.step.retrying":
        return Notice(
            "retry",
            text_of(event.error_message) or "the model call failed",
            "warning",
            cause=cause_of_status(as_int(event.status_code)),
            attempt=as_int(event.failed_attempt),
            max_attempts=as_int(event.max_attempts),
        )
    return Unknown(f"meta/{event.type}", text_of(event.content) or None)
