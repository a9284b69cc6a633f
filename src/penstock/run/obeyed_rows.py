"""Rows of a database of logins that later runs obey: addresses that settings come from, and commands.

An agent can keep its accounts in the database that has its conversations too. It fetches all settings from the address
of the account in use, and starts the programs that they name.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sqlite3
import stat
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Any
from urllib.parse import quote

from penstock.run.obeyed_keys import IN_USE, UNREADABLE, is_obeyed

MAX_ROWS = 10_000
"""Rows of a table that are read: people have a few accounts and some hundred projects."""
MAX_BYTES = 1 << 20
"""Bytes of the largest value that is read."""
STEPS, MAX_CALLS = 10_000, 5_000
"""Steps of SQLite between two calls that count them, and the calls after which it stops: a second or so."""
BUSY_SECONDS = 10.0
"""Seconds to wait for another program that has locked the database."""

_COLUMNS = {"account": "url", "control_account": "url", "credential": "value", "project": "commands"}
"""Tables with what later runs obey, and the column that has it."""
_NAMED = re.compile(rf"(?<![\w$])(?:{'|'.join(_COLUMNS)})(?![\w$])".encode(), re.IGNORECASE)
"""Name of one of these tables: no trigger or view changes a table that it does not name."""


def obeyed_rows_in(path: str, ends: Iterable[str] = ()) -> tuple[str, ...]:
    """Return digests of the rows that later runs obey, and of the triggers and views that could make such rows.

    A file that is missing has none.

    `ends`: ends of the names of the files that belong to the database.
    """
    if not os.path.lexists(path):
        return ()
    try:
        if not all(_is_file(f"{path}{end}") for end in ("", *ends)):
            return (UNREADABLE,)
        uri = f"file:{quote(os.fsencode(os.path.abspath(path)))}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)) as database:
            found = {json.dumps(it, default=repr) for it in _obeyed(database)}
    except sqlite3.OperationalError as error:
        is_locked = error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
        return (IN_USE if is_locked else UNREADABLE,)
    except (OSError, ValueError, sqlite3.Error):
        return (UNREADABLE,)
    return tuple(sorted(hashlib.sha256(it.encode()).hexdigest() for it in found))


def _is_file(path: str) -> bool:
    return not os.path.lexists(path) or stat.S_ISREG(os.stat(path).st_mode)


def _obeyed(database: sqlite3.Connection) -> Iterator[tuple[Any, ...]]:
    """Yield what identifies each row, without what an agent renews by itself."""
    left = iter(range(MAX_CALLS))
    database.set_progress_handler(lambda: next(left, None) is None, STEPS)
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_BYTES)
    database.text_factory = bytes  # it may have anything
    for setting in ("trusted_schema = OFF", "cell_size_check = ON", "query_only = ON"):
        database.execute(f"PRAGMA {setting}")
    tables = set()
    for kind, name, sql in _rows(database, "SELECT type, name, sql FROM sqlite_master WHERE type != 'index'"):
        if not isinstance(name, bytes) or not isinstance(sql, bytes):
            raise ValueError("this schema was written by hand")
        is_made = kind != b"table" or sql.upper().startswith(b"CREATE VIRTUAL")
        if is_made and _NAMED.search(sql):
            yield "made", sql  # a trigger could make rows later, and a view has others at another time
        tables.add(name.decode("utf-8", "replace").lower())
    for table, column in _COLUMNS.items():
        if table in tables:
            columns = _rows(database, f"SELECT name, hidden FROM pragma_table_xinfo('{table}')")
            yield from (("computed", table) for name, hidden in columns if hidden and name.lower() == column.encode())
            for (value,) in _rows(database, f'SELECT "{column}" FROM "{table}" WHERE "{column}" IS NOT NULL'):
                yield from ((table, part) for part in _obeyed_part(column, value))


def _rows(database: sqlite3.Connection, query: str) -> list[tuple[Any, ...]]:
    rows = database.execute(f"{query} LIMIT {MAX_ROWS + 1}").fetchall()
    if len(rows) > MAX_ROWS:
        raise ValueError("too many rows")
    return rows


def _obeyed_part(column: str, value: Any) -> Iterator[Any]:
    """Yield what a later run obeys in a value: of a login, the address but not the keys, which are renewed."""
    if column == "url":
        yield value
        return
    try:
        entry = json.loads(value)
    except (TypeError, ValueError, RecursionError):
        yield value
        return
    if column == "commands":
        if entry:
            yield entry
        return
    if is_obeyed(entry):
        yield entry
    metadata = entry.get("metadata") if isinstance(entry, dict) else None
    if isinstance(metadata, dict) and "server" in metadata:
        yield metadata["server"]
