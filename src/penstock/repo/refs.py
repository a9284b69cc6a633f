"""Refs in the user's repository. A ref is moved only if its target is the one that the caller last saw."""

from __future__ import annotations

from pathlib import Path

from penstock.errors import UsageError
from penstock.repo.git import GitError
from penstock.repo.repository import Repository


class RefMoved(UsageError):
    """Somebody else has moved a ref since it was last read."""

    def __init__(self, ref: str, expected: str | None, found: str | None) -> None:
        self.ref = ref
        self.found = found
        super().__init__(
            f"{ref} was moved by somebody else: it is at {found or 'no commit'}",
            expected=expected or "no such ref",
            help="look at both with git log, and put it back or choose another name",
        )


def set_ref(repository: Repository, ref: str, new: str, old: str | None = None) -> None:
    """Move a ref from `old` (None: it does not exist) to `new`; do nothing if it is already at `new`.

    Raises:
        RefMoved: its target is another one.
        GitError: git could not move it.
    """
    git = repository.git
    try:
        git.run("update-ref", "--no-deref", ref, new, old or "0" * len(new))
    except GitError:
        found = git.run("rev-parse", "--verify", "--quiet", "--end-of-options", ref, accepts=(0, 1)).text or None
        if found == new:
            return
        if found == old:
            raise
        raise RefMoved(ref, old, found) from None


def free_branch(repository: Repository, name: str) -> str:
    """Return the branch for a tree's result: `penstock/NAME`, or `penstock-NAME` if a branch `penstock` is in the way.

    Raises:
        UsageError: the branch exists, or the name cannot be that of a branch.
    """
    git = repository.git
    is_blocked = git.commit_of("refs/heads/penstock") is not None
    branch = f"penstock-{name}" if is_blocked else f"penstock/{name}"
    if git.run("check-ref-format", f"refs/heads/{branch}", accepts=(0, 1)).status != 0:
        raise UsageError(f"{name!r} cannot be part of the name of a branch", expected="letters, digits and dashes")
    if git.text("for-each-ref", f"refs/heads/{branch}", f"refs/heads/{branch}/"):
        raise UsageError(f"the branch {branch} exists already", help=f"choose another name, or git branch -D {branch}")
    return branch


def checked_out_at(repository: Repository, branch: str) -> str | None:
    """Return the checkout that uses, rebases or bisects a branch; None if there is none."""
    path = ""
    for item in repository.git.text("worktree", "list", "--porcelain", "-z").split("\0"):
        key, _, value = item.partition(" ")
        if key == "worktree":
            path = value
        elif key == "branch" and value == f"refs/heads/{branch}":
            return path
    folders = [repository.common, *(repository.common / "worktrees").glob("*")]
    for folder in folders:
        for name in ("rebase-merge/head-name", "rebase-apply/head-name", "BISECT_START"):
            if _first_line(folder / name) in (branch, f"refs/heads/{branch}"):
                return str(folder)
    return None


def publish(repository: Repository, branch: str, new: str, old: str | None) -> str | None:
    """Move the branch of a result. If a checkout uses the branch, do not move it and return that checkout.

    If a checked-out branch is moved, git shows its user all changes in reverse.

    Raises:
        RefMoved: somebody else has moved it.
        GitError: git could not move it.
    """
    place = checked_out_at(repository, branch)
    if place is None:
        set_ref(repository, f"refs/heads/{branch}", new, old)
    return place


def _first_line(path: Path) -> str:
    try:
        return path.read_text(errors="replace").partition("\n")[0]
    except OSError:
        return ""
