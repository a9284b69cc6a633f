"""One chat at work: its queue, one turn at a time. All that it decides stands in the chat's log before it is done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from penstock import events as ev
from penstock.chat.errors import Conflicting, Ending, NoSuchTurn, TooLarge, TooMany
from penstock.chat.history.entries import Asker, Entry, Prompted, TurnBegan, TurnEnded
from penstock.chat.history.frames import TurnView
from penstock.chat.history.timeline import Thread
from penstock.chat.service.concurrency import Slot, Slots
from penstock.chat.service.index import Card, Chat
from penstock.chat.service.ledger import LOG_ERRORS, Ledger
from penstock.chat.service.limits import Limits
from penstock.chat.service.turn_run import Drive, sweep
from penstock.chat.store.protocol import EventLog, LogClosed
from penstock.errors import PenstockError
from penstock.run.run import Run

GAVE_WAY = "gave way to a message"
TAKEN_BACK = "taken back before it began"
STOPPED = "Penstock was stopped while the agent worked"
ENDED = "Penstock was ended while the agent worked"
DELETED = "the chat was deleted"
UNWRITTEN = "the event log failed while the agent worked"

RETRY_SECONDS = (0.5, 1.0, 2.0, 5.0, 15.0)
"""How long a turn waits for a log that failed, time after time; the last one again and again."""

ROW_ROOM = 1024
"""Bytes of a row that are not the prompt's."""

Row = Entry | ev.Event
State = Literal["idle", "queued", "running"]


class Shared(msgspec.Struct):
    """What the chats of a runtime share."""

    log: EventLog
    limits: Limits
    slots: Slots
    """One for each agent that may be at work."""
    run: Callable[[Chat, str], Run]
    """Makes a run of a prompt; raises what `Agent.run` does, or a refusal."""
    changed: Callable[[], None]
    """Something of a chat ended or began."""


