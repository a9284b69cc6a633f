"""Changes of edits, read from fields that the tools of several agents share.

Like `_json`, these readers accept any value that JSON can hold and never raise. None: the value shows no edit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from penstock.agents._json import as_dict, as_int, as_list
from penstock.core import diffs
from penstock.core.diffs import Hunk
from penstock.events import Change

_PATHS = ("file_path", "filePath", "path")
_PAIRS = (
    ("old_string", "new_string"),
    ("oldString", "newString"),
    ("old_str", "new_str"),
    ("old_text", "new_text"),
    ("oldText", "newText"),
    ("before", "after"),
)
_CONTENTS = ("content", "file_text")
_PATCHES = ("input", "patch")
_REPEATS = ("replace_all", "replaceAll", "allow_multiple", "expected_replacements")
"""Fields by which one pair of texts replaces more than one place, so that its lines do not count."""
_DIFFS = ("diff", "patch")
_PATCH_START = "*** Begin Patch"
_GIT_START = "diff --git "
_HUNK = re.compile(r"^@@ -\d", re.MULTILINE)
_HEADER = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")


def path_of(given: Any) -> str:
    """Return the path in the input of a tool for one file; "" if it has none."""
    fields = as_dict(given)
    return next((fields[key] for key in _PATHS if isinstance(fields.get(key), str)), "")


def proposed(given: Any) -> list[Change] | None:
    """Return the changes that the input of an editing tool proposes."""
    fields = as_dict(given)
    for patch in (given, *(fields.get(key) for key in _PATCHES)):
        if isinstance(patch, str) and patch.startswith(_PATCH_START):
            return diffs.from_patch(patch) or None
    path = path_of(fields)
    if not path:
        return None
    pairs = [pair for edit in (fields, *as_list(fields.get("edits"))) for pair in _pairs(as_dict(edit))]
    if pairs:
        return [_replaced(path, pairs, repeated=any(_is_repeated(fields.get(key)) for key in _REPEATS))]
    if shown := unified(path, fields):
        return shown
    content = next((fields[key] for key in _CONTENTS if isinstance(fields.get(key), str)), None)
    return None if content is None else [diffs.from_content(path, content)]


def unified(path: str, value: Any) -> list[Change] | None:
    """Return the change of one file that a field of an object shows as a unified diff."""
    fields = as_dict(value)
    diff = next((fields[key] for key in _DIFFS if isinstance(fields.get(key), str)), "")
    return [diffs.from_unified(path, diff)] if path and _HUNK.search(diff) else None


def _pairs(fields: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for old, new in _PAIRS:
        if isinstance(fields.get(old), str) and isinstance(fields.get(new), str):
            yield fields[old], fields[new]


def _is_repeated(value: Any) -> bool:
    return value if isinstance(value, bool) else (as_int(value) or 1) > 1


def _replaced(path: str, pairs: list[tuple[str, str]], repeated: bool) -> Change:
    if len(pairs) == 1 and not pairs[0][0]:  # tools write a whole file then
        return diffs.from_content(path, pairs[0][1])
    change = diffs.from_fragments(path, pairs)
    return msgspec.structs.replace(change, added=None, removed=None) if repeated else change


def from_git(text: str, paths: list[str]) -> list[Change] | None:
    """Return the changes of diffs in Git's form, one for each of the paths.

    The program that makes them counts the end of a file as one more, empty line, so an empty line at the end of a hunk
    may be none: it is left out.
    """
    sections = text.split(f"\n{_GIT_START}")[1:]
    if not sections or len(sections) != len(paths):
        return None
    return [diffs.from_hunks(path, _hunks(section)) for path, section in zip(paths, sections, strict=True)]


def _hunks(section: str) -> list[Hunk]:
    hunks: list[Hunk] = []
    for line in section.removesuffix("\n").split("\n"):
        if found := _HEADER.match(line):
            old_start, old_lines, new_start, new_lines = (1 if part is None else int(part) for part in found.groups())
            hunks.append(Hunk(old_start, old_lines, new_start, new_lines, []))
        elif hunks:
            hunks[-1].lines.append(line)
    return [_without_end(hunk) for hunk in hunks]


def _without_end(hunk: Hunk) -> Hunk:
    if not hunk.lines or hunk.lines[-1] != " ":
        return hunk
    return msgspec.structs.replace(
        hunk, old_lines=hunk.old_lines - 1, new_lines=hunk.new_lines - 1, lines=hunk.lines[:-1]
    )
