"""Tables of the store in PostgreSQL, in one schema: made by numbered migrations, each once.

Columns need no migration: those of a struct that a table lacks are added after the migrations.
"""

from __future__ import annotations

from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, NamedTuple

import msgspec
import psycopg
from procrastinate.schema import SchemaManager
from psycopg.sql import SQL

from penstock.chat.store.columns import POSTGRES, additions
from penstock.chat.store.logins import Browser
from penstock.chat.store.postgres.connections import failure, parameters
from penstock.chat.store.rows import Attachment, ChatRow, Directory, Share, TurnRow
from penstock.errors import UsageError

LOCK = 0x50656E73746F636B
"""Number of the advisory lock under which migrations are made: the letters of the program's name."""

PROCRASTINATE = 1
"""Number of the migration that makes the tables of procrastinate."""

ROWS: dict[str, tuple[type[msgspec.Struct], str]] = {
    "chats": (ChatRow, "id"),  # the id of a chat is in heads
    "turns": (TurnRow, ""),
    "directories": (Directory, ""),
    "browsers": (Browser, ""),
    "shares": (Share, ""),
    "attachments": (Attachment, ""),
}
"""Tables whose columns follow from a struct, each with the field that is in another table."""

ENCODING = "UTF8"
"""Encoding of the database: titles and paths have any characters."""


class Migration(NamedTuple):
    """Statements that change the tables, made once."""

    number: int
    name: str
    text: str


class DatabaseTables(NamedTuple):
    """Tables that a database has."""

    migrations: dict[int, str]
    """Names of the migrations that were made, by their numbers."""
    missing: dict[str, list[str]]
    """Definitions of the columns that tables lack, by the names of the tables."""


class SchemaTooOld(UsageError):
    """The database has no tables of the store, or those of an older version."""

    def __init__(self, found: DatabaseTables) -> None:
        self.found: int = max(found.migrations, default=0)
        had = f"has the tables of migration {self.found}" if self.found else "has no tables of Penstock"
        if self.found >= newest():
            had = "lacks columns: " + ", ".join(_named(found.missing))
        super().__init__(
            f"the database {had}", expected=f"migration {newest()}", help="make them with: penstock store migrate"
        )


def migrations() -> list[Migration]:
    """Return all migrations, in their order.

    The tables of procrastinate are those of the package that is installed; the extra `cluster` allows one minor
    version, whose tables do not change.
    """
    queue = Migration(PROCRASTINATE, "procrastinate", SchemaManager.get_schema())
    found = [Migration(int(file.name[:4]), file.name[5:-4], file.read_text("utf-8")) for file in _files()]
    return sorted([*found, queue])


def newest() -> int:
    """Return the number of the newest migration."""
    return max(PROCRASTINATE, *(int(file.name[:4]) for file in _files()))


def _files() -> list[Traversable]:
    folder = resources.files("penstock.chat.store.postgres") / "migrations"
    return [file for file in folder.iterdir() if file.name.endswith(".sql")]


async def migrate(url: str) -> list[str]:
    """Make the migrations that the database does not have, and the columns that its tables lack, all or none.

    Return the number and the name of each migration, and each column that an existing table got.

    Raises:
        UsageError: the database cannot hold a store.
        StoreFailed: it cannot be reached, or the user may not make tables.
    """
    try:
        connection = await psycopg.AsyncConnection.connect(**parameters(url))
        async with connection:
            await _check_encoding(connection)
            await connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
            have = (await _found(connection)).migrations
            _check_names(have)
            if not have:
                await connection.execute("CREATE SCHEMA IF NOT EXISTS penstock")
                await connection.execute(
                    "CREATE TABLE IF NOT EXISTS penstock.migrations "
                    "(number int PRIMARY KEY, name text NOT NULL, made_at timestamptz NOT NULL DEFAULT now())"
                )
            made = [migration for migration in migrations() if migration.number not in have]
            for migration in made:
                await connection.execute(SQL(migration.text))
                await connection.execute(
                    "INSERT INTO penstock.migrations (number, name) VALUES (%s, %s)", (migration.number, migration.name)
                )
            missing = (await _found(connection)).missing
            for table, added in missing.items():
                columns = ", ".join(f"ADD COLUMN {column}" for column in added)
                await connection.execute(SQL(f"ALTER TABLE penstock.{table} {columns}"))
        return [*(f"{it.number:04} {it.name}" for it in made), *(_named(missing) if have else ())]
    except psycopg.Error as error:
        raise failure(error) from error


async def require_tables(url: str) -> None:
    """Check that the database has all tables. One that has more was made by a newer version, and can be used.

    Raises:
        SchemaTooOld: they are missing, or of an older version.
        UsageError: they are of another program, or of a version that was never released.
        StoreFailed: the database cannot be reached.
    """
    try:
        async with await psycopg.AsyncConnection.connect(**parameters(url)) as connection:
            found = await _found(connection)
    except psycopg.Error as error:
        raise failure(error) from error
    _check_names(found.migrations)
    if max(found.migrations, default=0) < newest() or found.missing:
        raise SchemaTooOld(found)


async def _found(connection: psycopg.AsyncConnection[Any]) -> DatabaseTables:
    result = await connection.execute("SELECT to_regclass('penstock.migrations') IS NOT NULL")
    if (await result.fetchone()) != (True,):
        return DatabaseTables({}, {})
    result = await connection.execute("SELECT number, name FROM penstock.migrations ORDER BY number")
    migrations = dict(await result.fetchall())
    result = await connection.execute(
        "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'penstock'"
    )
    present: dict[str, set[str]] = {}
    for table, column in await result.fetchall():
        present.setdefault(table, set()).add(column)
    missing = {}
    for table, (row, elsewhere) in ROWS.items():
        if added := additions(row, POSTGRES, {*present.get(table, ()), elsewhere}):
            missing[table] = added
    return DatabaseTables(migrations, missing)


def _named(missing: dict[str, list[str]]) -> list[str]:
    return [f"{table}.{column.split()[0]}" for table, columns in missing.items() for column in columns]


def _check_names(have: dict[int, str]) -> None:
    """Check the names of the migrations of a database.

    Raises:
        UsageError: the one of a number has another name here.
    """
    for migration in migrations():
        if have.get(migration.number, migration.name) != migration.name:
            raise UsageError(
                f"the tables of the database are not those of this Penstock: its migration {migration.number} "
                f"is {have[migration.number]!r}",
                expected=repr(migration.name),
                help="use a new database; tables from before the first release cannot be changed",
            )


async def _check_encoding(connection: psycopg.AsyncConnection[Any]) -> None:
    result = await connection.execute("SHOW server_encoding")
    row = await result.fetchone()
    if row is None or row[0] != ENCODING:
        raise UsageError(
            f"the database has the encoding {row[0] if row else '?'}",
            expected=ENCODING,
            help="make one with: createdb -E UTF8 -T template0",
        )
