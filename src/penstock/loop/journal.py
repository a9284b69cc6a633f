"""Journal of a loop on disk: rows are appended and synced before and after each effect. One process may write it."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from penstock.config.data import fsync_directory
from penstock.errors import UsageError
from penstock.loop.rows import VERSION, AnyRow, decode, encode
from penstock.run import locks

FILE_NAME = "journal.ndjson"
LOCK_NAME = "lock"


class _Version(msgspec.Struct):
    row: str
    version: int


class Journal:
    """Journal that this process writes. Use `Journal.open`.

    The lock is held by the open file, so it is released when the process ends, however it ends.
    """

    def __init__(self, folder: Path, lock: int) -> None:
        self.folder = folder
        self.path: Path = folder / FILE_NAME
        self._lock = lock
        self.rows: list[AnyRow] = _cut_to_whole_rows(self.path)
        """All rows."""
        self._fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    @classmethod
    def open(cls, folder: Path) -> Journal:
        """Return the journal of a folder, which is created if it does not exist.

        Raises:
            UsageError: another process writes it, or it cannot be read.
        """
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if not locks.take(lock):
                raise _is_running(folder)
            return cls(folder, lock)
        except BaseException:
            os.close(lock)
            raise

    def append(self, row: AnyRow) -> None:
        """Append a row; it is on disk when this returns.

        Raises:
            OSError: it could not be written; what was written of it is removed.
        """
        size = os.fstat(self._fd).st_size
        data = encode(row)
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(self._fd, left) :]
            os.fsync(self._fd)
        except OSError:
            os.ftruncate(self._fd, size)
            raise
        if not self.rows:
            fsync_directory(self.folder)
        self.rows.append(decode(data))

    def close(self) -> None:
        """Close the journal and release its lock."""
        os.close(self._fd)
        os.close(self._lock)


def read_rows(folder: Path) -> list[AnyRow]:
    """Return the rows of a journal that another process may write. A last line without its end is left out.

    Raises:
        UsageError: there is no journal, or it cannot be read.
    """
    path = folder / FILE_NAME
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise UsageError(f"there is no loop in {folder}") from error
    return _rows_of(data[: data.rfind(b"\n") + 1], path)


def has_begun(folder: Path) -> bool:
    """Return whether the journal of a folder has its first row: a crash may have left a folder without one."""
    try:
        return b"\n" in (folder / FILE_NAME).read_bytes()
    except FileNotFoundError:
        return False


def process_of(folder: Path) -> int | None:
    """Return the id of the process that writes the journal; None if there is none."""
    return locks.holder(folder / LOCK_NAME)


def _is_running(folder: Path) -> UsageError:
    pid = process_of(folder)
    return UsageError(
        f"the loop {folder.name} is run by another process" + (f" ({pid})" if pid else ""),
        help="penstock loop status shows it, penstock loop stop ends it",
    )


def _cut_to_whole_rows(path: Path) -> list[AnyRow]:
    """Return the rows, and remove a last line without its end: a crash cut it off, and its effect did not begin."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    whole = data[: data.rfind(b"\n") + 1]
    rows = _rows_of(whole, path)
    if len(whole) < len(data):
        os.truncate(path, len(whole))
    return rows


def _rows_of(data: bytes, path: Path) -> list[AnyRow]:
    lines = data.split(b"\n")[:-1]
    if lines:
        _check_version(lines[0], path)
    rows: list[AnyRow] = []
    for number, line in enumerate(lines, 1):
        try:
            rows.append(decode(line))
        except msgspec.DecodeError as error:
            raise UsageError(f"line {number} of {path} cannot be read: {error}") from error
    return rows


def _check_version(line: bytes, path: Path) -> None:
    """Check the version before anything else is read, as the rows of another version may have other fields."""
    try:
        first = msgspec.json.decode(line, type=_Version)
    except msgspec.DecodeError as error:
        raise UsageError(f"{path} is not the journal of a loop") from error
    if first.version != VERSION:
        raise UsageError(
            f"{path} has version {first.version} of the journal",
            expected=f"version {VERSION}",
            help="use the version of Penstock that began the loop",
        )
