"""Words of goose itself, which its streams have among those of the model and of tools (goose 1.52.0)."""

from __future__ import annotations

import re

from penstock.agents._causes import cause_of_status
from penstock.events import Cause

EDIT_TOOLS = ("write", "edit")
"""Whole names of the tools that change files. The names of other extensions' tools have a prefix."""

CREATED = re.compile(r"Created ")
"""Beginning of the result of `write`, if there was no such file."""

SKIPPED = re.compile(
    r"(?:Let the user know the tool call was skipped in goose chat mode\.|The user has declined to run this tool\.)"
)
"""Beginning of the result of a call that was not run, some of which goose reports as successful."""

ERRORS: tuple[tuple[str, Cause | None], ...] = (
    (r"Ran into this error: Server error: Server error \((\d{3}) ", None),
    (r"Ran into this error: Server error", "provider"),
    (r"Ran into this error: Authentication error", "auth"),
    (r"Ran into this error: Rate limit exceeded", "rate_limit"),
    (r"Ran into this error: Credits exhausted", "usage_limit"),
    (r"Ran into this error: Context length exceeded", "context"),
    (r"Ran into this error: Network error", "network"),
    (r"Ran into this error: .{0,1000}?\b[Ss]tatus: (\d{3})\b", None),
    (r"Ran into this error: ()", None),
    (r"I've reached the maximum number of actions I can do without user input()", None),
)
"""Regular expressions of the beginnings of goose's sentences about an error, with their causes. None: the cause of the
HTTP status that is the first group."""


def is_own_error(text: str) -> bool:
    """Return whether a text is one of goose's sentences about an error."""
    return any(re.match(pattern, text) for pattern, _ in ERRORS)


def cause_of_words(text: str) -> Cause | None:
    """Return the cause that goose's sentence names; None if it names none."""
    for pattern, cause in ERRORS:
        if found := re.match(pattern, text):
            return cause or cause_of_status(int(found[1]) if found[1] else None)
    return None
