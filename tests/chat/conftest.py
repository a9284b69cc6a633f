"""What the tests of the event log share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.chat.store.sqlite import SqliteLog

SMALL = 200_000
"""The largest row of the logs in tests: a check of the limit writes one."""


class Place:
    """A file for a log, and a clock that stands still until it is moved."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "log.db"
        self.time = 1_000_000

    async def open(self, **options: Any) -> SqliteLog:
        return await SqliteLog.open(self.path, **{"now": lambda: self.time, "max_row_bytes": SMALL} | options)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A place for one log."""
    return Place(tmp_path)
