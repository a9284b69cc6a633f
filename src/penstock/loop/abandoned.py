"""Abandoned trees of a loop: a tree that an agent or a check replaced is left as it is, and a new one is made."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

import msgspec

from penstock.errors import UsageError
from penstock.loop.rows import TreeGone
from penstock.loop.steps import AgentEnded, RunAgent
from penstock.loop.workspace import LoopWorkspace
from penstock.repo.place import TreeAbandoned

MAX_ABANDONED = 20
"""Number of abandoned trees at which a loop ends: each stays on the disk, with all files."""


class AbandonedTrees:
    """Abandoned trees whose rows are not yet written.

    Args:
        workspaces: the tree of the loop, and those of its candidates by their numbers.
    """

    def __init__(self, workspaces: Sequence[LoopWorkspace]) -> None:
        self._workspaces = workspaces
        self._found: dict[int, TreeAbandoned] = {}
        self._count = 0

    def add(self, error: TreeAbandoned, candidate: int | None = None) -> None:
        """Note that the tree of a candidate cannot be used; by default the one that the error names."""
        if candidate is None:
            matches = (n for n, workspace in enumerate(self._workspaces) if workspace.path == error.path)
            candidate = next(matches, 0)
        self._found.setdefault(candidate, error)

    def __contains__(self, candidate: int) -> bool:
        return candidate in self._found

    def rows(self) -> Iterator[Callable[[int, int], TreeGone]]:
        """Give up each of these trees, and yield the maker of its row from number and time.

        Raises:
            UsageError: too many were given up.
        """
        for candidate, error in [*self._found.items()]:
            self._workspaces[candidate].abandon()
            yield _row(candidate, error)
            del self._found[candidate]
            self._count += 1
            if self._count > MAX_ABANDONED:
                what = f"{self._count} trees of the loop could not be used, the last one, {error.path}, {error.why}"
                raise UsageError(what, help="look at who replaces them: an agent, a check, or another program")


def unusable(step: RunAgent, ended: AgentEnded, why: str, before: str) -> AgentEnded:
    """Return the result of an agent whose files cannot be used; what a reviewer, planner or judge says neither.

    `before` is the tree of git with which the step began.
    """
    if step.role == "work":
        return msgspec.structs.replace(ended, unusable=why, tree=before)
    if ended.outcome == "lost":
        return ended
    no_words = {"verdict": None, "tasks": (), "better": 0, "question": ""}
    return msgspec.structs.replace(ended, outcome="error", cause="agent", reason=why, **no_words)


def _row(candidate: int, error: TreeAbandoned) -> Callable[[int, int], TreeGone]:
    is_there = os.path.lexists(error.path)

    def make(n: int, at: int) -> TreeGone:
        return TreeGone(n, at, candidate, error.path if is_there else "", error.why if is_there else "")

    return make
