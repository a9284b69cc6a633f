"""Changes of files by opencode's tools `edit`, `write` and `apply_patch` (1.18.33).

opencode's own diffs are made for people: if all lines of a diff are indented, it cuts off what their indentation has in
common. So a diff is used only if it has lines of the input as they are; else the change is made of the input.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from penstock.agents._json import as_dict, as_int, as_list, text_or
from penstock.core import diffs
from penstock.events import Change, ChangeKind
from penstock.updates import ToolCall

Fields = dict[str, Any]

_KINDS: dict[str, ChangeKind] = {"add": "add", "update": "update", "delete": "delete", "move": "move"}


def proposed(tool: str | None, value: Any) -> list[Change] | None:
    """Return the changes that a call's input proposes; None if it has none."""
    fields = as_dict(value)
    if tool == "apply_patch":
        return diffs.from_patch(text_or(fields.get("patchText"), "")) or None
    path, content, old = text_or(fields.get("filePath"), ""), fields.get("content"), fields.get("oldString")
    if tool == "write" and path and isinstance(content, str):
        return [diffs.from_content(path, content)]
    if tool == "edit" and path and isinstance(old, str):
        return [_replaced(path, old, text_or(fields.get("newString"), ""), everywhere=fields.get("replaceAll") is True)]
    return None


def _replaced(path: str, old: str, new: str, *, everywhere: bool) -> Change:
    if not old:  # the tool's way to make a file
        return diffs.from_texts(path, None, new)
    change = diffs.from_fragments(path, [(old, new)])
    return replace(change, added=None, removed=None) if everywhere else change


def made(call: ToolCall, metadata: dict[str, Any]) -> list[Change] | None:
    """Return the changes of a successful call; None if only the proposals of its input are known."""
    fields = as_dict(call.input)
    if call.changes is None:
        return None
    if call.name == "apply_patch":
        return _patched(as_list(metadata.get("files")), call.changes)
    [change] = call.changes
    if call.name == "write":
        return _written(change, metadata.get("exists"))
    if not fields.get("oldString"):
        return call.changes
    return [_edited(change, text_or(fields.get("newString"), ""), as_dict(metadata.get("filediff")))]


def _written(change: Change, existed: Any) -> list[Change] | None:
    if existed is True:  # its text before is not on the wire
        return [diffs.named(change.path, "update")]
    return [replace(change, removed=0)] if existed is False else None


def _edited(change: Change, new: str, found: Fields) -> Change:
    diff = text_or(found.get("patch"), "")
    # The first line of the input may begin anywhere in a line of the file.
    if _holds(diff, [new.partition("\n")[2]]):
        return diffs.from_unified(change.path, diff)
    added, removed = as_int(found.get("additions")), as_int(found.get("deletions"))
    return replace(change, added=added, removed=removed) if added is not None and removed is not None else change


def _patched(files: list[Any], expected: list[Change]) -> list[Change] | None:
    """Return the changes of a patch; the files are in its order."""
    if len(files) != len(expected):
        return None
    return [_patched_file(as_dict(file), change) for file, change in zip(files, expected, strict=True)]


def _patched_file(file: Fields, change: Change) -> Change:
    diff = text_or(file.get("patch"), "")
    whole = change.kind == "delete" or _holds(diff, _after(change.diff or ""))
    if change.kind == "add" or not diff or not whole:
        return change
    return diffs.from_unified(change.path, diff, kind=change.kind, to=change.to)


def asked(metadata: Fields) -> list[Change] | None:
    """Return the changes for which a permission is asked. Their indentation may be cut: there is no input here."""
    files = [as_dict(file) for file in as_list(metadata.get("files"))]
    if not files:
        files = [{"filePath": metadata.get("filepath"), "patch": metadata.get("diff")}]
    return [change for file in files if (change := _asked(file)) is not None] or None


def _asked(file: Fields) -> Change | None:
    path, diff = text_or(file.get("filePath"), ""), text_or(file.get("patch"), "")
    if not path or not diff:
        return None
    known = _KINDS.get(text_or(file.get("type"), ""), "add" if "\n@@ -0,0 " in diff else "update")
    return diffs.from_unified(path, diff, kind=known, to=text_or(file.get("movePath"), "") or None)


def _holds(diff: str, texts: list[str]) -> bool:
    """Return whether each text is in a hunk's lines after the change, from the beginning of a line on."""
    hunks = [f"\n{text}" for text in _after(diff)]
    return bool(texts) and all(text.strip() and any(f"\n{text}" in hunk for hunk in hunks) for text in texts)


def _after(diff: str) -> list[str]:
    """Return the text of each hunk after the change."""
    hunks: list[list[str]] = []
    for line in diff.split("\n"):
        if line.startswith("@@"):
            hunks.append([])
        elif hunks and line[:1] in ("+", " "):
            hunks[-1].append(line[1:])
    return ["".join(f"{line}\n" for line in hunk) for hunk in hunks]
