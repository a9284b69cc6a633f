"""Result of an agent's work in a tree: one commit on the branch of the tree, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from penstock.errors import UsageError
from penstock.repo.commit import HookResult, Stamp, commit_tree, run_hooks, with_trailers
from penstock.repo.diffs import Size, size_between
from penstock.repo.held import Held
from penstock.repo.refs import RefMoved, publish, set_ref
from penstock.repo.staging import stage, unstage_held
from penstock.repo.tree import Tree


class TreeResult(msgspec.Struct, frozen=True):
    """Result of a tree."""

    commit: str | None
    """Commit of its files; None if they equal those of its base."""
    branch: str | None
    """Branch that has the commit; None if a hook rejected it, or there is none."""
    size: Size
    held: list[Held]
    hook: HookResult
    """Result of the user's hooks."""


def save_result(tree: Tree, message: str, trailers: Mapping[str, str], stamp: Stamp) -> TreeResult:
    """Commit the files of a tree on its branch.

    If a hook of the user rejects the result, it gets no branch, but `refs/penstock/NAME/result` has it.

    Raises:
        RefMoved: somebody else has made the branch.
        GitError: git failed, or a hook did not end in time.
    """
    base = tree.record.base
    held = stage(tree.git, never=tree.copied)
    hook = HookResult("", "", message)
    if tree.git.text("write-tree") == tree.git.tree_of(base):
        return TreeResult(None, None, Size(), held, hook)
    hook = run_hooks(tree, message)
    if hook.ran:
        held += [one for one in unstage_held(tree.git, base, never=tree.copied) if one not in held]
    made = tree.git.text("write-tree")  # after the hooks, since formatters may change the index
    commit = commit_tree(tree.git, made, [base], with_trailers(hook.message, trailers), stamp)
    set_ref(tree.repository, f"{tree.refs}/result", commit)
    branch = tree.record.branch if hook.passed else None
    if branch is not None:
        publish(tree.repository, branch, commit, None)
    tree.set_head(commit)
    return TreeResult(commit, branch, size_between(tree.git, base, commit), held, hook)


class NextCommit(msgspec.Struct, frozen=True):
    """Commit that has the files of a tree as they are now."""

    commit: str
    """The commit; the newest one of the tree if no file has changed since, or its base."""
    files: str
    """Id of the files, which is the same for the same files."""
    held: list[Held]


def next_commit(tree: Tree, message: str, stamp: Stamp) -> NextCommit:
    """Return a commit of the files of a tree, after its newest one. It is in no branch yet, and no hooks run.

    Raises:
        GitError: git failed.
    """
    held = stage(tree.git, never=tree.copied)
    files, newest = tree.git.text("write-tree"), tree.git.text("rev-parse", "--verify", "HEAD")
    if files == tree.git.tree_of(newest):
        return NextCommit(newest, files, held)
    return NextCommit(commit_tree(tree.git, files, [newest], message, stamp), files, held)


def save_next(tree: Tree, made: NextCommit) -> None:
    """Add a commit of `next_commit` to the branch of a tree. It may be repeated.

    Raises:
        RefMoved: somebody else has moved the branch.
        UsageError: the branch is checked out somewhere.
        GitError: git failed.
    """
    newest = tree.git.text("rev-parse", "--verify", "HEAD")
    if made.commit == tree.record.base:
        return
    repository, branch = tree.repository, tree.record.branch
    current = repository.git.commit_of(f"refs/heads/{branch}")
    if current not in (None, newest, made.commit):  # a branch that was deleted is made again
        raise RefMoved(f"refs/heads/{branch}", newest, current)
    result = repository.git.commit_of(f"{tree.refs}/result")
    set_ref(repository, f"{tree.refs}/result", made.commit, result)
    place = publish(repository, branch, made.commit, current)
    if place is not None and current != made.commit:
        raise UsageError(f"the branch {branch} is checked out at {place}", help="check out another branch there")
    tree.set_head(made.commit)
