"""Connections to PostgreSQL: one statement at a time, each with a time limit, tried again while the server is away.

A call never hangs: a statement that is not answered in time has its connection cut, so also one whose packets are lost.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, LiteralString, NamedTuple, Self

import psycopg
from psycopg import conninfo

from penstock.chat.store.permits import Permit
from penstock.chat.store.protocol import StoreClosed, StoreFailed
from penstock.chat.store.search import SEARCH_SECONDS, Reader
from penstock.chat.store.state import StoreState
from penstock.errors import UsageError

LEAST_SECONDS = 1.0
"""Seconds in which a connection is made, at least: the last attempt of a call has that much even if it ends late."""


class Patience(NamedTuple):
    """Seconds that a store waits for its server."""

    statement: float = 5.0
    """In which a statement is answered: one that is not has lost its connection. A commit takes milliseconds."""
    connect: float = 5.0
    """In which a connection is made."""
    away: float = 7.0
    """For which a call is tried again while the server is away. A restart takes one to two; a node may keep its runs
    for not quite seven without the server, and their appends wait for it."""


PATIENCE = Patience()
"""Seconds of a store that is not a test's."""

RETRY_SECONDS = (0.05, 0.1, 0.2, 0.4, 0.8)
"""Seconds between one attempt and the next; the last repeats."""

QUIET_SECONDS = 5.0
"""Seconds for which a connection sends no notifications, after the server's queue of them was full."""

CLOSING_SECONDS = 0.5
"""Seconds for which a store that is closed waits for the next answer of its server. Calls that have none by then fail:
what they bring was not acknowledged."""

WORKERS = 4
"""Number of connections for everything but the appends and the notifications."""

BOUNDED_SECONDS = SEARCH_SECONDS
"""Seconds after which the server ends a statement whose cost depends on what a person asks for: a search."""

PARAMETERS = {
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "2",
    "tcp_user_timeout": "10000",
    "client_encoding": "UTF8",
    "target_session_attrs": "read-write",
    "application_name": "penstock",
}
"""Parameters of each connection that the URL does not name. A peer that is gone is noticed within 20 s."""

SCHEMES = ("postgresql://", "postgres://")
"""Beginnings of the URL of a database."""

SEARCH_PATH = "-c search_path=penstock"
"""Option of each connection: all tables are in one schema, also those of procrastinate, which does not name it."""

EMPTY: Mapping[str, Any] = {}
"""Values of a statement that has none."""

AWAY = ("08", "40001", "40P01", "53300", "57P01", "57P02", "57P03", "25006", "55P03")
"""Beginnings of the error codes with which a statement is tried again: connections, deadlocks, a server that stops."""

FULL = ("53", "58")
"""Beginnings of the error codes of a server that has no space or memory, or whose disk fails."""

ENDED = "57014"
"""Error code of a statement that the server ended, as it took too long."""

TAKEN = "23505"
"""Error code of a row whose key another one has."""

_log = logging.getLogger("penstock.store")


def code_of(failed: StoreFailed) -> str:
    """Return the error code of the server; empty if it did not answer."""
    return getattr(failed.__cause__, "sqlstate", None) or ""


def parameters(url: str) -> dict[str, Any]:
    """Return the parameters of a connection to the database that a URL names.

    Raises:
        UsageError: it is not the URL of a database.
    """
    given = _parsed(url)
    options = f"{given.get('options') or ''} {SEARCH_PATH}".strip()
    return {**PARAMETERS, **given, "options": options}


def has_password(url: str) -> bool:
    """Return whether the URL of a database has a password.

    Raises:
        UsageError: it is not the URL of a database.
    """
    return _parsed(url).get("password") is not None


def _parsed(url: str) -> dict[str, Any]:
    try:
        if url.startswith(SCHEMES):
            return dict(conninfo.conninfo_to_dict(url))
    except (psycopg.ProgrammingError, UnicodeError):
        pass  # what it says may have a part of the password
    raise UsageError("the store is not the URL of a database", expected="postgresql://USER@HOST/NAME")


EVERYBODY = Reader("", is_owner=True)
"""Reader of statements that Penstock makes for itself."""


class Away(Exception):
    """The server did not answer, or it closed the connection: a later attempt may work."""


def failure(error: Exception) -> StoreFailed:
    """Return an error of PostgreSQL as a `StoreFailed`, in words for a person."""
    code = getattr(error, "sqlstate", None) or ""
    text = " ".join(str(error).split())[:300] or type(error).__name__
    help = next((help for start, help in _HELP.items() if code.startswith(start)), "")
    return StoreFailed(f"the database failed: {text}", help=help or "look at the database server and its log")


_HELP = {
    "42P01": "make its tables with: penstock store migrate",
    "3F000": "make its tables with: penstock store migrate",
    "42883": "make its tables with: penstock store migrate",
    "28": "look at the user and the password",
    "3D000": "make the database with: createdb",
    "53100": "make space on the disk of the database server",
    "42501": "give the database user these rights",
}


