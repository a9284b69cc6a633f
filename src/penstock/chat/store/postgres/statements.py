"""Statements of the store in PostgreSQL that are not in its migrations: the reads.

Each is a single statement, so its rows come from one snapshot.
"""

from __future__ import annotations

from penstock.chat.store.columns import names, values_by_name
from penstock.chat.store.rows import ChatRow, Directory, Share, TurnRow

MAX_PAGE_BYTES = 8 * 1024 * 1024
"""Bytes of one read: it ends with the entry that reaches this size."""

TRIM_ENTRIES = 2000
"""Number of entries trimmed by one statement, which bounds the wait of an append to the same chat."""

READ = """SELECT h.last, h.trimmed, e.number, e.at, e.data FROM heads AS h LEFT JOIN LATERAL (
        SELECT number, at, data, sum(octet_length(data)) OVER (ORDER BY number) - octet_length(data) AS before FROM (
            SELECT number, at, data FROM entries WHERE chat = h.key AND number > %(after)s
            ORDER BY number LIMIT %(limit)s
        ) AS page
    ) AS e ON before < %(bytes)s WHERE h.id = %(id)s ORDER BY e.number"""

_CHAT, _DIRECTORY, _SHARE = names(ChatRow), names(Directory), names(Share)
_TURN = names(TurnRow, "t")

GET_CHAT = f"SELECT {_CHAT} FROM heads JOIN chats USING (key) WHERE id = %(id)s"

LIST_CHATS = f"SELECT {_CHAT} FROM heads JOIN chats USING (key) WHERE id > %(after)s ORDER BY id LIMIT %(limit)s"

LIST_TURNS = f"""SELECT {_TURN} FROM heads AS h LEFT JOIN LATERAL (
        SELECT * FROM turns WHERE chat = h.key AND turn < %(before)s ORDER BY turn DESC LIMIT %(limit)s
    ) AS t ON true WHERE h.id = %(id)s ORDER BY turn"""

SUMMARY = f"""SELECT greatest(h.summarized, h.trimmed), h.last, {_TURN}
    FROM heads AS h LEFT JOIN turns AS t ON t.chat = h.key AND (t.last = 0 OR turn IN (
        SELECT turn FROM turns WHERE chat = h.key ORDER BY turn DESC LIMIT %(limit)s
    )) WHERE h.id = %(id)s ORDER BY turn"""

# Only turns before the first one that is young enough: a clock that stepped back must not make a gap.
EXPIRED = """SELECT id, max(old.last) FROM turns AS old JOIN heads AS h ON h.key = old.chat
    WHERE old.last > 0 AND turn < coalesce(
        (SELECT min(turn) FROM turns AS t WHERE t.chat = old.chat AND (t.last = 0 OR t.at >= %(before)s)),
        9223372036854775807
    ) GROUP BY id"""

EXCESS = """SELECT id, max(last) FROM (
        SELECT h.id, t.last, sum(t.bytes) OVER (ORDER BY t.at, h.id, t.turn) - t.bytes AS before
        FROM turns AS t JOIN heads AS h ON h.key = t.chat WHERE t.last > 0
    ) AS oldest WHERE before < (SELECT coalesce(sum(bytes), 0) FROM turns) - %(max_bytes)s GROUP BY id"""

LIST_DIRECTORIES = f"SELECT {_DIRECTORY} FROM directories WHERE node = %(node)s ORDER BY path"

PUT_DIRECTORY = f"""INSERT INTO directories (node, {_DIRECTORY})
    VALUES (%(node)s, {values_by_name(Directory)})
    ON CONFLICT (node, path) DO UPDATE SET {", ".join(f"{it} = excluded.{it}" for it in Directory.__struct_fields__)}"""

DELETE_DIRECTORY = "DELETE FROM directories WHERE node = %(node)s AND path = %(path)s"

LIST_SHARES = f"SELECT {_SHARE} FROM shares ORDER BY created_at, id"

FIND_SHARE = f"SELECT {_SHARE} FROM shares WHERE secret = %(secret)s"

PUT_SHARE = f"""WITH expired AS (DELETE FROM shares WHERE expires_at <= %(created_at)s)
    INSERT INTO shares ({_SHARE}) SELECT {values_by_name(Share)} FROM heads WHERE heads.id = %(chat)s
    ON CONFLICT (id) DO UPDATE SET id = excluded.id RETURNING shares.id"""
"""Statement that returns a row if there is such a chat, also when it is made again."""

DELETE_SHARE = "DELETE FROM shares WHERE id = %(id)s"

CHECK = """INSERT INTO checks (node, data) VALUES (%(node)s, %(data)s)
    ON CONFLICT (node) DO UPDATE SET data = excluded.data"""
"""Statement that needs new pages of the disk."""

FORGET_CHECKS = "TRUNCATE checks"
"""Statement that gives the pages back: the next check is to need new ones."""
