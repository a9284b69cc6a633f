"""Reader of the commands that an agent offers, for the adapters whose wire lists them."""

from __future__ import annotations

from typing import Any

from penstock.agents._json import as_dict, list_of, text_of, word_of
from penstock.events import AgentCommand
from penstock.updates import Commands


def commands_of(value: Any) -> Commands:
    """Return the commands of a list: of names, or of objects with a name, a description and an input.

    The input is an object with a `hint` (ACP), or the text `argumentHint` (Claude Code).
    """
    return Commands([_command(it) for it in list_of(value)])


def _command(value: Any) -> AgentCommand:
    if isinstance(value, str):
        return AgentCommand(value)
    fields = as_dict(value)
    argument = text_of(as_dict(fields.get("input")).get("hint")) or text_of(fields.get("argumentHint"))
    return AgentCommand(word_of(fields.get("name")), text_of(fields.get("description")), argument)
