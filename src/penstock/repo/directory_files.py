"""Names of the files in a directory, for completion."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from penstock.errors import PenstockError

GIT_SECONDS = 2.0
"""Timeout in seconds for git's list of files: a person waits for it."""
WALK_SECONDS = 1.0
"""Timeout in seconds for walking through a directory that is not a repository."""
MAX_FILES = 20_000
"""Number of files that are offered."""
FRESH_SECONDS = 5.0
"""Seconds after which the list is made anew."""

NOT_A_REPOSITORY = 128
"""Exit status of git outside a repository."""


class DirectoryFiles:
    """List of the files and folders in a directory, made anew when it is used after some seconds."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._paths: list[str] = []
        self._made_at: float | None = None
        self._lock = threading.Lock()

    def paths(self) -> list[str]:
        """Return the relative paths, those of folders with a slash at the end."""
        with self._lock:  # of several threads one makes the list, for which the others wait
            if self._made_at is None or time.monotonic() - self._made_at > FRESH_SECONDS:
                self._paths = with_folders(_files(self._directory))
                self._made_at = time.monotonic()
            return self._paths


def matching(paths: Iterable[str], typed: str) -> list[str]:
    """Return the paths that contain the typed text: first those that begin with it, then those whose file names do."""
    wanted = typed.lower()
    ranked = []
    for path in paths:
        lower = path.lower()
        if wanted in lower:
            name = lower.rstrip("/").rpartition("/")[2]
            rank = 0 if lower.startswith(wanted) else 1 if name.startswith(wanted) else 2
            ranked.append((rank, lower.count("/"), path))
    return [path for _, _, path in sorted(ranked)]


def with_folders(files: Iterable[str]) -> list[str]:
    """Return these files and their folders, sorted.

    Names that a terminal would act on are left out, and so are those that are not text.
    """
    shown = [path for path in files if path.isprintable()]
    folders = {path[: at + 1] for path in shown for at, char in enumerate(path) if char == "/"}
    return sorted({*shown, *folders})


def _files(directory: str) -> list[str]:
    """Return the files that git does not ignore; all files if there is no repository."""
    from penstock.repo.git import Git  # a server whose people complete nothing needs no git

    try:
        done = Git(Path(directory)).run(
            "ls-files", "-co", "--exclude-standard", "-z", seconds=GIT_SECONDS, accepts=(0, NOT_A_REPOSITORY)
        )
    except PenstockError:
        return []  # too slow, or no git
    if done.status == NOT_A_REPOSITORY:
        return list(_walk(directory))
    return done.items[:MAX_FILES]


def _walk(directory: str) -> Iterator[str]:
    """Yield the files below a directory that are not hidden, within the limits."""
    end = time.monotonic() + WALK_SECONDS
    left = MAX_FILES
    for folder, folders, files in os.walk(directory):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in files:
            if left <= 0 or time.monotonic() > end:
                return
            left -= 1
            if not name.startswith("."):
                yield os.path.relpath(os.path.join(folder, name), directory)
