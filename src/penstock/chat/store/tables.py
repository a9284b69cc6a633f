"""Statements of the SQLite store: plain calls that block."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from penstock.chat.store import search_tables
from penstock.chat.store.columns import from_sqlite, insert, names, sqlite_value, sqlite_values
from penstock.chat.store.permits import Permit
from penstock.chat.store.protocol import (
    Ahead,
    Conflict,
    Fenced,
    FirstEntry,
    Page,
    RowChanged,
    StoredEntry,
    StoreFailed,
    Submitted,
    Summary,
    Trimmed,
    UnknownChat,
)
from penstock.chat.store.rows import (
    MAX_READS,
    Attachment,
    ChatChanges,
    ChatRow,
    ChatRule,
    Directory,
    Share,
    TurnRow,
)
from penstock.chat.store.schema import REWRITE
from penstock.chat.store.search import Reader, SearchTexts, Unindexed
from penstock.errors import UsageError

MAX_PAGE_BYTES = 8 * 1024 * 1024
"""Bytes of one read: it ends with the entry that reaches this size."""

TRIM_ENTRIES = 2000
"""Number of entries trimmed by one change, which bounds the wait of the next append."""

SHRINK_PAGES = 2000
"""Pages that one change returns to the disk."""

CHAT_COLUMNS, TURN_COLUMNS, DIRECTORY_COLUMNS = names(ChatRow), names(TurnRow), names(Directory)
SHARE_COLUMNS, ATTACHMENT_COLUMNS = names(Share), names(Attachment)

INSERT_CHAT = insert("chats", ChatRow)
PUT_TURN = insert("turns", TurnRow, "chat", "bytes", replaces=True)
PUT_DIRECTORY = insert("directories", Directory, replaces=True)
INSERT_SHARE = insert("shares", Share)
INSERT_ATTACHMENT = insert("attachments", Attachment, "content")

SHOWN = """SELECT 1 FROM chats AS c WHERE c.id = ? AND (c.person = ? OR ? OR c.visibility = 'team')
    AND (? IS NULL OR EXISTS (SELECT 1 FROM shares AS s WHERE s.id = ? AND s.chat = c.id))"""
"""Statement that finds a chat if a reader may see it: the rights are those of `people.rights.may_read`."""

TRIMMED_TURNS = "chat = ? AND turn IN (SELECT turn FROM turns WHERE chat = ? AND last BETWEEN 1 AND ?)"
"""Rows of the index whose turns a trim removes."""


@dataclass(slots=True)
class Head:
    """End of one chat, as the writer has it in memory."""

    key: int
    trimmed: int
    last: int
    epoch: int


class Statements:
    """Changes of the file, each made in a transaction that it does not end; each checks before it changes anything."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.appended: dict[str, int] = {}
        """Chats to which entries were appended since this was last cleared, with their last numbers."""
        self.changed: set[str] = set()
        """Chats whose rows were changed since this was last cleared."""
        self._connection = connection
        self._heads: dict[str, Head] = {}  # this process is the only writer: they need not be read again

    def forget(self) -> None:
        """Clear the cached heads, so that they are read again: a transaction was rolled back."""
        self._heads.clear()
        self.appended, self.changed = {}, set()

    def rewrite(self) -> None:
        """Write to the file without a change."""
        self._connection.execute(REWRITE)

    def check(self, permit: Permit, shown: str | None) -> None:
        """Check the permit of the next change; `shown`: chat that its person has to see."""
        reader = permit()
        if shown is not None and not self._sees(reader, shown):
            raise UnknownChat(shown)

    def append(
        self,
        chat: str,
        entries: Sequence[bytes],
        after: int,
        at: int,
        epoch: int | None = None,
        turns: Sequence[TurnRow] = (),
        changes: ChatChanges | None = None,
    ) -> int:
        """Append entries after number `after`, with the rows that belong to them; return the new last number."""
        head = self._head(chat)
        if epoch is not None and epoch != head.epoch:
            raise Fenced(chat, head.epoch)
        if head.last != after:
            raise Conflict(chat, after, head.last)
        self._insert(chat, head, entries, at)
        if turns:
            self._put_turns(head, turns)
        if changes is not None:
            self._update(chat, head.key, changes)
        return head.last

    def submit(self, chat: str, entry: bytes, at: int, after: int | None, key: str | None) -> Submitted:
        """Append one entry, unless there is one with this key."""
        head = self._head(chat)
        if key is not None:
            found = self._connection.execute(
                "SELECT number FROM keys WHERE chat = ? AND key = ?", (head.key, key)
            ).fetchone()
            if found:
                return Submitted(found[0], False)
        if after is not None and head.last != after:
            raise Conflict(chat, after, head.last)
        self._insert(chat, head, [entry], at)
        if key is not None:
            self._connection.execute(
                "INSERT INTO keys (chat, key, number) VALUES (?, ?, ?)", (head.key, key, head.last)
            )
        return Submitted(head.last, True)

    def claim(self, chat: str, node: str) -> int:
        """Increment the epoch of a chat."""
        head = self._head(chat)
        head.epoch += 1
        self._connection.execute("UPDATE chats SET epoch = ?, node = ? WHERE key = ?", (head.epoch, node, head.key))
        return head.epoch

    def release(self, chat: str, epoch: int) -> None:
        """Remove the node of a claim, if no later one was made."""
        head = self._head(chat)
        self._connection.execute("UPDATE chats SET node = NULL WHERE key = ? AND epoch = ?", (head.key, epoch))

    def trim(self, chat: str, upto: int) -> bool:
        """Drop some of the entries up to a number, the oldest first; return whether more are left to drop."""
        head = self._head(chat)
        if upto > head.last:
            raise Ahead(chat, upto, head.last)
        if upto <= head.trimmed:
            return False
        head.trimmed = min(upto, head.trimmed + TRIM_ENTRIES)
        gone = (head.key, head.trimmed)
        search_tables.forget(self._connection, TRIMMED_TURNS, (head.key, *gone))
        self._connection.execute("DELETE FROM entries WHERE chat = ? AND number <= ?", gone)
        self._connection.execute("DELETE FROM keys WHERE chat = ? AND number <= ?", gone)
        self._connection.execute("DELETE FROM turns WHERE chat = ? AND last BETWEEN 1 AND ?", gone)
        self._connection.execute(
            """DELETE FROM attachments WHERE chat = ? AND turn > 0
            AND turn < (SELECT min(turn) FROM turns WHERE chat = ?)""",
            (chat, head.key),
        )
        self._connection.execute("UPDATE chats SET trimmed = ? WHERE key = ?", (head.trimmed, head.key))
        return head.trimmed < upto

    def shrink(self) -> bool:
        """Return some unused pages to the disk; return whether more are left."""
        self._connection.execute(f"PRAGMA incremental_vacuum({SHRINK_PAGES})").fetchall()
        incremental = self._connection.execute("PRAGMA auto_vacuum").fetchone()[0] == 2
        return incremental and bool(self._connection.execute("PRAGMA freelist_count").fetchone()[0])

    def create_chat(self, row: ChatRow, first: FirstEntry | None) -> None:
        """Add a chat, with its first entry and attachments if given."""
        if self._connection.execute("SELECT 1 FROM chats WHERE id = ?", (row.id,)).fetchone():
            raise UsageError(f"there is a chat {row.id!r} already")
        self._connection.execute(INSERT_CHAT, sqlite_values(row))
        self.changed.add(row.id)
        if first is not None:
            self.submit(row.id, first.data, first.at, None, first.key)
            for attachment, content in first.files:
                self._connection.execute(INSERT_ATTACHMENT, [*sqlite_values(attachment), content])

    def update_chat(self, chat: str, changes: ChatChanges, rules: list[ChatRule] | None) -> ChatRow:
        """Change the row of a chat, if it has these rules, and return it."""
        key = self._head(chat).key
        if rules is not None and get_chat(self._connection, chat).rules != rules:
            raise RowChanged(chat)
        self._update(chat, key, changes)
        return get_chat(self._connection, chat)

    def mark_read(self, person: str, turns: Mapping[str, int], permit: Permit | None) -> list[str]:
        """Move a person's read marks forward in chats that the permit's reader sees; return those where they are."""
        reader = None if permit is None else permit()
        marked = []
        for chat, turn in turns.items():
            if reader is not None and not self._sees(reader, chat):
                continue
            reads = self._reads(chat)
            if reads is None or turn < reads.get(person, -1) or (person not in reads and len(reads) >= MAX_READS):
                continue
            if reads.get(person) != turn:
                self._put_reads(chat, {**reads, person: turn})
            marked.append(chat)
        return marked

    def forget_reader(self, person: str) -> None:
        """Remove the read marks of a person."""
        chats = self._connection.execute(
            "SELECT id FROM chats WHERE instr(reads, ?)", (msgspec.json.encode(person).decode(),)
        )
        for (chat,) in chats.fetchall():
            reads = self._reads(chat) or {}
            reads.pop(person, None)
            self._put_reads(chat, reads)

    def delete_chat(self, chat: str) -> None:
        """Delete a chat with all that belongs to it."""
        key = self._head(chat).key
        search_tables.forget(self._connection, "chat = ?", (key,))
        for table in ("entries", "keys", "turns"):
            self._connection.execute(f"DELETE FROM {table} WHERE chat = ?", (key,))
        for table in ("shares", "attachments"):
            self._connection.execute(f"DELETE FROM {table} WHERE chat = ?", (chat,))
        self._connection.execute("DELETE FROM chats WHERE key = ?", (key,))
        del self._heads[chat]
        self.changed.add(chat)

    def index(self, item: Unindexed, texts: SearchTexts | None, at: int) -> None:
        """Index the texts of a turn or title."""
        search_tables.index(self._connection, item, texts, at)

    def put_directory(self, directory: Directory) -> None:
        """Add or replace a directory."""
        self._connection.execute(PUT_DIRECTORY, sqlite_values(directory))

    def delete_directory(self, path: str) -> None:
        """Remove a directory."""
        self._connection.execute("DELETE FROM directories WHERE path = ?", (path,))

    def put_share(self, share: Share) -> None:
        """Add a share, and drop those that had expired when it was made."""
        self._head(share.chat)
        self._connection.execute("DELETE FROM shares WHERE expires_at <= ?", (share.created_at,))
        self._connection.execute(INSERT_SHARE, sqlite_values(share))

    def delete_share(self, id: str) -> None:
        """Remove a share."""
        self._connection.execute("DELETE FROM shares WHERE id = ?", (id,))

    def put_attachment(self, attachment: Attachment, content: bytes, unsent_before: int) -> None:
        """Add an attachment, and drop those that were never sent."""
        self._head(attachment.chat)
        self._connection.execute("DELETE FROM attachments WHERE turn = 0 AND created_at < ?", (unsent_before,))
        self._connection.execute(INSERT_ATTACHMENT, [*sqlite_values(attachment), content])

    def note_attachments(self, chat: str, ids: Sequence[str], turn: int) -> None:
        """Note the turn that is submitted with attachments."""
        marks = ", ".join("?" * len(ids))
        self._connection.execute(
            f"UPDATE attachments SET turn = ? WHERE chat = ? AND id IN ({marks})", (turn, chat, *ids)
        )

    def delete_attachment(self, chat: str, id: str) -> None:
        """Remove an attachment that is not sent yet."""
        self._connection.execute("DELETE FROM attachments WHERE chat = ? AND id = ? AND turn = 0", (chat, id))

    def _sees(self, reader: Reader, chat: str) -> bool:
        return self._connection.execute(SHOWN, (chat, *reader, reader.share)).fetchone() is not None

    def _reads(self, chat: str) -> dict[str, int] | None:
        found = self._connection.execute("SELECT reads FROM chats WHERE id = ?", (chat,)).fetchone()
        return None if found is None else msgspec.json.decode(found[0], type=dict[str, int])

    def _put_reads(self, chat: str, reads: dict[str, int]) -> None:
        self._connection.execute("UPDATE chats SET reads = ? WHERE id = ?", (sqlite_value(reads), chat))
        self.changed.add(chat)

    def _head(self, chat: str) -> Head:
        head = self._heads.get(chat)
        if head is None:
            head = self._heads[chat] = find_head(self._connection, chat)
        return head

    def _insert(self, chat: str, head: Head, entries: Sequence[bytes], at: int) -> None:
        if not entries:
            return
        key, first = head.key, head.last + 1
        statement = "INSERT INTO entries (chat, number, at, data) VALUES (?, ?, ?, ?)"
        if len(entries) == 1:
            self._connection.execute(statement, (key, first, at, entries[0]))
        else:
            self._connection.executemany(
                statement, [(key, number, at, data) for number, data in enumerate(entries, first)]
            )
        head.last += len(entries)
        self.appended[chat] = head.last

    def _put_turns(self, head: Head, rows: Sequence[TurnRow]) -> None:
        self._connection.execute("UPDATE chats SET summarized = ? WHERE key = ?", (head.last, head.key))
        for row in rows:
            size = 0
            if row.last:
                (size,) = self._connection.execute(
                    "SELECT coalesce(sum(length(data)), 0) FROM entries WHERE chat = ? AND number BETWEEN ? AND ?",
                    (head.key, row.first, row.last),
                ).fetchone()
            self._connection.execute(PUT_TURN, [*sqlite_values(row), head.key, size])

    def _update(self, chat: str, key: int, changes: ChatChanges) -> None:
        for name, value in changes.fields().items():
            self._connection.execute(f"UPDATE chats SET {name} = ? WHERE key = ?", (sqlite_value(value), key))
        self.changed.add(chat)


