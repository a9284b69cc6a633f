"""Form of the SQLite file: its tables, its number, and the files that are rejected.

The columns of chats, turns and directories follow from their structs. A file that lacks one gets it when it is opened.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from pathlib import Path

import msgspec

from penstock.chat.store.columns import SQLITE, additions, definitions
from penstock.chat.store.costs import missing_costs
from penstock.chat.store.protocol import StoreFailed
from penstock.chat.store.rows import Attachment, ChatRow, Directory, Share, TurnRow
from penstock.chat.store.search_tables import missing_index
from penstock.errors import UsageError

APPLICATION = int.from_bytes(b"Pstk", "big")
"""Application id in the header of each file, so that no other program's database is mistaken for a store."""

FORM = 3
"""Number of the form (`user_version`). A new column is none; any other change of the tables is a new form."""

REWRITE = f"PRAGMA user_version={FORM}"
"""Statement that writes to the file and changes nothing."""

MAX_WAL_BYTES = 64 * 1024 * 1024
"""Bytes to which the -wal file is cut after a checkpoint, so that a long burst does not leave a large file."""


class OtherForm(UsageError):
    """The file is of another form, which an older or newer Penstock wrote. It was left as it is."""

    def __init__(self, path: Path, form: int) -> None:
        self.form = form
        super().__init__(
            f"the store {str(path)!r} has form {form}, and this Penstock reads form {FORM}",
            help=f"use the Penstock that wrote it; or move {path.name} and the files whose names begin with that "
            "to another directory, or name another one with --data",
        )


def prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Create the tables in a new file, or add the columns that a file lacks, and make the connection write to the disk.

    Raises:
        OtherForm: the file is of another form. It is not changed.
        UsageError: the file is a database, but not a store.
        sqlite3.Error: the file cannot be used.
    """
    form = connection.execute("PRAGMA user_version").fetchone()[0]
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if application == APPLICATION and form != FORM:
        raise OtherForm(path, form)
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
    if tables:
        missing = [*missing_columns(connection), *missing_tables(connection, tables)]
    else:
        missing = [*TABLES, *missing_index(connection, tables), *missing_costs(tables)]
    if missing:
        _change(connection, missing)
    # A file that is not writable fails now, not at the first append.
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("ROLLBACK")


def missing_tables(connection: sqlite3.Connection, tables: Collection[str]) -> list[str]:
    """Return the statements that create the tables which a file of the same form may lack."""
    shares = [] if "shares" in tables else SHARES
    attachments = [] if "attachments" in tables else ATTACHMENTS
    return [*shares, *attachments, *missing_index(connection, tables), *missing_costs(tables)]


def missing_columns(connection: sqlite3.Connection) -> list[str]:
    """Return the statements that add missing columns to the tables. Rows that exist get the defaults of the fields."""
    missing = [
        f"ALTER TABLE {table} ADD COLUMN {added}"
        for table, row in ROWS.items()
        if (present := [found[1] for found in connection.execute(f"PRAGMA table_info({table})")])
        for added in additions(row, SQLITE, present)
    ]
    is_older = any(statement.startswith("ALTER TABLE chats ADD COLUMN reads ") for statement in missing)
    return [*missing, *([READ_BEFORE] if is_older else [])]


def _change(connection: sqlite3.Connection, statements: Sequence[str]) -> None:
    """Change the tables, as a whole or not at all."""
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


ROWS: dict[str, type[msgspec.Struct]] = {
    "chats": ChatRow,
    "turns": TurnRow,
    "directories": Directory,
    "shares": Share,
    "attachments": Attachment,
}
"""Tables whose columns follow from a struct, besides those that `TABLES` names."""

READ_BEFORE = """UPDATE chats SET reads =
    '{"":' || coalesce((SELECT max(turn) FROM turns WHERE chat = key), 0) || '}'"""
"""Statement by which chats from before there were read marks count as read, up to their newest turn."""

SHARES = [
    f"CREATE TABLE shares ({definitions(Share, SQLITE)}, PRIMARY KEY (id)) STRICT, WITHOUT ROWID",
    "CREATE UNIQUE INDEX shares_by_secret ON shares (secret)",
]
"""Statements for a table that files of this form had not from the beginning: a Penstock that does not know it can use
the file."""

ATTACHMENTS = [
    f"""CREATE TABLE attachments (
        {definitions(Attachment, SQLITE)},
        content BLOB NOT NULL,
        UNIQUE (chat, id)
    ) STRICT""",
    "CREATE INDEX attachments_by_turn ON attachments (chat, turn, size)",
    "CREATE INDEX attachments_by_person ON attachments (person, size)",
    "CREATE INDEX attachments_not_sent ON attachments (created_at) WHERE turn = 0",
]
"""Statements for another such table. The content is the last column: what is before it is read without it."""

TABLES = [
    # `trimmed` is the number up to which entries were dropped. The last number is that of the last entry, or `trimmed`:
    # an append inserts entries and updates nothing.
    f"""CREATE TABLE chats (
        key INTEGER PRIMARY KEY,
        {definitions(ChatRow, SQLITE)},
        trimmed INTEGER NOT NULL DEFAULT 0,
        summarized INTEGER NOT NULL DEFAULT 0,
        epoch INTEGER NOT NULL DEFAULT 0,
        node TEXT,
        UNIQUE (id)
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
    f"""CREATE TABLE turns (
        chat INTEGER NOT NULL,
        {definitions(TurnRow, SQLITE)},
        bytes INTEGER NOT NULL,
        PRIMARY KEY (chat, turn)
    ) STRICT""",
    f"CREATE TABLE directories ({definitions(Directory, SQLITE)}, PRIMARY KEY (path)) STRICT, WITHOUT ROWID",
    *SHARES,
    *ATTACHMENTS,
]
"""Statements that create the tables."""
