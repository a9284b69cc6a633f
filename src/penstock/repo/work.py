"""Work of a tree: the commit with its files, by the name of the tree, its branch, its directory or its agent."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from penstock.errors import UsageError, nearest, shown
from penstock.repo.repository import Repository
from penstock.repo.tree import TreeRecord


class TreeWork(msgspec.Struct, frozen=True):
    """Saved work of a tree. The tree itself may have been removed."""

    name: str
    label: str
    """Name of the agent, for people."""
    commit: str
    """Commit with its files: of its branch, of its result without a branch, or of its base if nothing was saved."""
    branch: str | None
    """Its branch; None if there is none."""
    base: str
    """Commit with which the tree began."""
    record: TreeRecord | None = None
    """Record of the tree; None if it has been removed."""

    @property
    def is_empty(self) -> bool:
        """Return whether nothing was saved."""
        return self.commit == self.base


def find_work(repository: Repository, records: Sequence[TreeRecord], word: str) -> TreeWork:
    """Return the work that a person means.

    Args:
        repository: the user's repository.
        records: records of its trees.
        word: name of a tree, of its branch or of its agent, or its directory.

    Raises:
        UsageError: there is none, or the word may mean several.
    """
    exact = [record for record in records if _is_named(record, word)]
    found = exact or [record for record in records if record.label == word]
    if len(found) > 1:
        names = ", ".join(record.name for record in found)
        raise UsageError(f"{shown(word)} is the agent of {len(found)} trees", expected=f"one of {names}")
    if found:
        return _recorded(repository, found[0])
    branches = _branches(repository)
    branch = next((name for name in (word, f"penstock/{word}", f"penstock-{word}") if name in branches), None)
    if branch is None:
        known = [*(record.name for record in records), *branches]
        near = nearest(word, known)
        help = f"did you mean {near!r}?" if near else "penstock trees lists them"
        raise UsageError(f"{shown(word)} is no tree of this repository", help=help)
    return _of_branch(repository, branch)


def _is_named(record: TreeRecord, word: str) -> bool:
    names = record.name, record.branch, f"refs/heads/{record.branch}"
    return word in names or (os.sep in word and str(Path(os.path.abspath(word))) == record.path)


def _recorded(repository: Repository, record: TreeRecord) -> TreeWork:
    git = repository.git
    saved = git.commit_of(f"refs/heads/{record.branch}")
    commit = saved or git.commit_of(f"refs/penstock/{record.name}/result") or record.base
    branch = record.branch if saved is not None else None
    return TreeWork(record.name, record.label, commit, branch, record.base, record)


def _branches(repository: Repository) -> list[str]:
    """Return the branches with results, also those whose tree has been removed."""
    shapes = "refs/heads/penstock/", "refs/heads/penstock-*"
    return repository.git.text("for-each-ref", "--format=%(refname:lstrip=2)", *shapes).splitlines()


def _of_branch(repository: Repository, branch: str) -> TreeWork:
    """Return the work of a tree that was removed. Its base is the commit where the branch left the user's."""
    git, ref = repository.git, f"refs/heads/{branch}"
    commit = git.commit_of(ref)
    if commit is None:
        raise UsageError(f"the branch {branch} has no commit")
    base = git.run("merge-base", ref, "HEAD", accepts=(0, 1)).text or commit
    name = branch.removeprefix("penstock").lstrip("/-")
    return TreeWork(name, name, commit, branch, base)
