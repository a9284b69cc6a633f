"""Turns of a chat as the store has them: their summaries, their entries, and the numbers at which they may be cut."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from penstock.chat.errors import NoSuchTurn
from penstock.chat.history.entries import (
    Answered,
    ChangesFound,
    Edited,
    FilesLeft,
    Numbered,
    Prompted,
    SteerRequested,
    TurnBegan,
    TurnEnded,
    Undone,
    decode,
)
from penstock.chat.history.frames import TurnView
from penstock.chat.history.timeline import KEPT_TURNS, Timeline
from penstock.chat.store.protocol import ChatStore, Trimmed
from penstock.chat.store.rows import TurnRow

_OF_TURN = (Prompted, SteerRequested, Edited, TurnBegan, FilesLeft, ChangesFound, TurnEnded, Answered, Undone)
"""Entries that name their turn."""

_decoder = msgspec.json.Decoder(TurnView)
_encoder = msgspec.json.Encoder()


async def first_entry(store: ChatStore, chat: str) -> int:
    """Return the number of the first entry that is kept."""
    try:
        await store.read(chat, limit=1)
    except Trimmed as trimmed:
        return trimmed.first
    return 1


async def all_turns(store: ChatStore, chat: str) -> list[TurnRow]:
    """Return all turns of a chat, oldest first."""
    rows: list[TurnRow] = []
    while page := await store.list_turns(chat, before=rows[0].turn if rows else None, limit=KEPT_TURNS):
        rows = page + rows
    return rows


def whole_turns_end(turns: Sequence[TurnRow], upto: int) -> int:
    """Return the last number up to `upto` at which turns are over and none is cut in two; 0 if there is none."""
    newest = max(turns, key=lambda row: row.turn, default=None)
    for end in sorted({row.last for row in turns if 0 < row.last <= upto}, reverse=True):
        is_whole = all(row.first > end or 0 < row.last <= end for row in turns)
        if is_whole and newest is not None and not 0 < newest.last <= end:
            return end
    return 0


async def read_turn(store: ChatStore, chat: str, view: TurnView, upto: int) -> list[Numbered]:
    """Return the entries of a turn so far: up to its end, or up to the entry of number `upto` if it is not over.

    Raises:
        NoSuchTurn: they are no longer kept.
    """
    found: list[Numbered] = []
    after, end = view.first - 1, view.last or upto
    while not end or after < end:
        try:
            page = await store.read(chat, after=after)
        except Trimmed as error:
            raise NoSuchTurn(f"the details of turn {view.turn} are no longer kept") from error
        end = end or page.last
        if not page.entries:
            break
        after = page.entries[-1].number
        found += decode(page.entries)
    return list(_entries_of(view.turn, (entry for entry in found if entry.number <= end)))


async def turn_at(store: ChatStore, chat: str, number: int) -> int:
    """Return the turn that the entry of this number asked for.

    Raises:
        NoSuchTurn: the entry did not ask for a turn.
    """
    page = await store.read(chat, after=number - 1, limit=1)
    what = decode(page.entries)[0].what
    if not isinstance(what, Prompted):
        raise NoSuchTurn("the entry with this key did not ask for a turn")
    return what.turn


def summary_rows(timeline: Timeline) -> list[TurnRow]:
    """Return the rows of the turns that changed; none while a turn runs."""
    return [
        TurnRow(view.turn, view.first, view.last, timeline.at, _encoder.encode(view))
        for view in timeline.summary() or ()
    ]


def decoded_views(rows: Iterable[TurnRow]) -> list[TurnView] | None:
    """Decode the summaries; None if another version of Penstock wrote one."""
    try:
        return [_decoder.decode(row.view) for row in rows]
    except (msgspec.DecodeError, UnicodeError):
        return None


def _entries_of(turn: int, entries: Iterator[Numbered]) -> Iterator[Numbered]:
    """Yield the entries that belong to a turn: an event belongs to the turn that began last."""
    running = 0
    for entry in entries:
        what = entry.what
        if isinstance(what, TurnBegan):
            running = what.turn
        if turn == (what.turn if isinstance(what, _OF_TURN) else running):
            yield entry
