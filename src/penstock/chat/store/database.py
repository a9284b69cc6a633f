"""File of the SQLite store: its lock, connections to it, and the meaning of its failures."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
import sqlite3
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from penstock.chat.store.protocol import StoreFailed
from penstock.errors import UsageError

BUSY_MS = 5000
"""Milliseconds to wait for the lock of another program that reads the file."""


class StoreHeld(UsageError):
    """Another process has the store; `holder` is its process id, if it is known."""

    def __init__(self, path: Path, holder: int | None, process: str) -> None:
        self.holder = holder
        super().__init__(
            f"the store {str(path)!r} is in use by {process}",
            expected="one process for one store",
            help="end that process, or use another file",
        )


class Lock:
    """Lock of the one process that has the store. The system releases it when the process ends.

    It is a file of its own because SQLite has locks on the database, which closing any other handle would undo. It is
    never deleted: another process may be about to lock it.
    """

    def __init__(self, path: Path) -> None:
        """Acquire the lock.

        Raises:
            StoreHeld: another process has it.
            OSError: the file cannot be created.
        """
        self._fd = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            us = {"pid": os.getpid(), "host": socket.gethostname(), "since": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, json.dumps(us).encode() + b"\n", 0)
        except BlockingIOError as error:
            holder, process = _holder(os.pread(self._fd, 1000, 0))
            os.close(self._fd)
            raise StoreHeld(path, holder, process) from error
        except BaseException:
            os.close(self._fd)
            raise

    def release(self) -> None:
        """Release the lock."""
        os.close(self._fd)


def _holder(note: bytes) -> tuple[int | None, str]:
    try:
        read = json.loads(note)
        pid = int(read["pid"])
        own = " (this one)" if pid == os.getpid() and read["host"] == socket.gethostname() else ""
        return pid, f"the process {pid}{own} on {read['host']}, since {read['since']}"
    except (ValueError, TypeError, KeyError):
        return None, "another process"


def caution(version: tuple[int, int, int] = sqlite3.sqlite_version_info) -> str | None:
    """Return a warning about this version of SQLite; None if none is known."""
    if version >= (3, 51, 3):
        return None
    return (
        f"SQLite {'.'.join(map(str, version))} can damage a database that several connections write to at once "
        "(fixed in 3.51.3). Penstock writes through one; let no other program write to the store"
    )


def failure(error: sqlite3.Error | OSError, path: Path) -> StoreFailed:
    """Return the error of SQLite or of the system as a `StoreFailed`, in words for a person."""
    named = f"the store {str(path)!r}"
    if isinstance(error, OSError):
        return StoreFailed(f"{named} cannot be used: {error.strerror or error}", help="look at the folder and its disk")
    name = str(getattr(error, "sqlite_errorname", ""))
    kind = "_".join(name.split("_")[:2])
    cause = f" ({name}: {error})" if name else f" ({error})"
    lasting = kind in ("SQLITE_CORRUPT", "SQLITE_NOTADB")
    what, help = _MEANINGS.get(kind, ("failed", "try again"))
    return StoreFailed(f"{named} {what}{cause}", help=help, lasting=lasting)


_MEANINGS = {
    "SQLITE_FULL": ("cannot grow: the disk is full", "free some space, and try again"),
    "SQLITE_IOERR": ("cannot be read or written", "look at its disk: it fails, or is full"),
    "SQLITE_READONLY": ("may not be written", "give Penstock the right to write the file and its folder"),
    "SQLITE_PERM": ("may not be used", "give Penstock the right to use the file and its folder"),
    "SQLITE_CANTOPEN": ("cannot be opened", "look at the file and its folder, and the right to use them"),
    "SQLITE_BUSY": ("is locked by another program", "end the program that looks into it, and try again"),
    "SQLITE_CORRUPT": ("is damaged", "restore it from a backup, and keep the damaged file with its -wal file"),
    "SQLITE_NOTADB": ("is not an SQLite database", "name another file, or restore this one from a backup"),
}


def connect(path: Path, *, write: bool) -> sqlite3.Connection:
    """Return a connection without an open transaction.

    Raises:
        sqlite3.Error: the connection cannot be made.
    """
    uri = f"{path.as_uri()}?mode={'rw' if write else 'ro'}"
    # It is used by one thread at a time, but closed by the thread that closes the store.
    timeout = BUSY_MS / 1000
    return sqlite3.connect(uri, timeout=timeout, isolation_level=None, check_same_thread=False, uri=True)


def write_scratch(folder: Path, size: int) -> None:
    """Write a file of `size` bytes to the disk, and remove it.

    Raises:
        OSError: it cannot be written: the disk is full, or fails.
    """
    with tempfile.TemporaryFile(dir=folder, buffering=0) as scratch:
        left = bytes(size)
        while left:
            left = left[scratch.write(left) :]
        os.fsync(scratch.fileno())


def free_bytes(folder: Path) -> int | None:
    """Return the free bytes for this user on the disk of a folder; None if unknown."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def make_file(path: Path) -> None:
    """Create an empty file with mode 0600, unless it exists.

    Raises:
        OSError: it cannot be created.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return
    os.close(fd)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Write the names in a folder to the disk, so that they survive a power cut.

    Raises:
        OSError: its disk fails.
    """
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
