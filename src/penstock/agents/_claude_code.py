"""Parts common to Claude Code and the programs that start it: its messages and its command line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from penstock.adapter import Command, Request, as_json_text, encoded
from penstock.agents._claude_tasks import TaskList
from penstock.agents._facts import CLAUDE_LIMIT_FLAGS
from penstock.agents._flags import each, granted, limits, option, path_of, piped
from penstock.agents._stream_json import ClaudeLike
from penstock.agents._stream_json_wire import MessageDelta, MessageStop, System
from penstock.agents._variables import CLAUDE_OUTER
from penstock.updates import MessageEnd, Plan, ToolCall, Update


class ClaudeCode(ClaudeLike):
    """Dialect in which a message ends with its stop reason.

    The CLI makes up a `message_stop` without one if the server began the message again, or to abandon blocks of it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._tasks = TaskList()

    def _whole(self, block: dict[str, Any], key: str | None, lane: str | None) -> Iterator[Update]:
        for update in super()._whole(block, key, lane):
            if isinstance(update, ToolCall) and lane is None:
                self._tasks.note_call(update.call_id, update.name, update.input)
            yield update

    def _details(self, call_id: str, details: dict[str, Any], lane: str | None) -> Iterator[Update]:
        if details and lane is None and (items := self._tasks.apply(call_id, details)) is not None:
            yield Plan(items)

    def _system(self, event: System) -> Iterator[Update]:
        yield from super()._system(event)
        if event.subtype == "task_list_statuses" and (items := self._tasks.set_statuses(event.statuses)) is not None:
            yield Plan(items)

    def _message_delta(self, api: MessageDelta, lane: str | None) -> Iterator[Update]:
        yield from super()._message_delta(api, lane)
        if api.delta is not None and api.delta.stop_reason is not None:
            yield MessageEnd(lane=lane, stop_reason=api.delta.stop_reason)
            if lane is None and api.delta.stop_reason == "max_tokens":
                self._is_notified = False  # the next message continues this one

    def _message_stop(self, api: MessageStop, lane: str | None) -> Iterator[Update]:
        if api.abandoned_blocks is not None:
            yield MessageEnd(lane=lane, abandoned_from=api.abandoned_blocks.from_block_index)


def started(request: Request, *program: str) -> Command:
    """Return the command `PROGRAM --print` with the flags of the stream, and the prompt through stdin."""
    argv = (*program, *_STREAM, *_options(request))
    env = variables(request)
    if not request.images:
        return piped(request, *argv, env=env, unset=CLAUDE_OUTER)
    line = msgspec.json.encode(user_message(request)) + b"\n"  # only this input has images
    return Command(argv=(*argv, "--input-format=stream-json"), stdin=line, env=env, unset=CLAUDE_OUTER)


def variables(request: Request) -> dict[str, str]:
    """Return the variables that the request needs besides its flags."""
    # CLAUDE.md is read from the directories of `--add-dir` only with this one.
    return {"CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD": "1"} if request.ignore_project else {}


def user_message(request: Request) -> dict[str, Any]:
    """Return the line of a two-way stream that sends the prompt.

    Raises:
        UsageError: the prompt cannot be encoded.
    """
    content: Any = as_json_text(request.prompt)
    if request.images:
        sources = ({"type": "base64", "media_type": it.media_type, "data": it.base64} for it in request.images)
        content = [*({"type": "image", "source": it} for it in sources), {"type": "text", "text": content}]
    return message_of(content)


def message_of(content: Any) -> dict[str, Any]:
    """Return the line of a two-way stream that sends a message of the user."""
    message = {"role": "user", "content": content}
    return {"type": "user", "message": message, "parent_tool_use_id": None, "session_id": "default"}


def dialogue_command(request: Request, *program: str) -> Command:
    """Return the command `PROGRAM --print` for a two-way stream, which also asks for permissions over it.

    Raises:
        UsageError: the prompt cannot be encoded.
    """
    encoded(request.prompt)
    return Command(
        argv=(*program, *_STREAM, "--input-format=stream-json", "--permission-prompt-tool=stdio", *_options(request)),
        # The output then has the end of the run.
        env={"CLAUDE_CODE_SDK_READS_SESSION_STATE": "1", **variables(request)},
        unset=CLAUDE_OUTER,
    )


# Not `-p`: a program that wraps claude may have that option itself. The format needs `--verbose`.
_STREAM = ("--print", "--output-format=stream-json", "--verbose", "--include-partial-messages")


IGNORE_PROJECT = ("--setting-sources=user", "--add-dir=.")
"""Words without which Claude Code obeys settings, hooks and `.mcp.json` of the project. `CLAUDE.md` would go with
them; it counts as that of a directory which is added."""


_CHANGING_TOOLS = ("Edit", "Write", "NotebookEdit")
"""Tools that change files. Commands that may change something are asked about, and the run rejects that."""


def _options(request: Request) -> tuple[str, ...]:
    return (
        *option("--model", request.model),
        *option("--resume", request.session_id),
        *(("--fork-session",) if request.fork else ()),
        *limits(request, CLAUDE_LIMIT_FLAGS),
        *granted(
            request,
            read=("--permission-mode=default", *each("--disallowed-tools", _CHANGING_TOOLS)),
            ask=("--permission-mode=default",),
            edits=("--permission-mode=acceptEdits",),
            everything=("--permission-mode=bypassPermissions",),
        ),
        *option("--effort", request.effort),
        *option("--append-system-prompt", request.system_prompt),
        *option("--json-schema", None if request.schema is None else request.schema.text),
        *option("--mcp-config", path_of(request.mcp_config)),
        *each("--allowed-tools", request.allow_tools),
        *each("--disallowed-tools", request.deny_tools),
        *(IGNORE_PROJECT if request.ignore_project else ()),
        *request.args,
    )