# --- reads ---


@contextmanager
def _snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    """Make all reads inside the context see one state of the file, also those of contexts inside it."""
    if connection.in_transaction:
        yield
        return
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.rollback()


def read_shown(
    connection: sqlite3.Connection, permit: Permit, read: Callable[..., Any], chat: str, *arguments: Any
) -> Any:
    """Call a read of a chat if the reader of a permit sees the chat, both in one state of the file.

    Raises:
        UnknownChat: there is none, or the reader does not see it.
    """
    reader = permit()
    with _snapshot(connection):
        if not connection.execute(SHOWN, (chat, *reader, reader.share)).fetchone():
            raise UnknownChat(chat)
        return read(connection, chat, *arguments)


def find_head(connection: sqlite3.Connection, chat: str) -> Head:
    """Find the end of a chat.

    Raises:
        UnknownChat: there is none.
    """
    found = connection.execute(
        """SELECT key, trimmed, max(trimmed, coalesce((SELECT max(number) FROM entries WHERE chat = key), 0)), epoch
        FROM chats WHERE id = ?""",
        (chat,),
    ).fetchone()
    if found is None:
        raise UnknownChat(chat)
    return Head(*found)


def read(connection: sqlite3.Connection, chat: str, after: int, limit: int) -> Page:
    """Read entries from `after + 1` on.

    Raises:
        StoreFailed: an entry is missing, which happens only in a damaged file.
    """
    found: list[StoredEntry] = []
    size = 0
    with _snapshot(connection):
        head = find_head(connection, chat)
        if after > head.last:
            raise Ahead(chat, after, head.last)
        if after < head.trimmed:
            raise Trimmed(chat, after, head.trimmed + 1)
        rows = connection.execute(
            "SELECT number, at, data FROM entries WHERE chat = ? AND number > ? ORDER BY number LIMIT ?",
            (head.key, after, limit),
        )
        for row in map(StoredEntry._make, rows):
            if row.number != after + len(found) + 1:
                break
            found.append(row)
            size += len(row.data)
            if size >= MAX_PAGE_BYTES:
                break
    if not found and after < head.last:
        raise StoreFailed(
            f"the store is damaged: the chat {chat!r} has no entry {after + 1}, and should have {head.last}",
            help="restore it from a backup",
            lasting=True,
        )
    return Page(found, head.last)


