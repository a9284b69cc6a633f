"""Rows of an agent's database that later runs obey: addresses that settings come from, commands, and permissions.

An agent can keep its accounts in the database that has its conversations too. It fetches all settings from the address
of the account in use, and starts the programs that they name. What a conversation or a project is allowed to do is
done without asking, whatever a later run is started with.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sqlite3
import stat
from collections.abc import Collection, Iterable, Iterator
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

_SESSIONS = "session"
"""Table of the conversations, of which each can have rules of its own."""
_COLUMNS = {
    "account": ("url",),
    "control_account": ("url",),
    "credential": ("value",),
    "project": ("commands",),
    "permission": ("project_id", "action", "resource"),
    _SESSIONS: ("id", "permission"),
}
"""Tables with what later runs obey, and the columns that have it."""
_COMMON = "external_directory"
"""Permission that a conversation passes on to those of its sub-agents."""
_NAMED = re.compile(rf"(?<![\w$])(?:{'|'.join(_COLUMNS)})(?![\w$])".encode(), re.IGNORECASE)
"""Name of one of these tables: no trigger or view changes a table that it does not name."""


def obeyed_rows_in(
    path: str, ends: Iterable[str] = (), *, granted: Collection[str] = (), before: Collection[str] | None = None
) -> tuple[str, ...]:
    """Return digests of the rows that later runs obey, and of the triggers and views that could make such rows.

    A file that is missing has none.

    Args:
        path: the database.
        ends: ends of the names of the files that belong to it.
        granted: tools that a run may use without asking, which the agent notes with its new conversations.
        before: what this function has returned before that run; None if the run has not begun.
    """
    if not os.path.lexists(path):
        return ()
    try:
        if not all(_is_file(f"{path}{end}") for end in ("", *ends)):
            return (UNREADABLE,)
        uri = f"file:{quote(os.fsencode(os.path.abspath(path)))}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)) as database:
            return tuple(sorted({_digest(it) for it in _obeyed(database, granted, before)}))
    except sqlite3.OperationalError as error:
        is_locked = error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
        return (IN_USE if is_locked else UNREADABLE,)
    except (OSError, ValueError, sqlite3.Error):
        return (UNREADABLE,)


def _digest(found: tuple[Any, ...]) -> str:
    return hashlib.sha256(json.dumps(found, default=repr).encode()).hexdigest()


def _is_file(path: str) -> bool:
    return not os.path.lexists(path) or stat.S_ISREG(os.stat(path).st_mode)


def _obeyed(
    database: sqlite3.Connection, granted: Collection[str], before: Collection[str] | None
) -> Iterator[tuple[Any, ...]]:
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
    for table, names in _COLUMNS.items():
        if table not in tables:
            continue
        found = _rows(database, f"SELECT name, hidden FROM pragma_table_xinfo('{table}')")
        columns = {name.decode("utf-8", "replace").lower(): hidden for name, hidden in found}
        yield from (("computed", table) for name in names if columns.get(name))
        if not columns.keys() >= set(names):
            continue  # another version of the agent keeps nothing of the kind
        if table == _SESSIONS:
            yield from _allowed(database, granted, before)
            continue
        listed = ", ".join(f'"{name}"' for name in names)
        for row in _rows(database, f'SELECT {listed} FROM "{table}" WHERE "{names[-1]}" IS NOT NULL'):
            parts = _obeyed_part(names[0], row[0]) if len(row) == 1 else [row]
            yield from ((table, part) for part in parts)


def _allowed(
    database: sqlite3.Connection, granted: Collection[str], before: Collection[str] | None
) -> Iterator[tuple[Any, ...]]:
    """Yield the rules of conversations that allow something, but for what the run grants to its new ones.

    Before the run, also each conversation if there are such tools: after it, these are no new ones.
    """
    if granted and before is None:
        yield from ((_SESSIONS, id) for (id,) in _rows(database, f'SELECT "id" FROM "{_SESSIONS}"'))
    text = "CAST(permission AS TEXT)"
    may_allow = rf"instr({text}, 'allow') OR instr({text}, '\')"  # characters of JSON can be escaped
    for id, value in _rows(database, f'SELECT "id", "permission" FROM "{_SESSIONS}" WHERE {may_allow}'):
        try:
            rules = [rule for rule in json.loads(value) if rule["action"] == "allow"]
        except (TypeError, ValueError, KeyError, RecursionError):
            yield _SESSIONS, id, value
            continue
        is_new = before is not None and _digest((_SESSIONS, id)) not in before
        for rule in rules:
            name = rule.get("permission")
            if not (is_new and name in granted and rule.get("pattern") == "*"):
                yield _SESSIONS, None if name == _COMMON else id, rule


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
