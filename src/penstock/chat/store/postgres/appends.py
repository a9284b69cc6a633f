"""Appends of one node: all that wait go in one statement, on one connection."""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from penstock.chat.store.postgres.connections import Database
from penstock.chat.store.postgres.recent import Recent
from penstock.chat.store.protocol import Conflict, Fenced, StoreClosed, StoreFailed, UnknownChat
from penstock.chat.store.rows import ChatChanges, ChatRow, TurnRow

MAX_GROUP = 500
"""Appends of one statement, at most."""

MAX_GROUP_BYTES = 16 * 1024 * 1024
"""Bytes of entries and summaries after which a statement gets no more appends: they are copied several times."""

NOTIFY_SECONDS_PER_NODE = 0.00125
"""Seconds between two notifications of a node that can wait, for each node that is there. Each notification wakes every
node: all together send at most 800 a second, of which PostgreSQL delivers about 1,000 to 50 listeners."""

APPEND = """SELECT nth_append, was_made, last_number, epoch_number FROM append_v1(
    %(ids)s::text[], %(afters)s::bigint[], %(ats)s::bigint[], %(epochs)s::bigint[], %(counts)s::bigint[],
    %(chat_changes)s::jsonb, %(again)s, %(entry_of)s::int[], %(entry_nth)s::int[], %(entry_start)s::int[],
    %(entry_size)s::int[], %(entry_data)s, %(turn_of)s::int[], %(turn_turn)s::bigint[], %(turn_first)s::bigint[],
    %(turn_last)s::bigint[], %(turn_at)s::bigint[], %(turn_start)s::int[], %(turn_size)s::int[], %(turn_data)s,
    %(quiet)s, %(late)s::text[])"""

NOTIFY = "SELECT notify_v1(%(items)s::text[])"


@dataclass(slots=True, eq=False)
class Append:
    """One append that waits."""

    chat: str
    entries: Sequence[bytes]
    after: int
    at: int
    epoch: int | None
    turns: Sequence[TurnRow]
    changes: ChatChanges | None
    result: asyncio.Future[int]

    @property
    def last(self) -> int:
        """Number of the last entry, once it is made."""
        return self.after + len(self.entries)

    @property
    def size(self) -> int:
        """Bytes of the entries and the summaries."""
        return sum(map(len, self.entries)) + sum([len(turn.view) for turn in self.turns])


class Appends:
    """Queue of appends, with the task that makes them."""

    def __init__(
        self, database: Database, recent: Recent, appended: Callable[[dict[str, int], set[str]], None]
    ) -> None:
        """Start the task. `appended` gets the last numbers of chats with new entries, and the chats with new rows."""
        self.nodes = 1
        """Number of nodes that are there."""
        self._database = database
        self._link = database.link()
        self._recent = recent
        self._appended = appended
        self._waiting: deque[Append] = deque()
        self._wake = asyncio.Event()
        self._closed = False
        self._notified_at = 0.0
        self._is_due = False  # late notifications are sent now
        self._late: dict[str, int] = {}  # chats of which other nodes are notified later, with their last numbers
        self._timer: asyncio.TimerHandle | None = None
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
            while not (self._waiting or self._closed or self._is_due):
                self._wake.clear()
                await self._wake.wait()
            group = self._group()
            if group:
                await self._make(group)
            elif self._late:
                await self._notify_late()
            elif self._closed:
                return

    def _group(self) -> list[Append]:
        """Remove the next appends from the queue: one for each chat, in the order of the chats."""
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
        return [group[chat] for chat in sorted(group)]

    async def _make(self, group: list[Append]) -> None:
        try:
            quiet = self._is_quiet(group)
            late = [] if quiet else self._late_items()
            values = {**_values(group), "quiet": quiet, "late": late}
            rows = await self._database.repeated(self._link, APPEND, values)
        except BaseException as failure:
            for append in group:
                if not append.result.done():
                    append.result.set_exception(failure)
            if not isinstance(failure, Exception):
                raise
            return
        not_made = {nth: found for nth, *found in rows}
        chats: dict[str, int] = {}
        changed: set[str] = set()
        for nth, append in enumerate(group, 1):
            error = _error(append, *not_made[nth]) if nth in not_made else None
            if error is None:
                if append.entries:
                    self._recent.wrote(append.chat, append.last)
                    chats[append.chat] = append.last
                if append.changes is not None:
                    changed.add(append.chat)
            if append.result.done():
                continue
            if error is None:
                append.result.set_result(append.last)
            else:
                append.result.set_exception(error)
        if quiet and chats:
            self._notify_later(chats)
        if chats or changed:
            # After the callers, which wake up first: they have their own results before they are notified.
            asyncio.get_running_loop().call_soon(self._appended, chats, changed)

    # --- notifications ---

    def _is_quiet(self, group: list[Append]) -> bool:
        """Return whether other nodes may be notified later: no turn ends in this group, and a notification was sent."""
        now = asyncio.get_running_loop().time()
        is_urgent = any(append.turns or append.changes is not None for append in group)
        return not is_urgent and now < self._notified_at + self.nodes * NOTIFY_SECONDS_PER_NODE

    def _late_items(self) -> list[str]:
        """Return what other nodes are to be notified of, as it is sent now."""
        self._notified_at = asyncio.get_running_loop().time()
        self._is_due = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        late, self._late = self._late, {}
        return [f"{chat} {last}" for chat, last in late.items()]

    def _notify_later(self, chats: dict[str, int]) -> None:
        self._late.update(chats)
        if self._timer is None:
            at = self._notified_at + self.nodes * NOTIFY_SECONDS_PER_NODE
            self._timer = asyncio.get_running_loop().call_at(at, self._due)

    def _due(self) -> None:
        self._is_due = True
        self._wake.set()

    async def _notify_late(self) -> None:
        try:
            await self._database.repeated(self._link, NOTIFY, {"items": self._late_items()})
        except (StoreFailed, StoreClosed):
            pass  # the others poll