def get_chat(connection: sqlite3.Connection, chat: str) -> ChatRow:
    """Read a chat."""
    row = connection.execute(f"SELECT {CHAT_COLUMNS} FROM chats WHERE id = ?", (chat,)).fetchone()
    if row is None:
        raise UnknownChat(chat)
    return from_sqlite(row, ChatRow)


def list_chats(connection: sqlite3.Connection, after: str, limit: int) -> list[ChatRow]:
    """Read chats in the order of their ids."""
    rows = connection.execute(f"SELECT {CHAT_COLUMNS} FROM chats WHERE id > ? ORDER BY id LIMIT ?", (after, limit))
    return [from_sqlite(row, ChatRow) for row in rows]


def list_turns(connection: sqlite3.Connection, chat: str, before: int | None, limit: int) -> list[TurnRow]:
    """Read the newest turns before one, oldest first."""
    with _snapshot(connection):
        head = find_head(connection, chat)
        rows = connection.execute(
            f"SELECT {TURN_COLUMNS} FROM turns WHERE chat = ? AND turn < ? ORDER BY turn DESC LIMIT ?",
            (head.key, 2**62 if before is None else before, limit),
        ).fetchall()
    return [from_sqlite(row, TurnRow) for row in reversed(rows)]


def summary(connection: sqlite3.Connection, chat: str, limit: int) -> Summary:
    """Read the newest turns and all unfinished ones."""
    with _snapshot(connection):
        head = find_head(connection, chat)
        (number,) = connection.execute("SELECT summarized FROM chats WHERE key = ?", (head.key,)).fetchone()
        rows = connection.execute(
            f"""SELECT {TURN_COLUMNS} FROM turns WHERE chat = ? AND (last = 0 OR turn IN (
                SELECT turn FROM turns WHERE chat = ? ORDER BY turn DESC LIMIT ?)) ORDER BY turn""",
            (head.key, head.key, limit),
        ).fetchall()
    return Summary(max(number, head.trimmed), head.last, [from_sqlite(row, TurnRow) for row in rows])


