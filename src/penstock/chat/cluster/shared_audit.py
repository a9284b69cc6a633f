"""Record of what people did at all nodes, in the database: each node copies the lines of its files there.

A line is on the disk of its node before its request is answered. So it reaches the database once the node and the
database are both there again, whatever happened between: the node continues after the last line that the database has.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec
from msgspec.structs import replace

from penstock.chat.people.audit import AuditRecord, files_of, whole_lines
from penstock.chat.store.postgres.connections import Database
from penstock.chat.store.protocol import StoreClosed, StoreFailed

LOOK_SECONDS = 1.0
"""Seconds between two looks for new lines, also those of `penstock people`."""

FORGET_SECONDS = 24 * 3600.0
"""Seconds between two deletions of old records."""

CLOSING_SECONDS = 1.0
"""Seconds for the last copy of a node that ends. What it does not copy is copied at its next start."""

MAX_LINES, MAX_BYTES = 1000, 1024 * 1024
"""Maximum number of lines that are copied at once, and about how many bytes of them."""

PAGE = 1000
"""Number of records that are read at once."""

_log = logging.getLogger("penstock.cluster")


class AuditLine(NamedTuple):
    """Line of a file of the record."""

    id: str
    file: str
    place: int
    """Place of its beginning in the file, in bytes."""
    line: bytes


class SharedAudit:
    """Copy of the record of this node in the database, continued until `close`."""

    def __init__(self, database: Database, node: str, folder: Path) -> None:
        """`folder` has the files of this node."""
        self._database = database
        self._node = node
        self._folder = folder
        self._copied: list[tuple[str, int]] | None = None  # names and sizes of the files when all was copied
        self._fails = False
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to copy, also what an earlier process of this node has left."""
        self._running = asyncio.create_task(self._run(), name="penstock audit")
        self._running.add_done_callback(_log_failure)

    async def close(self) -> None:
        """Copy what is new, if the database answers soon, and end."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])
        with contextlib.suppress(StoreFailed, StoreClosed, TimeoutError, OSError):
            async with asyncio.timeout(CLOSING_SECONDS):
                await self.copy()

    async def copy(self) -> None:
        """Copy all lines that the database does not have.

        Raises:
            StoreFailed, StoreClosed: the database cannot be used.
            OSError: a file cannot be read.
        """
        sizes = await asyncio.to_thread(_sizes, self._folder)
        if sizes == self._copied:
            return
        last = await self._database.fetch(LAST, {"node": self._node})  # each time: it may be a restored backup
        after = AuditLine(*last[0]) if last else None
        while lines := await asyncio.to_thread(_lines_after, self._folder, after):
            columns = {name: [getattr(line, name) for line in lines] for name in AuditLine._fields}
            await self._database.fetch(COPY, {"node": self._node, **columns})
            after = lines[-1]
        self._copied = sizes

    async def _run(self) -> None:
        forgets_at = 0.0
        while True:
            try:
                await self.copy()
                if time.monotonic() >= forgets_at:
                    await self._database.fetch(FORGET)
                    forgets_at = time.monotonic() + FORGET_SECONDS
            except (StoreFailed, OSError) as error:
                if not self._fails:
                    _log.warning("what people do is recorded here, and not yet in the database: %s", error)
                self._fails = True
            except StoreClosed:
                return
            else:
                self._fails = False
            await asyncio.sleep(LOOK_SECONDS)


def _log_failure(work: asyncio.Task[None]) -> None:
    if not work.cancelled() and (error := work.exception()) is not None:
        _log.error("a bug: the record of what people do is no longer copied to the database", exc_info=error)


async def shared_records(database: Database) -> AsyncIterator[AuditRecord]:
    """Yield the records of all nodes, the one that came last first.

    Raises:
        StoreFailed: the database cannot be read.
    """
    before = None
    while rows := await database.fetch(READ, {"before": before, "limit": PAGE}):
        for before, node, line in rows:  # noqa: B007
            with contextlib.suppress(msgspec.DecodeError, UnicodeError):
                yield replace(msgspec.json.decode(bytes(line), type=AuditRecord), node=node)


# --- in a thread ---


def _sizes(folder: Path) -> list[tuple[str, int]]:
    return [(path.name, path.stat().st_size) for path in files_of(folder)]


def _lines_after(folder: Path, after: AuditLine | None) -> list[AuditLine]:
    """Return the lines after one, or all if these files do not have it; not more than are copied at once."""
    files = files_of(folder)
    if after is not None and _has(folder / after.file, after):
        first, place = after.file, after.place + len(after.line)
    else:
        first, place = "", 0
    found: list[AuditLine] = []
    size = 0
    for path in files:
        if path.name < first:
            continue
        with open(path, "rb") as file:
            for line in _lines(path.name, place if path.name == first else 0, file):
                found.append(line)
                size += len(line.line)
                if len(found) >= MAX_LINES or size >= MAX_BYTES:
                    return found
    return found


def _has(path: Path, line: AuditLine) -> bool:
    """Return whether a file has a line at its place."""
    try:
        with open(path, "rb") as file:
            file.seek(line.place)
            return file.read(len(line.line)) == line.line
    except FileNotFoundError:
        return False


def _lines(name: str, begin: int, file: BinaryIO) -> Iterator[AuditLine]:
    """Yield the lines from a place on that are records. One that is being written is left for the next time."""
    for place, line in whole_lines(file, begin):
        with contextlib.suppress(msgspec.DecodeError, UnicodeError):
            msgspec.json.decode(line, type=AuditRecord)
            digest = hashlib.sha256(b"%s %d " % (name.encode(), place) + line).hexdigest()
            yield AuditLine(digest[:32], name, place, line)


LAST = "SELECT id, file, place, line FROM audit WHERE node = %(node)s ORDER BY key DESC LIMIT 1"

COPY = """
INSERT INTO audit (node, id, file, place, line)
SELECT %(node)s, id, file, place, line
FROM unnest(%(id)s::text[], %(file)s::text[], %(place)s::bigint[], %(line)s::bytea[])
    WITH ORDINALITY AS lines (id, file, place, line, number)
ORDER BY number
ON CONFLICT (node, id) DO NOTHING
"""
"""Statement that adds lines in their order. Those that an earlier attempt has added stay as they are."""

FORGET = "DELETE FROM audit WHERE received_at < now() - interval '400 days'"
"""Statement that deletes what is older than what any node keeps."""

READ = """
SELECT key, node, line FROM audit WHERE %(before)s::bigint IS NULL OR key < %(before)s::bigint
ORDER BY key DESC LIMIT %(limit)s
"""
