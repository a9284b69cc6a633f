"""The SQLite log as plain calls that block: the statements, and the thread that makes the changes."""

from __future__ import annotations

import os
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from penstock.chat.store.file import Lock, connect, failure, make_file, prepare, sync_folder
from penstock.chat.store.protocol import Ahead, Conflict, LogClosed, LogFailed, Row, Trimmed
from penstock.errors import PenstockError

MAX_PAGE_BYTES = 8 * 1024 * 1024
"""A read ends with the row that reaches this size."""

MAX_BATCH = 1000
"""Changes that are made in one transaction."""

OF_ONE = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_TOOBIG", "SQLITE_NOMEM")
"""Failures of a transaction that may be those of one large change in it."""

TRIM_ROWS = 2000
"""Rows that one change trims: those who append meanwhile wait for no more than that."""

SHRINK_PAGES = 2000
"""Pages that one change gives back."""

Change = Callable[[sqlite3.Connection], Any]


class _Chat(NamedTuple):
    id: int
    first: int
    last: int


def _chat(connection: sqlite3.Connection, name: str) -> _Chat | None:
    row = connection.execute("SELECT id, first, last FROM chats WHERE name = ?", (name,)).fetchone()
    return _Chat(*row) if row else None


# --- changes: each is made in a transaction that it does not end ---


def append(connection: sqlite3.Connection, name: str, rows: list[bytes], after: int, at: int) -> int:
    """Add rows behind number `after`; gives the new last number.

    Raises:
        Conflict: the chat ends elsewhere.
    """
    chat = _chat(connection, name)
    last = chat.last if chat else 0
    if last != after:
        raise Conflict(name, after, last)
    if not rows:
        return last
    if chat is None:
        made = connection.execute("INSERT INTO chats (name, first, last, bytes) VALUES (?, 1, 0, 0)", (name,))
        chat = _Chat(made.lastrowid or 0, 1, 0)
    last += len(rows)
    connection.executemany(
        "INSERT INTO entries (chat, number, at, data) VALUES (?, ?, ?, ?)",
        ((chat.id, number, at, data) for number, data in enumerate(rows, after + 1)),
    )
    connection.execute(
        "UPDATE chats SET last = ?, bytes = bytes + ? WHERE id = ?", (last, sum(map(len, rows)), chat.id)
    )
    return last


def trim(connection: sqlite3.Connection, name: str, upto: int) -> bool:
    """Drop some of the rows up to a number, the oldest first; gives True where more are left to drop.

    Raises:
        Ahead: the chat has no such number.
    """
    chat = _chat(connection, name)
    if upto > (chat.last if chat else 0):
        raise Ahead(name, upto, chat.last if chat else 0)
    if chat is None or upto < chat.first:
        return False
    step = min(upto, chat.first + TRIM_ROWS - 1)
    gone = (chat.id, step)
    size = connection.execute("SELECT total(length(data)) FROM entries WHERE chat = ? AND number <= ?", gone)
    freed = int(size.fetchone()[0])
    connection.execute("DELETE FROM entries WHERE chat = ? AND number <= ?", gone)
    connection.execute("UPDATE chats SET first = ?, bytes = bytes - ? WHERE id = ?", (step + 1, freed, chat.id))
    return step < upto


def shrink(connection: sqlite3.Connection) -> bool:
    """Give some unused pages back to the disk; gives True where more are left."""
    connection.execute(f"PRAGMA incremental_vacuum({SHRINK_PAGES})").fetchall()
    incremental = connection.execute("PRAGMA auto_vacuum").fetchone()[0] == 2
    return incremental and bool(connection.execute("PRAGMA freelist_count").fetchone()[0])


# --- looks ---


@contextmanager
def _snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    """All that is read inside is of one moment."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def last(connection: sqlite3.Connection, name: str) -> int:
    """The chat's last number."""
    chat = _chat(connection, name)
    return chat.last if chat else 0


def read(connection: sqlite3.Connection, name: str, after: int, limit: int) -> list[Row]:
    """Rows from `after + 1` on.

    Raises:
        Ahead, Trimmed: the chat has no such number, or no more.
        LogFailed: a row is missing, which only a damaged file can lack.
    """
    found: list[Row] = []
    size = 0
    with _snapshot(connection):
        chat = _chat(connection, name) or _Chat(0, 1, 0)
        if after > chat.last:
            raise Ahead(name, after, chat.last)
        if after + 1 < chat.first:
            raise Trimmed(name, after, chat.first)
        rows = connection.execute(
            "SELECT number, at, data FROM entries WHERE chat = ? AND number > ? ORDER BY number LIMIT ?",
            (chat.id, after, limit),
        )
        for row in map(Row._make, rows):
            if row.number != after + len(found) + 1:
                break
            found.append(row)
            size += len(row.data)
            if size >= MAX_PAGE_BYTES:
                break
    if not found and after < chat.last:
        raise LogFailed(
            f"the event log is damaged: the chat {name!r} has no event {after + 1}, and should have {chat.last}",
            way_out="restore it from a backup",
            lasting=True,
        )
    return found


def expired(connection: sqlite3.Connection, before: int | None, max_bytes: int | None) -> dict[str, int]:
    """For each chat that has too old rows, or too many in all: the number up to which to trim it."""
    upto: dict[str, int] = {}
    with _snapshot(connection):
        if before is not None:
            # The rows before the first one that is young enough: a clock that stepped back makes no hole.
            upto |= connection.execute(
                """SELECT name, coalesce(
                    (SELECT min(number) FROM entries WHERE chat = chats.id AND at >= ?), chats.last + 1) - 1 AS upto
                FROM chats WHERE first <= last AND upto >= first""",
                (before,),
            )
        if max_bytes is not None:
            excess = connection.execute("SELECT total(bytes) FROM chats").fetchone()[0] - max_bytes
            oldest = connection.execute(
                "SELECT name, number, length(data) FROM entries JOIN chats ON chats.id = chat ORDER BY entries.id"
            )
            while excess > 0 and (row := oldest.fetchone()):
                upto[row[0]] = max(row[1], upto.get(row[0], 0))
                excess -= row[2]
    return upto