def list_expired(connection: sqlite3.Connection, before: int | None, max_bytes: int | None) -> dict[str, int]:
    """Return for each chat the number up to which its turns are too old, or too many in all."""
    upto: dict[str, int] = {}
    with _snapshot(connection):
        if before is not None:
            # Only turns before the first one that is young enough: a clock that stepped back must not make a gap.
            upto |= connection.execute(
                """SELECT id, max(last) FROM turns AS old JOIN chats ON key = chat WHERE last > 0 AND turn < coalesce(
                    (SELECT min(turn) FROM turns WHERE chat = old.chat AND (last = 0 OR at >= ?)), 1 << 62)
                GROUP BY id""",
                (before,),
            )
        if max_bytes is not None:
            (kept,) = connection.execute(
                """SELECT (SELECT coalesce(sum(bytes), 0) FROM turns)
                + (SELECT coalesce(sum(size), 0) FROM attachments WHERE turn > 0)"""
            ).fetchone()
            excess = kept - max_bytes
            oldest = connection.execute(
                """SELECT id, last, bytes + (
                    SELECT coalesce(sum(size), 0) FROM attachments AS a WHERE a.chat = chats.id AND a.turn = turns.turn
                ) FROM turns JOIN chats ON key = turns.chat WHERE last > 0 ORDER BY at, id, turn"""
            )
            while excess > 0 and (row := oldest.fetchone()):
                upto[row[0]] = max(row[1], upto.get(row[0], 0))
                excess -= row[2]
    return upto


