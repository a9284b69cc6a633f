"""Reading of files that an agent may have replaced by something else."""

from __future__ import annotations

import os
import stat


def content_of(path: str, most: int) -> bytes | None:
    """Return the content of a regular file; None for anything else, and for one with more than so many bytes."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None  # a pipe would wait for ever
        content = file.read(most + 1)
    return content if len(content) <= most else None
