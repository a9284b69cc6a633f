"""Labels and sentences about the levels of permission that several agents share."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.adapter import Level
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

OWN_QUESTIONS = asks("Its own settings decide when it asks you.")

ACP: Mapping[Level, Permission] = {
    "read": reads("It reads, in its own mode for that. What it asks for is rejected."),
    "ask": asks("It reads. It asks you before it changes a file or runs a command that may change something."),
    "edits": edits("It changes files of the directory without asking. It asks you about everything else."),
    "all": EVERYTHING,
    "own": OWN_QUESTIONS,
}
"""Levels of an agent that is run by the Agent Client Protocol."""

_CLAUDE_READS = reads("It reads, and runs commands that change nothing. It has no tools that change files.")

CLAUDE_SERVER: Mapping[Level, Permission] = {
    "read": _CLAUDE_READS,
    "ask": asks("It reads. It asks you before it changes a file, or runs a command that is not harmless."),
    "edits": edits(
        "It changes files, and runs commands that only handle files of the directory (`touch`). It asks about others."
    ),
    "all": EVERYTHING,
    "own": OWN_QUESTIONS,
}
"""Levels of the two-way stream of Claude Code."""

CLAUDE_EXEC: Mapping[Level, Permission] = {
    "read": _CLAUDE_READS,
    "edits": edits(
        "It changes files, and runs commands that only handle files of the directory (`touch`). Others are denied."
    ),
    "all": EVERYTHING,
    "own": DENIED,
}
"""Levels of the plain command of Claude Code."""
