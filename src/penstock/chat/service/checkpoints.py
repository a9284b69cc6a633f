"""The checkpoints of a chat: a stream beside its log that tells what older rows came to.

They are made of the log alone. One that is missing costs its reader some rows more, and nothing else.
"""

from __future__ import annotations

import msgspec

from penstock.chat.history.frames import Checkpoint, TurnView
from penstock.chat.service.truncation import fitted
from penstock.chat.store.protocol import EventLog, LogFailed, Row, Trimmed

_decoder = msgspec.json.Decoder(Checkpoint)


def stream_of(chat: str) -> str:
    """The name of the stream, for the id of a chat."""
    return f"{chat}/turns"


class Checkpoints:
    """Those of one chat. One writer: who calls `keep` sees to it that no two calls overlap."""

    def __init__(self, log: EventLog, chat: str) -> None:
        self.stream = stream_of(chat)
        self._log = log
        self._last: int | None = None  # None: not known
        self._pending: Checkpoint | None = None

    @property
    def kept(self) -> bool:
        """Whether all that was to be kept is."""
        return self._pending is None

    async def keep(self, made: Checkpoint | None) -> None:
        """Keep one; where the log fails, it is kept with the next."""
        pending = self._pending
        if made is not None and pending is not None:
            made = Checkpoint(made.number, [*pending.turns, *made.turns], made.queued)
        self._pending = made or pending
        if self._pending is None:
            return
        row = fitted([self._pending], self._log.max_row_bytes)
        try:
            if self._last is None:
                self._last = await self._log.last(self.stream)
                if [it for _, it in await self.newest(1) if it.number >= self._pending.number]:
                    self._pending = None  # it was kept when the log said that it failed
                    return
            after, self._last = self._last, None
            self._last = await self._log.append(self.stream, row, after=after)
            self._pending = None
        except LogFailed:
            pass

    async def newest(self, count: int) -> list[tuple[int, Checkpoint]]:
        """The newest ones, oldest first, each with its number in the stream; more or fewer where rows are large."""
        last = await self._log.last(self.stream)
        return await self.between(max(0, last - count), last)

    async def newest_turns(self) -> list[tuple[int, Checkpoint]]:
        """As many of the newest as tell the newest turn, which may have been taken back before one that it waited for.

        Where nothing waited, no older checkpoint knows a newer turn.
        """
        count = 2
        while len(found := await self.newest(count)) == count and found[0][1].queued:
            count *= 2
        return found

    async def between(self, after: int, upto: int) -> list[tuple[int, Checkpoint]]:
        """Those with numbers in the stream behind `after`, up to and with `upto`, as far as they are kept."""
        found: list[Row] = []
        while after < upto:
            try:
                rows = await self._log.read(self.stream, after=after, limit=upto - after)
            except Trimmed as trimmed:
                after = trimmed.first - 1
                continue
            if not rows:
                break
            found += rows
            after = rows[-1].number
        return [(row.number, checkpoint) for row in found if (checkpoint := _read(row)) is not None]

    async def before(self, turn: int | None, limit: int) -> list[TurnView]:
        """The newest `limit` turns that were recorded, of those before `turn`; oldest first."""
        upto = await self._log.last(self.stream)
        found: dict[int, TurnView] = {}
        while upto > 0 and len(found) < limit + SPREAD:
            page = await self.between(max(0, upto - PAGE), upto)
            upto = max(0, upto - PAGE) if page else 0
            found.update((view.turn, view) for _, it in page for view in it.turns if turn is None or view.turn < turn)
        return [view for _, view in sorted(found.items())][-limit:]


def _read(row: Row) -> Checkpoint | None:
    """What it says; None where another version of Penstock wrote it."""
    try:
        return _decoder.decode(row.data)
    except (msgspec.DecodeError, UnicodeError):
        return None


PAGE = 50
"""Checkpoints of one read, while turns are looked for."""

SPREAD = 100
"""Turns that were taken back from the queue are recorded before those that they waited behind; so far apart they may
be, whatever the limit of the queue."""
