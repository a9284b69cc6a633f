"""The file of the SQLite log: who may open it, its form, and what its failures mean."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

from penstock.chat.store.protocol import LogFailed
from penstock.errors import UsageError

APPLICATION = int.from_bytes(b"Pstk", "big")
"""In the header of each file, so that no other program's database is taken for a log."""

BUSY_MS = 5000
"""How long a lock of someone who looks into the file is waited for."""

MAX_WAL_BYTES = 64 * 1024 * 1024


class LogHeld(UsageError):
    """Another process has the log; `holder` is its id, where it is known."""

    def __init__(self, path: Path, holder: int | None, told: str) -> None:
        self.holder = holder
        super().__init__(
            f"the event log {str(path)!r} is in use by {told}",
            expected="one process for one log",
            way_out="end that process, or use another file",
        )


class LogTooNew(UsageError):
    """A newer Penstock wrote the file. It was left as it is."""

    def __init__(self, path: Path, version: int) -> None:
        self.version = version
        super().__init__(
            f"the event log {str(path)!r} has form {version}, and this Penstock knows forms up to {len(MIGRATIONS)}",
            way_out="use the Penstock that wrote it, or a newer one",
        )


class Lock:
    """The one process that has the log: a lock on a file beside it, which the system lets go when the process ends.

    It is a file of its own because SQLite has locks on the database, which closing any other handle would undo. It is
    never deleted: another process may be about to lock it.
    """

    def __init__(self, path: Path) -> None:
        """Take it.

        Raises:
            LogHeld: someone else has it.
            OSError: the file cannot be made.
        """
        self._fd = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            us = {"pid": os.getpid(), "host": socket.gethostname(), "since": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, json.dumps(us).encode() + b"\n", 0)
        except BlockingIOError as error:
            holder, told = _holder(os.pread(self._fd, 1000, 0))
            os.close(self._fd)
            raise LogHeld(path, holder, told) from error
        except BaseException:
            os.close(self._fd)
            raise

    def release(self) -> None:
        """Let others have the log."""
        os.close(self._fd)


def _holder(note: bytes) -> tuple[int | None, str]:
    try:
        said = json.loads(note)
        pid = int(said["pid"])
        own = " (this one)" if pid == os.getpid() and said["host"] == socket.gethostname() else ""
        return pid, f"the process {pid}{own} on {said['host']}, since {said['since']}"
    except (ValueError, TypeError, KeyError):
        return None, "another process"


def caution(version: tuple[int, int, int] = sqlite3.sqlite_version_info) -> str | None:
    """What to beware of with this version of SQLite, None where nothing is known."""
    if version >= (3, 51, 3):
        return None
    return (
        f"SQLite {'.'.join(map(str, version))} can damage a database that several connections write to at once "
        "(fixed in 3.51.3). Penstock writes through one; let no other program write to the event log"
    )


def failure(error: sqlite3.Error | OSError, path: Path) -> LogFailed:
    """What an error of SQLite or of the system means for a person."""
    named = f"the event log {str(path)!r}"
    if isinstance(error, OSError):
        return LogFailed(
            f"{named} cannot be used: {error.strerror or error}", way_out="look at the folder and its disk"
        )
    name = str(getattr(error, "sqlite_errorname", ""))
    kind = "_".join(name.split("_")[:2])
    said = f" ({name}: {error})" if name else f" ({error})"
    lasting = kind in ("SQLITE_CORRUPT", "SQLITE_NOTADB")
    what, way_out = _MEANINGS.get(kind, ("failed", "try again"))
    return LogFailed(f"{named} {what}{said}", way_out=way_out, lasting=lasting)


_MEANINGS = {
    "SQLITE_FULL": ("cannot grow: the disk is full", "make room, and try again"),
    "SQLITE_IOERR": ("cannot be read or written", "look at its disk: it fails, or is full"),
    "SQLITE_READONLY": ("may not be written", "give Penstock the right to write the file and its folder"),
    "SQLITE_PERM": ("may not be used", "give Penstock the right to use the file and its folder"),
    "SQLITE_CANTOPEN": ("cannot be opened", "look at the file and its folder, and the right to use them"),
    "SQLITE_BUSY": ("is locked by another program", "end the program that looks into it, and try again"),
    "SQLITE_CORRUPT": ("is damaged", "restore it from a backup, and keep the damaged file with its -wal file"),
    "SQLITE_NOTADB": ("is no SQLite database", "name another file, or restore this one from a backup"),
}


