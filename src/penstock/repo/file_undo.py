"""What is done to one file when the changes of a turn are taken back, in words for programs and for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

Does = Literal["restore", "remove", "write", "move", "nothing", "stay"]
"""What is done to a file: its other text, no file, a file again, its other name, or nothing: it is as wanted already.
`stay`: it cannot be taken back, and is not touched."""

Reason = Literal[
    "changed", "counted", "cut", "unplaced", "overwritten", "unfit", "binary", "link", "hard_link", "kind", "large",
    "outside", "protected", "unknown", "failed",
]  # fmt: skip
"""Why a file stays."""

REASONS: Mapping[Reason, str] = {
    "changed": "was changed since",
    "counted": "has no diff: the agent reported only that it was changed",
    "cut": "has a diff that is cut",
    "unplaced": "has a diff without line numbers",
    "overwritten": "may have existed before: the agent did not report it",
    "unfit": "does not fit the diff that the agent reported",
    "binary": "is not text",
    "link": "is a link, or in a directory that is one",
    "hard_link": "has another name as well (a hard link)",
    "kind": "is not a regular file",
    "large": "is too large",
    "outside": "is not in this directory",
    "protected": "can start programs, or belongs to git or Penstock",
    "unknown": "was not noted at the end of the turn",
    "failed": "cannot be written",
}
"""Each reason as words after the name of a file."""


class FileUndo(msgspec.Struct, frozen=True, omit_defaults=True):
    """One file of a turn, and what is done to it."""

    path: str
    """Path in the directory; of another file as the agent gave it."""
    does: Does
    to: str | None = None
    """Path that a moved file has after the turn."""
    reason: Reason | None = None
    """Why it stays."""
    text: str | None = None
    """The reason as words after the name of the file."""


_WORDS: Mapping[Does, tuple[str, str]] = {
    "restore": ("gets its text from before", "is changed again"),
    "remove": ("is removed", "is removed again"),
    "write": ("is written again", "is written again"),
    "move": ("gets its old name", "gets its new name again"),
    "nothing": ("is as before already", "is changed already"),
}
"""What happens to a file, when changes are taken back, and when they are made again."""


def is_done(file: FileUndo) -> bool:
    """Return whether something is done to a file."""
    return file.does not in ("nothing", "stay")


def what_happens(file: FileUndo, *, redo: bool = False) -> str:
    """Return what happens to a file as words after its name."""
    if file.does == "stay":
        return f"{file.text or REASONS['changed']}, and stays"
    return _WORDS[file.does][redo]


def files_words(count: int) -> str:
    """Return a number of files in words."""
    return f"{count} file{'' if count == 1 else 's'}"
