"""A chat of many turns, made of one that really ran: its rows are written again, each time as another turn."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from msgspec.structs import replace

from penstock import events as ev
from penstock.chat.history.entries import ChangesFound, Entry, Prompted, TurnBegan, decode, encode
from penstock.chat.store.protocol import clock
from penstock.chat.store.sqlite import SqliteStore


def repeat(path: Path, chat: str, upto: int, found: ChangesFound | None = None) -> None:
    """Repeat the only turn of a chat, in the log of a server that has ended, until there are so many.

    `found`: what git found at the end of each of them.
    """
    assert path.exists()
    with ThreadPoolExecutor() as beside:  # the thread of the tests has the browser's loop
        beside.submit(lambda: asyncio.run(_repeat(path, chat, upto, found))).result()


async def _repeat(path: Path, chat: str, upto: int, found: ChangesFound | None) -> None:
    async with await SqliteStore.open(path) as store:
        rows = [row.what for row in decode((await store.read(chat, limit=10_000)).entries) if row.what is not None]
        last = len(rows)
        if found is not None:
            rows.insert(-1, found)
        for turn in range(2, upto + 1):
            last = await store.append(chat, encode([_as_turn(row, turn) for row in rows]), after=last, at=clock())


def _as_turn(row: Entry | ev.Event, turn: int) -> Entry | ev.Event:
    if isinstance(row, Prompted):
        return replace(row, turn=turn, text=f"prompt number {turn}", key=None)
    return replace(row, turn=turn) if isinstance(row, TurnBegan | ChangesFound) else row