class Worker:
    """One chat."""

    def __init__(self, card: Card, shared: Shared) -> None:
        self.card = card
        self.ledger = Ledger(shared.log, card.chat.id, self._look)
        """What its log says."""
        self.state: State = "idle"
        self.waiting = 0
        """Turns in its queue."""
        self.refused_at = 0
        """When a heartbeat could last not be asked for."""
        self._shared = shared
        self._task: asyncio.Task[None] | None = None
        self._drive: Drive | None = None
        self._slot: Slot | None = None
        self._why = STOPPED  # a turn that is found running without a run
        self._ending = False
        self._early: asyncio.TimerHandle | None = None
        self._woken = asyncio.Event()

    # --- what is known ---

    @property
    def chat(self) -> Chat:
        """What is kept of it."""
        return self.card.chat

    @property
    def asks(self) -> bool:
        """Whether a question waits for a person."""
        view = self.ledger.newest
        return bool(self._drive and self._drive.waiting) or (
            self.state == "idle" and view is not None and view.hint is not None
        )

    @property
    def busy(self) -> bool:
        """Whether a turn waits, or its run goes on."""
        return self._task is not None or self.state != "idle"

    @property
    def used_at(self) -> int:
        """When something last happened in it."""
        view = self.ledger.newest
        return max(view.completed_at or 0, view.began_at or 0, view.asked_at) if view else self.chat.created_at

    async def recover(self) -> None:
        """Take the chat up where the log left it.

        Raises:
            LogFailed: the log cannot be read.
        """
        if not await self.ledger.is_over():
            async with self.ledger.writing:
                await self.ledger.current()
            self._kick()

    # --- what can be asked of it ---

    async def ask(self, text: str, by: Asker = "person", key: str | None = None) -> tuple[int, bool]:
        """Queue a turn; when it returns, it is in the log. The turn, and whether it is new.

        Raises:
            TooMany: the queue is full.
            TooLarge: the prompt does not go into a row.
            Conflicting: a heartbeat, and the chat is busy.
            LogFailed: it could not be kept.
        """
        asked = 0
        new = False

        def make(thread: Thread) -> list[Row]:
            nonlocal asked, new
            asked = next((view.turn for view in thread.turns.values() if key is not None and view.key == key), 0)
            if asked:
                return []
            rows = self._prompt(thread, text, by, key)
            asked, new = max(thread.turns, default=0) + 1, True
            return rows

        await self._write(make)
        if new and by != "heartbeat":
            self._make_way()
        return asked, new

    def _prompt(self, thread: Thread, text: str, by: Asker, key: str | None) -> list[Row]:
        queued = thread.queued
        if by == "heartbeat":
            if queued or thread.running:
                raise Conflicting("the chat is busy")
            beats = []
        else:
            beats = [view for view in queued if view.by == "heartbeat"]
        limit = self._shared.limits.max_queue
        if len(queued) - len(beats) >= limit:
            raise TooMany(f"{limit} messages of this chat wait already", way_out="stop some, or wait for them")
        row = Prompted(max(thread.turns, default=0) + 1, text, by, key)
        if len(msgspec.json.encode(row)) > self.ledger.max_row_bytes - ROW_ROOM:
            raise TooLarge("the message is larger than the log takes", expected=f"{self.ledger.max_row_bytes:,} bytes")
        return [*(TurnEnded(view.turn, "cancelled", GAVE_WAY) for view in beats), row]

    def _make_way(self) -> None:
        thread = self.ledger.thread
        running = thread.running if thread is not None else None
        if self._drive is not None and running is not None and running.by == "heartbeat":
            self._drive.cancel(GAVE_WAY)

    async def answer(self, hint_id: str, text: str) -> int:
        """Answer a question: of the run that waits for it, else as the prompt of the next turn. The turn.

        Raises:
            Conflicting: nobody asks this.
            TooMany, TooLarge, LogFailed: as `ask`.
        """
        asked = 0

        def make(thread: Thread) -> list[Row]:
            nonlocal asked
            running, drive = thread.running, self._drive
            if running is not None and drive is not None and hint_id in drive.waiting and not drive.stopping:
                drive.answer(hint_id, text)
                self._yield_slot(drive)
                asked = running.turn
                return []
            newest = thread.turns[max(thread.turns)] if thread.turns else None
            if newest is None or newest.state != "completed" or newest.hint is None or newest.hint.id != hint_id:
                raise Conflicting("nobody asks this any more", way_out="write it as a message")
            asked = newest.turn + 1
            labels = {option.id: option.label for option in newest.hint.options or ()}
            return self._prompt(thread, labels.get(text, text), "answer", None)

        await self._write(make)
        return asked

    async def stop(self, turn: int | None = None) -> list[int]:
        """Stop a turn or take it back; without one, all. Those that were.

        Raises:
            NoSuchTurn: there never was such a turn.
            LogFailed: it could not be kept.
        """
        stopped: list[int] = []

        def make(thread: Thread) -> list[Row]:
            if turn is not None and not 1 <= turn <= max(thread.turns, default=0):
                raise NoSuchTurn(f"the chat has no turn {turn}")
            waiting = [view.turn for view in thread.queued if turn in (None, view.turn)]
            running = thread.running
            if running is not None and self._drive is not None and turn in (None, running.turn):
                self._drive.cancel()
                stopped.append(running.turn)
            stopped.extend(waiting)
            return [TurnEnded(number, "cancelled", TAKEN_BACK) for number in waiting]

        await self._write(make)
        return stopped

    async def close(self) -> None:
        """Kill what runs, and mark it as cut off. Nothing begins any more."""
        try:
            async with asyncio.timeout(self._shared.limits.closing):
                await self._halt(ENDED, "cut_off", self._shared.limits.closing * 3 / 4)
        except (TimeoutError, *LOG_ERRORS):
            pass  # the next start marks it

    async def delete(self) -> None:
        """Kill what runs, and end the log of the chat.

        Raises:
            LogFailed: it could not be kept. What runs is killed all the same.
        """
        await self._halt(DELETED, "cancelled", None)
        async with self.ledger.writing:
            await self.ledger.end()

    async def _halt(self, why: str, outcome: ev.Outcome, seconds: float | None) -> None:
        self._ending, self._why = True, why
        task = self._task
        if task is None:
            return
        if self._drive is not None:
            self._drive.kill(why, outcome)
            await asyncio.wait([task], timeout=seconds)
        task.cancel()
        await asyncio.wait([task], timeout=seconds)
        async with self.ledger.writing:
            thread = await self.ledger.current()
            if thread.running is not None:
                await self.ledger.append(thread, [TurnEnded(thread.running.turn, outcome, why)])

    async def _write(self, make: Callable[[Thread], Sequence[Row]]) -> None:
        """Decide by the chat as it stands, and append what was decided."""
        if self._ending:
            raise Ending
        try:
            async with self.ledger.writing:
                thread = await self.ledger.current()
                if rows := make(thread):
                    await self.ledger.append(thread, rows)
        finally:
            self._kick()

    def _look(self, thread: Thread) -> None:
        """See what the chat is at, after something of it was read."""
        before, running, self.waiting = self.state, thread.running, len(thread.queued)
        is_running = running is not None and running.state == "running"
        self.state = "running" if is_running else "queued" if self.waiting else "idle"
        if self.state != before:
            self._shared.changed()
        if thread.asking and self._drive is not None and self._early is None:
            loop = asyncio.get_running_loop()
            self._early = loop.call_later(self._shared.limits.asking_grace, self._end_early, thread)

    def _end_early(self, thread: Thread) -> None:
        self._early = None
        if thread.asking and self._drive is not None:
            self._drive.cancel(outcome="ok")  # all was said

    # --- the turns ---

    def _kick(self) -> None:
        """See that somebody works, where there is something to do."""
        self._woken.set()
        if not self._ending and self._task is None and not self.ledger.rest():
            self._task = asyncio.create_task(self._work(), name=f"chat {self.chat.id}")

    async def _work(self) -> None:
        """Take turn after turn, until none waits."""
        failures = 0
        try:
            while not self._ending:
                try:
                    if not await self._next():
                        self.ledger.rest()
                        return
                    failures = 0
                except LOG_ERRORS as error:
                    if isinstance(error, LogClosed) or getattr(error, "lasting", False):
                        return
                    self.ledger.doubt(error)
                    await self._pause(RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)])
                    failures += 1
        finally:
            self._task = None
            self._shared.changed()

    async def _pause(self, seconds: float) -> None:
        self._woken.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            pass

    async def _next(self) -> bool:
        """Take the next turn; False where there is none."""
        async with self.ledger.writing:
            thread = await self.ledger.current()
            if thread.running is not None:  # nobody runs it any more
                await self._sweep(thread.running.turn)
                await self.ledger.append(thread, [TurnEnded(thread.running.turn, "cut_off", self._why)])
            if not thread.queued:
                return False
        async with self._shared.slots.take() as self._slot:
            try:
                await self._turn()
            finally:
                self._slot = None
        return True

    def _yield_slot(self, drive: Drive) -> None:
        """Others may work while the run waits for a person."""
        if self._slot is not None:
            self._slot.work(not drive.waiting)

    async def _sweep(self, turn: int) -> None:
        """Kill what may be left of a run whose guard was killed as well."""
        try:
            _, rows = await self.ledger.turn(turn)
        except NoSuchTurn:
            return  # its first rows were trimmed
        for row in rows:
            if isinstance(row.what, TurnBegan) and row.what.mark is not None:
                await asyncio.to_thread(sweep, row.what.mark)

    async def _turn(self) -> None:
        async with self.ledger.writing:
            thread = await self.ledger.current()
            if not thread.queued or self._ending:
                return  # taken back while it waited for a slot
            drive = await self._begin(thread, thread.queued[0])
        if drive is None:
            return
        try:
            await self._drive_to_end(drive)
        except LOG_ERRORS:
            self._why = UNWRITTEN
            raise
        finally:
            self._drive = None
            if self._early is not None:
                self._early.cancel()
                self._early = None
            await drive.let_go()

    async def _begin(self, thread: Thread, view: TurnView) -> Drive | None:
        """Write that a turn begins. What is written is begun once at most; what cannot be begun is written too."""
        chat = self.chat
        began = TurnBegan(view.turn, chat.agent, chat.cwd, chat.model, chat.session_id)
        try:
            run = self._shared.run(chat, view.prompt)
        except Exception as error:
            await self.ledger.append(thread, [began, TurnEnded(view.turn, "error", _told(error))])
            return None
        await self.ledger.append(thread, [msgspec.structs.replace(began, mark=run.mark)])
        self._drive = Drive(run)
        return self._drive

    async def _drive_to_end(self, drive: Drive) -> None:
        try:
            await drive.start()
            async for events in drive.batches():
                async with self.ledger.writing:
                    await self.ledger.append(await self.ledger.current(), events)
                drive.look(events)
                self._yield_slot(drive)
                if drive.session_id is not None:
                    await self.card.keep_session(drive.session_id)
        except LOG_ERRORS:
            raise
        except Exception as error:
            async with self.ledger.writing:
                thread = await self.ledger.current()
                if thread.running is not None:
                    await self.ledger.append(thread, [TurnEnded(thread.running.turn, "error", _told(error))])


def _told(error: Exception) -> str:
    return str(error) if isinstance(error, PenstockError) else f"a bug in Penstock ended the turn: {error!r}"
