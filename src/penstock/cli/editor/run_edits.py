"""Files that the runs of one prompt changed: noted while they work, to be taken back."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable

from msgspec.structs import replace

from penstock.agents import registry
from penstock.chat.history.changes import ChangesFold
from penstock.config.data import data_path
from penstock.events import Change, Event
from penstock.repo.left_files import LeftFile, left_files
from penstock.repo.names_before import NamesBefore
from penstock.repo.undo import TurnUndo


class RunEdits:
    """Changes of one prompt in a directory. Call `begin`, `observe` the events, and then `end`."""

    def __init__(self, directory: str, *, may_edit: bool) -> None:
        """`may_edit`: whether the agent may change files; if not, what it reports is no reason to write any."""
        self.directory: str = os.path.realpath(directory)
        """The directory, with all links resolved."""
        self.prompt: str = ""
        """The prompt, for people."""
        self._given = os.path.abspath(directory)
        self._may_edit = may_edit
        self._names = NamesBefore(self.directory)
        self._reading = threading.Thread(target=self._names.read, name="penstock names", daemon=True)
        self._fold = ChangesFold(self.directory, diffs=True)
        self._left: dict[str, LeftFile] = {}

    def begin(self) -> None:
        """Note which files there are, while the agent starts."""
        self._reading.start()

    def observe(self, events: Iterable[Event]) -> None:
        """Note the changes that calls have made."""
        for event in events:
            self._fold.take(event)

    def end(self) -> None:
        """Note how the files are left."""
        paths = [path for it in self.changes() for path in (it.path, it.to) if path is not None]
        if paths and self._may_edit:
            self._reading.join()
            self._left = left_files(self.directory, paths, self._names.lacks)

    @property
    def commands(self) -> int:
        """Number of commands that were called."""
        return self._fold.commands

    def changes(self) -> list[Change]:
        """Return the changed files; paths that an agent gives by a link to the directory are those of the directory."""
        return [
            replace(it, path=self._real(it.path), to=None if it.to is None else self._real(it.to))
            for it in self._fold.joined()
        ]

    def _real(self, path: str) -> str:
        above = self._given.rstrip("/") + "/"
        return f"{self.directory.rstrip('/')}/{path[len(above) :]}" if path.startswith(above) else path

    def undo(self, *, redo: bool = False) -> TurnUndo:
        """Return the undo of these changes, or what makes them again."""
        return TurnUndo(
            self.directory,
            self.changes(),
            self._left,
            redo=redo,
            patterns=registry.project_files().starts,
            closed=[str(data_path())],
        )