class DatabaseLink:
    """One connection, made when it is first needed, and made anew after a failure. One caller uses it at a time."""

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        self._parameters = dict(parameters)
        self.connection: psycopg.AsyncConnection[Any] | None = None
        self._quiet_until: float | None = None  # the connection sends no notifications
        self._connecting: asyncio.Timeout | None = None

    async def run(
        self, query: LiteralString, values: Mapping[str, Any], seconds: float, connect_seconds: float
    ) -> list[tuple[Any, ...]]:
        """Run one statement, which is a transaction of its own, and return its rows.

        Raises:
            Away: the server is away. The statement may have been made.
            StoreFailed: the server rejected it.
        """
        connection = await self.open(connect_seconds)
        timer = asyncio.get_running_loop().call_later(seconds, self.cut)
        try:
            return await self._run(connection, query, values)
        except psycopg.Error as error:
            is_away = connection.closed or (error.sqlstate or "").startswith(AWAY)
            if is_away:
                await self.close()
                raise Away(_short(error)) from error
            raise failure(error) from error
        finally:
            timer.cancel()

    async def _run(
        self, connection: psycopg.AsyncConnection[Any], query: LiteralString, values: Mapping[str, Any]
    ) -> list[tuple[Any, ...]]:
        """Run one statement, without its notifications if the server's queue of them is full."""
        now = asyncio.get_running_loop().time()
        if self._quiet_until is not None and now >= self._quiet_until:
            await connection.execute("RESET penstock.quiet")
            self._quiet_until = None
        try:
            return await _rows(connection, query, values)
        except psycopg.errors.ProgramLimitExceeded:  # nothing was committed
            if self._quiet_until is not None:
                raise  # it was another limit
            await connection.execute("SET penstock.quiet = 'on'")
            self._quiet_until = now + QUIET_SECONDS
            rows = await _rows(connection, query, values)
            _log.warning("the database's queue of notifications is full: other nodes see what is new up to 1 s later")
            return rows

    async def open(self, seconds: float) -> psycopg.AsyncConnection[Any]:
        """Return the connection, made if there is none.

        Raises:
            Away: it cannot be made now.
            StoreFailed: the server does not accept it.
        """
        if self.connection is not None and not self.connection.closed:
            return self.connection
        try:
            async with asyncio.timeout(seconds) as self._connecting:
                self.connection = await psycopg.AsyncConnection.connect(autocommit=True, **self._parameters)
            self._quiet_until = None
        except TimeoutError as error:
            raise Away(f"no connection was made in {seconds:.0f} s") from error
        except psycopg.OperationalError as error:
            if (error.sqlstate or "").startswith(("28", "3D")) or _is_rejected(error):
                raise failure(error) from error
            raise Away(_short(error)) from error
        finally:
            self._connecting = None
        return self.connection

    def cut(self) -> None:
        """End the connection's socket, or the attempt to make one, so that whatever waits for it fails."""
        if self._connecting is not None and not self._connecting.expired():
            self._connecting.reschedule(asyncio.get_running_loop().time())
        if self.connection is not None:
            cut(self.connection)

    async def close(self) -> None:
        """Close the connection, if there is one."""
        connection, self.connection = self.connection, None
        if connection is not None:
            await connection.close()


def cut(connection: psycopg.AsyncConnection[Any]) -> None:
    """End a connection's socket, so that whatever waits for it fails. Its descriptor stays valid until then."""
    if connection.closed:
        return
    try:
        with socket.socket(fileno=os.dup(connection.fileno())) as same:
            same.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it is not connected any more


async def _rows(
    connection: psycopg.AsyncConnection[Any], query: LiteralString, values: Mapping[str, Any]
) -> list[tuple[Any, ...]]:
    result = await connection.execute(query, values, binary=True)
    return await result.fetchall() if result.description is not None else []


def _is_rejected(error: psycopg.OperationalError) -> bool:
    """Return whether the server rejects the user or the database: errors of connecting have no code in libpq."""
    return any(words in str(error) for words in ("authentication failed", "no password supplied", "does not exist"))


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


