"""Appends of one node: all that wait go in one statement, on one connection."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from penstock.chat.store.postgres.connections import Database
from penstock.chat.store.protocol import Conflict, Fenced, UnknownChat
from penstock.chat.store.rows import ChatRow, TurnRow

MAX_GROUP = 500
"""Appends of one statement, at most."""

MAX_GROUP_BYTES = 16 * 1024 * 1024
"""Bytes of entries and summaries after which a statement gets no more appends: they are copied several times."""

APPEND_SECONDS = 5.0
"""Seconds in which the appends of one statement are acknowledged."""

APPEND = """SELECT was_made, last_number, epoch_number FROM append_v1(
    %(ids)s::text[], %(afters)s::bigint[], %(ats)s::bigint[], %(epochs)s::bigint[], %(counts)s::bigint[],
    %(chat_rows)s::jsonb[], %(again)s, %(entry_of)s::int[], %(entry_nth)s::bigint[], %(entry_data)s::bytea[],
    %(turn_of)s::int[], %(turn_turn)s::bigint[], %(turn_first)s::bigint[], %(turn_last)s::bigint[],
    %(turn_at)s::bigint[], %(turn_view)s::bytea[], %(quiet)s)"""


@dataclass(slots=True, eq=False)
class Append:
    """One append that waits."""

    chat: str
    entries: Sequence[bytes]
    after: int
    at: int
    epoch: int | None
    turns: Sequence[TurnRow]
    row: ChatRow | None
    result: asyncio.Future[int]
    size: int = field(init=False)

    def __post_init__(self) -> None:
        self.size = sum(map(len, self.entries)) + sum(len(turn.view) for turn in self.turns)


class Appends:
    """Queue of appends, with the task that makes them."""

    def __init__(self, database: Database, appended: Callable[[dict[str, int], set[str]], None]) -> None:
        """Start the task. `appended` gets the last numbers of chats with new entries, and the chats with new rows."""
        self._database = database
        self._link = database.link()
        self._appended = appended
        self._waiting: deque[Append] = deque()
        self._wake = asyncio.Event()
        self._closed = False
        self._task = asyncio.create_task(self._work())

    def add(self, append: Append) -> None:
        """Queue an append. One that is cancelled before it is sent is not made."""
        self._waiting.append(append)
        self._wake.set()

    async def close(self) -> None:
        """Make the appends that wait, and close the connection."""
        self._closed = True
        self._wake.set()
        await self._task
        await self._link.close()

    async def _work(self) -> None:
        while True:
            while not (self._waiting or self._closed):
                self._wake.clear()
                await self._wake.wait()
            group = self._group()
            if group:
                await self._make(group)
            elif self._closed:
                return

    def _group(self) -> list[Append]:
        """Remove the next appends from the queue: one for each chat, in their order."""
        group: dict[str, Append] = {}
        later: list[Append] = []
        size = 0
        while self._waiting and len(group) < MAX_GROUP and size < MAX_GROUP_BYTES:
            append = self._waiting.popleft()
            if append.result.done():
                continue
            if append.chat in group:
                later.append(append)
                continue
            group[append.chat] = append
            size += append.size
        self._waiting.extendleft(reversed(later))
        return list(group.values())

    async def _make(self, group: list[Append]) -> None:
        try:
            rows = await self._database.repeated(self._link, APPEND, _values(group), APPEND_SECONDS)
        except BaseException as error:
            for append in group:
                if not append.result.done():
                    append.result.set_exception(error)
            if not isinstance(error, Exception):
                raise
            return
        chats: dict[str, int] = {}
        changed: set[str] = set()
        for append, (was_made, last, epoch) in zip(group, rows, strict=True):
            outcome = _outcome(append, was_made, last, epoch)
            if isinstance(outcome, int):
                if append.entries:
                    chats[append.chat] = outcome
                if append.row is not None:
                    changed.add(append.chat)
            if append.result.done():
                continue
            if isinstance(outcome, int):
                append.result.set_result(outcome)
            else:
                append.result.set_exception(outcome)
        if chats or changed:
            # After the callers, which wake up first: they have their own results before they are notified.
            asyncio.get_running_loop().call_soon(self._appended, chats, changed)


def _outcome(append: Append, was_made: bool, last: int | None, epoch: int | None) -> int | Exception:
    if was_made:
        return append.after + len(append.entries)
    if last is None or epoch is None:
        return UnknownChat(append.chat)
    if append.epoch is not None and append.epoch != epoch:
        return Fenced(append.chat, epoch)
    return Conflict(append.chat, append.after, last)


def _values(group: list[Append]) -> dict[str, Any]:
    entries = [(of, nth, data) for of, it in enumerate(group, 1) for nth, data in enumerate(it.entries, 1)]
    # A turn that is named twice has its last summary.
    turns = [(of, turn) for of, it in enumerate(group, 1) for turn in {turn.turn: turn for turn in it.turns}.values()]
    return {
        "ids": [it.chat for it in group],
        "afters": [it.after for it in group],
        "ats": [it.at for it in group],
        "epochs": [it.epoch for it in group],
        "counts": [len(it.entries) for it in group],
        "chat_rows": [None if it.row is None else encoded(it.row) for it in group],
        "entry_of": [of for of, _, _ in entries],
        "entry_nth": [nth for _, nth, _ in entries],
        "entry_data": [data for _, _, data in entries],
        "turn_of": [of for of, _ in turns],
        "turn_turn": [turn.turn for _, turn in turns],
        "turn_first": [turn.first for _, turn in turns],
        "turn_last": [turn.last for _, turn in turns],
        "turn_at": [turn.at for _, turn in turns],
        "turn_view": [turn.view for _, turn in turns],
        "quiet": False,
    }


def encoded(row: ChatRow) -> str:
    """Return a row as JSON for the database."""
    return msgspec.json.encode(row).decode()
