"""Calls for people: each kind of tool looks the same for all agents, with its command or path."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from penstock.core.tool_titles import COMMAND, compact, lines_below_title, tool_verb
from penstock.events import ToolCalled, ToolKind
from penstock.sinks.sanitize import clean, clean_line
from penstock.sinks.text import edits
from penstock.sinks.text.edits import Paths
from penstock.sinks.text.styles import Piece, shortened
from penstock.sinks.text.theme import CALL, indented

MAX_LINES_BELOW = 2
"""Maximum number of lines of a command below its first one, except in `verbose`."""
MAX_COMMAND_CHARS = 200
"""Maximum characters of each of these lines."""

_VERB_IN_TITLE = re.compile(r"(?:Edit|Editing|Write|Writing to|Create|Creating|Read|Reading)\s+(?=\S)")
"""Verb at the start of a title that the agent wrote for people."""


class Calls:
    """Formatter of calls. `verbose`: the whole input follows below the line."""

    def __init__(self, paths: Paths, *, verbose: bool) -> None:
        self.paths = paths
        self._verbose = verbose

    def head(self, name: str, kind: ToolKind = "other") -> tuple[list[Piece], str]:
        """Return the beginning of a call's line, and the separator before the title."""
        verb = tool_verb(name, kind)
        if verb == COMMAND:
            return [("mark", COMMAND)], " "
        return [("mark", CALL), ("name", verb or clean_line(name))], " " if verb else ": "

    def has_path(self, name: str) -> bool:
        """Return whether the title of a call is a path, as far as the name shows."""
        return tool_verb(name, "other") not in ("", COMMAND)

    def title(self, event: ToolCalled) -> str:
        """Return the title of a call, sanitized, with its path relative to the working directory."""
        verb = tool_verb(event.name, event.tool_kind)
        if verb == COMMAND:
            return clean(self.raw_title(event))
        if not verb:
            return clean(event.title)
        if event.changes and verb != "read":
            more = f" and {len(event.changes) - 1:,} more" if len(event.changes) > 1 else ""
            return clean_line(self.paths.short(event.changes[0].path)) + more
        return clean(self.paths.short(_VERB_IN_TITLE.sub("", event.title, count=1)))

    def raw_title(self, event: ToolCalled) -> str:
        """Return the title, without its final mark of omitted lines if those lines are shown."""
        return event.title.removesuffix(" …") if self._lines_below(event) else event.title

    def words(self, event: ToolCalled) -> str:
        """Return a call on one line, for a result that does not directly follow it."""
        pieces, separator = self.head(event.name, event.tool_kind)
        words = "".join(text for _, text in pieces).removeprefix(CALL)
        title = clean_line(self.title(event))
        return f"{words}{separator}{title}" if title else words

    def after_title(self, event: ToolCalled) -> list[Piece]:
        """Return the counts of the edit that a call proposes, and whether its file is new."""
        return [*edits.counts(event.changes), *edits.note(event.changes)] if event.changes else []

    def below(self, event: ToolCalled) -> list[Piece]:
        """Return the lines below a call: the rest of a command; in `verbose` the whole input, an edit as its diff."""
        if not self._verbose:
            below = self._lines_below(event)
            shown = below if len(below) <= MAX_LINES_BELOW + 1 else below[:MAX_LINES_BELOW]
            pieces: list[Piece] = [("text", f"\n{clean_line(shortened(line, MAX_COMMAND_CHARS))}") for line in shown]
            more = len(below) - len(shown)
            return [*pieces, ("dim", f"\n… {more:,} more lines")] if more else pieces
        rows = edits.diffs(event.changes or [], self.paths, None)
        changed = {line[1:] for change in event.changes or () for line in (change.diff or "").split("\n")}
        whole = input_lines(event.input, event.title, changed if rows else ())
        return [("dim", f"\n{whole}"), *rows] if whole else rows

    def _lines_below(self, event: ToolCalled) -> list[str]:
        if self._verbose or not event.title.endswith(" …") or tool_verb(event.name, event.tool_kind) != COMMAND:
            return []
        return lines_below_title(event.name, event.input, event.title)


def input_lines(value: Any, title: str, shown: Collection[str] = ()) -> str:
    """Return a tool input as `key: value` lines; "" if the title already shows all of it.

    If the lines of a diff are given as `shown`, values that the diff shows are left out, and so are nested values.
    """
    if not isinstance(value, dict):
        text = value if isinstance(value, str) else compact(value)
        return "" if value is None or text == title else clean(text)
    if len(value) <= 1 and all(item == title for item in value.values()):
        return ""
    return "\n".join(_entry(str(key), item) for key, item in value.items() if not _in_diff(item, title, shown))


def _in_diff(value: Any, title: str, shown: Collection[str]) -> bool:
    if not shown:
        return False
    if isinstance(value, str):
        return value == title or all(line in shown for line in value.rstrip("\n").split("\n"))
    return isinstance(value, (list, dict))


def _entry(key: str, value: Any) -> str:
    text = clean(value if isinstance(value, str) else compact(value)).rstrip("\n")
    return f"{clean_line(key)}: {text}" if "\n" not in text else f"{clean_line(key)}:\n" + indented(text)
