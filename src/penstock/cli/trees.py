"""`penstock trees`: lists the trees in which agents have worked, compares and merges their work, and removes them."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Collection, Sequence
from pathlib import Path

import msgspec

from penstock.cli.console import columns, one_line, pass_on, say, show_warnings
from penstock.cli.directory import current_directory
from penstock.cli.options import number
from penstock.cli.parser import Parser
from penstock.cli.sessions import when
from penstock.config.data import data_path
from penstock.config.rules import ABOVE_0
from penstock.errors import PenstockError, UsageError, shown
from penstock.repo.leftovers import Leftover, clean_leftovers, days_ago, names_with_leftovers, records_of
from penstock.repo.repository import root_of
from penstock.repo.tree import read_record
from penstock.repo.trees import TreeStatus, homes, remove, status_of
from penstock.run.history import now_ms

EXAMPLES = """\
examples:
  penstock trees                     the trees of this repository, the oldest first, and what is in them
  penstock trees --all               those of all repositories
  penstock trees diff claude codex   the difference between the work of two trees of this repository
  penstock trees diff claude         what has changed in a tree since it began
  penstock trees merge claude        merge the branch of a tree into the branch that is checked out, or change nothing
  penstock trees clean --dry-run     which trees would be removed, and why others are kept
  penstock trees clean               remove the trees whose files are all in a branch or another ref

