"""Checks of a merge before it lands: the user's branch has gone on, so the merged files are untested."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from penstock.config.settings import Config
from penstock.loop.checks import DEFAULT_SECONDS, CommandRun
from penstock.loop.loops import LoopFolder
from penstock.loop.reach import confinement_of, environment_of, surroundings_of
from penstock.loop.state import LoopState
from penstock.loop.steps import CommandEnded
from penstock.loop.workspace import LoopWorkspace
from penstock.repo.landing import NotLanded
from penstock.repo.place import LEFT_RUNNING, TreeAbandoned
from penstock.run.inside import FOLDER_MARK
from penstock.run.marked import end_marked
from penstock.run.network import Network

FOLDER = "landing"
"""Directory in the folder of a loop with the output of these checks."""


class MergeCheck:
    """Checks of a loop on a merge, in the tree of the loop. Call it with the user's commit and the merged tree.

    Args:
        data: the data directory.
        found: the loop; no other process may work on it meanwhile.
        show: receives a line for each command that has ended.
    """

    def __init__(self, data: Path, found: LoopFolder, show: Callable[[str, CommandEnded], None]) -> None:
        self._found = found
        self._state: LoopState = found.state
        self._show = show
        self._workspace = LoopWorkspace(data, found.path, found.state.began)

    def __call__(self, head: str, merged: str) -> NotLanded | None:
        """Run the setup if the tree has to be made again, and all checks; return why the merge cannot land.

        Raises:
            PenstockError: the tree cannot be made or written.
        """
        state, workspace = self._state, self._workspace
        is_clear = end_marked(FOLDER_MARK, os.path.realpath(self._found.path))
        try:
            if not is_clear or workspace.problem:
                workspace.abandon()
                workspace.make(head, merged)
                if state.settings.setup:
                    ended = self._run(state.settings.setup, "setup", head, merged, "all")
                    if not ended.is_green:
                        return self._red("the setup", state.settings.setup, ended.output)
            for number, command in enumerate(state.settings.checks, 1):
                log = f"check-{number}"
                if not self._run(command, log, head, merged).is_green:
                    ended = self._run(command, f"{log}-again", head, merged)
                    if not ended.is_green:
                        return self._red("a check", command, ended.output)
            workspace.restore(state.files)  # as the loop left it
            return None
        finally:
            workspace.close()

    def _run(self, command: str, log: str, head: str, merged: str, network: Network | None = None) -> CommandEnded:
        workspace = self._workspace
        workspace.restore(merged)
        workspace.put_back(head)
        workspace.renew(head)
        seconds = self._state.settings.check_seconds or DEFAULT_SECONDS
        env = environment_of(self._found.id, self._found.path, Config())
        directory = workspace.directory()
        if directory is None:
            ended = CommandEnded(reason=f"{self._state.began.directory} is no longer a directory of the tree")
        else:
            settings = self._state.settings
            around = surroundings_of(self._found.path.parent.parent, workspace.repository, workspace.path)
            confinement = confinement_of(settings, around, directory, env, network or settings.check_network)
            run = CommandRun(command, directory, env, seconds, confinement=confinement.words)
            ended = run.to_end(self._found.path / FOLDER / f"{log}.txt")
            if run.has_left:
                path = workspace.path
                workspace.abandon()
                raise TreeAbandoned(path, LEFT_RUNNING)
        self._show(command, ended)
        return ended

    def _red(self, what: str, command: str, output: str) -> NotLanded:
        self._workspace.restore(self._state.files)
        help = f"an agent repairs it in the tree of the loop: penstock loop land {self._found.id} --resolve · "
        help += "without these checks: --unchecked"
        return NotLanded(
            f"{what} fails on the merge with your branch: {command}", help, output=output, is_resolvable=True
        )
