"""One chat: its requests, its queue and its turns. Each decision is in its entries before it is applied."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence

from penstock import events as ev
from penstock.chat.errors import Conflicting, ShuttingDown
from penstock.chat.history.entries import OWNER, Asker, AttachedFile, Entry, Prompted, Released, Undone
from penstock.chat.history.timeline import Timeline
from penstock.chat.service.log.chat_log import STORE_ERRORS, ChatLog
from penstock.chat.service.log.stored_turns import turn_at
from penstock.chat.service.shared import Shared
from penstock.chat.service.turns import decisions
from penstock.chat.service.turns.lost_turns import NODE_LOST, end_lost
from penstock.chat.service.turns.turn_cost import check_budget
from penstock.chat.service.turns.turn_loop import TurnLoop
from penstock.chat.store import permits
from penstock.chat.store.protocol import Fenced, StoreClosed, Submitted, UnknownChat
from penstock.chat.store.rows import ChatRow
from penstock.run.trace_context import of_request

ENDED = "Penstock was ended while the agent worked"
DELETED = "the chat was deleted"

RETRY_SECONDS = (0.5, 1.0, 2.0, 5.0, 15.0)
"""Seconds until a store that failed is tried again, after each failure in a row; the last one is repeated."""

GIVES_UP = (StoreClosed, Fenced, UnknownChat)
"""Errors after which this process leaves a chat alone until the next request or notification."""

FENCE_SECONDS = 1.0
"""Seconds for the end of a run that was killed because the lease is over. Its task is cancelled after that."""


class Chat:
    """One chat in this process."""

    def __init__(self, row: ChatRow, shared: Shared) -> None:
        self.log: ChatLog = ChatLog(
            shared.store,
            row,
            shared.counters,
            now=shared.now,
            taken=self._took,
            answered=lambda answer: self._runner.deliver(answer),
        )
        """Entries of the chat."""
        self.state: decisions.State = "idle"
        self.waiting: int = 0
        """Number of queued turns that are not held."""
        self.waiting_upto: int = 0
        """Highest number of these turns."""
        self.held: int = 0
        """Number of turns that wait until a person releases them."""
        self.asks: bool = False
        """True if a question waits for a person."""
        self.rejected_at = 0
        """Time at which a heartbeat's prompt was last rejected, in milliseconds since 1970."""
        self._shared = shared
        self._task: asyncio.Task[bool] | None = None
        self._runner = TurnLoop(self.log, shared)
        self._woken = asyncio.Event()
        self._announced: decisions.Announced | None = None

    # --- state ---

    @property
    def row(self) -> ChatRow:
        """Row of the chat."""
        return self.log.row

    @property
    def busy(self) -> bool:
        """True if a turn waits, or its run has not ended."""
        return self._task is not None or self.state != "idle"

    @property
    def works(self) -> bool:
        """True if this process works on a turn of the chat."""
        return self._task is not None

    @property
    def is_home(self) -> bool:
        """True if the chat's agent works in this process."""
        return self._shared.this_node.is_home(self.row)

    @property
    def used_at(self) -> int:
        """Time of the last activity in the chat, in milliseconds since 1970."""
        view = self.log.live.latest
        return max(view.completed_at or 0, view.began_at or 0, view.asked_at) if view else self.row.created_at

    async def recover(self) -> None:
        """Continue from the end of the store's entries.

        Raises:
            StoreFailed: the store cannot be read.
        """
        if await self.log.is_over():
            view = self.log.live.latest
            self.state, self.waiting, self.held = "idle", 0, 0
            self.asks = view is not None and view.question is not None
        else:
            await self.log.open()
            self._ensure_working()

    # --- requests ---

    def count_open(self, person: str) -> int:
        """Return the number of turns of this person that run or wait."""
        if self.state == "idle":
            return 0
        return self.log.live.count_open(person)

    async def ask(
        self,
        text: str,
        by: Asker = "person",
        key: str | None = None,
        *,
        person: str = OWNER,
        now: bool = False,
        stops: int | None = None,
        steers: int | None = None,
        check: Callable[[], None] = lambda: None,
        attachments: Sequence[AttachedFile] = (),
    ) -> tuple[int, bool]:
        """Queue a turn; when it returns, the prompt is kept. Return the turn, and whether it is new.

        `now`, `stops` and `steers` are those of `decisions.prompted`. `check` raises an error if no new turn may be
        queued.

        Raises:
            TooMany: the queue is full, or the person has spent what they may today.
            ContentTooLarge: the prompt does not fit into an entry.
            Conflicting: as `decisions.prompted`.
            StoreFailed: the prompt could not be kept.
        """
        turn = 0
        trace = of_request.get() if by == "person" else None

        def decide(timeline: Timeline) -> Entry | None:
            nonlocal turn
            turn = next((view.turn for view in timeline.turns.values() if key is not None and view.key == key), 0)
            if turn:
                return None
            check()
            entry = self._prompted(timeline, text, by, key, person, attachments, now=now, stops=stops, steers=steers)
            turn = entry.turn
            if trace is not None:
                self._shared.traces[(self.row.id, turn)] = trace
            return entry

        done = await self._submit(decide, key)
        if done is not None and not done.is_new:
            return await turn_at(self._shared.store, self.row.id, done.number), False
        return turn, done is not None

    async def answer(self, question: str, text: str, *, person: str = OWNER, always: bool = False) -> int:
        """Answer a question; return the turn. `always`: the command that it is about is allowed in the whole chat.

        The answer is passed to the run that waits for it, otherwise it is the prompt of the next turn.

        Raises:
            Conflicting: there is no such question.
            Invalid: the text is not an answer to this question.
            TooMany, ContentTooLarge, StoreFailed: as `ask`.
        """
        turn = 0

        def decide(timeline: Timeline) -> Entry:
            nonlocal turn
            running = timeline.running
            if running is not None and question in timeline.questions and not self._runner.is_stopping:
                turn = running.turn
                return decisions.answered(timeline.questions[question], turn, text, person=person, always=always)
            if always:
                raise Conflicting("this question is closed")
            later = decisions.answered_later(timeline.latest, question, text)
            prompt = self._prompted(timeline, later, "answer", None, person)
            turn = prompt.turn
            return prompt

        await self._submit(decide)
        return turn

    def _prompted(
        self,
        timeline: Timeline,
        text: str,
        by: Asker,
        key: str | None,
        person: str,
        attachments: Sequence[AttachedFile] = (),
        *,
        now: bool = False,
        stops: int | None = None,
        steers: int | None = None,
    ) -> Prompted:
        self._shared.spending.check(person)
        check_budget(self.row)
        most, most_bytes = self._shared.limits.max_queue, self.log.max_entry_bytes
        return decisions.prompted(
            timeline,
            text,
            by,
            key,
            most,
            most_bytes,
            person=person,
            attachments=attachments,
            now=now,
            stops=stops,
            steers=steers,
        )

    async def edit(self, turn: int, text: str, edits: int, *, person: str = OWNER) -> None:
        """Change the text of a turn that waits.

        Raises:
            NoSuchTurn, NotAllowed, Conflicting, ContentTooLarge: as `decisions.edited`.
            StoreFailed: the change could not be kept.
        """
        most = self.log.max_entry_bytes
        await self._submit(lambda timeline: decisions.edited(timeline, turn, text, edits, most, person=person))

    async def move(self, seen: list[int], turns: list[int], *, person: str = OWNER) -> None:
        """Put the turns that wait into another order.

        Raises:
            Invalid, Conflicting: as `decisions.moved`.
            StoreFailed: the change could not be kept.
        """
        await self._submit(lambda timeline: decisions.moved(timeline, seen, turns, person=person))

    async def send_now(self, turn: int, stops: int | None, *, person: str = OWNER) -> None:
        """Let a turn that waits begin before the others, and stop the running one for it.

        Raises:
            NoSuchTurn, Conflicting: as `decisions.sent_now`.
            StoreFailed: the request could not be kept.
        """
        await self._submit(lambda timeline: decisions.sent_now(timeline, turn, stops, person=person))

    async def steer(self, turn: int, into: int, *, person: str = OWNER) -> None:
        """Give a turn that waits to the agent of the running turn `into`, as a message within that turn.

        Raises:
            NoSuchTurn, Conflicting: as `decisions.steered`.
            StoreFailed: the request could not be kept.
        """
        await self._submit(lambda timeline: decisions.steered(timeline, turn, into, person=person))

    async def stop(self, turn: int | None = None, *, queued: bool = False, person: str = OWNER) -> list[int]:
        """Stop a turn or take it back from the queue; without `turn`, all of them. Return those that were stopped.

        Turns that wait behind a stopped running turn are held back. With `queued`, turns are only taken back.

        Raises:
            NoSuchTurn, Conflicting: as `decisions.stopped`.
            StoreFailed: the request could not be kept.
        """
        stopped: list[int] = []

        def decide(timeline: Timeline) -> Entry | None:
            stopped[:], entry = decisions.stopped(timeline, turn, queued=queued, person=person)
            return entry

        await self._submit(decide)
        return stopped

    async def release(self, *, person: str = OWNER) -> list[int]:
        """Release the turns that a stop holds back, and return them.

        Raises:
            StoreFailed: the request could not be kept.
        """
        released: list[int] = []

        def decide(timeline: Timeline) -> Entry | None:
            released[:] = [view.turn for view in timeline.held]
            return Released(max(released), person) if released else None

        await self._submit(decide)
        return released

    @contextlib.asynccontextmanager
    async def without_turn(self) -> AsyncIterator[Timeline]:
        """Yield the timeline; no turn begins in this context, and one that was asked for waits.

        Raises:
            Conflicting: a turn runs.
            StoreFailed: the store cannot be read.
        """
        async with self._runner.beginning:
            if self._runner.is_ending:
                raise ShuttingDown
            timeline = await self.log.catch_up()
            if timeline.running is not None:
                raise Conflicting("a turn of this chat runs", help="wait until it has ended, or stop it")
            yield timeline

    async def note_undone(self, entry: Undone) -> int | None:
        """Keep that the changes of a turn were taken back, or made again. Return the number of an earlier entry of it.

        Raises:
            NoSuchChat: it was deleted.
            StoreFailed: it could not be kept.
        """
        done = await self._submit(lambda timeline: entry, entry.key)
        with contextlib.suppress(*STORE_ERRORS):  # the next one who reads the chat does it
            await self.log.sum_up()
        return done.number if done is not None and not done.is_new else None

    async def follow(self, last: int) -> None:
        """Apply entries up to number `last` that others submitted."""
        try:
            if await self.log.follow(last):
                if self.is_home:
                    await self._runner.settle()
                else:
                    await self.log.forget_summed_up()
        except STORE_ERRORS as error:
            self.log.live.invalidate(error)
        finally:
            self._ensure_working()

    def skips(self) -> bool:
        """Leave new entries unread if the turn runs at another node and has no viewer here; return whether it does.

        The home changes the row, or notes a change of it, when a list of chats shows something else.
        """
        skips = not self.is_home and self.state == "running" and not self.log.live.is_watched
        if skips:
            self.log.live.is_skipping = True
        return skips

    async def read_row(self) -> None:
        """Read the row again: another node may have changed it.

        Raises:
            UnknownChat: the chat was deleted.
            StoreFailed: the store cannot be read.
        """
        await self.log.read_row()
        if self.log.live.is_skipping:
            await self.recover()

    async def run_job(self, turn: int) -> None:
        """Run the turns that wait, up to and with this one; it may have ended before. At the end the chat is released.

        A turn that has begun once is never begun again: if no process runs it, it is ended.
        """
        while self._task is not None:
            await asyncio.wait([self._task])
        if self._runner.is_ending:
            return
        self._task = task = asyncio.create_task(self._work(turn), name=f"chat {self.row.id}")
        await asyncio.wait([task])
        if not task.cancelled() and task.result():  # otherwise the store shows that a turn is to be ended
            with contextlib.suppress(*STORE_ERRORS):  # the claim ends with the lease, or with the next turn
                await self.log.claim.release()

    async def take_over(self) -> None:
        """End the turn of a node that was lost, or whose end failed here, and release the chat. It may be called again.

        Raises:
            Claimed: another node has taken it over.
            StoreFailed: as `ChatLog.write`.
        """
        if self._task is not None or self._runner.is_ending:
            return  # it is claimed by this node, and is worked on
        self.log.claim.forget()
        await self.log.claim.take(self._shared.this_node)
        await end_lost(self.log, await self.log.catch_up(), NODE_LOST)
        await self.log.claim.release()

    async def fence(self) -> None:
        """Kill the run, and forget the claim: the lease of this node is over, and others may end its turns."""
        task = self._task
        if task is not None:
            if self._runner.kill(NODE_LOST):
                await asyncio.wait([task], timeout=FENCE_SECONDS)
            task.cancel()
            await asyncio.wait([task])
        self.log.claim.forget()

    async def drop(self) -> None:
        """Kill the run of a chat that another node deleted."""
        with contextlib.suppress(*STORE_ERRORS):
            await self._halt(DELETED, "cancelled", None)
        await self._clear()
        self.log.live.delete()

    async def close(self) -> None:
        """Kill the run, and mark its turn as cut off. No turn begins after that."""
        try:
            async with asyncio.timeout(self._shared.limits.closing):
                await self._halt(ENDED, "cut_off", self._shared.limits.closing * 3 / 4)
        except (TimeoutError, *STORE_ERRORS):
            pass  # the next start marks it

    async def delete(self) -> None:
        """Kill the run, and delete the chat.

        Raises:
            StoreFailed: the chat could not be deleted. The run is killed nevertheless.
        """
        with contextlib.suppress(*STORE_ERRORS):  # the end of a turn whose chat is deleted is not needed
            await self._halt(DELETED, "cancelled", None)
        await self.log.remove()
        await self._clear()
        self.log.live.delete()

    async def _clear(self) -> None:
        """Remove the attachments of a chat that was deleted, and leave its tree, whose files stay."""
        await asyncio.to_thread(self._shared.folders.remove, self.row.id)
        if self.row.tree is not None and self._shared.leave_tree is not None:
            await self._shared.leave_tree(self.row)

    async def _halt(self, why: str, outcome: ev.Outcome, seconds: float | None) -> None:
        self._runner.end(why)
        task = self._task
        if task is None:
            return
        if self._runner.kill(why, outcome):
            await asyncio.wait([task], timeout=seconds)
        task.cancel()
        await asyncio.wait([task], timeout=seconds)
        await self.log.write(lambda timeline: decisions.ended(timeline, outcome, why))

    async def _submit(self, decide: Callable[[Timeline], Entry | None], key: str | None = None) -> Submitted | None:
        """Submit the entry that `decide` returns for the current timeline, and apply it."""
        if self._runner.is_ending:
            raise ShuttingDown
        try:
            done = await self.log.submit(decide, key=key, is_shared=self._shared.this_node.by_jobs)
            if done is not None and done.is_new:
                await self._runner.settle()
            return done
        finally:
            self._ensure_working()

    # --- entries that the log accepted ---

    def _took(self, timeline: Timeline) -> None:
        """Apply the timeline, after it accepted entries."""
        before = (self.state, self.held)
        now = decisions.activity(timeline)
        self.state, self.waiting, self.waiting_upto, self.held, self.asks = now
        if (self.state, self.held) != before:
            self._shared.changed.set()
        if self.is_home:
            self._announce(timeline, decisions.announced(timeline, now))
        self._runner.apply(timeline)
        self._shared.note(self.row.id)

    def _announce(self, timeline: Timeline, now: decisions.Announced) -> None:
        """Announce to webhooks and browsers what has happened since the last call."""
        before, self._announced = self._announced, now
        if before is not None and before != now:
            for turn, happened in decisions.happened(before, now, timeline):
                self._shared.webhooks.announce(self.row, turn, happened)
                if self._shared.push is not None:
                    self._shared.push.announce(self.row, turn, happened)

    # --- the turns ---

    def _ensure_working(self) -> None:
        self._woken.set()
        is_at_rest = self._runner.is_ending or self._task is not None or self.log.live.rest()
        if not is_at_rest and not self._shared.this_node.by_jobs:
            self._task = asyncio.create_task(self._work(), name=f"chat {self.row.id}", context=permits.outside())

    async def _work(self, upto: int | None = None) -> bool:
        """Run the turns one after another, up to turn `upto`; return whether all of them have ended."""
        failures = 0
        try:
            while not self._runner.is_ending:
                try:
                    if not await self._runner.run_next(upto):
                        self.log.live.rest()
                        return True
                    failures = 0
                except STORE_ERRORS as error:
                    if isinstance(error, GIVES_UP) or getattr(error, "lasting", False):
                        self.log.claim.forget()
                        return False
                    self.log.live.invalidate(error)
                    await _pause(self._woken, RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)])
                    failures += 1
            return False
        finally:
            self._task = None
            self._shared.changed.set()


async def _pause(woken: asyncio.Event, seconds: float) -> None:
    woken.clear()
    try:
        async with asyncio.timeout(seconds):
            await woken.wait()
    except TimeoutError:
        pass