A tree is the directory of an agent, as `penstock run --worktree` makes it: a clone beside the repository, not a linked
worktree. It is removed only if Penstock made it, no process works in it, and all its files are in a ref of the
repository. Ignored files are not counted. The tree of a loop is kept until the loop has landed. Branches are never
removed. TREE is its name (run-ID-AGENT), branch or directory, or its agent if that has one tree here.
"""

ACTIONS = {"clean": (0, 0), "diff": (1, 2), "merge": (1, 1)}
"""Actions, with how many trees each needs and takes."""


def command(args: list[str]) -> int:
    """Run `penstock trees` and return the exit status."""
    options = parser().parse(args)
    _check(options)
    show_warnings()
    root = None if options.all else root_of(current_directory())
    if options.action in ("diff", "merge"):
        return _with_work(options, root)
    chosen = [home for home in homes(data_path()) if root is None or _is_of(home, root)]
    found = [_with_loop(status_of(home)) for home in chosen]
    left: list[Leftover] = []
    if options.action == "clean":
        needed = {status.record.name for status in found if not status.is_removable}
        left = _cleaned_leftovers(root, needed, options)
        found = found if options.dry_run else [_removed(status) for status in found]
    if options.json:
        objects = [*map(_json, found), *map(_json_of_leftover, left)]
        return pass_on(msgspec.json.Encoder().encode_lines(objects))
    if not found and not left:
        return say("There are no trees.\n")
    if options.action == "clean":
        return say(_cleaned(found, left, dry=options.dry_run))
    return say(as_text(found, now_ms()))


def parser() -> Parser:
    """Return the parser of the command."""
    text = "List the trees in which agents have worked, compare and merge their work, or remove those not needed."
    arguments = "[clean | diff TREE [TREE] | merge TREE] [options]"
    made = Parser("trees", text, examples=EXAMPLES, arguments=arguments)
    text = "clean: remove those not needed · diff: compare their work · merge: merge the branch of one into yours"
    made.add_argument("action", nargs="?", choices=tuple(ACTIONS), metavar="ACTION", help=text)
    made.add_argument("names", nargs="*", metavar="TREE", help="its name, branch or directory, or its agent")
    made.add_argument("--all", action="store_true", help="of all repositories, not only of the one of this directory")
    made.add_argument("--dry-run", action="store_true", help="with clean: remove nothing, only show what would be")
    made.add_argument(
        "--older-than",
        type=number(ABOVE_0),
        metavar="DAYS",
        help="with clean: also remove files that were moved out of trees, and trees that were given up, if older",
    )
    made.add_argument("--json", action="store_true", help="as one JSON object a line, with all that is known")
    return made


def _check(options: Namespace) -> None:
    """Check that the words and options belong to the action.

    Raises:
        UsageError: they do not.
    """
    names, action = options.names, options.action
    fewest, most = ACTIONS.get(action, (0, 0))
    if len(names) > most:
        raise UsageError(f"{shown(names[most])} is one argument too many", help="see penstock trees --help")
    if len(names) < fewest:
        raise UsageError(f"penstock trees {action} needs a tree", help="penstock trees lists them")
    if most and (options.all or options.json):
        flag = "--all" if options.all else "--json"
        raise UsageError(f"{flag} is for lists, not for penstock trees {action}", help="leave it out")


def _with_work(options: Namespace, root: str | None) -> int:
    """Compare or merge the work of trees and return the exit status."""
    from penstock.cli.tree_work import diff_work, merge_work  # the list needs no display

    found = [read_record(home) for home in homes(data_path()) if root is not None and _is_of(home, root)]
    records = [record for record in found if record is not None]
    if options.action == "diff":
        return diff_work(root, records, options.names)
    return merge_work(root, records, options.names[0])


def _is_of(home: Path, root: str) -> bool:
    """Return whether a tree belongs to the repository with this top directory, or is that directory."""
    record = read_record(home)
    return record is not None and root in (record.repository, record.path)


def as_text(found: Sequence[TreeStatus], now: int) -> str:
    """Return the trees as a table for people."""
    rows = [("made", "by", "agent", "files", "directory")]
    for status in found:
        record = status.record
        rows.append((when(record.made_at, now), record.owner, record.label, status.text, record.path))
    return columns(rows)


def _with_loop(status: TreeStatus) -> TreeStatus:
    """Return the state of a tree; a tree that its loop still needs counts as in use."""
    if status.record.owner != "loop" or status.state != "saved":
        return status
    why = _reason_of_loop(status.record.name)
    return TreeStatus(status.record, "used", why) if why else status


def _reason_of_loop(name: str) -> str:
    """Return why a loop still needs the tree of this name; "" if none does."""
    from penstock.loop.loops import loops, reason_to_keep  # only a tree of a loop needs it

    loop = next((loop for loop in loops(data_path()) if loop.id == name.partition(".")[0]), None)
    return reason_to_keep(loop) if loop is not None else ""


def _removed(status: TreeStatus) -> TreeStatus:
    """Remove a tree if the rule allows it; return its state at the time of removal."""
    if not status.is_removable:
        return status
    home = next(home for home in homes(data_path()) if home.name == status.record.name)
    try:
        return remove(home)
    except (PenstockError, OSError) as error:
        return TreeStatus(status.record, "unknown", one_line(f"it cannot be removed: {error}"))


def _cleaned_leftovers(root: str | None, needed: Collection[str], options: Namespace) -> list[Leftover]:
    """Remove what the trees of a repository have left, except for trees that are needed; return all leftovers."""
    found: list[Leftover] = []
    for name in names_with_leftovers(data_path()):
        records = records_of(data_path(), name)
        is_here = root is None or any(root in (record.repository, record.path) for record in records)
        if is_here and name not in needed and not _reason_of_loop(name):
            try:
                found += clean_leftovers(data_path(), name, before=days_ago(options.older_than), dry=options.dry_run)
            except OSError as error:
                found.append(Leftover(name, f"what {name} has left", f"it cannot be removed: {error}", False))
    return found


def _cleaned(found: Sequence[TreeStatus], left: Sequence[Leftover], *, dry: bool) -> str:
    verb = "would be removed" if dry else "removed"
    rows = [(one.is_removable, one.path, one.text) for one in left]
    rows += [(status.is_removable, status.record.path, status.text) for status in found]
    return columns([(verb if is_removable else "kept", *words) for is_removable, *words in rows], has_heads=False)


def _json_of_leftover(left: Leftover) -> dict[str, object]:
    return {"name": left.name, "path": left.path, "state": "left", "text": left.text, "removable": left.is_removable}


def _json(status: TreeStatus) -> dict[str, object]:
    own = ("name", "owner", "label", "path", "repository", "base", "branch", "made_at")
    fields = msgspec.structs.asdict(status.record)
    return {name: fields[name] for name in own} | {
        "state": status.state,
        "text": status.text,
        "paths": status.paths,
        "removable": status.is_removable,
    }
