"""Record of what persons did at a server: one JSON object a line, in a file for each month.

With several machines, each copies its files to the database (`penstock.chat.cluster.shared_audit`). An agent that is
not confined can change the files, as they are those of the user who runs the server.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from penstock.chat.history.entries import OWNER
from penstock.config.data import fsync_directory, open_private
from penstock.errors import UsageError

AUDIT = "audit"
"""Directory of the files in the data directory."""

KEPT_MONTHS = 12
"""Number of months before the current one whose files are kept."""

MAX_DETAIL_CHARS = 200
"""Maximum characters of one text in the details of a record."""

MAX_LINE_BYTES = 64 * 1024
"""Maximum bytes of a record; one that is larger has no details."""

MAX_FILE_BYTES = 256 * 1024 * 1024
"""Maximum bytes of the file of one month: some hundred thousand records. Who asks for more is not to fill the disk."""

SENDER_PARTS = 2
"""A person fills at most this part of a file, unless they are the owner. So nobody prevents the record of what others
do by sending many requests."""

STRANGER_PARTS = 4
"""Requests without a login fill at most this part of a file."""

SYNC_SECONDS = 2.0
"""Seconds for which a response waits until its record is on the disk. A disk that is slower delays nobody further."""

LOST = "records_lost"
"""Name of the record that says how many records could not be written before it."""

_FILE = re.compile(r"([0-9]{4})-([0-9]{2})\.ndjson")
_log = logging.getLogger("penstock.gateway")


class AuditRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that somebody did, or was refused."""

    at: int
    """Time in milliseconds since 1970."""
    person: str | None
    """None if the request was not authenticated."""
    what: str
    """Name of the operation, as in the OpenAPI document, or of the command."""
    status: int = 0
    """Status of the response; 0 for a command."""
    browser: str | None = None
    """Id of the browser; None for a program."""
    address: str = ""
    chat: str | None = None
    details: dict[str, Any] = {}
    """What was chosen: a permission, an answer, a directory. Never the text of a message."""
    node: str = ""
    """Machine that wrote it, in the record of several machines; else empty."""

    @property
    def is_refused(self) -> bool:
        """Return whether it was refused because of who asked."""
        return self.status in (401, 403)


class Audit:
    """Writer of the record of one server."""

    def __init__(self, folder: Path | None, now: Callable[[], float] = time.time, *, is_durable: bool = False) -> None:
        """`folder` has the files; None: nothing is recorded. `now` returns seconds since 1970.

        If `is_durable`, `settle` waits until the records are on the disk.
        """
        self.lost: int = 0
        """Number of records that could not be written."""
        self._folder = folder
        self._now = now
        self._is_durable = is_durable
        self._month = ""
        self._filled: dict[str | None, int] = {}
        """Bytes of this month's file by person, since the start."""
        self._unreported = 0  # records that were lost since one could be written
        self._written = self._durable = 0
        self._syncing: asyncio.Task[None] | None = None

    def write(
        self,
        person: str | None,
        what: str,
        *,
        status: int = 0,
        browser: str | None = None,
        address: str = "",
        chat: str | None = None,
        details: dict[str, Any] | None = None,
    ) -> None:
        """Append a record. Nothing else fails if it cannot be written.

        The log says so once, and the next record that can be written comes after one with the number of those lost.
        """
        if self._folder is None:
            return
        now = self._now()
        at, month = int(now * 1000), time.strftime("%Y-%m", time.gmtime(now))
        short = {name: _shortened(value) for name, value in (details or {}).items()}
        record = AuditRecord(at, person, what, status, browser, address, chat, short)
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            if month != self._month:
                _forget(self._folder, month)
                self._month = month
                self._filled.clear()
            line = _line(record)
            self._check_part(person, len(line))
            if self._unreported:
                _append(self._path, _line(AuditRecord(at, None, LOST, details={"count": self._unreported})))
                _log.warning("what people do is recorded again; records that are lost: %d", self._unreported)
                self._unreported = 0
            _append(self._path, line)
            self._filled[person] = self._filled.get(person, 0) + len(line)
        except OSError as error:
            if not self._unreported:
                _log.warning("what people do is not recorded: %s", error.strerror or error)
            self.lost += 1
            self._unreported += 1
        else:
            self._written += 1

    def _check_part(self, person: str | None, more: int) -> None:
        """Check that a person, or everybody without a login, does not fill the file.

        Raises:
            OSError: they would.
        """
        parts = 1 if person == OWNER else STRANGER_PARTS if person is None else SENDER_PARTS
        if self._filled.get(person, 0) + more > MAX_FILE_BYTES // parts:
            raise OSError(f"{person or 'requests without a login'} cannot fill more of it")

    async def settle(self) -> None:
        """Wait until the records that were written are on the disk, if that is asked for, but not for long."""
        wanted = self._written if self._is_durable else 0
        try:
            async with asyncio.timeout(SYNC_SECONDS):
                while self._durable < wanted:
                    if self._syncing is None or self._syncing.done():
                        self._syncing = asyncio.create_task(self._sync())
                    await asyncio.shield(self._syncing)  # one for all who wait
        except TimeoutError:
            _log.warning("the record of what people do is not on the disk after %.0f s", SYNC_SECONDS)

    @property
    def _path(self) -> Path:
        assert self._folder is not None
        return self._folder / f"{self._month}.ndjson"

    async def _sync(self) -> None:
        count = self._written
        try:
            await asyncio.to_thread(_fsync, self._path)
        except OSError as error:
            _log.warning("the record of what people do may not be on the disk: %s", error.strerror or error)
        self._durable = count


