"""Edits on the `stream-json` wire: the changes that a call proposes, and those that its result has made.

The result of an edit (`tool_use_result`, not in Qwen Code) has the whole file before it, and hunks. The hunks have
spaces for the tabs at the start of a line (seen with Claude Code 2.1.197), so they are read only without the texts.
"""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.agents._json import as_dict, as_int, as_list, text_or
from penstock.core import diffs
from penstock.events import Change

REPLACING_TOOLS = frozenset({"Edit", "MultiEdit", "edit"})
"""Tools whose input has the text to replace and the new one."""
WRITING_TOOLS = frozenset({"Write", "write_file"})
"""Tools whose input has the whole new file."""
CELL_TOOLS = frozenset({"NotebookEdit"})
"""Tools whose input has a cell of a notebook, which is not part of the file's text: the file is JSON."""


def proposed(name: str, given: Any) -> list[Change] | None:
    """Return the changes that the input of a call proposes; None if it edits no file."""
    fields = as_dict(given)
    if name in REPLACING_TOOLS:
        change = _replaced(fields)
    elif name in WRITING_TOOLS:
        path, content = fields.get("file_path"), fields.get("content")
        change = diffs.from_content(path, content) if isinstance(path, str) and isinstance(content, str) else None
    elif name in CELL_TOOLS and (path := text_or(fields.get("notebook_path"), "")):
        change = diffs.named(path, "update")
    else:
        change = None
    return None if change is None else [change]


def _replaced(fields: dict[str, Any]) -> Change | None:
    """Return the change of a call that replaces parts of a file. A part without old text makes a new file."""
    edits = [as_dict(edit) for edit in as_list(fields["edits"])] if "edits" in fields else [fields]
    pairs = [
        (old, new)
        for old, new in ((edit.get("old_string"), edit.get("new_string")) for edit in edits)
        if isinstance(old, str) and isinstance(new, str)
    ]
    path = fields.get("file_path")
    if not pairs or not isinstance(path, str):
        return None
    if len(pairs) == 1 and not pairs[0][0]:
        return diffs.from_content(path, pairs[0][1])
    change = diffs.from_fragments(path, pairs)
    if any(edit.get("replace_all") is True for edit in edits):  # how often the text is there is not known
        return msgspec.structs.replace(change, added=None, removed=None)
    return change


def made(result: Any) -> list[Change] | None:
    """Return the changes that the details of a result describe; None if they describe none."""
    fields = as_dict(result)
    if "structuredPatch" in fields:
        return _made_in_file(fields)
    path = fields.get("notebook_path")
    before, after = fields.get("original_file"), fields.get("updated_file")
    if isinstance(path, str) and isinstance(before, str) and isinstance(after, str):
        return _between(path, before, after)
    return None


def _made_in_file(fields: dict[str, Any]) -> list[Change] | None:
    path, before = fields.get("filePath"), fields.get("originalFile")
    if not isinstance(path, str):
        return None
    after = _text_after(fields, before)
    is_new = fields.get("type") == "create" or fields.get("oldString") == ""
    if after is not None and is_new:
        return [diffs.from_texts(path, None, after)]
    if after is not None and isinstance(before, str):
        return _between(path, before, after)
    hunks = _hunks(fields["structuredPatch"])
    return [diffs.from_hunks(path, hunks)] if hunks else None


def _between(path: str, before: str, after: str) -> list[Change]:
    return [] if before == after else [diffs.from_texts(path, before, after)]


def _text_after(fields: dict[str, Any], before: Any) -> str | None:
    """Return the whole text of a file after an edit; None if unknown."""
    content, old, new = (fields.get(key) for key in ("content", "oldString", "newString"))
    if isinstance(content, str):
        return content
    if not (isinstance(before, str) and isinstance(old, str) and isinstance(new, str)):
        return None
    if fields.get("userModified") is True or old not in before or (before and not old):
        return None
    if not new and not old.endswith("\n") and old + "\n" in before:
        old += "\n"  # a line that is deleted takes its end with it
    return before.replace(old, new, -1 if fields.get("replaceAll") is True else 1)


def _hunks(value: Any) -> list[diffs.Hunk]:
    return [
        diffs.Hunk(
            as_int(hunk.get("oldStart")) or 0,
            as_int(hunk.get("oldLines")) or 0,
            as_int(hunk.get("newStart")) or 0,
            as_int(hunk.get("newLines")) or 0,
            [line for line in as_list(hunk.get("lines")) if isinstance(line, str)],
        )
        for hunk in map(as_dict, as_list(value))
    ]
