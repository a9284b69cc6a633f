"""Index of the search in a SQLite file: its tables, the triggers that fill its queue, and its statements.

The index is made again if it is missing or of another version: all turns and titles are put into the queue.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Collection, Sequence

from penstock.chat.store.search import (
    KINDS,
    MAX_KEY,
    SEARCH_SECONDS,
    TITLE,
    Reader,
    SearchTexts,
    StoredHit,
    StoredHits,
    Unindexed,
    folded,
    fts_query,
    key_of,
)
from penstock.chat.store.words import Term
from penstock.errors import UsageError

INDEX = "words_1"
"""Name of the index, with its version: another division into words, or other texts, is a new one."""

PROGRESS_STEPS = 2_000
"""Steps of SQLite between two looks at the clock; they take less than a millisecond."""

_TEXTS = ", ".join(KINDS)
_FOUND = ", ".join(f"t.{kind}" for kind in KINDS)
_FOLDED = ", ".join(f"folded({kind})" for kind in KINDS)

TABLES = [
    f"""CREATE TABLE texts (
        key INTEGER PRIMARY KEY,
        chat INTEGER NOT NULL,
        turn INTEGER NOT NULL,
        at INTEGER NOT NULL,
        {", ".join(f"{kind} TEXT NOT NULL" for kind in KINDS)},
        UNIQUE (chat, turn)
    ) STRICT""",
    """CREATE TABLE unindexed (
        mark INTEGER PRIMARY KEY AUTOINCREMENT,
        chat INTEGER NOT NULL,
        turn INTEGER NOT NULL,
        UNIQUE (chat, turn)
    ) STRICT""",
    """CREATE TRIGGER turn_ended AFTER INSERT ON turns WHEN NEW.last > 0 BEGIN
        INSERT OR REPLACE INTO unindexed (chat, turn) VALUES (NEW.chat, NEW.turn);
    END""",
    """CREATE TRIGGER turn_gone AFTER DELETE ON turns BEGIN
        DELETE FROM texts WHERE chat = OLD.chat AND turn = OLD.turn;
        DELETE FROM unindexed WHERE chat = OLD.chat AND turn = OLD.turn;
    END""",
    f"""CREATE TRIGGER chat_made AFTER INSERT ON chats BEGIN
        INSERT OR REPLACE INTO unindexed (chat, turn) VALUES (NEW.key, {TITLE});
    END""",
    f"""CREATE TRIGGER chat_named AFTER UPDATE OF title ON chats BEGIN
        INSERT OR REPLACE INTO unindexed (chat, turn) VALUES (NEW.key, {TITLE});
    END""",
    """CREATE TRIGGER chat_gone AFTER DELETE ON chats BEGIN
        DELETE FROM texts WHERE chat = OLD.key;
        DELETE FROM unindexed WHERE chat = OLD.key;
    END""",
]
"""Tables and triggers. A Penstock of before, which does not know them, fills the queue by the triggers as well; what it
deletes is not found any more."""

FILL = [
    f"CREATE VIRTUAL TABLE {INDEX} USING fts5({_TEXTS}, content='', tokenize='ascii', prefix='2 3')",
    "DELETE FROM texts",
    "INSERT OR REPLACE INTO unindexed (chat, turn) SELECT chat, turn FROM turns WHERE last > 0 ORDER BY at, chat, turn",
    f"INSERT OR REPLACE INTO unindexed (chat, turn) SELECT key, {TITLE} FROM chats ORDER BY key",
]
"""Statements that make a new index, and put everything into the queue."""

SEARCH = f"""SELECT t.key, c.id, t.turn, t.at, c.title, c.agent, c.cwd, c.archived, c.person, {_FOUND}
    FROM {INDEX} AS w CROSS JOIN texts AS t ON t.key = w.rowid CROSS JOIN chats AS c ON c.key = t.chat
    WHERE {INDEX} MATCH ? AND w.rowid < ? AND (? OR c.person = ? OR c.visibility = 'team')
    ORDER BY w.rowid DESC LIMIT ?"""
"""Statement of a search. The rights are those of `penstock.chat.people.rights.may_read`."""


def has_search(connection: sqlite3.Connection) -> bool:
    """Return whether this SQLite can search: its full-text search is an option of its build."""
    return bool(connection.execute("SELECT 1 FROM pragma_module_list WHERE name = 'fts5'").fetchone())


def missing_index(connection: sqlite3.Connection, tables: Collection[str]) -> list[str]:
    """Return the statements that make the index, if a file with these tables lacks it or has one of another version."""
    if INDEX in tables or not has_search(connection):
        return []
    older = [f"DROP TABLE {name}" for name in tables if name.startswith("words_") and name.count("_") == 1]
    return [*older, *([] if "unindexed" in tables else TABLES), *FILL]


def add_functions(connection: sqlite3.Connection) -> None:
    """Add the function by which the index gets the words of texts."""
    connection.create_function("folded", 1, folded, deterministic=True)


# --- changes, in a transaction of the caller ---


def forget(connection: sqlite3.Connection, where: str, values: Sequence[int]) -> None:
    """Remove rows of the texts from the index. The statement `where` names them; the texts are removed by a trigger."""
    if has_search(connection):
        connection.execute(
            f"INSERT INTO {INDEX} ({INDEX}, rowid, {_TEXTS}) SELECT 'delete', key, {_FOLDED} FROM texts WHERE {where}",
            values,
        )


def index(connection: sqlite3.Connection, item: Unindexed, texts: SearchTexts | None, at: int) -> None:
    """Index the texts of a turn or title, if it is still there, and remove it from the queue if it has not changed."""
    row = connection.execute(
        "SELECT key FROM chats WHERE id = ? AND (? OR EXISTS (SELECT 1 FROM turns WHERE chat = key AND turn = ?))",
        (item.chat, item.turn == TITLE, item.turn),
    ).fetchone()
    connection.execute("DELETE FROM unindexed WHERE mark = ?", (item.mark,))
    if row is None:
        return
    place = (row[0], item.turn)
    forget(connection, "chat = ? AND turn = ?", place)
    connection.execute("DELETE FROM texts WHERE chat = ? AND turn = ?", place)
    if texts is None:
        return
    key = key_of(item.chat, item.turn, at)
    while connection.execute("SELECT 1 FROM texts WHERE key = ?", (key,)).fetchone():
        key += 1
    kept = texts.bounded()
    values = [getattr(kept, kind) for kind in KINDS]
    marks = ", ".join("?" * len(KINDS))
    connection.execute(
        f"INSERT INTO texts (key, chat, turn, at, {_TEXTS}) VALUES (?, ?, ?, ?, {marks})", (key, *place, at, *values)
    )
    connection.execute(
        f"INSERT INTO {INDEX} (rowid, {_TEXTS}) VALUES (?, {marks})", (key, *(folded(value) for value in values))
    )


# --- reads ---


def list_unindexed(connection: sqlite3.Connection, limit: int) -> list[Unindexed]:
    """Read the newest of the queue."""
    if not has_search(connection):
        return []
    rows = connection.execute(
        "SELECT id, turn, mark FROM unindexed JOIN chats ON chats.key = chat ORDER BY mark DESC LIMIT ?", (limit,)
    )
    return [Unindexed(*row) for row in rows]


def search(
    connection: sqlite3.Connection, terms: list[Term], reader: Reader, before: int = MAX_KEY, limit: int = 1
) -> StoredHits:
    """Search, for a bounded time. The rows come newest first, so what is found in this time is the newest.

    Raises:
        UsageError: this SQLite cannot search.
    """
    if not has_search(connection):
        raise UsageError("this SQLite cannot search", expected="one that is built with FTS5")
    if not terms:
        return StoredHits([], True)
    hits: list[StoredHit] = []
    end = time.monotonic() + SEARCH_SECONDS
    connection.set_progress_handler(lambda: time.monotonic() > end, PROGRESS_STEPS)
    try:
        values = (fts_query(terms), before, reader.is_owner, reader.person, limit)
        for row in connection.execute(SEARCH, values):
            key, chat, turn, at, title, agent, cwd, archived, person, *texts = row
            hits.append(StoredHit(key, chat, turn, at, title, agent, cwd, bool(archived), person, SearchTexts(*texts)))
    except sqlite3.OperationalError as error:
        if error.sqlite_errorname != "SQLITE_INTERRUPT":
            raise
        return StoredHits(hits, False)
    finally:
        connection.set_progress_handler(None, 0)
    return StoredHits(hits, True)