def _line(record: AuditRecord) -> bytes:
    line = msgspec.json.encode(record)
    if len(line) >= MAX_LINE_BYTES:
        line = msgspec.json.encode(msgspec.structs.replace(record, details={"too_large": len(line)}))
    return line + b"\n"


def _append(path: Path, line: bytes) -> None:
    """Append a line to a file. A line that was cut off before it is ended first.

    Raises:
        OSError: it cannot be written. A part of it may be.
    """
    with open(path, "ab+", buffering=0, opener=open_private) as file:
        size = file.seek(0, os.SEEK_END)
        if size + len(line) > MAX_FILE_BYTES:
            raise OSError(f"{path.name} has {MAX_FILE_BYTES // 1024 // 1024} MB")
        if size:
            file.seek(size - 1)
            line = line if file.read(1) == b"\n" else b"\n" + line
        if file.write(line) < len(line):  # one write: lines of several processes do not mix
            raise OSError("no space for a whole record")


def _fsync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
    fsync_directory(path.parent)


def records(folder: Path) -> Iterator[AuditRecord]:
    """Yield all records, the oldest first, without lines that were cut off by a crash or are too long to be a record.

    Raises:
        UsageError: the directory or one of its files cannot be read.
    """
    try:
        for path in files_of(folder):
            with open(path, "rb") as file:
                for _, line in whole_lines(file):
                    try:
                        yield msgspec.json.decode(line, type=AuditRecord)
                    except (msgspec.DecodeError, UnicodeError):
                        continue
    except OSError as error:
        raise UsageError(f"{error.filename or folder} cannot be read: {error.strerror or error}") from error


def whole_lines(file: BinaryIO, place: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yield the lines from a place on with their places.

    Those that are too long to be records are left out, and so is the last one if it has no end yet.
    """
    file.seek(place)
    is_rest = False
    while line := file.readline(MAX_LINE_BYTES):
        has_end = line.endswith(b"\n")
        if has_end and not is_rest:
            yield place, line
        is_rest = not has_end
        place += len(line)


def files_of(folder: Path) -> list[Path]:
    """Return the files of a record, the oldest month first."""
    try:
        return sorted(folder / name for name in os.listdir(folder) if _FILE.fullmatch(name))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _forget(folder: Path, month: str) -> None:
    """Remove the files of months that are kept no longer."""
    year, number = map(int, month.split("-"))
    oldest = year * 12 + number - KEPT_MONTHS
    for path in files_of(folder):
        found = _FILE.fullmatch(path.name)
        if found is not None and int(found[1]) * 12 + int(found[2]) < oldest:
            path.unlink()


def _shortened(value: Any) -> Any:
    return value[:MAX_DETAIL_CHARS] if isinstance(value, str) else value
