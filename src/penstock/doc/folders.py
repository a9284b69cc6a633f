"""Folders of documents: the files that are watched in them, also those that are written later.

Hidden files and folders, what git ignores and symbolic links are left out: no link leads out of the folder.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from penstock.errors import PenstockError
from penstock.repo.git import Git

SUFFIXES = (".md", ".markdown")

MAX_DOCUMENTS = 1000
"""Documents of one folder that are watched: each of them is looked at four times a second."""

MAX_ENTRIES = 50_000
"""Names that one look at a folder reads: a tree of packages that git does not ignore may have millions."""


class DocumentFolder:
    """One watched folder.

    Args:
        path: the folder, without symbolic links.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_full: bool = False
        """True if it has more documents, or more names, than are watched."""
        self._known: set[str] = set()
        self._count = 0

    def new_documents(self) -> list[Path]:
        """Return the documents that no earlier look has found."""
        try:
            found = sorted(set(self._found()) - self._known)
        except OSError:
            return []  # the folder, or one in it, was removed just now; the next look sees what is there
        self._known.update(found)
        ignored = self._ignored(found)
        taken = [Path(name) for name in found if name not in ignored][: MAX_DOCUMENTS - self._count]
        self._count += len(taken)
        self.is_full = self.is_full or len(taken) + len(ignored) < len(found)
        return taken

    def _found(self) -> list[str]:
        names: list[str] = []
        entries = 0
        for root, folders, files, descriptor in os.fwalk(self.path, follow_symlinks=False):
            entries += len(folders) + len(files)
            if entries > MAX_ENTRIES:
                self.is_full = True
                break
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in files:
                if name.startswith(".") or not name.lower().endswith(SUFFIXES):
                    continue
                try:
                    mode = os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode
                except OSError:
                    continue  # it was removed just now
                if stat.S_ISREG(mode):
                    names.append(os.path.join(root, name))
        return names

    def _ignored(self, names: list[str]) -> set[str]:
        """Return those of the names that git ignores: none outside of a repository, or without git."""
        if not names:
            return set()
        data = b"".join(os.fsencode(name) + b"\0" for name in names)
        try:
            return set(Git(self.path).run("check-ignore", "-z", "--stdin", data=data, accepts=(0, 1, 128)).items)
        except PenstockError:
            return set()