class Database:
    """Connections of one store. All calls belong to one event loop."""

    def __init__(self, url: str, patience: Patience = PATIENCE) -> None:
        """Create it without a connection.

        Raises:
            UsageError: it is not the URL of a database.
        """
        self.parameters: dict[str, Any] = parameters(url)
        """Parameters of a connection, as keywords of psycopg."""
        self.patience = patience
        self._links: list[DatabaseLink] = []
        self._idle = [self.link() for _ in range(WORKERS)]
        self._free = asyncio.Semaphore(WORKERS)
        self._bounded = self.link(f"-c statement_timeout={round(BOUNDED_SECONDS * 1000)}")
        self._bounded_lock = asyncio.Lock()
        self._calls: set[asyncio.Task[Any]] = set()
        self.state: StoreState = StoreState()
        """State of the store: it has failed while the server is away, or has no space."""
        self._away_since: float | None = None
        self._closed = False
        self._ends_at: float | None = None  # time of the event loop at which calls of a store that is closed fail

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def link(self, options: str = "") -> DatabaseLink:
        """Return a new connection, which its caller closes, with options of the server besides those of all."""
        link = DatabaseLink({**self.parameters, "options": f"{self.parameters['options']} {options}".strip()})
        self._links.append(link)
        return link

    async def fetch(
        self,
        query: LiteralString,
        values: Mapping[str, Any] = EMPTY,
        *,
        seconds: float | None = None,
        permit: Permit | None = None,
    ) -> list[tuple[Any, ...]]:
        """Run one statement, and return its rows. It gets the value `again`, which is true from the second attempt on.

        `permit` is checked before each attempt. The values `reader`, `sees_all` and `share` are those of its reader;
        without a permit, all chats are seen. A call that is cancelled continues to its end.

        Raises:
            StoreFailed: the server is away, or rejected it.
            StoreClosed: the database was closed.
        """
        if self._closed:
            raise StoreClosed
        return await asyncio.shield(self._start(self._fetch(query, values, seconds, permit)))

    async def fetch_bounded(self, query: LiteralString, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Run one statement as `fetch` does, but one at a time, and end it after `BOUNDED_SECONDS`.

        Raises:
            TimeoutError: the server ended it.
            StoreFailed, StoreClosed: as for `fetch`.
        """
        if self._closed:
            raise StoreClosed
        try:
            return await asyncio.shield(self._start(self._fetch_bounded(query, values)))
        except StoreFailed as failed:
            if code_of(failed) == ENDED:
                raise TimeoutError from failed
            raise

    async def _fetch_bounded(self, query: LiteralString, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        async with self._bounded_lock:
            return await self.repeated(self._bounded, query, values)

    async def repeated(
        self,
        link: DatabaseLink,
        query: LiteralString,
        values: Mapping[str, Any],
        seconds: float | None = None,
        permit: Permit | None = None,
    ) -> list[tuple[Any, ...]]:
        """Run one statement on a connection, again and again while the server is away, but not for long.

        Raises:
            StoreFailed: the server is away, or rejected it.
            StoreClosed: the store was closed, and the server did not answer.
        """
        loop = asyncio.get_running_loop()
        began, attempt = loop.time(), 0
        while True:
            if self._is_over:
                raise StoreClosed
            left = (self._away_since or began) + self.patience.away - loop.time()
            connect = min(self.patience.connect, max(left, LEAST_SECONDS))
            try:
                reader = EVERYBODY
                if permit is not None:
                    await link.open(connect)  # first: a connection may take its time
                    reader = permit()
                given = {**values, "again": attempt > 0, "reader": reader.person, "sees_all": reader.is_owner}
                given["share"] = reader.share
                rows = await link.run(query, given, seconds or self.patience.statement, connect)
                self._away_since = None
                if self._ends_at is not None:
                    self._ends_at = loop.time() + CLOSING_SECONDS
                return rows
            except Away as away:
                self._away_since = self._away_since or began
                # The first attempt may only find that its connection is of the time before the server was away.
                if attempt > 0 and loop.time() - self._away_since >= self.patience.away:
                    failed = _is_away(away)
                    self.state.failed(failed)
                    raise failed from away
            except StoreFailed as failed:
                if code_of(failed).startswith(FULL):
                    self.state.failed(failed)
                raise
            await asyncio.sleep(RETRY_SECONDS[min(attempt, len(RETRY_SECONDS) - 1)])
            attempt += 1

    def begin_to_close(self) -> None:
        """Fail the calls that wait, once the server has not answered any of them for `CLOSING_SECONDS`."""
        loop = asyncio.get_running_loop()
        if self._ends_at is None:
            self._ends_at = loop.time() + CLOSING_SECONDS
        if not self._is_over:
            loop.call_at(self._ends_at, self.begin_to_close)
            return
        for link in self._links:
            link.cut()

    @property
    def _is_over(self) -> bool:
        return self._ends_at is not None and asyncio.get_running_loop().time() >= self._ends_at

    async def close(self) -> None:
        """Finish the calls that wait if the server answers, and close the connections."""
        self._closed = True
        self.begin_to_close()
        await asyncio.gather(*self._calls, return_exceptions=True)
        for link in (*self._idle, self._bounded):
            await link.close()

    def _start(self, call: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(call)
        self._calls.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._calls.discard(task)
        if not task.cancelled():
            task.exception()  # its caller may have been cancelled, and nobody else reads it

    async def _fetch(
        self, query: LiteralString, values: Mapping[str, Any], seconds: float | None, permit: Permit | None
    ) -> list[tuple[Any, ...]]:
        async with self._borrowed() as link:
            return await self.repeated(link, query, values, seconds, permit)

    @asynccontextmanager
    async def _borrowed(self) -> AsyncIterator[DatabaseLink]:
        async with self._free:
            link = self._idle.pop()
            try:
                yield link
            finally:
                self._idle.append(link)


def _is_away(away: Away) -> StoreFailed:
    return StoreFailed(f"the database is away: {away}", help="look at the database server, and at the way to it")
