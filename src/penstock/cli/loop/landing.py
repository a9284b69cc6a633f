"""`penstock loop land` and `loop clean`: results go to the user's branch, and trees that are not needed go away."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from penstock.cli.console import columns, notify, one_line, say
from penstock.config.data import data_path
from penstock.errors import PenstockError, UsageError
from penstock.loop import prompts
from penstock.loop.journal import Journal
from penstock.loop.loops import LoopFolder, reason_to_keep, tree_names
from penstock.loop.rows import LoopLanded
from penstock.loop.state import LoopState
from penstock.repo.commit import Stamp, with_trailers
from penstock.repo.landing import Landed, NotLanded, land, merge_trees
from penstock.repo.repository import Repository
from penstock.repo.trees import TreeStatus, home_of, remove, status_of
from penstock.run.history import now_ms


def land_loop(found: LoopFolder, *, squash: bool) -> int:
    """Land the result of a loop, remove its tree, and return the exit status."""
    state = found.state
    if state.head == state.began.base:
        raise UsageError(f"the loop {found.id} has no commit to land")
    journal = Journal.open(found.path)  # so that no process works on it meanwhile
    try:
        result = _landed(state, squash=squash)
        if isinstance(result, NotLanded):
            for path in result.conflicts:
                notify(f"  {one_line(path)}\n")
            help = result.help
            if result.conflicts and not help:
                help = f"penstock loop land {found.id} --resolve has an agent resolve it in the tree of the loop"
            notify(f"penstock: not landed: {result.reason}" + (f"; {help}" if help else "") + "\n")
            return 4
        journal.append(LoopLanded(len(journal.rows) + 1, now_ms(), result.commit, result.branch, result.way))
    finally:
        journal.close()
    say(f"{result.branch} is at {result.commit[:10]} ({result.way.replace('_', '-')}).\n")
    return say("".join(_kept_line(_removed(name)) for name in tree_names(state.settings, found.id)))


def conflicting_branch(state: LoopState) -> tuple[str, str] | None:
    """Return the commit and the name of the user's branch if the result of a loop has conflicts with it."""
    repository = Repository.at(Path(state.began.repository))
    head, branch = repository.head(), repository.branch()
    if head is None or branch is None or state.head == state.began.base:
        return None
    return (head, branch) if merge_trees(repository.git, head, state.head)[1] else None


def _landed(state: LoopState, *, squash: bool) -> Landed | NotLanded:
    repository = Repository.at(Path(state.began.repository))
    title = prompts.subject_of("", None, state.prompt)
    message = with_trailers(f"{title}\n", {"Penstock-Run": state.began.loop})
    stamp = Stamp(repository.author(), now_ms() // 1000)
    return land(repository, state.head, message, stamp, squash=squash, sign=state.settings.sign)


def _removed(name: str) -> TreeStatus | None:
    """Remove a tree of a loop if the rule of all trees allows it; return its state before, None if there is none."""
    try:
        return remove(home_of(data_path(), name))
    except PenstockError:
        return None  # removed before


def _kept_line(status: TreeStatus | None) -> str:
    if status is None or status.is_removable:
        return ""
    return f"The tree is kept: {one_line(status.record.path)}: {one_line(status.text)}\n"


def clean_loops(found: Iterable[LoopFolder], *, dry: bool) -> int:
    """Remove the trees of loops that are not needed any more, and say why others are kept."""
    rows = []
    for loop in found:
        cleaned = (_cleaned(loop, name, dry=dry) for name in tree_names(loop.state.settings, loop.id))
        rows += [row for row in cleaned if row is not None]
    return say(columns(rows) if rows else "There are no trees of loops.\n")


def _cleaned(loop: LoopFolder, name: str, *, dry: bool) -> tuple[str, str, str] | None:
    """Return what was done with one of the trees of a loop, its directory, and why; None if there is no tree."""
    try:
        status = status_of(home_of(data_path(), name))
    except PenstockError:
        return None
    path = one_line(status.record.path)
    why = reason_to_keep(loop)
    if why:
        return "kept", path, why
    if not dry and status.is_removable:
        status = _removed(name) or status
    verb = "would be removed" if dry else "removed"
    return verb if status.is_removable else "kept", path, one_line(status.text)
