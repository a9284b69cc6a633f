"""Changes of edits in the Agent Client Protocol.

The protocol has `diff` content, with the texts before and after. In some agents these are the whole texts of the file,
in most only the parts that differ, so the line numbers are unknown. Many agents put a diff of their own beside it, into
the raw output or `_meta`: it is recognised by its fields, and has precedence.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from penstock.agents._edits import from_git, path_of
from penstock.agents._edits import proposed as proposed_by
from penstock.agents._json import as_dict, as_list, text_of, text_or
from penstock.core import diffs
from penstock.events import Change, ChangeKind

_KINDS: dict[str, ChangeKind] = {"add": "add", "update": "update", "delete": "delete"}
_NEW_FILE = "\ncreate file mode "
"""Line in a diff of Git's form, for a new file."""


def proposed(fields: dict[str, Any], whole: bool) -> list[Change] | None:
    """Return the changes that a call proposes; None if it shows none.

    Args:
        fields: of the call, merged from its patches.
        whole: a `diff` has the whole texts of the file.
    """
    given = as_dict(fields.get("rawInput"))
    content = list(_contents(fields, whole))
    if found := _listed(given.get("changes")):
        return found
    return (content if whole and content else None) or proposed_by(given) or content or None


def made(fields: dict[str, Any], whole: bool) -> list[Change] | None:
    """Return the changes that a call which has ended reports; None if it reports none."""
    raw = as_dict(fields.get("rawOutput"))
    contents = list(_contents(fields, whole))
    paths = [change.path for change in contents] or _places(fields)
    if found := _listed(raw.get("changes")):
        return found
    if whole and contents:
        return contents
    if raw.get("fileExisted") is True and len(paths) == 1:
        return [_written_over(paths[0], raw)]
    if isinstance(shown := raw.get("detailedContent"), str):
        return _created(contents) if _NEW_FILE in shown else from_git(shown, paths) or contents or None
    metadata = as_dict(raw.get("metadata"))
    if isinstance(shown := as_dict(metadata.get("filediff")).get("patch"), str) and len(paths) == 1:
        return [diffs.from_unified(paths[0], shown)]
    if metadata.get("exists") is False:
        return _created(proposed_by(fields.get("rawInput")))
    return contents or None


def of_content(found: list[Change], is_new: bool) -> list[Change]:
    """Return changes in which one with nothing but new content is that of a new file, or an update without lines."""
    return [change if not _is_content(change) else _settled(change, is_new) for change in found]


def _is_content(change: Change) -> bool:
    return change.removed is None and change.added is not None


def _settled(change: Change, is_new: bool) -> Change:
    return msgspec.structs.replace(change, removed=0) if is_new else diffs.named(change.path, "update")


def _written_over(path: str, raw: dict[str, Any]) -> Change:
    """Return the change of a file that was overwritten, with its lines if the tool reports the earlier content."""
    before, after = raw.get("previousContent"), raw.get("content")
    if isinstance(before, str) and isinstance(after, str):
        return diffs.from_texts(path, before, after)
    return diffs.named(path, "update")


def _contents(fields: dict[str, Any], whole: bool) -> Iterator[Change]:
    places = _places(fields)
    for part in map(as_dict, as_list(fields.get("content"))):
        path, old, new = (part.get(key) for key in ("path", "oldText", "newText"))
        if part.get("type") == "diff" and isinstance(path, str) and isinstance(new, str):
            # Some agents have the name without its folder here.
            path = next((place for place in places if place.endswith(f"/{path}")), path)
            before = old if isinstance(old, str) else None
            yield _compared(path, before, new, whole, text_of(as_dict(part.get("_meta")).get("kind")))


def _compared(path: str, old: str | None, new: str, whole: bool, kind: str) -> Change:
    if kind == "delete":
        return diffs.from_texts(path, old, None)
    if not old:  # a new file has no text before; in some agents an empty one
        known = old is None or whole or kind == "add"
        return diffs.from_texts(path, None, new) if known else diffs.from_content(path, new)
    return diffs.from_texts(path, old, new) if whole else diffs.from_fragments(path, [(old, new)])


def _places(fields: dict[str, Any]) -> list[str]:
    paths = [as_dict(place).get("path") for place in as_list(fields.get("locations"))]
    given = path_of(fields.get("rawInput"))
    return [path for path in (*paths, given or None) if isinstance(path, str)]


def _created(changes: list[Change] | None) -> list[Change] | None:
    """Return the changes of a tool that reports its files as new."""
    return [msgspec.structs.replace(change, removed=0) for change in changes or ()] or None


def _listed(changes: Any) -> list[Change] | None:
    """Return the changes of an object with an entry for each path."""
    found = []
    for path, entry in as_dict(changes).items():
        fields = as_dict(entry)
        kind = _KINDS.get(text_or(fields.get("type"), ""))
        diff, content, to = (fields.get(key) for key in ("unified_diff", "content", "move_path"))
        moved = to if isinstance(to, str) else None
        if kind is None:
            continue
        if isinstance(diff, str):
            found.append(diffs.from_unified(path, diff, kind="move" if moved is not None else kind, to=moved))
        elif isinstance(content, str):
            found.append(
                diffs.from_texts(path, None, content) if kind == "add" else diffs.from_texts(path, content, None)
            )
        else:
            found.append(diffs.named(path, kind))
    return found or None