def _error(append: Append, was_made: bool, last: int | None, epoch: int | None) -> Exception | None:
    """Return the error of an append that a call did not make, or None if an earlier attempt made it."""
    if was_made:
        return None
    if last is None or epoch is None:
        return UnknownChat(append.chat)
    if append.epoch is not None and append.epoch != epoch:
        return Fenced(append.chat, epoch)
    return Conflict(append.chat, append.after, last)


def _values(group: list[Append]) -> dict[str, Any]:
    """Return the values of `APPEND`; `quiet` and `late` are the caller's."""
    entries = [(of, nth, data) for of, it in enumerate(group, 1) for nth, data in enumerate(it.entries, 1)]
    # A turn that is named twice has its last summary.
    turns = [(of, turn) for of, it in enumerate(group, 1) for turn in {turn.turn: turn for turn in it.turns}.values()]
    data, views = [data for _, _, data in entries], [turn.view for _, turn in turns]
    chat_changes = {str(of): it.changes for of, it in enumerate(group, 1) if it.changes is not None}
    return {
        "ids": _array(f'"{it.chat}"' for it in group),  # ids need no escapes
        "afters": _array(it.after for it in group),
        "ats": _array(it.at for it in group),
        "epochs": _array("NULL" if it.epoch is None else it.epoch for it in group),
        "counts": _array(len(it.entries) for it in group),
        "chat_changes": msgspec.json.encode(chat_changes).decode() if chat_changes else None,
        "entry_of": _array(of for of, _, _ in entries),
        "entry_nth": _array(nth for _, nth, _ in entries),
        "entry_start": _array(_starts(data)),
        "entry_size": _array(map(len, data)),
        "entry_data": b"".join(data),
        "turn_of": _array(of for of, _ in turns),
        "turn_turn": _array(turn.turn for _, turn in turns),
        "turn_first": _array(turn.first for _, turn in turns),
        "turn_last": _array(turn.last for _, turn in turns),
        "turn_at": _array(turn.at for _, turn in turns),
        "turn_start": _array(_starts(views)),
        "turn_size": _array(map(len, views)),
        "turn_data": b"".join(views),
    }


def _array(values: Iterable[object]) -> str:
    """Return an array as PostgreSQL reads it: psycopg would write each value by itself, which takes longer."""
    return "{" + ",".join(map(str, values)) + "}"


def _starts(pieces: Sequence[bytes]) -> Iterator[int]:
    """Return the positions at which the pieces begin, when they are joined; PostgreSQL counts from 1."""
    return itertools.accumulate(map(len, pieces[:-1]), initial=1) if pieces else iter(())


def encoded(row: ChatRow) -> str:
    """Return a row as JSON for the database."""
    return msgspec.json.encode(row).decode()
