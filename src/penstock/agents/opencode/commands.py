"""Commands of opencode: their list, and the request that calls one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from penstock.adapter import Request, as_json_text
from penstock.agents._json import as_dict
from penstock.agents.opencode.inputs import images_of, permission_variable

LISTED = ("name", "description")
"""Fields of a command that a list needs."""
CALLED = (*LISTED, "template", "source")
"""Fields that a call needs. With the templates of all commands, the answer is some 30 KB."""

_CALL = re.compile(r"/(\S+)\s*(.*)", re.DOTALL)
_SHELL = "!`"
"""Beginning of a shell command in a template, which opencode runs without asking, also if it is from the arguments."""
_JOINED = re.compile(r"!\$|\$(?:ARGUMENTS|[0-9]+)[`$]")
"""Places of a template at which such a beginning can arise from a part of the template and one of the arguments."""


class CommandCall(NamedTuple):
    """Prompt that may call a command."""

    name: str
    arguments: str


def call_of(request: Request) -> CommandCall | None:
    """Return the name and the arguments of a prompt that may call a command; None for any other prompt."""
    found = _CALL.fullmatch(as_json_text(request.prompt))
    return CommandCall(*found.groups()) if found is not None else None


def command_of(call: CommandCall, commands: Sequence[Any]) -> dict[str, Any] | None:
    """Return the command that is called; None if the server has none of that name."""
    return next((fields for fields in map(as_dict, commands) if fields.get("name") == call.name), None)


def obstacle(request: Request, call: CommandCall, command: dict[str, Any]) -> str | None:
    """Return why a command cannot be called, so that the prompt is sent as a text; None if it can be."""
    if request.system_prompt is not None or request.schema is not None:
        return f"/{call.name} is sent as a text: opencode calls no command with a system prompt or a schema"
    if permission_variable(request.allow) and _may_run_shell(command, call.arguments):
        why = f"it may run shell commands without asking, which --allow {request.allow} does not permit"
        return f"/{call.name} is sent as a text: {why}"
    return None


def _may_run_shell(command: dict[str, Any], arguments: str) -> bool:
    """Return whether the text of a call may have a shell command. That of a prompt of an MCP server is not known."""
    template = command.get("template")
    if not isinstance(template, str) or command.get("source") == "mcp":
        return True
    if _SHELL in template or _SHELL in arguments:
        return True
    if "!" in arguments and "$" in arguments:  # `$` stands for parts of the template in JavaScript's `replaceAll`
        return True
    return _JOINED.search(template) is not None and not {"!", "`"}.isdisjoint(arguments)


def call_body(request: Request, call: CommandCall) -> dict[str, Any]:
    """Return the body of the request that calls a command."""
    body: dict[str, Any] = {"command": call.name, "arguments": call.arguments, "parts": images_of(request)}
    given = {"model": request.model, "variant": request.effort}
    return body | {name: value for name, value in given.items() if value is not None}