def connect(path: Path, *, write: bool) -> sqlite3.Connection:
    """A connection, in no transaction.

    Raises:
        sqlite3.Error: it cannot be made.
    """
    uri = f"{path.as_uri()}?mode={'rw' if write else 'ro'}"
    # Closed by whoever closes the log; used by one thread at a time.
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
    try:
        connection.execute(f"PRAGMA busy_timeout={BUSY_MS}")
    except BaseException:
        connection.close()
        raise
    return connection


def make_file(path: Path) -> None:
    """Make an empty file that no one else may read, where there is none.

    Raises:
        OSError: it cannot be made.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return
    os.close(fd)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """The names in a folder outlast a power cut.

    Raises:
        OSError: its disk fails.
    """
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Make the file of today's form, and the connection one that writes through to the disk.

    Raises:
        LogTooNew: the file is of a form that came later. It is not touched.
        UsageError: it is no log.
        sqlite3.Error: it cannot be used.
    """
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if application == APPLICATION and version > len(MIGRATIONS):
        raise LogTooNew(path, version)
    if application != APPLICATION and (version or application or (tables and not _is_form_0(connection, tables))):
        raise UsageError(f"{str(path)!r} is a database, but no event log", way_out="name another file")
    if not tables:
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
    mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
    if mode != "wal":
        raise LogFailed(
            f"the event log {str(path)!r} cannot be used: its file system has no shared memory",
            way_out="put it on a local disk",
        )
    for pragma in ("synchronous=FULL", "fullfsync=1", "foreign_keys=1", f"journal_size_limit={MAX_WAL_BYTES}"):
        connection.execute(f"PRAGMA {pragma}")
    _migrate(connection, version)
    # A file that cannot be written is told now, not by the first append.
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("ROLLBACK")


def _is_form_0(connection: sqlite3.Connection, tables: set[str]) -> bool:
    columns = [row[1] for row in connection.execute("PRAGMA table_info(events)")]
    return tables == {"events"} and columns == ["sid", "seq", "data"]


def _migrate(connection: sqlite3.Connection, version: int) -> None:
    """All steps, or none, that lead from a form to today's."""
    if version == len(MIGRATIONS):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for number, statements in enumerate(MIGRATIONS[version:], version + 1):
            for statement in statements:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version={number}")
        connection.execute(f"PRAGMA application_id={APPLICATION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        # The key of an entry is its place in the order in which all chats were written: the oldest goes first.
        """CREATE TABLE chats (
            id INTEGER PRIMARY KEY,
            name TEXT NOT NULL UNIQUE,
            first INTEGER NOT NULL,
            last INTEGER NOT NULL,
            bytes INTEGER NOT NULL
        ) STRICT""",
        """CREATE TABLE entries (
            id INTEGER PRIMARY KEY,
            chat INTEGER NOT NULL REFERENCES chats (id),
            number INTEGER NOT NULL,
            at INTEGER NOT NULL,
            data BLOB NOT NULL,
            UNIQUE (chat, number)
        ) STRICT""",
        # Form 0 had no chats, no times and no trimming; a new file has none of its rows.
        "CREATE TABLE IF NOT EXISTS events (sid TEXT, seq INTEGER, data BLOB, PRIMARY KEY (sid, seq))",
        """INSERT INTO chats (name, first, last, bytes)
            SELECT sid, min(seq), max(seq), sum(length(data)) FROM events GROUP BY sid""",
        """INSERT INTO entries (chat, number, at, data)
            SELECT chats.id, seq, CAST(strftime('%s', 'now') AS INTEGER) * 1000, CAST(data AS BLOB)
            FROM events JOIN chats ON name = sid ORDER BY events.rowid""",
        "DROP TABLE events",
    ),
)
"""The statements that lead to form 1, 2, …; a file of an older form goes through those that it has not seen.

What was released is never changed: a new form is a new entry.
"""
