"""What is known of one chat by its log: rows appended, read back and folded, with checkpoints beside them.

Nothing is kept that the log does not have. After each append the rows are read back, as every viewer does, so a log
that failed, a crash and an ordinary beginning are all gone on from in the same way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

from penstock import events as ev
from penstock.chat.errors import NoSuchTurn
from penstock.chat.history.entries import ChatDeleted, Entry, Numbered, Prompted, TurnBegan, TurnEnded, decode
from penstock.chat.history.frames import TurnView
from penstock.chat.history.timeline import KEPT_TURNS, Thread
from penstock.chat.service.checkpoints import Checkpoints
from penstock.chat.service.truncation import fitted
from penstock.chat.store.protocol import Ahead, Conflict, EventLog, LogClosed, LogFailed, Trimmed

LOG_ERRORS = (LogFailed, LogClosed, Conflict, Trimmed, Ahead)
"""What a log raises where it is not the caller's fault."""


class Ledger:
    """The rows of one chat, for its one writer.

    Who calls `current`, `append` or `end` holds `writing`.
    """

    def __init__(self, log: EventLog, chat: str, told: Callable[[Thread], None]) -> None:
        self.writing = asyncio.Lock()
        self.max_row_bytes = log.max_row_bytes
        self.thread: Thread | None = None
        """The chat as it was last read; None while it is at rest."""
        self.newest: TurnView | None = None
        """The newest turn, as it was last read."""
        self._log = log
        self._chat = chat
        self._told = told
        self._checkpoints = Checkpoints(log, chat)
        self._sure = False  # whether the thread is where the log is

    # --- what is read ---

    async def is_over(self) -> bool:
        """Look whether nothing is to be done: every turn is over, and has a checkpoint.

        Raises:
            LogFailed: the log cannot be read.
        """
        newest = [checkpoint for _, checkpoint in await self._checkpoints.newest_turns()]
        end = await self._log.last(self._chat)
        if newest and newest[-1].number == end and not newest[-1].queued:
            self.newest = max((view for it in newest for view in it.turns), key=lambda view: view.turn)
            return True
        return end == 0

    async def fresh(self) -> Thread:
        """A thread from the checkpoints; its `number` says from where the log is to be read."""
        newest = await self._checkpoints.newest(KEPT_TURNS + 1)
        return Thread([checkpoint for _, checkpoint in newest[-KEPT_TURNS:]], earlier=len(newest) > KEPT_TURNS)

    async def turns(self, before: int | None, limit: int) -> tuple[list[TurnView], bool]:
        """The newest turns before one, oldest first, and whether there are earlier ones."""
        shown = self.thread.snapshot().turns if self.thread is not None else []  # at rest, all are in checkpoints
        found = {view.turn: view for view in await self._checkpoints.before(before, limit + 1)}
        found.update((view.turn, view) for view in shown if before is None or view.turn < before)
        views = [view for _, view in sorted(found.items())]
        return views[-limit:], len(views) > limit

    async def turn(self, turn: int) -> tuple[TurnView, list[Numbered]]:
        """One turn, and its rows, as far as it is by now.

        Raises:
            NoSuchTurn: there is none, or it is no longer kept.
        """
        views, _ = await self.turns(turn + 1, 1)
        if not views or views[0].turn != turn:
            raise NoSuchTurn(f"the chat has no turn {turn}")
        view, found = views[0], list[Numbered]()
        after, end = view.first - 1, view.last or await self._log.last(self._chat)
        while after < end:
            try:
                page = decode(await self._log.read(self._chat, after=after))
            except Trimmed as error:
                raise NoSuchTurn(f"the record of turn {turn} is no longer kept") from error
            after = page[-1].number
            found += page
        return view, list(_of(turn, (row for row in found if row.number <= end)))

    async def current(self) -> Thread:
        """The chat as the log has it now.

        Raises:
            LogFailed: the log cannot be read.
        """
        if self.thread is None:
            self.thread = await self.fresh()
            self._sure = False
        if not self._sure:
            await self._read_up(self.thread, await self._log.last(self._chat))
        return self.thread

    async def _read_up(self, thread: Thread, last: int) -> None:
        while thread.number < last:
            thread.take(decode(await self._log.read(self._chat, after=thread.number)))
        self._sure = True
        self.newest = thread.turns[max(thread.turns)] if thread.turns else None
        self._told(thread)
        await self._checkpoints.keep(thread.checkpoint())

    # --- what is written ---

    async def append(self, thread: Thread, rows: Sequence[Entry | ev.Event]) -> None:
        """Append rows behind the current thread, which then has them.

        Raises:
            LogFailed: they were not appended, most likely; `current` finds out.
        """
        self._sure = False  # who fails or is cancelled does not know what was appended
        data = fitted(rows, self.max_row_bytes)
        await self._read_up(thread, await self._log.append(self._chat, data, after=thread.number))

    def doubt(self, error: Exception) -> None:
        """Read anew after this error."""
        self._sure = False
        if not isinstance(error, LogFailed):
            self.thread = None  # the log is another one than was known

    def rest(self) -> bool:
        """Keep no more than the newest turn, where nothing is to be done; whether that is so."""
        thread = self.thread
        if thread is None:
            return True
        if thread.queued or thread.running is not None or not self._sure:
            return False
        if self._checkpoints.kept:
            self.thread = None
        return True

    async def trim(self, upto: int) -> int:
        """Drop whole turns up to row `upto`; gives the row up to which. The newest turn is kept, whatever its age.

        Raises:
            LogFailed: it could not be trimmed.
        """
        async with self.writing:
            last = await self._log.last(self._checkpoints.stream)
            # Where nothing waited, a later checkpoint has later turns, the newest among them.
            ends = [
                (place, checkpoint.number)
                for place, checkpoint in await self._checkpoints.between(0, last)
                if checkpoint.number <= upto and place < last and not checkpoint.queued
            ]
            if not ends:
                return 0
            place, number = ends[-1]
            await self._log.trim(self._chat, number)
            await self._log.trim(self._checkpoints.stream, place)
            known = self.thread.turns if self.thread is not None else {}
            for view in [view for view in known.values() if 0 < view.last <= number]:
                del known[view.turn]
            return number

    async def end(self) -> None:
        """End the chat: only the row that says so stays.

        Raises:
            LogFailed: it could not be kept.
        """
        thread = await self.current()
        if not thread.deleted:
            await self.append(thread, [ChatDeleted()])
        await self._log.trim(self._chat, thread.number - 1)
        if last := await self._log.last(self._checkpoints.stream):
            await self._log.trim(self._checkpoints.stream, last)


def _of(turn: int, rows: Iterator[Numbered]) -> Iterator[Numbered]:
    """Those rows that belong to a turn: an event belongs to the one that began last."""
    running = 0
    for row in rows:
        if isinstance(row.what, TurnBegan):
            running = row.what.turn
        if turn == (row.what.turn if isinstance(row.what, Prompted | TurnBegan | TurnEnded) else running):
            yield row
