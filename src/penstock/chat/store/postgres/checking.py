"""Check of a database: what a damaged disk, a wrong restore or a hand could have changed in it."""

from __future__ import annotations

from typing import LiteralString

from penstock.chat.store.postgres.connections import Database
from penstock.chat.store.postgres.migrate import require_tables
from penstock.chat.store.store_report import (
    KEY_WITHOUT_ENTRY,
    MAX_PROBLEMS,
    ROWS_WITHOUT_CHAT,
    TURN_TOO_LONG,
    WRONG_SIZE,
    StoreReport,
    missing_files,
)

CHECK_SECONDS = 600.0
"""Seconds in which one of the statements is answered: they read all entries."""

TOTALS = """SELECT (SELECT count(*) FROM heads), (SELECT count(*) FROM entries), (SELECT count(*) FROM turns),
    pg_database_size(current_database()), current_setting('server_version')"""

SETTINGS = """SELECT name, setting FROM pg_settings
    WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit') AND setting IN ('off', 'local') ORDER BY name"""

CHECKS: tuple[tuple[str, LiteralString], ...] = (
    (
        "the chat {0!r} has {1} entries, from {2} to {3}, and should have those from {4} to {5}",
        """SELECT h.id, count(e.number), min(e.number), max(e.number), h.trimmed + 1, h.last
        FROM heads AS h LEFT JOIN entries AS e ON e.chat = h.key GROUP BY h.key
        HAVING count(e.number) <> h.last - h.trimmed
            OR (h.last > h.trimmed AND (min(e.number), max(e.number)) <> (h.trimmed + 1, h.last))
        ORDER BY h.id LIMIT %(limit)s""",
    ),
    (
        "the chat {0!r} has no row",
        "SELECT id FROM heads LEFT JOIN chats USING (key) WHERE chats.key IS NULL ORDER BY id LIMIT %(limit)s",
    ),
    (
        TURN_TOO_LONG,
        """SELECT h.id, t.turn FROM heads AS h JOIN turns AS t ON t.chat = h.key
        WHERE t.last > h.last OR t.first > h.last + 1 ORDER BY h.id, t.turn LIMIT %(limit)s""",
    ),
    (
        KEY_WITHOUT_ENTRY,
        """SELECT h.id, k.key FROM heads AS h JOIN keys AS k ON k.chat = h.key
        LEFT JOIN entries AS e ON e.chat = k.chat AND e.number = k.number
        WHERE e.number IS NULL ORDER BY h.id, k.key LIMIT %(limit)s""",
    ),
    (
        ROWS_WITHOUT_CHAT,
        """SELECT name, count(*) FROM (
            SELECT 'entries' AS name, chat FROM entries UNION ALL SELECT 'turns', chat FROM turns
            UNION ALL SELECT 'keys', chat FROM keys
        ) AS rows WHERE NOT EXISTS (SELECT FROM heads WHERE key = chat) GROUP BY name ORDER BY name LIMIT %(limit)s""",
    ),
    (
        WRONG_SIZE,
        """SELECT chat, name, octet_length(content), size FROM attachments
        WHERE octet_length(content) <> size ORDER BY chat, id LIMIT %(limit)s""",
    ),
    (
        ROWS_WITHOUT_CHAT,
        """SELECT 'attachments', count(*) FROM attachments AS a
        WHERE NOT EXISTS (SELECT FROM heads AS h WHERE h.id = a.chat) HAVING count(*) > 0 LIMIT %(limit)s""",
    ),
)
"""Texts of the problems, and the statements that find them."""

SENT: LiteralString = """SELECT h.id, t.turn, t.view FROM turns AS t JOIN heads AS h ON h.key = t.chat
    WHERE position('"attachments"'::bytea IN t.view) > 0 ORDER BY h.id, t.turn"""
"""Statement that finds the turns whose messages have files."""


async def check(url: str) -> StoreReport:
    """Check the database that a URL names.

    Raises:
        SchemaTooOld: it does not have all tables.
        StoreFailed: it cannot be read.
    """
    await require_tables(url)
    async with Database(url) as database:
        problems: list[str] = []
        for text, query in CHECKS:
            rows = await database.fetch(query, {"limit": MAX_PROBLEMS}, seconds=CHECK_SECONDS)
            problems += [text.format(*row) for row in rows]
        kept = {(chat, id) for chat, id in await database.fetch("SELECT chat, id FROM attachments")}
        problems += missing_files(await database.fetch(SENT, seconds=CHECK_SECONDS), kept)
        ((chats, entries, turns, size, server),) = await database.fetch(TOTALS, seconds=CHECK_SECONDS)
        settings = await database.fetch(SETTINGS)
    cautions = [f"{name} is {value}: what is acknowledged can be lost in a power cut" for name, value in settings]
    return StoreReport(chats, entries, turns, size, f"on PostgreSQL {server}", problems, cautions)
