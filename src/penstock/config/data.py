"""Data directory for chats, documents, loops and the history of runs; durable writing of files in it."""

from __future__ import annotations

import errno
import os
import shlex
from collections.abc import Mapping
from pathlib import Path

from penstock.errors import UsageError

DATA_VARIABLE = "PENSTOCK_DATA"
"""Environment variable that names the data directory if no option does."""


NO_FSYNC = frozenset({errno.EINVAL, errno.ENOTSUP})
"""Error numbers from file systems that cannot make the names in a directory durable."""


def data_path(named: Path | None = None, env: Mapping[str, str] | None = None) -> Path:
    """Return the data directory: `named`, else the one from the environment, else the default. It may not exist."""
    env = os.environ if env is None else env
    if named is None and env.get(DATA_VARIABLE):
        named = Path(env[DATA_VARIABLE])
    default = Path(env.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")) / "penstock"
    return (named or default).absolute()


def data_directory(named: Path | None = None) -> Path:
    """Return the data directory; create it if it does not exist, readable only by its owner.

    Raises:
        UsageError: it cannot be created, or others can write into it.
    """
    chosen = named is not None or bool(os.environ.get(DATA_VARIABLE))
    path = data_path(named)
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = path.stat().st_mode
        if not chosen and mode & 0o077:
            path.chmod(0o700)
    except OSError as error:
        why = error.strerror or error
        raise UsageError(f"the data directory {path} cannot be used: {why}", help="--data DIR") from error
    if chosen and mode & 0o022:
        raise UsageError(
            f"others can write into the data directory {path}",
            expected="one that only you can change",
            help=f"chmod go-w {shlex.quote(str(path))} if it is Penstock's alone, else name another one",
        )
    return path


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only its owner can read, and make it durable. Readers see the old content or the new one."""
    new = path.with_name(f"{path.name}.new")
    with open(new, "wb", opener=open_private) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    fsync_directory(path.parent)


def fsync_directory(directory: Path) -> None:
    """Make the names in a directory durable, if the file system can."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in NO_FSYNC:
            raise
    finally:
        os.close(fd)


def open_private(path: str, flags: int) -> int:
    """Open a file that only its owner can read: an `opener` for `open`."""
    return os.open(path, flags | os.O_CLOEXEC, 0o600)
