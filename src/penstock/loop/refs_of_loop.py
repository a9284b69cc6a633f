"""Refs of a loop in the user's repository, and their removal if that loses no work."""

from __future__ import annotations

from pathlib import Path

import msgspec

from penstock.errors import PenstockError
from penstock.loop.journal import process_of
from penstock.loop.loops import LoopFolder, tree_names
from penstock.repo.git import GitError
from penstock.repo.protected import KEPT_SUBJECT
from penstock.repo.refs import checked_out_at
from penstock.repo.repository import Repository


class LoopRefs(msgspec.Struct, frozen=True):
    """Refs of a loop, and what may be removed of them."""

    refs: dict[str, str] = {}
    """Refs that may be removed, with their commits."""
    kept: dict[str, str] = {}
    """Refs that are kept, each with the reason."""


def refs_of(loop: LoopFolder) -> LoopRefs:
    """Return the refs of a loop. They may be removed if a branch of the user's has the result.

    Two are looked at one by one: the branch of the loop may have commits of the user's, and `kept` commits that are no
    longer in the user's branches.

    Raises:
        PenstockError: the repository cannot be read.
    """
    state = loop.state
    repository = Repository.at(Path(state.began.repository))
    git, branch = repository.git, f"refs/heads/{state.began.branch}"
    below = [f"refs/penstock/{name}/" for name in tree_names(state.settings, loop.id)]
    listed = git.text("for-each-ref", "--format=%(objectname) %(refname)", *below, branch).split("\n")
    refs = {ref: at for at, _, ref in (line.partition(" ") for line in listed if line)}
    kept = {}
    why = _reason_to_keep_all(loop, repository)
    if why:
        return LoopRefs({}, dict.fromkeys(refs, why))
    if branch in refs:
        place = checked_out_at(repository, state.began.branch)
        if place is not None:
            kept[branch] = f"{place} uses it"
        elif refs[branch] != state.head and not _is_in_other_branch(repository, refs[branch], branch):
            kept[branch] = "it has commits that no other branch has"
    for ref in refs:
        if ref.endswith("/kept") and _has_lost_commits(repository, ref):
            kept[ref] = "it has commits that your branches no longer have"
    return LoopRefs({ref: at for ref, at in refs.items() if ref not in kept}, kept)


def remove_refs(loop: LoopFolder, refs: dict[str, str]) -> None:
    """Remove refs of a loop, all or none; one that has moved meanwhile prevents it.

    Raises:
        GitError: one has moved, or git could not do it.
    """
    lines = "".join(f"delete {ref} {at}\n" for ref, at in refs.items())
    Repository.at(Path(loop.state.began.repository)).git.run("update-ref", "--no-deref", "--stdin", data=lines.encode())


def _reason_to_keep_all(loop: LoopFolder, repository: Repository) -> str:
    state = loop.state
    if process_of(loop.path) is not None:
        return "the loop runs"
    if state.ended is None and state.landed is None:
        return f"the loop was interrupted: penstock loop resume {loop.id}"
    if state.head == state.began.base and state.landed is None:
        return "it has no result, and only these have what was tried"
    result = state.head if state.landed is None else state.landed.commit
    if _is_in_other_branch(repository, result, f"refs/heads/{state.began.branch}"):
        return ""
    if state.landed is None:
        return f"the loop has not landed: penstock loop land {loop.id}"
    return f"your branches no longer have {result[:10]}"


def _is_in_other_branch(repository: Repository, commit: str, branch: str) -> bool:
    """Return whether a branch has a commit, besides this one and those of other loops and runs."""
    try:
        found = repository.git.text("for-each-ref", "--format=%(refname)", f"--contains={commit}", "refs/heads")
    except GitError:
        return False  # the commit is gone
    own = (branch, "refs/heads/penstock/", "refs/heads/penstock-")
    return any(not ref.startswith(own) for ref in found.split("\n") if ref)


def _has_lost_commits(repository: Repository, ref: str) -> bool:
    """Return whether a ref has commits that no ref of the user's has, besides those that Penstock made of them."""
    others = "--branches", "--tags", "--remotes", "--glob=refs/stash"
    try:
        subjects = repository.git.text("log", "--format=%s", ref, "--not", "--exclude=penstock/*", *others, "--")
    except PenstockError:
        return True
    return any(subject != KEPT_SUBJECT for subject in subjects.split("\n") if subject)
