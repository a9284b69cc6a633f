"""Links out of the state of an agent, made by a confined run.

A later run outside of the confinement writes conversations and histories there, and would write through such a link
into any file of the user. A link into the working directory counts too: what is there can become a link later, by
another run or with a project's next commit.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from penstock.run.git_directories import MAX_DIRECTORIES, SLACK_SECONDS


class LinkSearch:
    """Search of directories for links that are new since a time.

    Args:
        folders: real paths of the directories.
        since: time of `time.time`.
    """

    def __init__(self, folders: Iterable[str], since: float) -> None:
        self.unseen: list[str] = []
        """Directories that were not searched completely."""
        self._folders = tuple(dict.fromkeys(folders))
        self._since = int((since - SLACK_SECONDS) * 1e9)
        self.links: list[str] = sorted(self._found())
        """Paths of the links that lead out."""

    def _found(self) -> Iterator[str]:
        left = MAX_DIRECTORIES
        for folder in self._folders:
            todo = [folder]
            while todo and left:
                left -= 1
                try:
                    with os.scandir(todo.pop()) as entries:
                        for entry in entries:
                            if entry.is_symlink():
                                if self._is_new(entry) and not self._is_inside(entry.path):
                                    yield entry.path
                            elif entry.is_dir():
                                todo.append(entry.path)
                except FileNotFoundError:
                    continue  # removed just now
                except OSError:
                    self.unseen.append(folder)
            if todo:
                self.unseen.append(folder)

    def _is_new(self, entry: os.DirEntry[str]) -> bool:
        return entry.stat(follow_symlinks=False).st_ctime_ns >= self._since

    def _is_inside(self, path: str) -> bool:
        real = os.path.realpath(path)
        return any(os.path.commonpath((real, place)) == place for place in self._folders)
