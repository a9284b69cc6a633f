"""Errors of the system that any step of a command may be the first to meet, such as a full disk."""

from __future__ import annotations

import errno

from penstock.cli.directory import current_directory
from penstock.errors import PenstockError, UsageError, shown

HELP = {
    errno.ENOSPC: "free some space, then type the same again",
    errno.EDQUOT: "free some space, then type the same again",
    errno.EFBIG: "look at the limits of this machine: ulimit -f",
    errno.EROFS: "name another data directory with PENSTOCK_DATA",
    errno.EACCES: "look at its owner and its mode",
    errno.EPERM: "look at its owner and its mode",
    errno.EIO: "look at the disk and the log of the system",
    errno.EMFILE: "look at the limits of this machine: ulimit -n",
    errno.ENFILE: "look at the limits of this machine",
    errno.ENOMEM: "look at the limits of this machine",
}
"""Advice for errors that are never a bug of Penstock."""


def system_problem(error: Exception) -> PenstockError | None:
    """Return the problem to print if the system caused this error; None if the error is a bug."""
    if isinstance(error, FileNotFoundError):
        return _removed_directory()
    if not isinstance(error, OSError) or error.errno not in HELP:
        return None
    name = error.filename2 or error.filename
    what = f"{shown(str(name))} cannot be used" if isinstance(name, str) else "a file cannot be written or read"
    return UsageError(f"{what}: {error.strerror}", help=HELP[error.errno])


def _removed_directory() -> PenstockError | None:
    try:
        current_directory()
    except PenstockError as problem:
        return problem
    return None
