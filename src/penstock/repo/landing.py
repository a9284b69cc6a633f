"""Landing: makes a result part of the user's branch, as a fast-forward, a merge or one commit, or changes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from penstock.repo.commit import Stamp, commit_tree
from penstock.repo.diffs import paths_between
from penstock.repo.git import LONG_SECONDS, Git, GitError
from penstock.repo.repository import Repository

UNDER_WAY = {
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "BISECT_START": "a bisection",
}
"""Files that a git directory has during an unfinished operation of the user, with the name of the operation."""

CONFLICT = 1
"""Exit status of `merge-tree` if there are conflicts."""

Way = Literal["nothing", "fast_forward", "merge", "squash"]


class Landed(msgspec.Struct, frozen=True):
    """The result is part of the user's branch."""

    way: Way
    """How it landed. `nothing`: it was part of the branch before."""
    branch: str
    commit: str


class NotLanded(msgspec.Struct, frozen=True):
    """The result was not landed, and nothing was changed."""

    reason: str
    help: str = ""
    conflicts: list[str] = []
    """Paths that both sides have changed."""
    output: str = ""
    """End of the output of a check that failed on the merge."""
    is_resolvable: bool = False
    """True if an agent can fix the merge: it has conflicts, or a check failed on it."""


def land(
    repository: Repository,
    result: str,
    message: str,
    stamp: Stamp,
    *,
    squash: bool = False,
    sign: bool = False,
    onto: str | None = None,
) -> Landed | NotLanded:
    """Land a commit on the branch that is checked out.

    Args:
        repository: the user's repository.
        result: the commit to land.
        message: message of the merge, or of the one commit of a squash.
        stamp: author and date of that commit.
        squash: whether to squash all commits into one.
        sign: whether to sign the merge, or the one commit.
        onto: the branch that has to be checked out; None: any.

    Raises:
        GitError: git failed for another reason than the user's changes.
    """
    target = _target(repository, onto)
    if isinstance(target, NotLanded):
        return target
    branch, head = target
    git = repository.git
    if git.succeeds("merge-base", "--is-ancestor", result, head):
        return Landed("nothing", branch, head)
    is_forward = git.succeeds("merge-base", "--is-ancestor", head, result)
    if is_forward and not squash:
        return _forward(repository, branch, result, "fast_forward")
    tree, conflicts = merge_trees(git, head, result)
    if conflicts:
        return _conflicting(branch, conflicts)
    if squash and tree == git.tree_of(head):
        return Landed("nothing", branch, head)
    commit = commit_tree(git, tree, [head] if squash else [head, result], message, stamp, sign=sign)
    return _forward(repository, branch, commit, "squash" if squash else "merge")


class Outlook(msgspec.Struct, frozen=True):
    """What landing would do now."""

    old: str
    """Commit of the branch; the one where both sides began if the result cannot be merged."""
    new: str
    """Commit or tree that the branch would have; the result if that cannot be merged."""
    way: Way | None
    """How it would land; None if it would not."""
    problem: NotLanded | None = None
    """Why it would not land."""


def look(repository: Repository, result: str, onto: str) -> Outlook:
    """Return what landing a commit on a branch would do, and change nothing.

    Raises:
        GitError: git failed.
    """
    git, head = repository.git, repository.git.commit_of(f"refs/heads/{onto}")
    target = _target(repository, onto)
    problem = target if isinstance(target, NotLanded) else None
    if head is None:
        missing = NotLanded(f"the branch {onto} was deleted", f"git branch {onto} COMMIT makes it again")
        return Outlook(result, result, None, problem or missing)
    if problem is None and git.succeeds("merge-base", "--is-ancestor", result, head):
        return Outlook(head, head, "nothing")
    way: Way = "fast_forward" if git.succeeds("merge-base", "--is-ancestor", head, result) else "merge"
    new, conflicts = (result, []) if way == "fast_forward" else merge_trees(git, head, result)
    if conflicts:
        base = git.run("merge-base", head, result, accepts=(0, 1)).text or head
        return Outlook(base, result, None, problem or _conflicting(onto, conflicts))
    problem = problem or _in_the_way(repository, new)
    return Outlook(head, new, None if problem else way, problem)


