"""Timeline of one chat in this process: folded from the store's entries while it is needed, and shown to clients.

It accepts entries that this process appended as objects, once they are kept, and others as it reads them from the
store. After a failure it is folded again from the store, as at the start, so a crash needs no code of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress

from penstock.chat.history.entries import Answered, Numbered, decode
from penstock.chat.history.frames import TurnView
from penstock.chat.history.timeline import KEPT_TURNS, Timeline, in_conversation
from penstock.chat.service.log.stored_turns import decoded_views, first_entry
from penstock.chat.service.nodes import Claim
from penstock.chat.store import permits
from penstock.chat.store.protocol import Ahead, ChatStore, StoreFailed, Trimmed

Watcher = Callable[[bool], None]
"""Callback after the timeline accepted entries. Its argument is True if clients should see them at once."""


class LiveTimeline:
    """Timeline of one chat, as far as it is in memory. A `HeldTimeline` reads on and appends."""

    def __init__(
        self,
        store: ChatStore,
        id: str,
        claim: Claim,
        *,
        taken: Callable[[Timeline], None],
        answered: Callable[[Answered], None],
    ) -> None:
        """Create it. `taken` and `answered` are called when it accepted entries."""
        self.newest: TurnView | None = None
        """Turn that was asked for last, as it was last read."""
        self.latest: TurnView | None = None
        """Last turn of the conversation, as it was last read."""
        self.is_skipping: bool = False
        """True if new entries were left unread, until the timeline is needed."""
        self.at_rest: bool = False
        """True if there is nothing to do, and no timeline is needed."""
        self._store = store
        self._id = id
        self._claim = claim
        self._taken = taken
        self._answered = answered
        self._timeline: Timeline | None = None
        self._is_current = False  # the timeline has all of the store's entries, as far as this process knows
        self._is_compared = False  # the timeline is at an entry that the store has
        self._is_shown = True  # the timeline has all that clients have seen, and nothing that is not in the store
        self._number = 0  # the last entry that any timeline of this process accepted
        self._watchers: list[Watcher] = []
        self._lock = asyncio.Lock()

    def held(self) -> HeldTimeline:
        """Return the context of one caller, which alone reads on, decides and appends; others wait."""
        return HeldTimeline(self, self._lock)

    # --- clients ---

    @property
    def shown(self) -> Timeline | None:
        """Return the timeline for clients; None until it has been read, and all of it is in the store."""
        return self._timeline if self._is_shown else None

    def count_open(self, person: str) -> int:
        """Return the number of turns of this person that have not ended, as far as this process has read."""
        turns = () if self._timeline is None else self._timeline.turns.values()
        return sum(view.person == person and view.state != "completed" for view in turns)

    @property
    def is_watched(self) -> bool:
        """Return whether a client watches it."""
        return bool(self._watchers)

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
        self._is_shown = True
        self._timeline.delete()
        self._notify(True)

    # --- reading ---

    async def open(self) -> Timeline:
        """Return the timeline, up to date.

        Raises:
            StoreFailed: the store cannot be read.
        """
        async with self.held() as held:
            return await held.current()

    async def _current(self) -> Timeline:
        with permits.acting(None):  # it is read for all clients, whoever of them asks first
            return await self._read()

    async def _read(self) -> Timeline:
        timeline = self._timeline
        if timeline is None:
            summary = await self._store.summary(self._id, limit=KEPT_TURNS + 1)
            views = decoded_views(summary.turns)
            # Summaries of another version cannot be read: the entries are then folded from the first one on.
            if views is None:
                timeline = Timeline(await first_entry(self._store, self._id) - 1)
            else:
                timeline = Timeline(summary.number, views)
            # Until it has been read it lacks entries that clients have seen.
            self._timeline, self.at_rest, self._is_shown, self._is_current = timeline, False, False, False
            self._is_compared = False
        if self._is_current and not self.is_skipping:
            return timeline
        self._is_current = self.is_skipping = False
        try:
            await self._read_on(timeline)
        except Ahead:  # entries were lost, or are others by now: what the timeline has of them must not be shown
            self._timeline = None
            return await self._read()
        return timeline

    async def _read_on(self, timeline: Timeline) -> None:
        at_once = False
        await self._compare(timeline)
        while True:
            page = await self._store.read(self._id, after=timeline.number)
            entries = decode(page.entries)
            at_once = timeline.take(entries) or at_once
            for entry in entries:
                if isinstance(entry.what, Answered) and entry.number > self._number:
                    self._answered(entry.what)
            if timeline.number >= page.last and not await self._is_read_ahead(timeline):
                break
        self._is_current = self._is_shown = True
        self.newest, self.latest = timeline.newest, timeline.latest
        self._took(timeline, at_once)

    async def _compare(self, timeline: Timeline) -> None:
        """Check that the store still has the entry at which the timeline is; note its time if the timeline is new.

        Raises:
            Ahead: it has another one of this number, or none: it was restored.
        """
        if self._is_compared or not timeline.number:
            return
        with suppress(Trimmed):
            page = await self._store.read(self._id, after=timeline.number - 1, limit=1)
            for entry in page.entries:
                known = timeline.time_of(entry.number)
                if known is None:
                    timeline.note_time(entry.number, entry.at)
                elif known != entry.at:
                    self._claim.void()
                    raise Ahead(self._id, timeline.number, entry.number - 1)
        self._is_compared = True

    async def _is_read_ahead(self, timeline: Timeline) -> bool:
        """Return whether the store has more than it returned. If entries were lost, earlier knowledge is discarded."""
        if timeline.number >= self._number:
            return False
        if (await self._store.summary(self._id, limit=1)).last > timeline.number:
            return True
        self._number = timeline.number
        self._claim.void()
        return False

    def is_behind(self, last: int) -> bool:
        """Return whether the store has entries up to `last` that no timeline has accepted."""
        return last > self._number

    def invalidate(self, error: Exception) -> None:
        """Read the next entries from the store after this error, or fold again if the store is not the one known."""
        self._is_current = False
        if not isinstance(error, StoreFailed):
            self._timeline = None

    # --- appending ---

    @contextmanager
    def _appending(self, entries: Sequence[Numbered], *, with_summary: bool) -> Iterator[None]:
        timeline, at_once = self._timeline, False
        assert timeline is not None  # what is appended was decided by it
        self._is_current = False  # after a failure or a cancellation it is not known what was appended
        if with_summary:
            self._is_shown = False
            at_once = timeline.take(entries)
        try:
            yield
        except BaseException:
            if with_summary:
                self._timeline = None
            raise
        if not with_summary:
            at_once = timeline.take(entries)
        self._is_current = self._is_shown = True
        if at_once:  # a text that only grows leaves the turns in their order
            self.newest, self.latest = timeline.newest, timeline.latest
        self._took(timeline, at_once)

    def _took(self, timeline: Timeline, at_once: bool) -> None:
        self._number = max(timeline.number, self._number)
        self._taken(timeline)
        self._notify(at_once)

    def _notify(self, at_once: bool) -> None:
        for watcher in self._watchers:
            watcher(at_once)

    # --- forgetting ---

    async def _is_over(self) -> bool:
        summary = await self._store.summary(self._id, limit=1)
        if self._timeline is not None:
            if self._watchers or summary.number <= self._timeline.number:
                return False
            self._timeline = None  # what it lacks is summed up
        views = decoded_views(summary.turns)
        if summary.number != summary.last or any(row.last == 0 for row in summary.turns) or views is None:
            return False
        self.newest, self._number = views[-1] if views else None, summary.last
        newest = self.newest
        if newest is not None and (newest.place or newest.steer):  # one before it may have ended after it
            views = decoded_views((await self._store.summary(self._id, limit=KEPT_TURNS)).turns) or views
        self.latest = in_conversation(views)[-1] if views else None
        self.at_rest, self.is_skipping = True, False
        return True

    async def _note_summaries(self) -> None:
        timeline = self._timeline
        if timeline is None or timeline.is_summed_up or timeline.running is not None or timeline.queued:
            return
        summary = await self._store.summary(self._id, limit=1)
        if summary.number == summary.last == timeline.number:
            timeline.summary()

    def rest(self) -> bool:
        """Keep only the newest turn if there is nothing to do; return whether there is nothing to do."""
        timeline = self._timeline
        if timeline is None:
            return self.at_rest
        is_over = timeline.running is None and not timeline.queued and timeline.is_summed_up
        if not is_over or not self._is_current:
            return False
        if not self._watchers and not self._lock.locked():
            self._timeline, self.at_rest = None, True
        return True

    def _drop(self, upto: int) -> None:
        if self._timeline is not None:
            self._timeline.drop(upto)


class HeldTimeline:
    """Timeline that its holder alone reads on and appends to, in the context of `LiveTimeline.held`.

    After the context, and before it, every method raises `RuntimeError`.
    """

    def __init__(self, live: LiveTimeline, lock: asyncio.Lock) -> None:
        self._timeline = live
        self._lock = lock
        self._is_held = False

    async def __aenter__(self) -> HeldTimeline:
        await self._lock.acquire()
        self._is_held = True
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_held = False
        self._lock.release()

    @property
    def _live(self) -> LiveTimeline:
        if not self._is_held:
            raise RuntimeError("the timeline is not held")
        return self._timeline

    async def current(self) -> Timeline:
        """Return the timeline with all entries of the store, as far as this process knows of them.

        Raises:
            StoreFailed: the store cannot be read.
        """
        return await self._live._current()

    async def is_over(self) -> bool:
        """Return whether there is nothing to do: each turn is over, and summed up.

        Raises:
            StoreFailed: the store cannot be read.
        """
        return await self._live._is_over()

    async def note_summaries(self) -> None:
        """Note that the turns are summed up, if others have ended all of them and stored their summaries.

        Raises:
            StoreFailed: the store cannot be read.
        """
        await self._live._note_summaries()

    def expect_more(self) -> None:
        """Read the next entries from the store before the timeline is used again: there may be some."""
        self._live._is_current = False

    def expect_others(self) -> None:
        """Read the next entries as after `expect_more`, and look first whether the store was restored meanwhile."""
        self._live._is_current = self._live._is_compared = False

    def appending(self, entries: Sequence[Numbered], *, with_summary: bool = False) -> AbstractContextManager[None]:
        """Accept entries, which are appended in the returned context, behind those of the timeline.

        They are accepted when the context ends without an error. `with_summary`: they are accepted when it begins,
        so that a summary of them is appended with them; they are not shown before it ends.
        """
        return self._live._appending(entries, with_summary=with_summary)

    def drop(self, upto: int) -> None:
        """Forget the turns up to entry `upto`, which the store has dropped."""
        self._live._drop(upto)
