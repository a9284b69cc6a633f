"""Guard over the files of a tree that rule agents, so that no agent writes the settings under which another one runs.

What starts or redirects something is put back as it was before the first agent worked. Texts for the model are put back
for agents that judge the work of others, for their step alone.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from penstock.agents import registry
from penstock.errors import UsageError
from penstock.loop.steps import PutBackFile
from penstock.repo.base_files import BaseFiles
from penstock.repo.held import is_allowed
from penstock.repo.place import changing
from penstock.repo.project_files import (
    KeptFiles,
    Kind,
    ProjectRules,
    PutBack,
    keep,
    keep_found,
    put_back,
    read_list,
    rules_of,
    unquoted,
    write_list,
)
from penstock.repo.tree import Tree

BASE, SEEN = "project", "worker"
"""Folders in the home of a tree: the files before the first agent worked, and those of the worker that a reviewer does
not see. The second one is there only during a reviewer's step, or if Penstock was killed then."""

MAX_NAMED = 100
"""Files that a row of the journal names; an agent may write any number."""

Takes = Literal["all", "untracked", "tracked"]


class ProjectGuard:
    """Guard over the files of one tree.

    Args:
        home: home of the tree.
        tree: returns the tree.
    """

    def __init__(self, home: Path, tree: Callable[[], Tree]) -> None:
        self._base, self._seen = home / BASE, home / SEEN
        self._tree = tree
        found = registry.project_files()
        self._patterns = found.starts, found.instructs

    def keep(self, takes: Takes = "all") -> None:
        """Keep the files that are in the tree now as those of the base.

        Args:
            takes: `all` for a tree that was just made; `untracked`: files that git does not track, made by a command of
                the user; `tracked`: files of another commit. Others stay as they were kept before.
        """
        tree = self._tree()
        tracked = set(tree.git.run("ls-files", "-z").items)
        new, old = keep(tree.path, self._patterns, self._base, tracked), read_list(self._base) or KeptFiles()
        if takes == "tracked":
            tree_files = {path: one for path, one in new.files.items() if one.is_tracked}
            files = {path: one for path, one in old.files.items() if not one.is_tracked} | tree_files
        elif takes == "untracked":
            files = {path: one for path, one in old.files.items() if one.is_tracked}
            files |= {path: one for path, one in new.files.items() if not one.is_tracked}
        else:  # what was there before a tree was made again, and no commit has
            files = {path: one for path, one in old.files.items() if not one.is_tracked} | new.files
            shutil.rmtree(self._seen, ignore_errors=True)
        write_list(self._base, KeptFiles(files, old.targets | new.targets))

    def put_back(self, accepts: Sequence[str]) -> tuple[PutBackFile, ...]:
        """Put back what starts or redirects something, but for what the user accepts; return what differed.

        A reviewer's view ends with it: texts are the worker's again. Call it after each step.

        Raises:
            TreeAbandoned: a file cannot be put back.
        """
        kept = self._kept_base()
        rules, tree = rules_of(self._patterns, kept), self._tree()

        def is_ruling(path: str, kind: Kind) -> bool:
            return kind == "starts" and not is_allowed(path, accepts)

        with changing(tree.record.path):
            self._end_view(tree, rules)
            return _named(put_back(tree.path, rules, kept, self._base, is_ruling))

    def show_base(self, accepts: Sequence[str]) -> None:
        """Let the next agent see the texts of the base, and what the user accepts as it was, until `put_back`.

        Raises:
            TreeAbandoned: a file cannot be put back.
        """
        kept = self._kept_base()
        rules, tree = rules_of(self._patterns, kept), self._tree()
        chooses = _in_view(accepts)
        with changing(tree.record.path):
            worker = keep_found(tree.path, rules, self._seen, chooses)
            write_list(self._seen, msgspec.structs.replace(worker, accepts=tuple(accepts)))
            put_back(tree.path, rules, kept, self._base, chooses)

    def _end_view(self, tree: Tree, rules: ProjectRules) -> None:
        worker = read_list(self._seen)
        if worker is not None:
            put_back(tree.path, rules, worker, self._seen, _in_view(worker.accepts))
            shutil.rmtree(self._seen)

    def stage(self, commit: str, accepts: Sequence[str]) -> None:
        """Make the entries of the index those of a commit for what was put back, whatever attributes say."""
        kept = {unquoted(path): one for path, one in self._kept_base().files.items()}
        paths = [path for path, one in kept.items() if one.kind == "starts" and one.is_tracked]
        BaseFiles(self._tree(), commit, [path for path in paths if not is_allowed(path, accepts)]).stage()

    def _kept_base(self) -> KeptFiles:
        """Return the list of the base's files.

        Raises:
            UsageError: there is none; without it, all of them would be taken for new.
        """
        kept = read_list(self._base)
        if kept is None:
            what = f"the settings of agents at the beginning of the tree {self._tree().path} are unknown"
            raise UsageError(what, help="remove the tree; when the loop is resumed, it is made again from its refs")
        return kept


def _in_view(accepts: Sequence[str]) -> Callable[[str, Kind], bool]:
    """Return what says whether a reviewer sees a file as it was in the base."""
    return lambda path, kind: kind == "instructs" or is_allowed(path, accepts)


def _named(found: Sequence[PutBack]) -> tuple[PutBackFile, ...]:
    return tuple(PutBackFile(path=one.path, what=one.what) for one in found[:MAX_NAMED])
