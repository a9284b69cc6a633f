"""Staging: puts the changes of a work tree into an index, except those that are held back."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Sequence
from functools import cache, partial
from pathlib import Path

import msgspec

from penstock.config.regular_files import read_start
from penstock.repo.git import LONG_SECONDS, Git, GitError
from penstock.repo.held import (
    MAX_FILE_BYTES,
    Held,
    directories_of,
    has_git_name,
    held_by_content,
    held_by_name,
    held_by_size,
    held_directories,
    is_allowed,
    junk_of,
)
from penstock.run.secrets import secrets_in

MAX_SCANNED_BYTES = 64 * 1024 * 1024
"""Number of bytes at the beginning of a file that are searched for secrets. Larger files are those that were as large
in the repository before, and those of git-lfs. Searching 64 MiB takes several seconds."""


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
    # Submodules are ignored: their git directories belong to the agent.
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
    """Stage all changes except those that are held back, and return these, junk last.

    Args:
        git: git with the index and the work tree.
        allowed: paths, patterns and directories that are staged whatever the rules say.
        never: paths that are neither staged nor held back: files that were copied into the work tree.

    Raises:
        GitError: git failed.
    """
    found = changes(git)
    found = msgspec.structs.replace(found, added=[path for path in found.added if path not in never])
    junk = junk_in(git, found, allowed)
    found = msgspec.structs.replace(found, added=[path for path in found.added if path not in junk])
    held = held_back(git, found, allowed)
    without = {one.path for one in held if not one.path.endswith("/")}
    folders = _folders(held)
    remove_paths(git, found.removed)
    chosen = [path for path in (*found.modified, *found.added) if path not in without and not path.startswith(folders)]
    add_paths(git, chosen)
    return [*held, *dict.fromkeys(junk.values())]


def junk_in(git: Git, found: TreeChanges, allowed: Sequence[str] = ()) -> dict[str, Held]:
    """Return the new files that never belong in a commit."""
    known = directories_of(_tracked(git, found)) if any(junk_of(path) for path in found.added) else ()
    return {path: one for path in found.added if (one := junk_of(path, known)) and not is_allowed(path, allowed)}


def _tracked(git: Git, found: TreeChanges) -> list[str]:
    """Return the paths in the index that are not among the new files."""
    new = frozenset(found.added)
    return [path for path in git.run("ls-files", "-z").items if path not in new] if new else []


def unstage_held(git: Git, tree: str, allowed: Sequence[str] = (), never: Collection[str] = ()) -> list[Held]:
    """Reset in the index those differences from a tree that are held back, and return them, junk last.

    Hooks may stage anything, and many run `git add .`.

    Raises:
        GitError: git failed.
    """
    items = git.run(
        "diff-index", "--cached", "--no-renames", "--name-status", "-z", tree, "--", seconds=LONG_SECONDS
    ).items
    staged = TreeChanges([], [], [], [])
    for letter, path in zip(items[::2], items[1::2], strict=True):
        {"A": staged.added, "D": staged.removed}.get(letter, staged.modified).append(path)
    junk = junk_in(git, staged, allowed)
    out = {*junk, *(path for path in staged.added if path in never)}
    found = msgspec.structs.replace(staged, added=[path for path in staged.added if path not in out])
    held = held_back(git, found, allowed, before=tree)
    kept = {one.path for one in held}
    wrong = [path for path in staged.paths if path in out or path in kept or path.startswith(_folders(held))]
    if wrong:
        words = "--staged", f"--source={tree}", "--pathspec-from-file=-", "--pathspec-file-nul"
        git.run("restore", *words, data=os.fsencode("".join(f":(top,literal){path}\0" for path in wrong)))
    return [*held, *dict.fromkeys(junk.values())]


def _folders(held: Sequence[Held]) -> tuple[str, ...]:
    return tuple(one.path for one in held if one.path.endswith("/"))


def add_paths(git: Git, paths: Sequence[str]) -> None:
    """Stage paths as they are in the work tree."""
    _update_index(git, paths, "--add", "--remove", "--replace")


def remove_paths(git: Git, paths: Sequence[str]) -> None:
    """Remove paths from the index, including those whose directory has become a link."""
    _update_index(git, paths, "--force-remove")


def _update_index(git: Git, paths: Sequence[str], *words: str) -> None:
    if paths:
        listed = b"".join(os.fsencode(path) + b"\0" for path in paths)
        git.run("update-index", *words, "-z", "--stdin", data=listed, seconds=LONG_SECONDS)


def held_back(git: Git, found: TreeChanges, allowed: Sequence[str] = (), before: str = "") -> list[Held]:
    """Return the changes that are held back.

    Args:
        git: git with the index and the work tree.
        found: the changes.
        allowed: as in `stage`.
        before: tree with which the changes are compared; the index by default.
    """
    held = [Held(path, "nested", "has a git directory of its own") for path in found.nested]
    new = frozenset(found.added)
    many = [one for one in held_directories(found.added, _tracked(git, found)) if not is_allowed(one.path, allowed)]
    folders = tuple(one.path for one in many)
    held += many
    gone = cache(partial(_secrets_before, git, before, found.removed))  # secrets of a moved file are not new
    for path in (*found.added, *found.modified):
        if not path.startswith(folders) and not is_allowed(path, allowed):
            one = _held_new(git, path, gone) if path in new else _held_modified(git, path, before)
            if one is not None:
                held.append(one)
    return held


def _held_new(git: Git, path: str, gone: Callable[[], Collection[bytes]]) -> Held | None:
    return _held_special(git, path) or held_by_name(path) or _held_content(git, path, lambda: 0, gone)


def _held_modified(git: Git, path: str, before: str) -> Held | None:
    old_size, old_secrets = partial(_size_before, git, before, path), partial(_secrets_before, git, before, [path])
    return _held_special(git, path) or _held_content(git, path, old_size, old_secrets)


def _held_special(git: Git, path: str) -> Held | None:
    try:
        mode = os.lstat(git.work_tree / path).st_mode
    except OSError:
        return None  # removed after it was listed
    is_usual = stat.S_ISREG(mode) or stat.S_ISLNK(mode)
    return None if is_usual else Held(path, "special", "is neither a file nor a link")


def _held_content(
    git: Git, path: str, old_size: Callable[[], int], old_secrets: Callable[[], Collection[bytes]]
) -> Held | None:
    content = _content(git.work_tree / path)
    if len(content) > MAX_FILE_BYTES:
        by_size = held_by_size(path, _stored_size(git, path), old_size())
        if by_size is not None:
            return by_size
    found = secrets_in(content)
    old = old_secrets() if found else ()
    return held_by_content(path, [kind for secret, kind in found.items() if secret not in old])


def _secrets_before(git: Git, before: str, paths: Sequence[str]) -> Collection[bytes]:
    """Return the secrets of files in a tree, or in the index if `before` is ""."""
    names = b"".join(os.fsencode(f"{before}:{path}") + b"\0" for path in paths)
    return secrets_in(git.run("cat-file", "--batch", "-z", data=names, seconds=LONG_SECONDS).out) if names else ()


def _stored_size(git: Git, path: str) -> int:
    """Return the size of a file as committed: a filter such as that of git-lfs makes it small."""
    *_, value = git.run("check-attr", "-z", "filter", "--", path).items
    if value in ("unspecified", "unset"):
        return os.lstat(git.work_tree / path).st_size
    stored = git.run("hash-object", "-w", f"--path={path}", "--", path, seconds=LONG_SECONDS).text
    return int(git.text("cat-file", "-s", stored))


def _size_before(git: Git, before: str, path: str) -> int:
    try:
        return int(git.text("cat-file", "-s", f"{before}:{path}"))
    except GitError:
        return 0


def _content(path: Path) -> bytes:
    """Return the part of a file that is searched, or the target of a link."""
    try:
        if path.is_symlink():
            return os.fsencode(os.readlink(path))
        return read_start(path, MAX_SCANNED_BYTES)
    except OSError:
        return b""  # git reports what is wrong with it
