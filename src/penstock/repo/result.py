"""Result of an agent's work in a tree: one commit on the branch of the tree, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from penstock.repo.commit import HookResult, Stamp, commit_tree, run_hooks, with_trailers
from penstock.repo.diffs import Size, size_between
from penstock.repo.held import Held
from penstock.repo.refs import publish, set_ref
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
