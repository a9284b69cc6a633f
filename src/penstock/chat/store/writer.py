"""Threads of the SQLite store: one that changes the file, and a few that read it."""

from __future__ import annotations

import asyncio
import os
import queue
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from penstock.chat.store.database import Lock, connect, failure, make_file
from penstock.chat.store.protocol import StoreClosed, StoreFailed
from penstock.chat.store.schema import prepare
from penstock.chat.store.search_tables import add_functions
from penstock.chat.store.tables import Statements
from penstock.errors import PenstockError

MAX_BATCH = 1000
"""Statements of one transaction, at most."""

SIZE_ERRORS = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_TOOBIG", "SQLITE_NOMEM")
"""Errors of a transaction that one large change in it may have caused."""


class StoreWrite(NamedTuple):
    """Write that waits for the writer, with the future of its result."""

    make: Callable[[Statements], Any]
    result: asyncio.Future[Any]


class Outcomes(NamedTuple):
    """Results of changes that were made together, and the chats that they concern."""

    results: list[tuple[asyncio.Future[Any], Any]]
    """Futures with their results; a result may be an exception."""
    appended: dict[str, int]
    """Chats to which entries were appended, with their last numbers."""
    changed: set[str]
    """Chats whose rows were changed."""


class Writer:
    """Writer with the one connection that changes the file, in its own thread.

    Statements that wait are committed together.
    """

    def __init__(self, path: Path, deliver: Callable[[Outcomes], None]) -> None:
        """Lock and open the file. `deliver` is called in the writer's thread.

        Raises:
            PenstockError: another process has the file, it is of another form or not a store, or it cannot be used.
        """
        self.path = path
        self._deliver = deliver
        self._waiting: queue.SimpleQueue[StoreWrite | None] = queue.SimpleQueue()
        self._broken: StoreFailed | None = None
        try:
            self._lock = Lock(path)
        except OSError as error:
            raise failure(error, path) from error
        try:
            make_file(path)
            self._connection = connect(path, write=True)
            try:
                add_functions(self._connection)
                prepare(self._connection, path)
                self._changes = Statements(self._connection)
                self._files = self._identity()
            except BaseException:
                self._connection.close()
                raise
        except BaseException as error:
            self._lock.release()
            if isinstance(error, sqlite3.Error | OSError):
                raise failure(error, path) from error
            raise
        # A daemon thread: a program that does not close the store can end, and a commit that is cut off does not count.
        self._thread = threading.Thread(target=self._work, name="penstock-store", daemon=True)
        self._thread.start()

    def put(self, change: StoreWrite) -> None:
        """Queue a change. Its result is delivered once it is on the disk.

        A change that is cancelled before the writer begins with it is not made.
        """
        self._waiting.put(change)

    def close(self) -> None:
        """Make the changes that wait, and release the file. The readers must be closed before."""
        self._waiting.put(None)
        self._thread.join()

    def _work(self) -> None:
        goes_on = True
        while goes_on:
            batch = [self._waiting.get()]
            while len(batch) < MAX_BATCH and not self._waiting.empty():
                batch.append(self._waiting.get())
            goes_on = None not in batch
            changes = [change for change in batch if change is not None and not change.result.cancelled()]
            if changes:
                self._make(changes)
        try:
            self._connection.close()
        finally:
            self._lock.release()

    def _make(self, changes: list[StoreWrite]) -> None:
        """Make changes in one transaction, and deliver the results. If a change may be too large, try each alone."""
        try:
            results = self._commit(changes)
        except (sqlite3.Error, OSError, StoreFailed) as error:
            failed = error if isinstance(error, StoreFailed) else failure(error, self.path)
            if failed.lasting:
                self._broken = failed
            if len(changes) > 1 and str(getattr(error, "sqlite_errorname", "")).startswith(SIZE_ERRORS):
                for change in changes:
                    self._make([change])
                return
            results = [failed] * len(changes)
        except BaseException as error:  # a bug: the callers get the exception, and the thread continues
            results = [error] * len(changes)
        futures = [change.result for change in changes]
        appended, self._changes.appended = self._changes.appended, {}
        changed, self._changes.changed = self._changes.changed, set()
        self._deliver(Outcomes(list(zip(futures, results, strict=True)), appended, changed))

    def _commit(self, changes: list[StoreWrite]) -> list[Any]:
        if self._broken:
            raise self._broken
        self._check_files()
        connection = self._connection
        results: list[Any] = []
        connection.execute("BEGIN IMMEDIATE")
        try:
            for change in changes:
                try:
                    results.append(change.make(self._changes))
                except PenstockError as error:  # raised before it changed anything
                    results.append(error)
            connection.execute("COMMIT")
        except BaseException:
            self._changes.forget()
            connection.rollback()
            raise
        return results

    def _identity(self) -> list[tuple[int, int]]:
        found = [os.stat(self.path), os.stat(f"{self.path}-wal")]
        return [(stat.st_dev, stat.st_ino) for stat in found]

    def _check_files(self) -> None:
        """Check that the files still exist: data written to a file that was deleted is lost."""
        try:
            if self._identity() == self._files:
                return
        except OSError:
            pass
        raise StoreFailed(
            f"the store {str(self.path)!r}, or its -wal file, was moved, replaced or deleted while it was in use",
            help="end Penstock, put the files back, and start it again",
            lasting=True,
        )


class Readers:
    """Pool of the threads that read, with a connection for each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._own = threading.local()
        self._all: list[sqlite3.Connection] = []
        self._closed = False

    def call(self, read: Callable[..., Any], *arguments: Any) -> Any:
        """Call a read with the connection of this thread.

        Raises:
            PenstockError: the read raised it, or the file failed.
        """
        if self._closed:
            raise StoreClosed
        try:
            if not hasattr(self._own, "connection"):
                self._own.connection = connect(self.path, write=False)
                self._all.append(self._own.connection)
            return read(self._own.connection, *arguments)
        except (sqlite3.Error, OSError) as error:
            raise failure(error, self.path) from error

    def close(self) -> None:
        """Close all connections. No read may be in progress."""
        self._closed = True
        for connection in self._all:
            connection.close()
