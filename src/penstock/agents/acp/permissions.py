"""Permissions that an ACP agent asks for, as questions for a person."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from penstock.agents._json import as_dict, as_list, canonical, text_of, text_or
from penstock.agents.acp.calls import AcpCall
from penstock.core.questions import ASK_OF
from penstock.events import Change, Option, OptionKind
from penstock.updates import Question

_KINDS: dict[str, OptionKind] = {
    "allow_once": "allow_once",
    "allow_always": "allow_always",
    "reject_once": "reject_once",
    "reject_always": "reject_always",
}
"""ACP's kinds of permission options. Any other kind is a choice."""

_OUTSIDE = "external_directory"
"""Title of a call that asks for the permission to leave the directory, as some agents write it."""


class PendingPermission(msgspec.Struct, frozen=True):
    """Permission that the agent waits for: the id of its request, the options, and the call."""

    id: Any
    options: list[dict[str, Any]]
    call: AcpCall

    def of_kind(self, *kinds: str) -> dict[str, Any] | None:
        """Return the first option of the first of these kinds that is present."""
        found = ([option for option in self.options if option.get("kind") == kind] for kind in kinds)
        return next((options[0] for options in found if options), None)

    def option(self, id: str | None) -> dict[str, Any] | None:
        """Return the option with this id; without one, the option that rejects. None if there is none."""
        found = next((option for option in self.options if id is not None and option_id(option) == id), None)
        return found or self.of_kind("reject_once", "reject_always")

    def as_update(self, name: str, text: str, changes: list[Change] | None) -> Question:
        """Return the question for a person."""
        call = self.call
        ask = "outside" if call.title == _OUTSIDE else ASK_OF.get(call.tool_kind, "tool")
        kinds = [_KINDS.get(text_or(option.get("kind"), ""), "choice") for option in self.options]
        options = [
            Option(
                option_id(option),
                text_of(option.get("name")) or option_id(option),
                kind,
                wide=kind == "allow_always",  # of a program or a tool, often: ACP does not say what it covers
            )
            for option, kind in zip(self.options, kinds, strict=True)
        ]
        permission = any(option.kind != "choice" for option in options)
        return Question(
            name,
            text,
            ask if permission else "choice",
            options,
            blocking=True,
            call_id=call.id or None,
            tool_kind=call.tool_kind,
            title=call.input_title or None,
            lane=call.lane,
            changes=changes,
            command=_command(call),
            command_cwd=_directory(call),
            action=_action(call),
        )


_LINES = ("command", "cmd")
"""Keys of the input of a call for a command: a line for a shell, or words."""
_DIRECTORIES = ("cwd", "workdir", "working_directory", "directory", "dir_path")
"""Keys for the directory in which it would run."""
_OF_ONE_CALL = re.compile(r"description|reason|\w*(?:_id|Id)")
"""Keys of the input that differ from call to call, and have no effect on the command."""


def _command(call: AcpCall) -> str | tuple[str, ...] | None:
    """Return the command that a call would run; None if its input has none, or several."""
    if call.tool_kind != "execute":
        return None
    given = as_dict(call.fields.get("rawInput"))
    lines = as_list(given.get("commands"))
    if lines:
        return "\n".join(lines) if all(isinstance(line, str) for line in lines) else None
    found = [given[key] for key in _LINES if key in given]
    if len(found) != 1:
        return None
    [command] = found
    if isinstance(command, list) and command and all(isinstance(word, str) for word in command):
        return tuple(command)
    return command if isinstance(command, str) else None


def _directory(call: AcpCall) -> str | None:
    given = as_dict(call.fields.get("rawInput"))
    return next((text for key in _DIRECTORIES if (text := text_or(given.get(key), ""))), None)


def _action(call: AcpCall) -> str | None:
    """Return what a permission for a command covers: the input or, if the agent does not send it, what it shows."""
    if call.tool_kind != "execute":
        return None
    given = call.fields.get("rawInput")
    if not isinstance(given, dict) or not given:
        shown = {key: call.fields.get(key) for key in ("title", "content", "locations")}
        return canonical(shown) if call.title else None
    return canonical({key: value for key, value in given.items() if not _OF_ONE_CALL.fullmatch(key)})


def option_id(option: dict[str, Any]) -> str:
    """Return the id of an option, or its name if it has no id."""
    return text_of(option.get("optionId")) or text_of(option.get("name"))
