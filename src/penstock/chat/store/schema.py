"""Form of the SQLite file: its tables, its number, and the files that are rejected."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from penstock.chat.store.protocol import StoreFailed
from penstock.errors import UsageError

APPLICATION = int.from_bytes(b"Pstk", "big")
"""Application id in the header of each file, so that no other program's database is mistaken for a store."""

FORM = 3
"""Number of the current form (`user_version`). A change of the tables is a new form."""

OLDEST_FORM = 2
"""Number of the oldest form that is changed into the current one: the first that a release had."""

REWRITE = f"PRAGMA user_version={FORM}"
"""Statement that writes to the file and changes nothing."""

MAX_WAL_BYTES = 64 * 1024 * 1024
"""Bytes to which the -wal file is cut after a checkpoint, so that a long burst does not leave a large file."""


class StoreTooOld(UsageError):
    """The file is of a form that no release had. It was left as it is."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"the chats in {str(path)!r} were kept by an early version of Penstock, and cannot be read by this one",
            expected=f"a store of form {FORM}",
            help=f"move {path.name} and the files beside it that begin with its name to another directory, "
            "or name another one with --data",
        )


class StoreTooNew(UsageError):
    """A newer Penstock wrote the file. It was left as it is."""

    def __init__(self, path: Path, form: int) -> None:
        self.form = form
        super().__init__(
            f"the store {str(path)!r} has form {form}, and this Penstock knows forms up to {FORM}",
            help="use the Penstock that wrote it, or a newer one",
        )


def prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Create the tables in a new file, or change those of an older form, and make the connection write to the disk.

    Raises:
        StoreTooOld, StoreTooNew: the file is of another form. It is not changed.
        UsageError: the file is a database, but not a store.
        sqlite3.Error: the file cannot be used.
    """
    form = connection.execute("PRAGMA user_version").fetchone()[0]
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if application == APPLICATION and form > FORM:
        raise StoreTooNew(path, form)
    if (application == APPLICATION and form < OLDEST_FORM) or _is_unnumbered(connection, tables):
        raise StoreTooOld(path)
    if application != APPLICATION and (form or application or tables):
        raise UsageError(f"{str(path)!r} is a database, but not a store of chats", help="name another file")
    if not tables:
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
    mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
    if mode != "wal":
        raise StoreFailed(
            f"the store {str(path)!r} cannot be used: its file system has no shared memory",
            help="put it on a local disk",
        )
    for pragma in ("synchronous=FULL", "fullfsync=1", f"journal_size_limit={MAX_WAL_BYTES}"):
        connection.execute(f"PRAGMA {pragma}")
    if not tables:
        _change(connection, TABLES)
    elif form < FORM:
        _change(connection, [statement for step in range(form, FORM) for statement in CHANGES[step]])
    # A file that is not writable fails now, not at the first append.
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("ROLLBACK")


def _is_unnumbered(connection: sqlite3.Connection, tables: set[str]) -> bool:
    """Return whether the file has the form from before forms had numbers."""
    columns = [row[1] for row in connection.execute("PRAGMA table_info(events)")]
    return tables == {"events"} and columns == ["sid", "seq", "data"]


def _change(connection: sqlite3.Connection, statements: Sequence[str]) -> None:
    """Bring the file to the current form, as a whole or not at all."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        for statement in statements:
            connection.execute(statement)
        connection.execute(REWRITE)
        connection.execute(f"PRAGMA application_id={APPLICATION}")
        connection.execute("COMMIT")
    except BaseException:
        connection.rollback()
        raise


TABLES = (
    # `trimmed` is the number up to which entries were dropped. The last number is that of the last entry, or `trimmed`:
    # an append inserts entries and updates nothing.
    """CREATE TABLE chats (
        key INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        agent TEXT NOT NULL,
        cwd TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        model TEXT,
        title TEXT,
        allow TEXT NOT NULL,
        session_id TEXT,
        heartbeat TEXT,
        heartbeat_since INTEGER NOT NULL,
        trimmed INTEGER NOT NULL DEFAULT 0,
        summarized INTEGER NOT NULL DEFAULT 0,
        epoch INTEGER NOT NULL DEFAULT 0,
        node TEXT,
        home TEXT
    ) STRICT""",
    """CREATE TABLE entries (
        chat INTEGER NOT NULL,
        number INTEGER NOT NULL,
        at INTEGER NOT NULL,
        data BLOB NOT NULL,
        PRIMARY KEY (chat, number)
    ) STRICT, WITHOUT ROWID""",
    """CREATE TABLE keys (
        chat INTEGER NOT NULL,
        key TEXT NOT NULL,
        number INTEGER NOT NULL,
        PRIMARY KEY (chat, key)
    ) STRICT, WITHOUT ROWID""",
    """CREATE TABLE turns (
        chat INTEGER NOT NULL,
        turn INTEGER NOT NULL,
        first INTEGER NOT NULL,
        last INTEGER NOT NULL,
        at INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        view BLOB NOT NULL,
        PRIMARY KEY (chat, turn)
    ) STRICT""",
    """CREATE TABLE directories (
        path TEXT PRIMARY KEY,
        trusted_at INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID""",
)
"""Statements that create the current form."""

CHANGES = {2: ("ALTER TABLE chats ADD COLUMN home TEXT",)}
"""Statements that change a form, by its number, into the next one."""
