"""Whether the paths of a file change are inside the directory in which an agent works."""

from __future__ import annotations

import os
from collections.abc import Iterable


def stays_inside(cwd: str | None, paths: Iterable[str]) -> bool:
    """Return whether all paths lead to files inside `cwd`; False if there are none.

    Links are followed, relative paths count from `cwd`, and what is in a `.git` counts as outside: git runs programs
    that its files name.
    """
    found = list(paths)
    if not found:
        return False
    base = os.path.realpath(cwd or os.curdir)
    return all(_is_inside(base, path) for path in found)


def _is_inside(base: str, path: str) -> bool:
    try:
        real = os.path.realpath(os.path.join(base, path))
        inside = os.path.relpath(real, base).split(os.sep)
    except (OSError, ValueError):  # a NUL, or too many links
        return False
    return inside[0] not in (os.pardir, os.curdir) and ".git" not in (part.lower() for part in inside)
