"""`penstock loop land` and `loop clean`: land results on the user's branch, and remove unneeded trees."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable

from penstock.cli.console import columns, notify, notify_problem, one_line, say
from penstock.cli.loop.words import MAX_OUTPUT_LINES
from penstock.config.data import data_path
from penstock.errors import PenstockError
from penstock.loop.landing import land_loop, remove_tree
from penstock.loop.loops import LoopFolder, reason_to_keep, tree_names
from penstock.loop.merge_check import MergeCheck
from penstock.loop.refs_of_loop import refs_of, remove_refs
from penstock.loop.results import landing_line, proof_lines
from penstock.loop.steps import CommandEnded
from penstock.repo.landing import NotLanded
from penstock.repo.leftovers import clean_leftovers, days_ago
from penstock.repo.trees import TreeStatus, home_of, status_of

NOT_LANDED = 4
"""Exit status if the result was not landed and the user has to act."""


def land(found: LoopFolder, *, squash: bool, unchecked: bool, resolves: bool) -> int | NotLanded:
    """Land the result of a loop, remove its tree, and return the exit status.

    With `resolves`, a result that an agent could still make land is returned instead of reported.
    """
    check = None if unchecked else MergeCheck(data_path(), found, _show_check)
    result, trees = land_loop(data_path(), found, squash=squash, check=check)
    if isinstance(result, NotLanded):
        if resolves and result.is_resolvable:
            return result
        lines = [*result.output.strip("\n").splitlines()[-MAX_OUTPUT_LINES:], *result.conflicts]
        notify("".join(f"  {one_line(line)}\n" for line in lines))
        notify_problem(f"not landed: {result.reason}" + (f"; {result.help}" if result.help else ""))
        return NOT_LANDED
    say(f"{found.id}: {result.branch} is at {result.commit[:10]} ({result.way.replace('_', '-')}).\n")
    lines = [line for line in (landing_line(found.state), *proof_lines(found.state)) if line]
    say("".join(f"{one_line(line)}\n" for line in lines))
    return say("".join(_kept_line(tree) for tree in trees))


def _show_check(command: str, ended: CommandEnded) -> None:
    word = "green" if ended.is_green else "red"
    notify(one_line(f"merge · check {command} · {word} {ended.ms / 1000:.0f} s") + "\n")


def _kept_line(status: TreeStatus | None) -> str:
    if status is None or status.is_removable:
        return ""
    return f"The tree is kept: {one_line(status.record.path)}: {one_line(status.text)}\n"


def clean_loops(found: Iterable[LoopFolder], options: Namespace) -> int:
    """Remove the trees of finished loops, with --refs their refs too, and print why others stay."""
    rows = []
    for loop in found:
        cleaned = (_cleaned(loop, name, dry=options.dry_run) for name in tree_names(loop.state.settings, loop.id))
        left = [] if reason_to_keep(loop) else _cleaned_leftovers(loop, options.older_than, dry=options.dry_run)
        rows += [*left, *(row for row in cleaned if row is not None)]
        rows += _cleaned_refs(loop, dry=options.dry_run) if options.refs else []
    nothing = "There are no trees or refs of loops.\n" if options.refs else "There are no trees of loops.\n"
    return say(columns(rows, has_heads=False) if rows else nothing)


def _cleaned_leftovers(loop: LoopFolder, days: float | None, *, dry: bool) -> list[tuple[str, str, str]]:
    """Return what was done with the leftovers of a loop's trees, their place, and why."""
    rows = []
    for name in tree_names(loop.state.settings, loop.id):
        try:
            found = clean_leftovers(data_path(), name, before=days_ago(days), dry=dry)
        except OSError as error:
            rows.append(("kept", f"what {name} has left", one_line(f"it cannot be removed: {error}")))
            continue
        verb = "would be removed" if dry else "removed"
        rows += [(verb if one.is_removable else "kept", one_line(one.path), one_line(one.text)) for one in found]
    return rows


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
