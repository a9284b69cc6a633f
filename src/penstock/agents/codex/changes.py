"""Changes of files as codex reports them.

The app server has the content of a file that is added or deleted, and a unified diff of one that is updated; `codex
exec` has paths and kinds alone.
"""

from __future__ import annotations

from typing import Any, get_args

from penstock.agents._json import as_dict, as_list, text_of, text_or
from penstock.core import diffs
from penstock.events import Change, ChangeKind

_KINDS: tuple[ChangeKind, ...] = get_args(ChangeKind)

_MOVED = "\n\nMoved to: "
"""Beginning of what codex 0.169.0 appends to the diff of a file that is moved. No line of a diff begins so."""


def kind_of(change: dict[str, Any]) -> str:
    """Return the name of the kind of a change, which is an object on the wire of the app server."""
    kind = change.get("kind")
    return text_of(as_dict(kind).get("type", kind))


def changes_of(value: Any) -> list[Change] | None:
    """Return the changes of a list of codex; None if there is none. An entry without path or kind is left out."""
    found = [change for entry in as_list(value) if (change := _change_of(as_dict(entry))) is not None]
    return found or None


def _change_of(entry: dict[str, Any]) -> Change | None:
    path, diff = text_or(entry.get("path"), ""), entry.get("diff")
    kind = next((known for known in _KINDS if known == kind_of(entry)), None)
    if not path or kind is None:
        return None
    if not isinstance(diff, str):
        return diffs.named(path, kind)
    if kind == "add":
        return diffs.from_content(path, diff)  # codex calls it so too if it replaces a file
    if kind == "delete":
        return diffs.from_texts(path, diff, None)
    to = text_or(as_dict(entry.get("kind")).get("move_path"), "") or None
    return diffs.from_unified(path, diff.partition(_MOVED)[0], kind="update" if to is None else "move", to=to)
