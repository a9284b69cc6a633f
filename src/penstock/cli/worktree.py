"""`penstock run --worktree`: each agent works in a tree of its own, and its result is a branch."""

from __future__ import annotations

import os
import re
import secrets
import shlex
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from penstock.cli.console import columns, one_line, show_warnings
from penstock.cli.options import RunOptions
from penstock.config.data import data_directory
from penstock.errors import PenstockError, UsageError
from penstock.repo.commit import Stamp, subject_of
from penstock.repo.diffs import stat_between
from penstock.repo.git import clean_environment
from penstock.repo.refs import free_branch
from penstock.repo.repository import Repository
from penstock.repo.result import TreeResult, save_result
from penstock.repo.staging import changes
from penstock.repo.tree import Tree, TreeRecord, place_of
from penstock.repo.trees import home_of, old_trees, remove
from penstock.run.children import become_subreaper
from penstock.run.history import now_ms
from penstock.sinks.sanitize import clean, clean_line

MAX_HELD_SHOWN = 5
"""Maximum number of held-back paths that are shown for each agent; `penstock trees` shows the others."""

MAX_HOOK_LINES = 10
"""Number of last lines of a hook's output that are shown."""

ID_BYTES = 3
"""Random bytes in the name of a run: enough to keep apart the runs in one repository."""


class FinishedTree(msgspec.Struct, frozen=True):
    """A tree whose agent has ended, with its result or the reason why there is none."""

    tree: Tree
    result: TreeResult | None
    problem: str = ""


class RunTrees:
    """Trees of one `penstock run`. `notify` gets messages to the user.

    Raises:
        UsageError: the repository cannot have trees.
    """

    def __init__(self, options: RunOptions, notify: Callable[[str], None]) -> None:
        become_subreaper()
        show_warnings()
        directory = Path(options.asked["cwd"] or ".").resolve()
        self._repository = Repository.at(directory)
        self._repository.check_complete(with_setup=False)
        self._author = self._repository.author()
        self._below = directory.relative_to(self._repository.root.resolve())
        self._id = secrets.token_hex(ID_BYTES)
        self._data = data_directory()
        self._locks: list[int] = []
        self.trees: list[Tree] = []
        self._notify_about(notify)

    def _notify_about(self, notify: Callable[[str], None]) -> None:
        own = len(changes(self._repository.git).paths)
        if own:
            noun = "file that you have" if own == 1 else "files that you have"
            notify(f"the trees begin with the last commit, without the {own:,} {noun} changed and not committed")
        old = len(old_trees(self._data, now_ms()))
        if old:
            notify(f"{old} {'tree is' if old == 1 else 'trees are'} older than two weeks: see penstock trees")

    def add(self, label: str) -> dict[str, Any]:
        """Make a tree for an agent and return the options of its run.

        Raises:
            UsageError: the tree cannot be made, or the directory of the run is not in the last commit.
            GitError: git could not make it.
        """
        name = f"run-{self._id}-{slug(label)}"
        while any(tree.record.name == name for tree in self.trees):
            name += "-2"
        home = home_of(self._data, name)
        record = TreeRecord(
            name=name,
            owner="run",
            label=label,
            path=str(place_of(self._repository, name, home)),
            repository=str(self._repository.root),
            base=self._repository.head() or "",
            branch=free_branch(self._repository, name),
            made_at=now_ms(),
        )
        tree = Tree.make(home, record, self._repository)
        self._locks.append(tree.lock())
        self.trees.append(tree)
        tree.copy_ignored()
        directory = tree.hand_over() / self._below
        if not directory.is_dir():
            raise UsageError(
                f"{self._below} is not in the last commit, so a tree does not have it", help="commit it first"
            )
        return {"cwd": str(directory), "environ": clean_environment(os.environ)}

    def discard(self, count: int) -> None:
        """Remove the newest trees, in which no agent has worked, until `count` are left."""
        while len(self.trees) > count:
            tree = self.trees.pop()
            os.close(self._locks.pop())
            remove(tree.home)

    def finish(self, prompt: str) -> list[FinishedTree]:
        """Save the results of all agents after they have ended; return them in the order of the agents."""
        finished = []
        for tree in self.trees:
            trailers = {"Penstock-Run": tree.record.name, "Penstock-Agent": one_line(tree.record.label)}
            try:
                result = save_result(tree, subject_of(prompt), trailers, Stamp(self._author, int(time.time())))
            except PenstockError as error:
                finished.append(FinishedTree(tree, None, one_line(str(error))))
            else:
                finished.append(FinishedTree(tree, result))
        while self._locks:
            os.close(self._locks.pop())
        return finished


def report(finished: list[FinishedTree], *, with_stat: bool) -> str:
    """Return the results as text: a table, a table of files for each, the held-back paths, and the next commands."""
    rows = [_row(one) for one in finished]
    parts = [columns(rows, has_heads=False)]
    for one in finished:
        parts += _details(one, with_stat=with_stat)
    parts += _next_commands(finished)
    return "".join(parts)


def slug(label: str) -> str:
    """Return the name of an agent in a form that fits into names of branches and directories."""
    return re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")[:40].rstrip("-") or "agent"


def check_worktree(options: RunOptions) -> None:
    """Check that each agent can have a tree.

    Raises:
        UsageError: another option needs the user's own directory.
    """
    if options.interactive:
        raise UsageError("--worktree makes a tree for one prompt, and --interactive asks for several")
    if options.resumes_newest or options.asked["session_id"]:
        what = "an earlier conversation belongs to its directory, and --worktree makes a new one"
        raise UsageError(what, help="leave one of them out")


def _row(one: FinishedTree) -> tuple[str, str, str, str]:
    result, record = one.result, one.tree.record
    if result is None:
        size, branch = "not saved", "–"
    else:
        size, branch = result.size.text, result.branch or "–"
    return record.label, size, branch, os.path.relpath(record.path)


def _details(one: FinishedTree, *, with_stat: bool) -> Iterator[str]:
    name, tree, result = clean_line(one.tree.record.label), one.tree, one.result
    if result is None:
        yield f"penstock: {name}: {one.problem}; the files are in {clean_line(tree.record.path)}\n"
        return
    if result.commit is not None and with_stat:
        yield f"\n{name}\n{clean(stat_between(tree.git, tree.record.base, result.commit))}\n"
    for held in result.held[:MAX_HELD_SHOWN]:
        yield f"penstock: {name}: not committed: {clean_line(held.path)}: {held.text}\n"
    if len(result.held) > MAX_HELD_SHOWN:
        yield f"penstock: {name}: not committed: {len(result.held) - MAX_HELD_SHOWN:,} more\n"
    if not result.hook.passed:
        yield f"penstock: {name}: no branch, as the hook {result.hook.name} failed; {tree.refs}/result has the files\n"
        for line in result.hook.output.splitlines()[-MAX_HOOK_LINES:]:
            yield f"  {clean_line(line)}\n"


def _next_commands(finished: list[FinishedTree]) -> Iterator[str]:
    saved = [one.tree.record for one in finished if one.result is not None and one.result.branch is not None]
    if saved:
        first, *others = (shlex.quote(record.name) for record in saved[:2])
        yield f"\ncompare:  penstock trees diff {' '.join([first, *others])}\nuse:      penstock trees merge {first}\n"
    yield "clean up: penstock trees clean\n"
