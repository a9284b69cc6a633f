"""`penstock loop land` and `loop clean`: results go to the user's branch, and trees that are not needed go away."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path

from penstock.cli.console import columns, notify, notify_problem, one_line, say
from penstock.config.data import data_path
from penstock.errors import PenstockError
from penstock.loop.landing import land_loop, remove_tree
from penstock.loop.loops import LoopFolder, reason_to_keep, tree_names
from penstock.loop.refs_of_loop import refs_of, remove_refs
from penstock.loop.results import landing_line, proof_lines
from penstock.loop.state import LoopState
from penstock.repo.landing import NotLanded, merge_trees
from penstock.repo.repository import Repository
from penstock.repo.trees import TreeStatus, home_of, status_of

NOT_LANDED = 4
"""Exit status if the result was not landed and the user has to do something."""


def land(found: LoopFolder, *, squash: bool) -> int:
    """Land the result of a loop, remove its tree, and return the exit status."""
    result, trees = land_loop(data_path(), found, squash=squash)
    if isinstance(result, NotLanded):
        for path in result.conflicts:
            notify(f"  {one_line(path)}\n")
        notify_problem(f"not landed: {result.reason}" + (f"; {result.help}" if result.help else ""))
        return NOT_LANDED
    say(f"{found.id}: {result.branch} is at {result.commit[:10]} ({result.way.replace('_', '-')}).\n")
    lines = [landing_line(found.state), *proof_lines(found.state)]
    say("".join(f"{one_line(line)}\n" for line in lines if line))
    return say("".join(_kept_line(tree) for tree in trees))


def conflicting_branch(state: LoopState) -> tuple[str, str] | None:
    """Return the commit and the name of the user's branch if the result of a loop has conflicts with it."""
    repository = Repository.at(Path(state.began.repository))
    head, branch = repository.head(), repository.branch()
    if head is None or branch is None or state.head == state.began.base:
        return None
    return (head, branch) if merge_trees(repository.git, head, state.head)[1] else None


def _kept_line(status: TreeStatus | None) -> str:
    if status is None or status.is_removable:
        return ""
    return f"The tree is kept: {one_line(status.record.path)}: {one_line(status.text)}\n"


def clean_loops(found: Iterable[LoopFolder], options: Namespace) -> int:
    """Remove the trees of loops that are not needed any more, with --refs also their refs, and say why others stay."""
    rows = []
    for loop in found:
        cleaned = (_cleaned(loop, name, dry=options.dry_run) for name in tree_names(loop.state.settings, loop.id))
        rows += [row for row in cleaned if row is not None]
        rows += _cleaned_refs(loop, dry=options.dry_run) if options.refs else []
    nothing = "There are no trees or refs of loops.\n" if options.refs else "There are no trees of loops.\n"
    return say(columns(rows) if rows else nothing)


def _cleaned_refs(loop: LoopFolder, *, dry: bool) -> list[tuple[str, str, str]]:
    """Return what was done with the refs of a loop, and why."""
    try:
        found = refs_of(loop)
        if found.refs and not dry:
            remove_refs(loop, found.refs)
    except PenstockError as error:
        return [("kept", f"refs of {loop.id}", one_line(str(error)))]
    rows = []
    if found.refs:
        count = f"{len(found.refs)} ref{'s' * (len(found.refs) != 1)} of {loop.id}"
        rows.append(("would be removed" if dry else "removed", count, "your branches have the result"))
    reasons = dict.fromkeys(found.kept.values())
    for why in reasons:
        refs = [ref for ref, reason in found.kept.items() if reason == why]
        name = refs[0] if len(refs) == 1 else f"{len(refs)} refs of {loop.id}"
        rows.append(("kept", one_line(name), one_line(why)))
    return rows


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
        status = remove_tree(data_path(), name) or status
    verb = "would be removed" if dry else "removed"
    return verb if status.is_removable else "kept", path, one_line(status.text)
