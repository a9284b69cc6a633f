"""Check of a SQLite file: what a damaged disk, a wrong restore or a hand could have changed in it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from penstock.chat.store.database import caution, connect, failure
from penstock.chat.store.schema import APPLICATION, FORM, OtherForm
from penstock.chat.store.store_report import (
    KEY_WITHOUT_ENTRY,
    MAX_PROBLEMS,
    ROWS_WITHOUT_CHAT,
    TURN_TOO_LONG,
    WRONG_SIZE,
    StoreReport,
    missing_files,
)
from penstock.errors import UsageError

CHECKS = (
    (
        "the chat {0!r} has {1} entries, from {2} to {3}, and should have those from {4}",
        """SELECT id, count(*), min(number), max(number), trimmed + 1 FROM chats JOIN entries ON chat = key GROUP BY key
        HAVING min(number) <> trimmed + 1 OR count(*) <> max(number) - trimmed ORDER BY id LIMIT ?""",
    ),
    (
        TURN_TOO_LONG,
        """SELECT id, turn FROM turns AS t JOIN chats ON key = chat
        WHERE max(t.first - 1, t.last) > max(trimmed, (SELECT coalesce(max(number), 0) FROM entries WHERE chat = key))
        ORDER BY id, turn LIMIT ?""",
    ),
    (
        KEY_WITHOUT_ENTRY,
        """SELECT id, k.key FROM keys AS k JOIN chats ON chats.key = chat
        WHERE NOT EXISTS (SELECT 1 FROM entries AS e WHERE e.chat = k.chat AND e.number = k.number)
        ORDER BY id, k.key LIMIT ?""",
    ),
    (
        ROWS_WITHOUT_CHAT,
        """SELECT name, count(*) FROM (
            SELECT 'entries' AS name, chat FROM entries UNION ALL SELECT 'turns', chat FROM turns
            UNION ALL SELECT 'keys', chat FROM keys
        ) WHERE chat NOT IN (SELECT key FROM chats) GROUP BY name ORDER BY name LIMIT ?""",
    ),
)
"""Texts of the problems, and the statements that find them."""

FILE_CHECKS = (
    (
        WRONG_SIZE,
        """SELECT chat, name, length(content), size FROM attachments
        WHERE length(content) <> size ORDER BY chat, id LIMIT ?""",
    ),
    (
        ROWS_WITHOUT_CHAT,
        """SELECT 'attachments', count(*) FROM attachments WHERE chat NOT IN (SELECT id FROM chats)
        HAVING count(*) > 0 LIMIT ?""",
    ),
)
"""The same for pictures and files of messages."""

SENT = """SELECT id, turn, view FROM turns JOIN chats ON key = chat
    WHERE instr(view, CAST('"attachments"' AS BLOB)) > 0 ORDER BY id, turn"""
"""Statement that finds the turns whose messages have files."""


def check_file(path: Path) -> StoreReport:
    """Check the store in a file, which is only read; a server may use it meanwhile.

    Raises:
        OtherForm: it is of another form.
        UsageError: it is not a store of chats.
        StoreFailed: it cannot be read.
    """
    try:
        with closing(connect(path, write=False)) as connection:
            return _check(connection, path)
    except sqlite3.Error as error:
        raise failure(error, path) from error


def _check(connection: sqlite3.Connection, path: Path) -> StoreReport:
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
        raise UsageError(f"{str(path)!r} is not a store of chats", help="name another directory with --data")
    form = connection.execute("PRAGMA user_version").fetchone()[0]
    if form != FORM:
        raise OtherForm(path, form)
    pages = connection.execute(f"PRAGMA integrity_check({MAX_PROBLEMS})").fetchall()
    problems = [f"the file is damaged: {text}" for (text,) in pages if text != "ok"]
    connection.execute("BEGIN")  # what a server appends meanwhile is not half seen
    for text, query in CHECKS:
        problems += [text.format(*row) for row in connection.execute(query, (MAX_PROBLEMS,))]
    problems += _file_problems(connection)
    chats, entries, turns = (
        connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("chats", "entries", "turns")
    )
    size = sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*"))
    return StoreReport(chats, entries, turns, size, f"in {path}", problems, [text for text in (caution(),) if text])


def _file_problems(connection: sqlite3.Connection) -> list[str]:
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'attachments'").fetchone():
        return []  # no server of this version has used the file yet
    problems = [text.format(*row) for text, query in FILE_CHECKS for row in connection.execute(query, (MAX_PROBLEMS,))]
    kept = {(chat, id) for chat, id in connection.execute("SELECT chat, id FROM attachments")}
    return problems + missing_files(connection.execute(SENT), kept)
