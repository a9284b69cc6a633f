"""Snapshot of a user's checkout with all changes. Its index and files are not touched."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec

from penstock.repo.commit import Stamp, commit_tree
from penstock.repo.git import Git, GitError
from penstock.repo.refs import set_ref
from penstock.repo.repository import Author, Repository
from penstock.repo.staging import add_paths, changes, remove_paths

MAX_KEPT_FILE_BYTES = 100 * 1024 * 1024
"""Maximum bytes of a new file that a snapshot keeps; larger ones would make each start slow, and are reported."""


class CheckoutSnapshot(msgspec.Struct, frozen=True):
    """State of a checkout, as commits."""

    commit: str
    """Commit of all files, made like a stash, so that `git stash apply --index` accepts it. HEAD if nothing differs."""
    tree: str
    left_out: list[str]
    """Paths that the snapshot leaves out: nested repositories and very large files."""


def snapshot(repository: Repository, scratch: Path, author: Author, at: int) -> CheckoutSnapshot:
    """Return a snapshot of the checkout; objects are written, and no ref is set.

    Args:
        repository: the user's repository.
        scratch: directory for an index, which is removed again.
        author: author of the commits.
        at: their date in seconds since 1970.

    Raises:
        GitError: git could not make the snapshot.
    """
    index = scratch / "snapshot.index"
    try:
        try:
            shutil.copyfile(repository.git_dir / "index", index)
        except FileNotFoundError:
            pass  # there is no index, as nothing was ever staged
        return _snapshot(repository, repository.git.with_index(index), Stamp(author, at))
    finally:
        index.unlink(missing_ok=True)
        Path(f"{index}.lock").unlink(missing_ok=True)


def _snapshot(repository: Repository, git: Git, stamp: Stamp) -> CheckoutSnapshot:
    head = repository.head()
    assert head is not None
    base = git.tree_of(head)
    try:
        staged = git.text("write-tree")
    except GitError:
        staged = base  # a conflict is being resolved, which no tree object can hold
    found = changes(git)
    large = [path for path in found.added if _size(git.work_tree / path) > MAX_KEPT_FILE_BYTES]
    remove_paths(git, found.removed)
    add_paths(git, [path for path in (*found.modified, *found.added) if path not in large])
    tree = git.text("write-tree")
    left_out = sorted([*found.nested, *large])
    if tree == staged == base:
        return CheckoutSnapshot(head, tree, left_out)
    index = commit_tree(git, staged, [head], "The index before the start", stamp)
    return CheckoutSnapshot(
        commit_tree(git, tree, [head, index], "The checkout before the start", stamp), tree, left_out
    )


def keep_snapshot(repository: Repository, found: CheckoutSnapshot, ref: str) -> None:
    """Set the ref of a snapshot, so that its objects stay."""
    set_ref(repository, ref, found.commit)


def _size(path: Path) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0
