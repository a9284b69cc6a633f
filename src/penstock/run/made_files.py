"""Files that a run reports to have changed, and those of them that are not there when it has ended."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from penstock.core import tool_titles
from penstock.events import Change, RunStarted, ToolCalled, ToolReturned

MAX_FILES = 1000
"""Number of files that are remembered: a check of more would delay the end of the run."""
MAX_NAMED = 3
"""Number of files that the sentence names."""
MAX_CHARS = 200
"""Last characters of a path in the sentence."""

_HARMLESS = frozenset({"read", "edit", "search", "think", "fetch"})
"""Kinds of tools that remove no file unless they report it."""


class MadeFiles:
    """Files that should be there, by the events of one run. A command may remove any of them, so it clears the list."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._base = directory
        self._paths: dict[str, None] = {}

    def observe(self, events: Iterable[Any]) -> None:
        """Note the changes that calls have made."""
        for event in events:
            kind = type(event)
            if kind is ToolReturned:
                if tool_titles.tool_kind(event.name or "") not in _HARMLESS:
                    self._paths.clear()
                for change in event.changes or ():
                    self._note(change)
            elif kind is ToolCalled:
                if event.tool_kind not in _HARMLESS:
                    self._paths.clear()
            elif kind is RunStarted and event.cwd is not None:
                self._base = event.cwd

    def _note(self, change: Change) -> None:
        self._paths.pop(change.path, None)
        path = change.to if change.to is not None else change.path
        if change.kind == "delete" and change.to is None:
            self._paths.pop(path, None)
        elif len(self._paths) < MAX_FILES:
            self._paths[path] = None

    def missing(self) -> str | None:
        """Return a sentence about the files that are not there; None if all are."""
        gone = [path for path in self._paths if self._is_missing(path)]
        if not gone:
            return None
        names = ", ".join(path[-MAX_CHARS:] for path in gone[:MAX_NAMED]) + (
            f" and {len(gone) - MAX_NAMED} more" if len(gone) > MAX_NAMED else ""
        )
        what = "a file" if len(gone) == 1 else f"{len(gone)} files"
        return f"the agent reported a change of {what}, and there is no such file: {names}"

    def _is_missing(self, path: str) -> bool:
        """Return whether a path of the run's directory leads to nothing. Others may be hidden or private."""
        whole = os.path.normpath(os.path.join(self._base, path))
        if path.startswith("~") or not whole.startswith(os.path.join(self._directory, "")):
            return False
        try:
            os.lstat(whole)
        except FileNotFoundError:
            return True
        except (OSError, ValueError):
            return False
        return False
