"""One chat in this process: its row, its entries in the store, and the one timeline that is folded from them.

The timeline accepts entries that this process appended as objects, once they are kept, and others as it reads them from
the store. After a failure it is folded again from the store, as at the start: a crash is not a case of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

import msgspec

from penstock import events as ev
from penstock.chat.errors import NoSuchChat, NoSuchTurn
from penstock.chat.history.entries import Answered, Entry, Numbered, Prompted, TurnEnded, decode
from penstock.chat.history.frames import TurnView
from penstock.chat.history.timeline import KEPT_TURNS, Timeline
from penstock.chat.service.claim import Claim, Unclaimed
from penstock.chat.service.counters import Counters
from penstock.chat.service.stored_turns import all_turns, first_entry, read_turn, whole_turns_end
from penstock.chat.service.truncation import fitted
from penstock.chat.store.protocol import (
    Ahead,
    ChatStore,
    Claimed,
    Conflict,
    Fenced,
    LeaseLost,
    StoreClosed,
    StoreFailed,
    Submitted,
    Trimmed,
    UnknownChat,
)
from penstock.chat.store.rows import ChatChanges, ChatRow, TurnRow

STORE_ERRORS = (StoreFailed, StoreClosed, Conflict, Fenced, Claimed, Unclaimed, LeaseLost, Trimmed, Ahead, UnknownChat)
"""Errors of a store that the caller did not cause."""

ENDS = (ev.RunEnded, TurnEnded)
"""Entries with which a turn ends."""

LISTED = (*ENDS, ev.QuestionAsked, ev.QuestionAnswered)
"""Entries of a turn that change what a list of chats shows: they count as changes of the row, which all nodes see."""

Write = Entry | ev.Event
Watcher = Callable[[bool], None]
"""Callback after the timeline accepted entries. Its argument is True if clients should see them at once."""

_decoder = msgspec.json.Decoder(TurnView)
_encoder = msgspec.json.Encoder()


class ChatLog:
    """Log of one chat. Deciding by the timeline and appending are one step, repeated if an entry comes between."""

    def __init__(
        self,
        store: ChatStore,
        row: ChatRow,
        counters: Counters,
        *,
        now: Callable[[], int],
        taken: Callable[[Timeline], None] = lambda timeline: None,
        answered: Callable[[Answered], None] = lambda answer: None,
    ) -> None:
        """Create the log. `now` returns milliseconds since 1970.

        `taken` and `answered` are called when the timeline accepted entries.
        """
        self.row = row
        """Row of the chat as the store has it."""
        self.newest: TurnView | None = None
        """Newest turn, as it was last read."""
        self.max_entry_bytes = store.max_entry_bytes
        self.claim = Claim(store, row.id)
        self.is_skipping = False
        """True if new entries were left unread, until the timeline is needed."""
        self._store = store
        self._counters = counters
        self._now = now
        self._taken = taken
        self._answered = answered
        self._lock = asyncio.Lock()
        self._timeline: Timeline | None = None
        self._is_current = False  # the timeline has all of the store's entries, as far as this process knows
        self._is_kept = True  # all that the timeline shows is in the store
        self._at_rest = False  # there is nothing to do, and no timeline is needed
        self._number = 0  # the last entry that any timeline of this process accepted
        self._watchers: list[Watcher] = []

    @property
    def id(self) -> str:
        """Id of the chat."""
        return self.row.id

    # --- what is known ---

    @property
    def shown(self) -> Timeline | None:
        """Return the timeline for clients; None while it is not known to be in the store."""
        return self._timeline if self._is_kept else None

    async def open(self) -> Timeline:
        """Return the timeline, up to date.

        Raises:
            StoreFailed: the store cannot be read.
        """
        async with self._lock:
            return await self._current()

    async def is_over(self) -> bool:
        """Return whether there is nothing to do: each turn is over, and summed up.

        Raises:
            StoreFailed: the store cannot be read.
        """
        async with self._lock:
            summary = await self._store.summary(self.id, limit=1)
            if self._timeline is not None:
                if self._watchers or summary.number <= self._timeline.number:
                    return False
                self._timeline = None  # what it lacks is summed up
            views = _views(summary.turns)
            if summary.number != summary.last or any(row.last == 0 for row in summary.turns) or views is None:
                return False
            self.newest, self._number = views[-1] if views else None, summary.last
            self._at_rest, self.is_skipping = True, False
            return True

    async def turns(self, before: int | None, limit: int) -> tuple[list[TurnView], bool]:
        """Return the newest turns before one, oldest first, and whether there are earlier ones."""
        shown = [] if self._at_rest else (await self.open()).snapshot().turns  # at rest all are summed up
        rows = await self._store.list_turns(self.id, before=before, limit=limit + 1)
        found = {view.turn: view for view in _views(rows) or []}
        found.update((view.turn, view) for view in shown if before is None or view.turn < before)
        views = [view for _, view in sorted(found.items())]
        return views[-limit:], len(views) > limit

    async def turn(self, turn: int) -> tuple[TurnView, list[Numbered]]:
        """Return one turn and its entries so far.

        Raises:
            NoSuchTurn: there is none, or it is no longer kept.
        """
        views, _ = await self.turns(turn + 1, 1)
        if not views or views[0].turn != turn:
            raise NoSuchTurn(f"the chat has no turn {turn}")
        return views[0], await read_turn(self._store, self.id, views[0])

    # --- clients ---

    def watch(self, watcher: Watcher) -> None:
        """Call `watcher` whenever the timeline accepted entries; the timeline stays in memory."""
        self._watchers.append(watcher)

    def unwatch(self, watcher: Watcher) -> None:
        """Stop calling `watcher`."""
        self._watchers.remove(watcher)
        self.rest()

    def delete(self) -> None:
        """Notify clients that the chat was deleted."""
        if self._timeline is None:  # an attempt to read the chat found that it is gone
            self._timeline = Timeline(self._number)
        self._is_kept = True
        self._timeline.delete()
        self._notify(True)

    # --- appending ---

    async def add(self, events: Sequence[ev.Event], *, session_id: str | None) -> None:
        """Append events of the run, and keep its session with them.

        Raises:
            Unclaimed: the store has lost entries since the run began, so that these do not belong behind its last one.
            StoreFailed: as `write`.
        """

        def make(timeline: Timeline) -> Sequence[Write]:
            if self.claim.epoch is None:
                raise Unclaimed(self.id)
            return events

        await self.write(make, session_id=session_id)

    async def write(self, make: Callable[[Timeline], Sequence[Write]], *, session_id: str | None = None) -> None:
        """Append the entries that `make` returns for the current timeline, if any.

        Raises:
            StoreFailed: they were most likely not appended; the next call finds out.
        """
        async with self._lock:
            while True:
                timeline = await self._current()
                entries = make(timeline)
                if not entries:
                    return
                is_new = session_id is not None and session_id != self.row.session_id
                changes = ChatChanges(session_id=session_id) if is_new else None
                try:
                    await self._append(timeline, entries, changes)
                    return
                except Conflict:
                    continue  # an entry was submitted meanwhile: decide again

    async def submit(self, decide: Callable[[Timeline], Entry | None], *, key: str | None = None) -> Submitted | None:
        """Submit the entry that `decide` returns for the current timeline, and follow it. Return None if there is none.

        Raises:
            StoreFailed: it was most likely not kept.
        """
        async with self._lock:
            while True:
                timeline = await self._current()
                entry = decide(timeline)
                if entry is None:
                    return None
                ((data,), _) = fitted([entry], self.max_entry_bytes)
                self._is_current = False
                try:
                    turn = entry.turn if isinstance(entry, Prompted) else None
                    submitted = self._store.submit(
                        self.id, data, at=self._now(), after=timeline.number, key=key, turn=turn
                    )
                    done = await self._counters.append(1, submitted)
                except Conflict:
                    continue
                await self._current()
                return done

    @property
    def is_watched(self) -> bool:
        """Return whether a client watches the chat here."""
        return bool(self._watchers)

    def is_behind(self, last: int) -> bool:
        """Return whether the store has entries up to `last` that no timeline has accepted."""
        return last > self._number

    async def follow(self, last: int) -> bool:
        """Read the next entries if the store has some up to `last` that the timeline has not; return whether it read.

        Raises:
            StoreFailed: the store cannot be read.
        """
        async with self._lock:
            if not self.is_behind(last):
                return False
            self._is_current = False
            await self._current()
            return True

    async def change(self, decide: Callable[[ChatRow], ChatChanges]) -> None:
        """Make the changes of the chat's row that `decide` returns.

        Raises:
            NoSuchChat: it was deleted.
            StoreFailed: the change was not kept; the row is as before.
        """
        async with self._lock:
            changes = decide(self.row)
            try:
                if changes.fields():
                    self.row = await self._store.update_chat(self.id, changes)
            except UnknownChat as error:
                raise NoSuchChat(self.id) from error

    async def sum_up(self) -> None:
        """Store summaries of turns that are over and have none: entries without them were found in the store.

        Raises:
            StoreFailed: they could not be kept.
        """
        async with self._lock:
            timeline = await self._current()
            if not timeline.is_summed_up and (rows := _rows(timeline)):
                self._is_current = False
                await self._store.append(self.id, [], after=timeline.number, at=timeline.at, turns=rows)
                self._is_current = True

    async def catch_up(self) -> Timeline:
        """Read up to the entry that is the last one now: what the store has read ahead may be older.

        Raises:
            StoreFailed: the store cannot be read.
        """
        last = (await self._store.summary(self.id, limit=1)).last
        async with self._lock:
            self._is_current = False
            while (timeline := await self._current()).number < last:
                self._is_current = False
            return timeline

    async def read_row(self) -> None:
        """Read the row again: another node may have changed it.

        Raises:
            UnknownChat: the chat was deleted.
            StoreFailed: the store cannot be read.
        """
        async with self._lock:
            self.row = await self._store.get_chat(self.id)

    async def forget_summed_up(self) -> None:
        """Keep no more than the newest turn, if others have ended all turns, and stored their summaries.

        Raises:
            StoreFailed: the store cannot be read.
        """
        async with self._lock:
            timeline = self._timeline
            if timeline is None or timeline.is_summed_up or timeline.running is not None or timeline.queued:
                return
            summary = await self._store.summary(self.id, limit=1)
            if summary.number == summary.last == timeline.number:
                timeline.summary()
        self.rest()

    def invalidate(self, error: Exception) -> None:
        """Read the next entries from the store after this error, or fold again if the store is not the one known."""
        self._is_current = False
        if not isinstance(error, StoreFailed):
            self._timeline = None

    def rest(self) -> bool:
        """Keep no more than the newest turn, if there is nothing to do; return whether there is nothing to do."""
        timeline = self._timeline
        if timeline is None:
            return self._at_rest
        is_over = timeline.running is None and not timeline.queued and timeline.is_summed_up
        if not is_over or not self._is_current:
            return False
        if not self._watchers and not self._lock.locked():
            self._timeline, self._at_rest = None, True
        return True

    async def trim(self, upto: int) -> int:
        """Drop complete turns up to entry `upto`; return the last number that was dropped.

        The newest turn is kept, whatever its age.

        Raises:
            StoreFailed: it could not be trimmed.
        """
        async with self._lock:
            end = whole_turns_end(await all_turns(self._store, self.id), upto)
            if end:
                await self._store.trim(self.id, end)
                if self._timeline is not None:
                    self._timeline.drop(end)
            return end

    async def remove(self) -> None:
        """Delete the chat from the store.

        Raises:
            StoreFailed: it could not be deleted.
        """
        async with self._lock:
            try:
                await self._store.delete_chat(self.id)
            except UnknownChat:
                pass  # the call before succeeded although the store reported a failure

    # --- inside, with the lock ---

    async def _current(self) -> Timeline:
        timeline = self._timeline
        if timeline is None:
            summary = await self._store.summary(self.id, limit=KEPT_TURNS + 1)
            views = _views(summary.turns)
            # Summaries of another version cannot be read: the entries are then folded from the first one on.
            if views is None:
                timeline = Timeline(await first_entry(self._store, self.id) - 1)
            else:
                timeline = Timeline(summary.number, views)
            self._timeline, self._at_rest, self._is_kept, self._is_current = timeline, False, True, False
        if self._is_current and not self.is_skipping:
            return timeline
        self._is_current = self.is_skipping = False
        try:
            await self._read_on(timeline)
        except Ahead:  # entries were lost: what the timeline has of them must not be shown
            self._timeline = None
            return await self._current()
        return timeline

    async def _read_on(self, timeline: Timeline) -> None:
        at_once = False
        while True:
            page = await self._store.read(self.id, after=timeline.number)
            entries = decode(page.entries)
            at_once = timeline.take(entries) or at_once
            for entry in entries:
                if isinstance(entry.what, Answered) and entry.number > self._number:
                    self._answered(entry.what)
            if timeline.number >= page.last and not await self._is_read_ahead(timeline):
                break
        self._is_current = True
        self._took(timeline, at_once)

    async def _is_read_ahead(self, timeline: Timeline) -> bool:
        """Return whether the store has more than it returned. If it lost entries, nothing counts that was known."""
        if timeline.number >= self._number:
            return False
        if (await self._store.summary(self.id, limit=1)).last > timeline.number:
            return True
        self._number = timeline.number
        self.claim.void()
        return False

    async def _append(self, timeline: Timeline, entries: Sequence[Write], changes: ChatChanges | None) -> None:
        at, after = self._now(), timeline.number
        data, written = fitted(entries, self.max_entry_bytes)
        numbered = [Numbered(number, at, what) for number, what in enumerate(written, after + 1)]
        ends = [it for it in written if isinstance(it, ENDS)]
        at_once, rows = False, list[TurnRow]()
        if changes is None and any(isinstance(it, LISTED) for it in written):
            changes = ChatChanges()
        self._is_current = False  # after a failure or a cancellation it is not known what was appended
        if ends:
            # The summary is computed before the entries are kept, and is written with them. It is not visible before.
            self._is_kept = False
            at_once = timeline.take(numbered)
            rows = _rows(timeline)
        try:
            append = self._store.append(
                self.id, data, after=after, at=at, epoch=self.claim.epoch, turns=rows, changes=changes
            )
            await self._counters.append(len(data), append)
        except BaseException:
            if ends:
                self._timeline = None
            raise
        if not ends:
            at_once = timeline.take(numbered)
        self._is_current = self._is_kept = True
        if changes is not None:
            self.row = changes.applied(self.row)
        for end in ends:
            self._counters.ended[end.outcome] += 1
        self._took(timeline, at_once)

    def _took(self, timeline: Timeline, at_once: bool) -> None:
        self.newest, self._number = timeline.newest, max(timeline.number, self._number)
        self._taken(timeline)
        self._notify(at_once)

    def _notify(self, at_once: bool) -> None:
        for watcher in self._watchers:
            watcher(at_once)


def _rows(timeline: Timeline) -> list[TurnRow]:
    """Return the rows of the turns that changed; none while a turn runs."""
    return [
        TurnRow(view.turn, view.first, view.last, timeline.at, _encoder.encode(view))
        for view in timeline.summary() or ()
    ]


def _views(rows: Iterable[TurnRow]) -> list[TurnView] | None:
    """Decode the summaries; None if another version of Penstock wrote one."""
    try:
        return [_decoder.decode(row.view) for row in rows]
    except (msgspec.DecodeError, UnicodeError):
        return None
