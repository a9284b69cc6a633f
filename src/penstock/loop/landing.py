"""Landing of a loop: its result becomes part of the user's branch, and its tree is removed."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import msgspec

from penstock.errors import PenstockError, UsageError
from penstock.loop.journal import Journal
from penstock.loop.loops import LoopFolder, tree_names
from penstock.loop.results import landing_line, proof_lines
from penstock.loop.rows import LoopLanded
from penstock.loop.state import LoopState
from penstock.repo.commit import Stamp, subject_of, with_trailers
from penstock.repo.landing import Landed, NotLanded, land, merge_to_land, overlap, under_way
from penstock.repo.repository import Repository
from penstock.repo.trees import TreeStatus, home_of, remove
from penstock.run.history import now_ms


class CheckMerge(Protocol):
    """Check of a merge before it lands."""

    def __call__(self, head: str, merged: str) -> NotLanded | None:
        """Return why the merged tree of the user's commit and a result cannot land; None if it can."""
        ...


def leave_to_terminal(head: str, merged: str) -> NotLanded:
    """Reject a merge whose checks cannot run here."""
    help = "penstock loop land in a terminal runs the checks on the merge first"
    return NotLanded("your branch has gone on since the loop began, so the merge has to be checked", help)


def land_loop(
    data: Path, found: LoopFolder, *, squash: bool, check: CheckMerge | None = leave_to_terminal
) -> tuple[Landed | NotLanded, list[TreeStatus]]:
    """Land the result of a loop on the branch that is checked out, and remove its trees if all is saved.

    The second value has the states of the trees before; it is empty if there are none, or nothing has landed.

    Args:
        data: the data directory.
        found: the loop.
        squash: whether to make one commit of all.
        check: check of the merged files, if the user's branch has gone on and the loop has checks; None: land without.

    Raises:
        UsageError: the loop has no commit, or another process works on it.
    """
    state = found.state
    if state.head == state.began.base:
        raise UsageError(f"the loop {found.id} has no commit to land")
    journal = Journal.open(found.path)  # so that no process works on it meanwhile
    try:
        result = _rejected(state, check) or _landed(state, squash=squash)
        if isinstance(result, NotLanded):
            return _with_help(result, found.id), []
        journal.append(LoopLanded(len(journal.rows) + 1, now_ms(), result.commit, result.branch, result.way))
    finally:
        journal.close()
    removed = (remove_tree(data, name) for name in tree_names(state.settings, found.id))
    return result, [status for status in removed if status is not None]


def remove_tree(data: Path, name: str) -> TreeStatus | None:
    """Remove a tree of a loop if the rule of all trees allows it; return its state before, None if there is none."""
    try:
        return remove(home_of(data, name))
    except PenstockError:
        return None  # removed before


def _rejected(state: LoopState, check: CheckMerge | None) -> NotLanded | None:
    """Return why a result cannot be merged: a check fails on the merge, or the branch has moved meanwhile."""
    repository = Repository.at(Path(state.began.repository))
    merge = merge_to_land(repository, state.head) if check is not None and state.settings.checks else None
    if check is None or merge is None or under_way(repository) is not None or overlap(repository, state.head):
        return None  # the rest is said by the landing itself
    rejected = check(*merge)
    if rejected is None and repository.head() != merge[0]:
        return NotLanded("your branch has moved while the checks ran", "type the same again")
    return rejected


def _landed(state: LoopState, *, squash: bool) -> Landed | NotLanded:
    repository = Repository.at(Path(state.began.repository))
    body = "\n".join(filter(None, (landing_line(state), *proof_lines(state))))
    text = f"{subject_of(state.prompt)}\n" + (f"\n{body}\n" if body else "")
    message = with_trailers(text, {"Penstock-Run": state.began.loop})
    stamp = Stamp(repository.author(), now_ms() // 1000)
    return land(repository, state.head, message, stamp, squash=squash, sign=state.settings.sign)


def _with_help(result: NotLanded, loop: str) -> NotLanded:
    if not result.conflicts or result.help:
        return result
    help = f"an agent can resolve it in the tree of the loop: penstock loop land {loop} --resolve"
    return msgspec.structs.replace(result, help=help)
