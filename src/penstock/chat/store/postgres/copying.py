"""Copy of the chats of a SQLite file into the database: byte for byte, with the same numbers, times and keys."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
from msgspec.structs import asdict, replace

from penstock.chat.store import tables
from penstock.chat.store.columns import names, values_by_name
from penstock.chat.store.database import connect
from penstock.chat.store.postgres.appends import encoded
from penstock.chat.store.postgres.connections import failure, parameters
from penstock.chat.store.postgres.migrate import require_tables
from penstock.chat.store.postgres.statements import PUT_SHARE
from penstock.chat.store.rows import Attachment, ChatRow, Directory, TurnRow
from penstock.chat.store.sqlite import SqliteStore

COPIES = {
    "entries": ("SELECT number, at, data FROM entries WHERE chat = ?", "number, at, data"),
    "keys": ("SELECT key, number FROM keys WHERE chat = ?", "key, number"),
    "turns": (f"SELECT {names(TurnRow)}, bytes FROM turns WHERE chat = ?", f"{names(TurnRow)}, bytes"),
}
"""Tables of a chat: how they are read, and their columns."""

HEAD = """INSERT INTO heads (id, last, trimmed, summarized) VALUES (%s, %s, %s, %s)
    ON CONFLICT (id) DO NOTHING RETURNING key"""

DIRECTORY = f"""INSERT INTO directories (node, {names(Directory)})
    VALUES (%(node)s, {values_by_name(Directory)})
    ON CONFLICT (node, path) DO NOTHING"""


class Copied(NamedTuple):
    """Result of a copy."""

    chats: int
    entries: int
    present: list[str]
    """Chats that the database had already; they were left as they are."""


async def copy(file: Path, url: str, *, home: str) -> Copied:
    """Copy all chats of a SQLite file, each as a whole or not at all. Their agents run on the node `home` from then on.

    No other process may have the file.

    Raises:
        UsageError: another process has the file, it is not a store, or the database does not have all tables.
        StoreFailed: the file or the database cannot be used. A copy that is made again continues with the other chats.
    """
    await require_tables(url)
    async with await SqliteStore.open(file):  # it is of the current form, and nobody changes it meanwhile
        try:
            async with await psycopg.AsyncConnection.connect(autocommit=True, **parameters(url)) as connection:
                with closing(connect(file, write=False)) as source:
                    return await _copy(source, connection, home)
        except psycopg.Error as error:
            raise failure(error) from error


async def _copy(source: sqlite3.Connection, target: psycopg.AsyncConnection[Any], home: str) -> Copied:
    chats = entries = 0
    present: list[str] = []
    shares = tables.list_shares(source)
    for row in _chats(source):
        head = tables.find_head(source, row.id)
        async with target.transaction():
            copied = await _copy_chat(source, target, replace(row, home=home), head)
            for share in shares if copied is not None else ():
                if share.chat == row.id:
                    await target.execute(PUT_SHARE, asdict(share))
        if copied is None:
            present.append(row.id)
        else:
            chats, entries = chats + 1, entries + copied
    for directory in tables.list_directories(source):
        await target.execute(DIRECTORY, {"node": home, **asdict(directory)})
    return Copied(chats, entries, present)


def _chats(source: sqlite3.Connection) -> Iterator[ChatRow]:
    after = ""
    while page := tables.list_chats(source, after, 500):
        yield from page
        after = page[-1].id


async def _copy_chat(
    source: sqlite3.Connection, target: psycopg.AsyncConnection[Any], row: ChatRow, head: tables.Head
) -> int | None:
    """Copy one chat; return the number of its entries, or None if the database has a chat of its id."""
    (summarized,) = source.execute("SELECT summarized FROM chats WHERE key = ?", (head.key,)).fetchone()
    found = await (await target.execute(HEAD, (row.id, head.last, head.trimmed, summarized))).fetchone()
    if found is None:
        return None
    (key,) = found
    await target.execute("SELECT put_row_v1(%s, %s::jsonb)", (key, encoded(row)))
    for table, (query, columns) in COPIES.items():
        async with (
            psycopg.AsyncCursor(target) as writing,
            writing.copy(f"COPY {table} (chat, {columns}) FROM STDIN") as copying,
        ):
            for values in source.execute(query, (head.key,)):
                await copying.write_row((key, *values))
    attached = f"{names(Attachment)}, content"
    async with (
        psycopg.AsyncCursor(target) as writing,
        writing.copy(f"COPY attachments ({attached}) FROM STDIN") as copying,
    ):
        for values in source.execute(f"SELECT {attached} FROM attachments WHERE chat = ?", (row.id,)):
            await copying.write_row(values)
    await target.execute("SELECT notify_v1(ARRAY[%s || ' row'])", (row.id,))
    return head.last - head.trimmed
