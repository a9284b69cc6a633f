"""Labels and sentences about the levels of `allow` that several agents share."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.adapter import Allow
from penstock.agents._facts import Permission

_ASKS, _READS, _EDITS, _ALL, _OWN = "Asks first", "Only reads", "Edits files", "Does everything", "Its own settings"


def asks(text: str) -> Permission:
    """Return the level at which an agent asks before it acts."""
    return Permission("asks", _ASKS, text)


def reads(text: str) -> Permission:
    """Return the level at which an agent only reads, and cannot ask."""
    return Permission("reads", _READS, text)


def edits(text: str) -> Permission:
    """Return the level at which an agent changes files without asking."""
    return Permission("edits", _EDITS, text)


def everything(text: str) -> Permission:
    """Return the level at which an agent does everything without asking."""
    return Permission("all", _ALL, text)


def own_settings(text: str) -> Permission:
    """Return the level at which the agent's own settings decide, and these often allow more than reading."""
    return Permission("own", _OWN, text)


DENIED = reads("It reads. It cannot ask you: everything that needs permission is denied.")

EVERYTHING = everything("It changes files and runs any command without asking.")

ACP: Mapping[Allow, Permission] = {
    "default": asks("Its own settings decide when it asks you."),
    "edits": edits("It changes files without asking. For everything else, its own settings decide when it asks you."),
    "all": EVERYTHING,
}
"""Levels of an agent that is run by the Agent Client Protocol."""

CLAUDE_SERVER: Mapping[Allow, Permission] = {
    "default": asks("It reads. It asks you before it changes a file, or runs a command that is not harmless."),
    "edits": edits(
        "It changes files, and runs commands that only handle files of the directory (`touch`). It asks about others."
    ),
    "all": EVERYTHING,
}
"""Levels of the two-way stream of Claude Code."""

CLAUDE_EXEC: Mapping[Allow, Permission] = {
    "default": DENIED,
    "edits": edits(
        "It changes files, and runs commands that only handle files of the directory (`touch`). Others are denied."
    ),
    "all": EVERYTHING,
}
"""Levels of the plain command of Claude Code."""
