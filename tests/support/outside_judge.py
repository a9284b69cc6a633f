"""What tests of attacks compare: all files of a user's checkout, and the processes that are left."""

from __future__ import annotations

import os
from pathlib import Path


def everything(root: Path) -> dict[str, object]:
    """Return all that is in the user's checkout and its git directory but Penstock's own refs and new objects."""
    found: dict[str, object] = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        own = "penstock" in name or name.startswith(".git/objects/")
        if not own and (path.is_symlink() or not path.is_dir()):
            status = path.lstat()
            content = str(path.readlink()) if path.is_symlink() else path.read_bytes()
            found[name] = (status.st_mode, status.st_ino, content)
    return found


def processes_with(text: str) -> list[int]:
    """Return the processes whose command line has a text."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if text.encode() in (folder / "cmdline").read_bytes() and int(folder.name) != os.getpid():
                found.append(int(folder.name))
        except OSError:
            continue
    return found