def merge_to_land(repository: Repository, result: str) -> tuple[str, str] | None:
    """Return the user's commit and the merged tree if landing a result would merge it; None if not.

    It is None for a fast-forward, for a result that has already landed, and if there are conflicts.
    """
    git, head = repository.git, repository.head()
    if head is None or git.succeeds("merge-base", "--is-ancestor", result, head):
        return None
    if git.succeeds("merge-base", "--is-ancestor", head, result):
        return None
    tree, conflicts = merge_trees(git, head, result)
    return None if conflicts else (head, tree)


def merge_trees(git: Git, one: str, other: str) -> tuple[str, list[str]]:
    """Return the tree of a merge of two commits, with conflict markers, and the paths of the files in conflict."""
    words = "merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", one, other
    merged = git.run(*words, accepts=(0, CONFLICT), seconds=LONG_SECONDS)
    tree, *conflicts = merged.items
    return tree, sorted(set(conflicts))


def under_way(repository: Repository) -> str | None:
    """Return the operation that the user has begun in the checkout and not finished: `a rebase`; None if none."""
    return next((name for file, name in UNDER_WAY.items() if (repository.git_dir / file).exists()), None)


def _target(repository: Repository, onto: str | None) -> tuple[str, str] | NotLanded:
    """Return the branch that is checked out and its commit, or why nothing can land there."""
    busy = under_way(repository)
    if busy is not None:
        return NotLanded(f"{busy} is under way in {repository.root}", "finish it first, or abort it")
    branch, head = repository.branch(), repository.head()
    if branch is None or head is None:
        help = f"git switch {onto or 'BRANCH, the branch that gets the result'}"
        return NotLanded("no branch is checked out", help)
    if onto is not None and branch != onto:
        return NotLanded(f"{repository.root} has the branch {branch} checked out, not {onto}", f"git switch {onto}")
    return branch, head


def _conflicting(branch: str, conflicts: list[str]) -> NotLanded:
    what = f"the same lines were changed in {branch} and in the result"
    return NotLanded(what, conflicts=conflicts, is_resolvable=True)


def _in_the_way(repository: Repository, commit: str) -> NotLanded | None:
    """Return why the checkout cannot be moved to a commit or tree: that would overwrite files of the user."""
    in_the_way = overlap(repository, commit)
    if not in_the_way:
        return None
    help = "commit them, or move them away: git stash push --include-untracked -- FILE"
    return NotLanded("files of yours in the checkout are in the way", help, in_the_way)


def _forward(repository: Repository, branch: str, commit: str, way: Way) -> Landed | NotLanded:
    """Move the checkout forward, unless that would overwrite a file of the user."""
    problem = _in_the_way(repository, commit)
    if problem is not None:
        return problem
    # Git itself rejects files that the user has changed since then.
    words = "--ff-only", "--no-autostash", "--no-overwrite-ignore", "--no-stat", "--quiet"
    try:
        repository.git.run("merge", *words, commit, seconds=LONG_SECONDS)
    except GitError as error:
        if error.status is None or repository.head() == commit:
            raise
        return NotLanded(error.what)
    return Landed(way, branch, commit)


def overlap(repository: Repository, commit: str) -> list[str]:
    """Return the changed, untracked and ignored files of the user that a move of the checkout would overwrite."""
    git = repository.git
    words = "--porcelain=v1", "-z", "--untracked-files=no", "--no-renames", "--ignore-submodules=all"
    changed = {item[3:] for item in git.run("status", *words, seconds=LONG_SECONDS).items}
    tracked = frozenset(git.run("ls-files", "-z").items)
    found = set()
    for path, _ in paths_between(git, "HEAD", commit):
        if path in changed:
            found.add(path)
        elif path not in tracked:
            found.update(part for part in _untracked_parts(repository.root, path) if part not in tracked)
    return sorted(found)


def _untracked_parts(root: Path, path: str) -> Iterator[str]:
    """Yield the entry at a path, or the one in place of a directory above it."""
    parts = path.split("/")
    for count in range(1, len(parts)):
        above = "/".join(parts[:count])
        if os.path.islink(root / above) or os.path.isfile(root / above):
            yield above
            return
    if os.path.lexists(root / path):
        yield path