def backup(connection: sqlite3.Connection, target: Path) -> None:
    """Write all of the log, as it is at one moment, into a new file, whole or not at all.

    Raises:
        OSError, sqlite3.Error: it cannot be written.
    """
    made = target.with_name(f"{target.name}.{os.urandom(4).hex()}.part")
    try:
        make_file(made)
        connection.execute("VACUUM INTO ?", (str(made),))
        fd = os.open(made, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        os.link(made, target)  # unlike a rename, it takes no one's place
        sync_folder(target.parent)
    finally:
        made.unlink(missing_ok=True)


# --- the writer ---


class Writer:
    """The one connection that changes the file, in a thread of its own. What waits together is committed together."""

    def __init__(self, path: Path) -> None:
        """Take the file, and bring it to today's form.

        Raises:
            PenstockError: it is someone else's, too new, no log, or cannot be used.
        """
        self.path = path
        self._waiting: queue.SimpleQueue[tuple[Change, Future[Any]] | None] = queue.SimpleQueue()
        self._broken: LogFailed | None = None
        try:
            self._lock = Lock(path)
        except OSError as error:
            raise failure(error, path) from error
        try:
            make_file(path)
            self._connection = connect(path, write=True)
            try:
                prepare(self._connection, path)
                self._files = self._identity()
            except BaseException:
                self._connection.close()
                raise
        except BaseException as error:
            self._lock.release()
            if isinstance(error, sqlite3.Error | OSError):
                raise failure(error, path) from error
            raise
        # A daemon: a program that forgets to close the log can end, and a commit that is cut off is none.
        self._thread = threading.Thread(target=self._work, name="penstock-log", daemon=True)
        self._thread.start()

    def put(self, change: Change) -> Future[Any]:
        """Have a change made. The future has its result once it is on the disk."""
        future: Future[Any] = Future()
        self._waiting.put((change, future))
        return future

    def close(self) -> None:
        """Make what waits, and let go of the file. The readers are closed before."""
        self._waiting.put(None)
        self._thread.join()

    def _work(self) -> None:
        goes_on = True
        while goes_on:
            batch = [self._waiting.get()]
            while len(batch) < MAX_BATCH and not self._waiting.empty():
                batch.append(self._waiting.get())
            goes_on = None not in batch
            changes = [item for item in batch if item and item[1].set_running_or_notify_cancel()]
            if changes:
                self._make(changes)
        try:
            self._connection.close()
        except sqlite3.Error:
            pass  # the next one to open the file takes the -wal file in
        finally:
            self._lock.release()

    def _make(self, changes: list[tuple[Change, Future[Any]]]) -> None:
        """Make changes in one transaction, and answer. What fails together by its size is tried apart."""
        try:
            outcomes = self._commit([change for change, _ in changes])
        except (sqlite3.Error, OSError, LogFailed) as error:
            failed = error if isinstance(error, LogFailed) else failure(error, self.path)
            if failed.lasting:
                self._broken = failed
            if len(changes) > 1 and str(getattr(error, "sqlite_errorname", "")).startswith(OF_ONE):
                for change in changes:
                    self._make([change])
                return
            outcomes = [failed] * len(changes)
        except BaseException as error:  # a bug: it belongs to who waits, and the thread goes on
            outcomes = [error] * len(changes)
        for (_, future), outcome in zip(changes, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

    def _commit(self, changes: list[Change]) -> list[Any]:
        if self._broken:
            raise self._broken
        self._still_there()
        connection = self._connection
        outcomes: list[Any] = []
        connection.execute("BEGIN IMMEDIATE")
        try:
            for change in changes:
                try:
                    outcomes.append(change(connection))
                except LogFailed:
                    raise
                except PenstockError as refused:  # before it changed anything
                    outcomes.append(refused)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return outcomes

    def _identity(self) -> list[tuple[int, int]]:
        found = [os.stat(self.path), os.stat(f"{self.path}-wal")]
        return [(stat.st_dev, stat.st_ino) for stat in found]

    def _still_there(self) -> None:
        """What is written to a file that was moved or deleted meanwhile would be lost."""
        try:
            if self._identity() == self._files:
                return
        except OSError:
            pass
        raise LogFailed(
            f"the event log {str(self.path)!r}, or its -wal file, was moved, replaced or deleted while it was in use",
            way_out="end Penstock, put the files back, and start it again",
            lasting=True,
        )


class Readers:
    """A connection for each thread that reads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._own = threading.local()
        self._all: list[sqlite3.Connection] = []
        self._closed = False

    def look(self, what: Callable[..., Any], *arguments: Any) -> Any:
        """Call a look with the connection of this thread.

        Raises:
            PenstockError: as the look does, and where the file fails.
        """
        if self._closed:
            raise LogClosed
        try:
            if not hasattr(self._own, "connection"):
                self._own.connection = connect(self.path, write=False)
                self._all.append(self._own.connection)
            return what(self._own.connection, *arguments)
        except (sqlite3.Error, OSError) as error:
            raise failure(error, self.path) from error

    def close(self) -> None:
        """Close them all. No look is under way."""
        self._closed = True
        for connection in self._all:
            connection.close()
