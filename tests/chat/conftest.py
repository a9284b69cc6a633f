"""What the tests of the store share."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from penstock.chat.store.rows import ChatRow
from penstock.chat.store.sqlite import SqliteStore

SMALL = 200_000
"""Bytes of the largest entry of the stores in tests: a check of the limit writes one."""


class StoreFile:
    """A file for a store."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "chats.db"

    def execute(self, statement: str) -> None:
        """Change the file by hand. No store has it."""
        with contextlib.closing(sqlite3.connect(self.path)) as hand, hand:
            hand.execute(statement)

    async def open(self, *chats: str, **options: Any) -> SqliteStore:
        """Open the store; with these chats, if it has them not."""
        store = await SqliteStore.open(self.path, **{"max_entry_bytes": SMALL} | options)
        if chats:
            for chat in {*chats} - {row.id for row in await store.list_chats()}:
                await store.create_chat(ChatRow(chat, "claude", "/", 1))
        return store


@pytest.fixture
def place(tmp_path: Path) -> StoreFile:
    """A place for one store."""
    return StoreFile(tmp_path)
