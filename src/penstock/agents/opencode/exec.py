"""opencode: `opencode run --format json`.

Parts are printed when they are finished; nothing streams. There is no closing event: the step that ends without asking
for tools is the end of the answer. See `docs/agents/opencode.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec

from penstock.adapter import Command, Request
from penstock.agents._flags import each, granted, option, piped
from penstock.agents._json import as_dict, text_of, text_or
from penstock.agents.opencode.errors import failure
from penstock.agents.opencode.parts import (
    Part,
    answer_of,
    read_finish,
    read_part,
    read_tool,
)
from penstock.updates import MessageStart, Notice, RoundEnd, RunStart, Traits, Unknown, Update


class Line(msgspec.Struct, tag_field="type"):
    """Fields of every line."""

    session_id: str | None = msgspec.field(default=None, name="sessionID")
    part: Part = msgspec.field(default_factory=Part)


class StepStart(Line, tag="step_start"):
    """Start of a model call; again with the same message for each retry."""


class TextLine(Line, tag="text"):
    """Finished text."""


class ReasoningLine(Line, tag="reasoning"):
    """Finished thinking; only with `--thinking`."""


class ToolUse(Line, tag="tool_use"):
    """Finished call: input and result in one."""


class StepFinish(Line, tag="step_finish"):
    """End of a model call."""


class ErrorLine(Line, tag="error"):
    """Error. More may follow."""

    error: Any = None


class OpenCode:
    """Adapter of `opencode run --format json`."""

    name: ClassVar[str] = "opencode"
    traits: ClassVar[Traits] = Traits()
    wire: ClassVar[Any] = StepStart | TextLine | ReasoningLine | ToolUse | StepFinish | ErrorLine

    @staticmethod
    def command(request: Request) -> Command:
        """Return `opencode run` with the prompt through stdin."""
        return run_command(request, "opencode")

    def read(self, event: Any) -> Sequence[Update]:
        """Translate one wire event into updates."""
        if isinstance(event, TextLine):
            return read_part("text", event.part)
        if isinstance(event, ReasoningLine):
            return read_part("thinking", event.part)
        if isinstance(event, ToolUse):
            return read_tool(event.part)
        if isinstance(event, StepStart):
            return (RunStart(session_id=event.session_id), MessageStart(event.part.message_id))
        if isinstance(event, StepFinish):
            answer = answer_of(event.part.reason)
            # Another model call follows: after tool results, or after a compaction.
            return (*read_finish(event.part), *([answer] if answer is not None else []), RoundEnd())
        if isinstance(event, ErrorLine):
            return _read_error(event)
        fields = as_dict(event)
        text = text_of(as_dict(fields.get("part")).get("text")) or text_of(fields.get("text"))
        return (Unknown(wire_type=text_or(fields.get("type"), "") or None, text=text or None),)


def run_command(request: Request, program: str) -> Command:
    """Return `PROGRAM run`, with the prompt through stdin: the program would quote an argument again."""
    return piped(
        request,
        program,
        "run",
        "--format=json",
        "--thinking",
        *option("--model", request.model),
        *option("--session", request.session_id),
        *(("--fork",) if request.fork else ()),
        *granted(request, everything=("--auto",)),
        *option("--variant", request.effort),
        *each("--file", (image.path for image in request.images)),
        *request.args,
    )


def acp(request: Request) -> Command:
    """Return `opencode acp`, which has no flags for model and permissions: the dialogue sets everything."""
    return Command(argv=("opencode", "acp", *request.args))


def _read_error(event: ErrorLine) -> Sequence[Update]:
    failed = failure(event.error)
    notice = Notice("error", failed.reason, "error", cause=failed.cause)
    return (RunStart(session_id=event.session_id), notice, failed)
