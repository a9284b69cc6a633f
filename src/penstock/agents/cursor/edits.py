"""Edits on Cursor's wire: the changes that the result of a call describes. A call itself has no more than a path.

The shapes are those of published captures: an edit has the file before and after and a unified diff, a deletion the
content that is gone, a write of older versions only its arguments.
"""

from __future__ import annotations

from typing import Any

from penstock.agents._json import as_int, text_or
from penstock.core import diffs
from penstock.events import Change

NEW_FILE = "--- /dev/null\n"
"""Beginning of the diff of a new file. The rest of it is wrong: it removes an empty line that never was."""


def made(name: str, given: dict[str, Any], done: dict[str, Any]) -> list[Change] | None:
    """Return the changes of a call with these arguments that has succeeded; None if it edits no file."""
    path = text_or(done.get("path"), text_or(given.get("path"), ""))
    if not path:
        return None
    if name == "edit":
        return [_edited(path, done)]
    if name == "write" and isinstance(given.get("fileText"), str):
        return [diffs.from_content(path, given["fileText"])]
    if name == "delete":
        gone = done.get("prevContent")
        return [diffs.from_texts(path, gone, None) if isinstance(gone, str) else diffs.named(path, "delete")]
    return None


def _edited(path: str, done: dict[str, Any]) -> Change:
    before, after = done.get("beforeFullFileContent"), done.get("afterFullFileContent")
    diff = text_or(done.get("diffString"), "")
    if isinstance(after, str) and diff.startswith(NEW_FILE):
        return diffs.from_texts(path, None, after)
    if isinstance(after, str) and isinstance(before, str):
        return diffs.from_texts(path, before, after)
    if "@@" in diff:
        return diffs.from_unified(path, diff)
    added, removed = as_int(done.get("linesAdded")), as_int(done.get("linesRemoved"))
    return diffs.named(path, "update", added=added, removed=removed)
