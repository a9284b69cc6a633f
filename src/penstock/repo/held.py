"""Rules for what is not committed without a person's consent: secrets, junk, large files, nested repositories. Pure.

Only new content is examined, so that an old fixture with a key in it never blocks a commit.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Literal

import msgspec

from penstock.run.secrets import is_secret_name, secrets_in

MAX_FILE_BYTES = 5 * 1024 * 1024
"""Maximum bytes of a file that is committed without a question; larger files are mostly builds, dumps and videos."""

MAX_NEW_FILES = 500
"""Maximum number of new files below one new directory that are committed without a question; more are mostly
dependencies or caches."""

JUNK = ("*/__pycache__/*.*.py[co]", "*/.ds_store", "*/thumbs.db", "*/desktop.ini")
"""Patterns, in lower case, of files that are not missed because programs make them again when needed: bytecode that no
import finds without its source, and files that a desktop leaves in directories."""

PRODUCTS = {
    "node_modules": "installed packages",
    "bower_components": "installed packages",
    ".venv": "installed packages",
    ".eggs": "installed packages",
    "*.egg-info": "a product of a build",
    ".gradle": "a cache",
    ".mypy_cache": "a cache",
    ".nox": "a cache",
    ".nyc_output": "a cache",
    ".parcel-cache": "a cache",
    ".pytest_cache": "a cache",
    ".ruff_cache": "a cache",
    ".tox": "a cache",
    ".turbo": "a cache",
}
"""Patterns, in lower case, of directories that tools make again when needed, with what is in them. Names that people
also use for sources, such as `build` and `target`, are not among them."""

BYTECODE = ("*.pyc", "*.pyo")
"""Names of other bytecode, which an import finds in place of a source file."""

GIT_NAMES = frozenset({".git", "git~1"})
"""Names of directories, in lower case, that git accepts in no commit."""

Reason = Literal["secret_name", "secret_content", "large", "many", "nested", "special", "bytecode", "junk"]


class Held(msgspec.Struct, frozen=True):
    """A path that was not staged."""

    path: str
    """Path from the top; a directory ends with a slash."""
    reason: Reason
    text: str
    """Reason as a phrase for people."""

    @property
    def is_final(self) -> bool:
        """Return whether git cannot commit it, which rules out allowing it."""
        return self.reason in ("nested", "special")

    @property
    def is_junk(self) -> bool:
        """Return whether the commit is complete without it, and the user has nothing to do."""
        return self.reason == "junk"


def held_by_name(path: str) -> Held | None:
    """Return why a new file is held back for its name; None if it is not."""
    if is_secret_name(path):
        return Held(path, "secret_name", "files of this name hold secrets")
    found = secrets_in(os.fsencode(path))
    if found:
        return Held(path, "secret_name", f"its name has what looks like {_listed(found.values())}")
    if any(fnmatchcase(path.lower(), shape) for shape in BYTECODE):
        return Held(path, "bytecode", "bytecode, which is made of a source")
    return None


def junk_of(path: str, known: Collection[str] = ()) -> Held | None:
    """Return the junk that a new file belongs to; None if it is not junk. For most junk it is a whole directory.

    `known` has the directories with tracked files: a repository that tracks what a tool has made gets more of it.
    """
    folder = _product_of(path, known)
    if folder is not None:
        return folder
    if not any(fnmatchcase(f"/{path}".lower(), shape) for shape in JUNK):
        return None
    above, _, name = path.rpartition("/")
    if name.lower().endswith((".pyc", ".pyo")):
        return Held(f"{above}/", "junk", "bytecode")
    return Held(path, "junk", "a file of the desktop")


def _product_of(path: str, known: Collection[str]) -> Held | None:
    """Return the topmost directory above a path that a tool has made, and that has no tracked file."""
    parts = path.split("/")
    for index, name in enumerate(parts[:-1]):
        text = next((text for shape, text in PRODUCTS.items() if fnmatchcase(name.lower(), shape)), None)
        folder = "/".join(parts[: index + 1])
        if text is not None and folder not in known:
            return Held(f"{folder}/", "junk", text)
    return None


def held_by_size(path: str, size: int, old_size: int) -> Held | None:
    """Return why a file is held back for its size; None if it is not, or was too large before."""
    if size <= MAX_FILE_BYTES or old_size > MAX_FILE_BYTES:
        return None
    return Held(path, "large", f"{size / 1024 / 1024:.1f} MiB, more than {MAX_FILE_BYTES // 1024 // 1024}")


def held_by_content(path: str, found: Iterable[str]) -> Held | None:
    """Return why a file is held back for the kinds of secrets that are new in it; None if there are none."""
    kinds = _listed(found)
    return Held(path, "secret_content", f"contains what looks like {kinds}") if kinds else None


def _listed(kinds: Iterable[str]) -> str:
    return ", ".join(sorted(set(kinds)))


def held_directories(added: Iterable[str], tracked: Iterable[str]) -> list[Held]:
    """Return the new directories with too many new files; the topmost directory without a tracked file counts."""
    known = directories_of(tracked)
    counts: dict[str, int] = {}
    for path in added:
        new = highest_new_directory(path, known)
        if new:
            counts[new] = counts.get(new, 0) + 1
    return [
        Held(f"{folder}/", "many", f"{count:,} new files, more than {MAX_NEW_FILES}")
        for folder, count in sorted(counts.items())
        if count > MAX_NEW_FILES
    ]


def directories_of(paths: Iterable[str]) -> set[str]:
    """Return all directories above these paths, with the top as ""."""
    known = {""}
    for path in paths:
        folder = path.rpartition("/")[0]
        while folder not in known:
            known.add(folder)
            folder = folder.rpartition("/")[0]
    return known


def highest_new_directory(path: str, known: Collection[str]) -> str:
    """Return the topmost unknown directory above a path; "" if all are known."""
    end = path.find("/")
    while end >= 0:
        if path[:end] not in known:
            return path[:end]
        end = path.find("/", end + 1)
    return ""


def is_allowed(path: str, allowed: Sequence[str]) -> bool:
    """Return whether the user has allowed a path: by its name, by a pattern, or by a directory above it."""
    return any(
        path == shape or fnmatchcase(path, shape) or (shape.endswith("/") and path.startswith(shape))
        for shape in allowed
    )


def has_git_name(path: str) -> bool:
    """Return whether git accepts a part of this path in no commit."""
    return any(part.lower() in GIT_NAMES for part in path.split("/"))
