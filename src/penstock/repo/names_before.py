"""Names of the files in a directory before a turn, to know which files are new.

An agent that writes a file rarely reports whether there was one. Its directory is listed while it starts: a name that
is not in a list was not there. A directory that was not listed, or too late, only makes that unknown.
"""

from __future__ import annotations

import os
import time

from penstock.repo.held import PRODUCTS
from penstock.repo.left_files import parts_below
from penstock.repo.project_files import folded

MAX_NAMES = 50_000
"""Number of names that are read: more than most sources have, and soon read."""

MAX_SECONDS = 1.0
"""Time in seconds for reading them: no agent works sooner than its model answers."""

LEFT_OUT = frozenset({".git", *PRODUCTS})
"""Names of directories that are not read: no agent edits files in them."""


class NamesBefore:
    """Names in one directory and below it. `read` blocks, and may run in a thread."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._folders: dict[tuple[str, ...], set[str]] = {}

    def read(self) -> None:
        """Read the names, those of the upper directories first."""
        end = time.monotonic() + MAX_SECONDS
        todo: list[tuple[str, tuple[str, ...]]] = [(self._root, ())]
        left = MAX_NAMES
        for folder, parts in todo:  # which grows
            names: set[str] = set()
            below: list[tuple[str, tuple[str, ...]]] = []
            try:
                with os.scandir(folder) as entries:
                    for entry in entries:
                        left -= 1
                        if left < 0 or time.monotonic() > end:
                            return
                        name = folded(entry.name)
                        names.add(name)
                        if entry.name not in LEFT_OUT and entry.is_dir(follow_symlinks=False):
                            below.append((entry.path, (*parts, name)))
            except OSError:
                continue
            self._folders[parts] = names
            todo += below

    def lacks(self, path: str) -> bool:
        """Return whether it is certain that there was no file with this absolute path."""
        parts = tuple(map(folded, parts_below(self._root, path) or ()))
        for place, name in enumerate(parts):
            names = self._folders.get(parts[:place])
            if names is None:
                return False
            if name not in names:
                return True
        return False
