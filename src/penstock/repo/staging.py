"""Staging: the changes of a work tree go into an index, without what is held back."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Sequence
from pathlib import Path

import msgspec

from penstock.repo.git import LONG_SECONDS, Git, GitError
from penstock.repo.held import (
    MAX_FILE_BYTES,
    Held,
    has_git_name,
    held_by_content,
    held_by_name,
    held_by_size,
    held_directories,
    is_allowed,
    secrets_in,
)


class TreeChanges(msgspec.Struct, frozen=True):
    """Differences between an index and its work tree."""

    added: list[str]
    """New files that git does not ignore."""
    nested: list[str]
    """Directories with a repository of their own; each ends with a slash."""
    modified: list[str]
    removed: list[str]

    @property
    def paths(self) -> list[str]:
        """All paths, in the order of their names."""
        return sorted([*self.added, *self.nested, *self.modified, *self.removed])


def changes(git: Git) -> TreeChanges:
    """Return the differences between the index and the work tree."""
    # Nothing is asked of submodules: their git directories belong to the agent.
    words = "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames", "--ignore-submodules=all"
    found = TreeChanges([], [], [], [])
    for item in git.run("status", *words, seconds=LONG_SECONDS).items:
        state, path = item[1:2], item[3:]
        if item.startswith("??"):
            (found.nested if path.endswith("/") or has_git_name(path) else found.added).append(path)
        elif state == "D":
            found.removed.append(path)
        elif state != " ":
            found.modified.append(path)
    return found


def stage(git: Git, allowed: Sequence[str] = (), never: Collection[str] = ()) -> list[Held]:
    """Stage all changes but those that are held back, and return these.

    Args:
        git: git with the index and the work tree.
        allowed: paths, patterns and directories that are staged whatever the rules say.
        never: paths that are not staged and not held back: files that were copied into the work tree.

    Raises:
        GitError: git could not do it.
    """
    found = changes(git)
    found = msgspec.structs.replace(found, added=[path for path in found.added if path not in never])
    held = held_back(git, found, allowed)
    without = {one.path for one in held if not one.path.endswith("/")}
    folders = tuple(one.path for one in held if one.path.endswith("/"))
    remove_paths(git, found.removed)
    chosen = [path for path in (*found.modified, *found.added) if path not in without and not path.startswith(folders)]
    add_paths(git, chosen)
    return held


def add_paths(git: Git, paths: Sequence[str]) -> None:
    """Put paths into the index as they are in the work tree."""
    _update_index(git, paths, "--add", "--remove", "--replace")


def remove_paths(git: Git, paths: Sequence[str]) -> None:
    """Remove paths from the index, also those whose directory has become a link."""
    _update_index(git, paths, "--force-remove")


def _update_index(git: Git, paths: Sequence[str], *words: str) -> None:
    if paths:
        listed = b"".join(os.fsencode(path) + b"\0" for path in paths)
        git.run("update-index", *words, "-z", "--stdin", data=listed, seconds=LONG_SECONDS)


def held_back(git: Git, found: TreeChanges, allowed: Sequence[str] = ()) -> list[Held]:
    """Return the changes that are held back."""
    held = [Held(path, "nested", "has a git directory of its own") for path in found.nested]
    tracked = git.run("ls-files", "-z").items if len(found.added) else []
    many = [one for one in held_directories(found.added, tracked) if not is_allowed(one.path, allowed)]
    folders = tuple(one.path for one in many)
    held += many
    new = frozenset(found.added)
    for path in (*found.added, *found.modified):
        if not path.startswith(folders) and not is_allowed(path, allowed):
            one = _held(git, path, is_new=path in new)
            if one is not None:
                held.append(one)
    return held


def _held(git: Git, path: str, *, is_new: bool) -> Held | None:
    place = git.work_tree / path
    try:
        status = os.lstat(place)
    except OSError:
        return None  # gone since it was listed
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
        return Held(path, "special", "is neither a file nor a link")
    by_name = held_by_name(path) if is_new else None
    if by_name is not None or not stat.S_ISREG(status.st_mode):
        return by_name
    if status.st_size > MAX_FILE_BYTES:
        return held_by_size(path, _stored_size(git, path, status.st_size), 0 if is_new else _old_size(git, path))
    found = secrets_in(_content(place))
    if found and not is_new:
        old = secrets_in(git.run("cat-file", "blob", f":{path}", seconds=LONG_SECONDS).out)
        found = {secret: kind for secret, kind in found.items() if secret not in old}
    return held_by_content(path, found.values())


def _stored_size(git: Git, path: str, size: int) -> int:
    """Return the size with which a file is committed: a filter such as that of git-lfs makes it small."""
    *_, value = git.run("check-attr", "-z", "filter", "--", path).items
    if value in ("unspecified", "unset"):
        return size
    stored = git.run("hash-object", "-w", f"--path={path}", "--", path, seconds=LONG_SECONDS).text
    return int(git.text("cat-file", "-s", stored))


def _old_size(git: Git, path: str) -> int:
    try:
        return int(git.text("cat-file", "-s", f":{path}"))
    except GitError:
        return 0


def _content(path: Path) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(MAX_FILE_BYTES)
    except OSError:
        return b""  # git says what is wrong with it
