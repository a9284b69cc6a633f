"""Record of what persons did at a server: one JSON object a line, in a file for each month.

An agent that is not confined can change the files, as they are those of the user who runs the server.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from penstock.config.data import open_private
from penstock.errors import UsageError

AUDIT = "audit"
"""Directory of the files in the data directory."""

KEPT_MONTHS = 12
"""Number of months before the current one whose files are kept."""

MAX_DETAIL_CHARS = 200
"""Maximum characters of one text in the details of a record."""

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

    @property
    def is_refused(self) -> bool:
        """Return whether it was refused because of who asked."""
        return self.status in (401, 403)


class Audit:
    """Writer of the record of one server."""

    def __init__(self, folder: Path | None, now: Callable[[], float] = time.time) -> None:
        """`folder` has the files; None: nothing is recorded. `now` returns seconds since 1970."""
        self._folder = folder
        self._now = now
        self._month = ""
        self._fails = False

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
        """Append a record. A failure is logged once, until it works again: nothing else fails because of it."""
        if self._folder is None:
            return
        now = self._now()
        short = {name: _shortened(value) for name, value in (details or {}).items()}
        record = AuditRecord(int(now * 1000), person, what, status, browser, address, chat, short)
        month = time.strftime("%Y-%m", time.gmtime(now))
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            if month != self._month:
                _forget(self._folder, month)
                self._month = month
            path = self._folder / f"{month}.ndjson"
            with open(path, "ab", buffering=0, opener=open_private) as file:
                file.write(msgspec.json.encode(record) + b"\n")  # one write: lines of several processes do not mix
        except OSError as error:
            if not self._fails:
                _log.warning("what people do is not recorded: %s", error.strerror or error)
            self._fails = True
        else:
            self._fails = False


def records(folder: Path) -> Iterator[AuditRecord]:
    """Yield all records, the oldest first. A line that was cut off by a crash is left out.

    Raises:
        UsageError: the directory or one of its files cannot be read.
    """
    try:
        for path in _files(folder):
            with open(path, "rb") as file:
                for line in file:
                    try:
                        yield msgspec.json.decode(line, type=AuditRecord)
                    except (msgspec.DecodeError, UnicodeError):
                        continue
    except OSError as error:
        raise UsageError(f"{error.filename or folder} cannot be read: {error.strerror or error}") from error


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(folder / name for name in os.listdir(folder) if _FILE.fullmatch(name))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _forget(folder: Path, month: str) -> None:
    """Remove the files of months that are kept no longer."""
    year, number = map(int, month.split("-"))
    oldest = year * 12 + number - KEPT_MONTHS
    for path in _files(folder):
        found = _FILE.fullmatch(path.name)
        if found is not None and int(found[1]) * 12 + int(found[2]) < oldest:
            path.unlink()


def _shortened(value: Any) -> Any:
    return value[:MAX_DETAIL_CHARS] if isinstance(value, str) else value
