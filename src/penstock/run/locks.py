"""Lock files: the process that works on something holds one, and writes its process id into it."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

PATIENCE_SECONDS = 0.2
"""Seconds for which a lock is tried: `holder` holds it for less than a millisecond when it looks."""

TRY_SECONDS = 0.01
"""Seconds between two attempts."""


def take(fd: int) -> bool:
    """Lock an open file and write the id of this process into it; return False if another process holds it."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(TRY_SECONDS)
    os.ftruncate(fd, 0)
    os.pwrite(fd, b"%d\n" % os.getpid(), 0)
    return True


def holder(path: Path) -> int | None:
    """Return the id of the process with this lock; None if there is none, 0 if its id is unknown."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        text = os.pread(fd, 32, 0).strip()
        return int(text) if text.isdigit() else 0
    finally:
        os.close(fd)  # which also unlocks it
