"""Tables of the store in PostgreSQL: made by numbered migrations, each once, in one schema."""

from __future__ import annotations

from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, NamedTuple

import psycopg
from procrastinate.schema import SchemaManager
from psycopg.sql import SQL

from penstock.chat.store.postgres.connections import failure, parameters
from penstock.errors import UsageError

LOCK = 0x50656E73746F636B
"""Number of the advisory lock under which migrations are made: the letters of the program's name."""

PROCRASTINATE = 2
"""Number of the migration that makes the tables of procrastinate."""

ENCODING = "UTF8"
"""Encoding of the database: titles and paths have any characters."""


class Migration(NamedTuple):
    """Statements that change the tables, made once."""

    number: int
    name: str
    text: str


class SchemaTooOld(UsageError):
    """The database has no tables of the store, or those of an older version."""

    def __init__(self, found: int) -> None:
        self.found = found
        had = f"has the tables of migration {found}" if found else "has no tables of Penstock"
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


async def migrate(url: str) -> list[Migration]:
    """Make the migrations that the database does not have, all or none; return them.

    Raises:
        UsageError: the database cannot hold a store.
        StoreFailed: it cannot be reached, or the user may not make tables.
    """
    try:
        connection = await psycopg.AsyncConnection.connect(**parameters(url))
        async with connection:
            await _check_encoding(connection)
            await connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
            have = await _found(connection)
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
        return made
    except psycopg.Error as error:
        raise failure(error) from error


async def found_migrations(url: str) -> list[int]:
    """Return the numbers of the migrations that the database has.

    Raises:
        StoreFailed: it cannot be reached.
    """
    try:
        async with await psycopg.AsyncConnection.connect(**parameters(url)) as connection:
            return sorted(await _found(connection))
    except psycopg.Error as error:
        raise failure(error) from error


async def require_tables(url: str) -> None:
    """Check that the database has all tables. One that has more was made by a newer version, and can be used.

    Raises:
        SchemaTooOld: they are missing, or of an older version.
        StoreFailed: the database cannot be reached.
    """
    have = await found_migrations(url)
    if not have or have[-1] < newest():
        raise SchemaTooOld(have[-1] if have else 0)


async def _found(connection: psycopg.AsyncConnection[Any]) -> set[int]:
    result = await connection.execute("SELECT to_regclass('penstock.migrations') IS NOT NULL")
    if (await result.fetchone()) != (True,):
        return set()
    result = await connection.execute("SELECT number FROM penstock.migrations")
    return {number for (number,) in await result.fetchall()}


async def _check_encoding(connection: psycopg.AsyncConnection[Any]) -> None:
    result = await connection.execute("SHOW server_encoding")
    row = await result.fetchone()
    if row is None or row[0] != ENCODING:
        raise UsageError(
            f"the database has the encoding {row[0] if row else '?'}",
            expected=ENCODING,
            help="make one with: createdb -E UTF8 -T template0",
        )
