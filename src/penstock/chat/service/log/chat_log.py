"""Log of one chat in this process: its row, its entries in the store, and what is appended to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from msgspec.structs import replace

from penstock import events as ev
from penstock.chat.errors import ChatError, NoSuchChat, NoSuchTurn
from penstock.chat.history.activity import AgentActivity
from penstock.chat.history.entries import Answered, Entry, Numbered, Prompted, TurnEnded, decode
from penstock.chat.history.frames import TurnView
from penstock.chat.history.timeline import Timeline, in_conversation
from penstock.chat.service.counters import Counters
from penstock.chat.service.log.live_timeline import HeldTimeline, LiveTimeline
from penstock.chat.service.log.stored_turns import all_turns, decoded_views, read_turn, summary_rows, whole_turns_end
from penstock.chat.service.log.truncation import fitted
from penstock.chat.service.nodes import Claim, Unclaimed
from penstock.chat.store.protocol import (
    Ahead,
    ChatStore,
    Claimed,
    Conflict,
    Fenced,
    LeaseLost,
    RowChanged,
    StoreClosed,
    StoreFailed,
    Submitted,
    Trimmed,
    UnknownChat,
)
from penstock.chat.store.rows import ChatChanges, ChatRow, ChatRule

STORE_ERRORS = (StoreFailed, StoreClosed, Conflict, Fenced, Claimed, Unclaimed, LeaseLost, Trimmed, Ahead, UnknownChat)
"""Errors of a store that the caller did not cause."""

ENDS = (ev.RunEnded, TurnEnded)
"""Entries with which a turn ends."""

LISTED = (*ENDS, ev.QuestionAsked, ev.QuestionAnswered)
"""Entries of a turn that change what a list of chats shows: they count as changes of the row, which all nodes see."""

Write = Entry | ev.Event

MAX_NUMBER = 2**63 - 1
"""Number larger than that of any entry: a chat that follows up to it reads to the end."""


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
        self.row: ChatRow = row
        """Row of the chat as the store has it."""
        self.max_entry_bytes: int = store.max_entry_bytes
        self.claim: Claim = Claim(store, row.id)
        self.live: LiveTimeline = LiveTimeline(store, row.id, self.claim, taken=taken, answered=answered)
        """Timeline, as far as it is in memory."""
        self._store = store
        self._counters = counters
        self._now = now

    @property
    def id(self) -> str:
        """Id of the chat."""
        return self.row.id

    # --- reading ---

    async def open(self) -> Timeline:
        """Return the timeline, up to date.

        Raises:
            StoreFailed: the store cannot be read.
        """
        return await self.live.open()

    async def is_over(self) -> bool:
        """Return whether there is nothing to do: each turn is over, and summed up.

        Raises:
            StoreFailed: the store cannot be read.
        """
        async with self.live.held() as held:
            return await held.is_over()

    async def turns(self, before: int | None, limit: int) -> tuple[list[TurnView], bool]:
        """Return the newest turns before one, and whether there are earlier ones; in the order of the conversation.

        Raises:
            NoSuchChat: the chat was deleted, or its person no longer sees it.
        """
        with self._found():
            views, is_more, _ = await self._newest(before, limit)
        return views, is_more

    async def _newest(self, before: int | None, limit: int) -> tuple[list[TurnView], bool, int]:
        """Return the same as `turns`, and the number of the last entry that the turns contain; 0 if all are over."""
        shown: list[TurnView] = []
        upto = 0
        if not self.live.at_rest:  # else all are summed up
            snapshot = (await self.open()).snapshot()
            shown, upto = snapshot.turns, snapshot.number
        rows = await self._store.list_turns(self.id, before=before, limit=limit + 1)
        found = {view.turn: view for view in decoded_views(rows) or []}
        found.update((view.turn, view) for view in shown if before is None or view.turn < before)
        views = [view for _, view in sorted(found.items())]
        return in_conversation(views[-limit:]), len(views) > limit, upto

    async def turn(self, turn: int) -> tuple[TurnView, list[Numbered]]:
        """Return one turn and its entries so far: those that the turn contains, though more may be stored by now.

        Raises:
            NoSuchTurn: there is none, or it is no longer kept.
            NoSuchChat: the chat was deleted, or its person no longer sees it.
        """
        with self._found():
            views, _, upto = await self._newest(turn + 1, 1)
            if not views or views[0].turn != turn:
                raise NoSuchTurn(f"the chat has no turn {turn}")
            return views[0], await read_turn(self._store, self.id, views[0], upto)

    @contextmanager
    def _found(self) -> Iterator[None]:
        try:
            yield
        except UnknownChat as error:
            raise NoSuchChat(self.id) from error

    async def activity(self, turn: int) -> AgentActivity:
        """Return what the agent of a turn does now.

        Raises:
            NoSuchTurn: there is none, or it is no longer kept.
        """
        views, _ = await self.turns(turn + 1, 1)
        if not views or views[0].turn != turn:
            raise NoSuchTurn(f"the chat has no turn {turn}")
        timeline = self.live.shown
        return AgentActivity() if timeline is None else timeline.activity(turn)

    async def entries(self, after: int, upto: int) -> list[Numbered]:
        """Return entries after number `after` and up to number `upto`: not all of them if there are many.

        Raises:
            Trimmed: the first of them are no longer kept.
            StoreFailed: the store cannot be read.
        """
        page = await self._store.read(self.id, after=after)
        return decode(entry for entry in page.entries if entry.number <= upto)

    async def commands(self) -> list[ev.AgentCommand]:
        """Return the commands that the agent offers by its newest list; none if that is no longer kept.

        Raises:
            NoSuchChat: the chat was deleted, or its person no longer sees it.
            StoreFailed: the store cannot be read.
        """
        number = self.row.commands_at
        if not number:
            return []
        try:
            with self._found():
                found = decode((await self._store.read(self.id, after=number - 1, limit=1)).entries)
        except (Trimmed, Ahead):
            return []
        return next((it.what.commands for it in found if isinstance(it.what, ev.CommandsChanged)), [])

    async def follow(self, last: int) -> bool:
        """Read the next entries if the timeline lacks some up to `last`. Return whether it read any.

        With `MAX_NUMBER`, it also looks whether the store was restored: its number may be that of another entry.

        Raises:
            StoreFailed: the store cannot be read.
        """
        async with self.live.held() as held:
            if not self.live.is_behind(last):
                return False
            if last == MAX_NUMBER:
                held.expect_others()
            held.expect_more()
            await held.current()
            return True

    async def catch_up(self) -> Timeline:
        """Read up to the entry that is currently the last one: the store's read-ahead may be older.

        Raises:
            StoreFailed: the store cannot be read.
        """
        last = (await self._store.summary(self.id, limit=1)).last
        async with self.live.held() as held:
            held.expect_more()
            while (timeline := await held.current()).number < last:
                held.expect_more()
            return timeline

    async def forget_summed_up(self) -> None:
        """Keep only the newest turn in memory, if others have ended all turns and stored their summaries.

        Raises:
            StoreFailed: the store cannot be read.
        """
        async with self.live.held() as held:
            await held.note_summaries()
        self.live.rest()

    # --- appending ---

    async def add(self, events: Sequence[Write], *, session_id: str | None) -> None:
        """Append what comes of the run, and keep its session with it.

        Raises:
            Unclaimed: the store has lost entries since the run began, so these must not follow its last entry.
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
        async with self.live.held() as held:
            while True:
                timeline = await held.current()
                entries = make(timeline)
                if not entries:
                    return
                is_new = session_id is not None and session_id != self.row.session_id
                changes = ChatChanges(session_id=session_id) if is_new else None
                try:
                    await self._append(held, timeline, entries, changes)
                    return
                except Conflict:
                    continue  # an entry was submitted meanwhile: decide again

    async def submit(
        self, decide: Callable[[Timeline], Entry | None], *, key: str | None = None, is_shared: bool = False
    ) -> Submitted | None:
        """Submit the entry that `decide` returns for the current timeline, and follow it. Return None if there is none.

        If other nodes append to the chat (`is_shared`), only a timeline with all of the store's entries decides that
        there is none: a client may come from a node whose entries this one was not notified of yet.

        Raises:
            ChatError: `decide` raised it, or the permit of the request.
            NoSuchChat: the chat was deleted, or its person no longer sees it.
            StoreFailed: it was most likely not kept.
        """
        try:
            done = await self._submit(decide, key)
            if done is not None or not is_shared:
                return done
        except ChatError:
            if not is_shared:
                raise
        await self.catch_up()
        return await self._submit(decide, key)

    async def _submit(self, decide: Callable[[Timeline], Entry | None], key: str | None) -> Submitted | None:
        async with self.live.held() as held:
            while True:
                timeline = await held.current()
                entry = decide(timeline)
                if entry is None:
                    return None
                ((data,), _) = fitted([entry], self.max_entry_bytes)
                held.expect_more()
                try:
                    turn = entry.turn if isinstance(entry, Prompted) else None
                    submitted = self._store.submit(
                        self.id, data, at=self._now(), after=timeline.number, key=key, turn=turn
                    )
                    done = await self._counters.append(1, submitted)
                except Conflict:
                    continue
                except UnknownChat as error:
                    raise NoSuchChat(self.id) from error
                await held.current()
                return done

    async def _append(
        self, held: HeldTimeline, timeline: Timeline, entries: Sequence[Write], changes: ChatChanges | None
    ) -> None:
        at, after = self._now(), timeline.number
        data, written = fitted(entries, self.max_entry_bytes)
        numbered = [Numbered(number, at, what) for number, what in enumerate(written, after + 1)]
        ends = [it for it in written if isinstance(it, ENDS)]
        if changes is None and any(isinstance(it, LISTED) for it in written):
            changes = ChatChanges()
        if lists := [it.number for it in numbered if isinstance(it.what, ev.CommandsChanged)]:
            changes = replace(changes or ChatChanges(), commands_at=lists[-1])
        with held.appending(numbered, with_summary=bool(ends)):
            rows = summary_rows(timeline) if ends else []
            append = self._store.append(
                self.id, data, after=after, at=at, epoch=self.claim.epoch, turns=rows, changes=changes
            )
            await self._counters.append(len(data), append)
            if changes is not None:
                self.row = changes.applied(self.row)
            for end in ends:
                self._counters.agents[self.row.agent].add(end)

    async def sum_up(self) -> None:
        """Store summaries of turns that are over and have none: entries without them were found in the store.

        Raises:
            StoreFailed: they could not be kept.
        """
        async with self.live.held() as held:
            timeline = await held.current()
            if not timeline.is_summed_up and (rows := summary_rows(timeline)):
                with held.appending([]):
                    await self._store.append(self.id, [], after=timeline.number, at=timeline.at, turns=rows)

    # --- the row, and deletions ---

    async def change(self, decide: Callable[[ChatRow], ChatChanges]) -> None:
        """Make the changes of the chat's row that `decide` returns.

        Raises:
            NoSuchChat: it was deleted.
            StoreFailed: the change was not kept; the row is as before.
        """
        async with self.live.held():
            changes = decide(self.row)
            try:
                if changes.fields():
                    self.row = await self._store.update_chat(self.id, changes)
            except UnknownChat as error:
                raise NoSuchChat(self.id) from error

    async def change_rules(self, change: Callable[[list[ChatRule]], list[ChatRule]]) -> None:
        """Change the rules of the chat: `change` returns the new ones, and is called again if they change meanwhile.

        Raises:
            ChatError: `change` raised it.
            NoSuchChat: the chat was deleted.
            StoreFailed: the change was not kept.
        """
        async with self.live.held():
            while True:
                before = self.row.rules
                rules = change(before)
                try:
                    if rules != before:
                        self.row = await self._store.update_chat(self.id, ChatChanges(rules=rules), rules=before)
                    return
                except RowChanged:
                    self.row = await self._store.get_chat(self.id)
                except UnknownChat as error:
                    raise NoSuchChat(self.id) from error

    async def read_row(self) -> None:
        """Read the row again: another node may have changed it.

        Raises:
            UnknownChat: the chat was deleted.
            StoreFailed: the store cannot be read.
        """
        async with self.live.held():
            self.row = await self._store.get_chat(self.id)

    async def trim(self, upto: int) -> int:
        """Drop complete turns up to entry `upto`; return the last number that was dropped.

        The newest turn is kept, whatever its age.

        Raises:
            StoreFailed: it could not be trimmed.
        """
        async with self.live.held() as held:
            end = whole_turns_end(await all_turns(self._store, self.id), upto)
            if end:
                await self._store.trim(self.id, end)
                held.drop(end)
            return end

    async def remove(self) -> None:
        """Delete the chat from the store.

        Raises:
            StoreFailed: it could not be deleted.
        """
        async with self.live.held():
            try:
                await self._store.delete_chat(self.id)
            except UnknownChat:
                pass  # the call before succeeded although the store reported a failure