def list_directories(connection: sqlite3.Connection) -> list[Directory]:
    """Read all directories."""
    rows = connection.execute(f"SELECT {DIRECTORY_COLUMNS} FROM directories ORDER BY path")
    return [from_sqlite(row, Directory) for row in rows]


def list_shares(connection: sqlite3.Connection) -> list[Share]:
    """Read all shares."""
    rows = connection.execute(f"SELECT {SHARE_COLUMNS} FROM shares ORDER BY created_at, id")
    return [from_sqlite(row, Share) for row in rows]


def find_share(connection: sqlite3.Connection, secret: str) -> Share | None:
    """Read the share with this secret."""
    row = connection.execute(f"SELECT {SHARE_COLUMNS} FROM shares WHERE secret = ?", (secret,)).fetchone()
    return None if row is None else from_sqlite(row, Share)


def list_attachments(connection: sqlite3.Connection, chat: str) -> list[Attachment]:
    """Read the attachments of a chat, without their contents."""
    rows = connection.execute(
        f"SELECT {ATTACHMENT_COLUMNS} FROM attachments WHERE chat = ? ORDER BY created_at, id", (chat,)
    )
    return [from_sqlite(row, Attachment) for row in rows]


def read_attachment(connection: sqlite3.Connection, chat: str, id: str) -> bytes | None:
    """Read the content of an attachment."""
    row = connection.execute("SELECT content FROM attachments WHERE chat = ? AND id = ?", (chat, id)).fetchone()
    return None if row is None else row[0]


def attached_bytes(connection: sqlite3.Connection, person: str) -> int:
    """Read the bytes of all attachments that a person has uploaded."""
    statement = "SELECT coalesce(sum(size), 0) FROM attachments WHERE person = ?"
    found: int = connection.execute(statement, (person,)).fetchone()[0]
    return found
