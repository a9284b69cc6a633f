"""One chat in one process: its timeline and its store are in step, whatever fails and whoever else appends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock import events as ev
from penstock.chat.errors import NoSuchTurn
from penstock.chat.history.entries import Entry, Prompted, StopRequested, TurnBegan, TurnEnded, encode
from penstock.chat.history.frames import Deleted
from penstock.chat.history.timeline import Timeline
from penstock.chat.service.agents.attached import AttachmentFolders
from penstock.chat.service.counters import Counters
from penstock.chat.service.limits import ServiceLimits
from penstock.chat.service.log.chat_log import ChatLog
from penstock.chat.service.nodes import ThisNode, Unclaimed
from penstock.chat.service.shared import Shared
from penstock.chat.service.slots import Slots
from penstock.chat.service.turns.lost_turns import ROWS_LOST, end_lost
from penstock.chat.service.turns.turn_loop import TurnLoop
from penstock.chat.service.webhooks import Webhooks
from penstock.chat.store.protocol import Fenced, StoreFailed, Submitted, UnknownChat
from penstock.chat.store.rows import ChatRow
from penstock.chat.store.sqlite import SqliteStore
from penstock.run.run import Run

if TYPE_CHECKING:
    from chat.conftest import StoreFile


class Poor:
    """A store whose appends fail while it is told to, with the append made or not."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self.fails = ""
        self.before: Callable[[], Awaitable[Any]] | None = None
        """Called once before the next append or submission."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def submit(self, chat: str, entry: bytes, **options: Any) -> Submitted:
        if self.before is not None:
            before, self.before = self.before, None
            await before()
        return await self._store.submit(chat, entry, **options)

    async def append(self, chat: str, entries: Sequence[bytes], **options: Any) -> int:
        if self.before is not None:
            before, self.before = self.before, None
            await before()
        if self.fails == "before":
            raise StoreFailed("the disk is full")
        last = await self._store.append(chat, entries, **options)
        if self.fails == "after":
            raise StoreFailed("the disk is said to be full")
        return last


async def opened(store: Any, chat: str = "c") -> ChatLog:
    """The chat, as a process has it that was just started."""
    return ChatLog(store, await store.get_chat(chat), Counters(), now=lambda: 1_000)


def run(turn: int) -> list[Entry | ev.Event]:
    """A turn that begins and ends."""
    return [TurnBegan(turn, "a", "/"), ev.RunEnded(agent="a", outcome="ok", reply=f"reply {turn}", rounds=1)]


async def write(log: ChatLog, *entries: Entry | ev.Event) -> Timeline:
    """Append these."""
    await log.write(lambda _: entries)
    return await log.open()


async def tangle(log: ChatLog) -> None:
    """Four turns, of which the last was taken back before the second began."""
    await write(log, Prompted(1, "p"))
    await write(log, *run(1))
    await write(log, Prompted(2, "p"), Prompted(3, "p"), Prompted(4, "p"))
    await write(log, TurnEnded(4, "cancelled"))
    await write(log, *run(2))
    await write(log, *run(3))


async def _called(call: Callable[[], Any]) -> None:
    found = call()
    if isinstance(found, Awaitable):
        await found


def test_nobody_uses_a_timeline_that_is_not_held(place: StoreFile) -> None:
    """What reads on or appends is an error before and after the context that holds the timeline."""

    async def use() -> None:
        async with await place.open("c") as store:
            log = await opened(store)
            held = log.live.held()
            calls: list[Callable[[], Any]] = [
                *(held.expect_more, lambda: held.appending([]), lambda: held.drop(1)),
                *(held.current, held.is_over, held.note_summaries),
            ]

            async def use_all() -> list[object]:
                return await asyncio.gather(*(_called(call) for call in calls), return_exceptions=True)

            for _ in ("before", "after"):
                assert [str(error) for error in await use_all()] == ["the timeline is not held"] * len(calls)
                async with held:
                    waiting = asyncio.create_task(log.open())
                    await asyncio.sleep(0)
                    assert not waiting.done()  # one holder at a time
                    assert (await held.current()).number == 0
                await waiting

    asyncio.run(use())


def test_only_whole_turns_are_dropped(place: StoreFile) -> None:
    """Never where a turn waited, and never the newest turn, whenever it was over."""

    async def use() -> None:
        async with await place.open("c") as store:
            log = await opened(store)
            await tangle(log)
            assert await log.trim(2) == 0
            assert await log.trim(11) == 3
            assert [view.turn for view in (await log.turns(None, 10))[0]] == [2, 3, 4]
            again = await opened(store)
            assert await again.is_over()
            assert again.live.newest is not None
            assert again.live.newest.turn == 4
            timeline = await write(again, Prompted(5, "p"))
            assert max(timeline.turns) == 5
            await write(again, *run(5))
            assert await again.trim(10) == 0
            assert await again.trim(11) == 11
            assert [view.turn for view in (await again.turns(None, 10))[0]] == [5]
            with pytest.raises(NoSuchTurn):
                await again.turn(3)
            assert len((await again.turn(5))[1]) == 3

    asyncio.run(use())


@pytest.mark.parametrize("fails", ["before", "after"])
@pytest.mark.parametrize("where", [0, 1, 2])
def test_after_a_failure_it_is_where_the_store_is(place: StoreFile, fails: str, where: int) -> None:
    """Whether an append that failed was made or not, the next one goes on behind what is kept, with its summary."""
    steps: list[list[Entry | ev.Event]] = [[Prompted(1, "p")], run(1)[:1], run(1)[1:]]

    async def use() -> None:
        async with await place.open("c") as real:
            store = Poor(real)
            log = await opened(store)
            for number, step in enumerate(steps):
                if number == where:
                    store.fails = fails
                    with pytest.raises(StoreFailed):
                        await write(log, *step)
                    store.fails = ""
                    if fails == "after":
                        assert (await log.open()).number == sum(map(len, steps[: number + 1]))
                        continue
                await write(log, *step)
            assert log.live.rest()
            for known in (log, await opened(real)):
                ((view,), earlier) = await known.turns(None, 10)
                assert (view.message, view.outcome, view.last, earlier) == ("reply 1", "ok", 3, False)
            assert await (await opened(real)).is_over()

    asyncio.run(use())


def test_an_entry_that_comes_between_is_followed(place: StoreFile) -> None:
    """What is decided by the timeline is decided anew if another process appends in between."""

    async def use() -> None:
        async with await place.open("c") as real:
            store = Poor(real)
            log = await opened(store)
            await write(log, Prompted(1, "p"), *run(1)[:1])
            seen: list[tuple[int, set[int]]] = []

            async def submit() -> None:
                last = (await real.read("c")).last
                assert (await real.submit("c", encode([StopRequested(1)])[0], at=5, after=last)).is_new

            def decide(timeline: Timeline) -> list[Entry | ev.Event]:
                seen.append((timeline.number, set(timeline.stops)))
                return [TurnEnded(1, "cancelled")]

            store.before = submit
            await log.write(decide)
            assert seen == [(2, set()), (3, {1})]
            assert [view.outcome for view in (await log.turns(None, 9))[0]] == ["cancelled"]

    asyncio.run(use())


def test_what_is_submitted_is_decided_by_all_entries(place: StoreFile) -> None:
    """If another process appends in between, a submission is decided anew, by a timeline that has its entry."""

    async def use() -> None:
        async with await place.open("c") as real:
            store = Poor(real)
            log = await opened(store)
            await write(log, Prompted(1, "p"), *run(1)[:1])
            seen: list[tuple[int, set[int]]] = []

            async def stop() -> None:
                assert (await real.submit("c", encode([StopRequested(1)])[0], at=5, after=2)).is_new

            def decide(timeline: Timeline) -> Entry | None:
                seen.append((timeline.number, set(timeline.stops)))
                return None if timeline.stops or len(seen) > 2 else StopRequested(1)

            store.before = stop
            assert await log.submit(decide) is None
            assert seen == [(2, set()), (3, {1})]

    asyncio.run(use())


def test_a_worker_that_lost_its_chat_appends_nothing(place: StoreFile) -> None:
    """Once another one has claimed the chat, each append of the former fails, and its end of the turn is not shown."""

    async def use() -> None:
        async with await place.open("c") as store:
            log = await opened(store)
            await log.claim.take(ThisNode())
            await write(log, Prompted(1, "p"), *run(1)[:1])
            await store.claim("c", "elsewhere")
            with pytest.raises(Fenced):
                await write(log, *run(1)[1:])
            assert [view.state for view in (await log.turns(None, 9))[0]] == ["running"]
            assert (await store.read("c")).last == 2

    asyncio.run(use())


@pytest.mark.parametrize("spoilt", ["none", "some", "all"])
def test_without_summaries_all_is_read(place: StoreFile, spoilt: str) -> None:
    """They spare entries and nothing else: with none of them, or with one that cannot be read, the chat is the same."""

    async def use() -> None:
        async with await place.open("c") as store:
            await tangle(await opened(store))
            if spoilt == "some":
                rows = await store.list_turns("c", limit=9)
                turns = [type(row)(row.turn, row.first, row.last, row.at, b'{"turn": "newer"}') for row in rows[:1]]
                await store.append("c", [], after=11, at=1, turns=turns)
        if spoilt == "none":
            place.execute("DELETE FROM turns")
            place.execute("UPDATE chats SET summarized = 0")
        async with await place.open() as store:
            log = await opened(store)
            assert await log.is_over() == (spoilt != "none")
            timeline = await log.open()
            await log.sum_up()
            assert log.live.rest()
            assert timeline.number == 11
            for known in (log, await opened(store)):
                views = (await known.turns(None, 10))[0]
                assert [(view.turn, view.outcome) for view in views] == [
                    (1, "ok"),
                    (2, "ok"),
                    (3, "ok"),
                    (4, "cancelled"),
                ]

    asyncio.run(use())


@pytest.mark.parametrize(
    "event", [ev.Notice(agent="a", level="info", code="retry", text="more"), run(1)[1]], ids=["more", "end"]
)
def test_a_store_that_lost_entries(place: StoreFile, event: ev.Event) -> None:
    """A run that was ahead appends nothing: not more, and not its end. The chat is shown as the store has it."""

    async def use() -> None:
        async with await place.open("c") as store:
            log = await opened(store)
            await log.claim.take(ThisNode())
            await write(log, Prompted(1, "p"), run(1)[0])
            await write(log, ev.Notice(agent="a", level="info", code="retry", text="lost"))
            began = await store.read("c", limit=2)
            shown: list[int] = []
            log.live.watch(lambda _: shown.append(log.live.shown.number if log.live.shown is not None else -1))
            await store.delete_chat("c")  # and as an older backup has it:
            await store.create_chat(ChatRow("c", "claude", "/", 1))
            await store.claim("c", "here")
            await store.append("c", [entry.data for entry in began.entries], after=0, at=1)
            with pytest.raises(Unclaimed):
                await log.add([event], session_id=None)
            with pytest.raises(Unclaimed):
                await log.add([event], session_id=None)
            assert shown[-1] == 2
            assert (await store.read("c")).last == 2
            await log.claim.take(ThisNode())
            await end_lost(log, await log.catch_up(), "for another reason")
            assert (await log.turn(1))[0].reason == ROWS_LOST
            assert not log.claim.rows_lost

    asyncio.run(use())


def test_a_turn_that_waits_again_does_not_begin_again(place: StoreFile, tmp_path: Path) -> None:
    """A restored store can have a turn as it was before it began: it is ended, and no second run is made of it."""
    runs: list[str] = []

    def never(chat: ChatRow, prompt: str, *_: object) -> Run:
        runs.append(prompt)
        raise AssertionError("a second run")

    async def use() -> None:
        async with await place.open("c") as store:
            log = await opened(store)
            shared = Shared(
                store=store,
                limits=ServiceLimits(),
                run=never,
                now=lambda: 1_000,
                history=None,
                this_node=ThisNode(),
                slots=Slots(1),
                webhooks=Webhooks([], now=lambda: 1_000),
                folders=AttachmentFolders(tmp_path),
            )
            turns = TurnLoop(log, shared)
            turns._begun.add((await write(log, Prompted(1, "p"))).ready[0])
            assert await turns.run_next(None)
            view, _ = await log.turn(1)
            assert (view.outcome, view.reason) == ("cut_off", ROWS_LOST)

    asyncio.run(use())
    assert runs == []


def test_a_chat_at_rest_that_lost_entries(place: StoreFile) -> None:
    """Nothing is in memory but its last number: a reader gets what is left, and new entries are followed."""

    async def use() -> None:
        async with await place.open("c") as store:
            log = await opened(store)
            await write(log, Prompted(1, "p"), *run(1))
            assert log.live.rest()
            await store.delete_chat("c")
            await store.create_chat(ChatRow("c", "claude", "/", 1))
            assert await log.follow(10**9)
            assert (await log.turns(None, 10))[0] == []
            await store.append("c", encode([Prompted(1, "anew")]), after=0, at=1)
            assert log.live.is_behind(1)
            assert await log.follow(1)
            assert [view.prompt for view in (await log.turns(None, 10))[0]] == ["anew"]

    asyncio.run(use())


def test_a_chat_that_is_gone_is_shown_as_deleted(place: StoreFile) -> None:
    """Its viewers see it even if an attempt to read the chat failed before."""

    async def use() -> None:
        async with await place.open("c") as store:
            log = await opened(store)
            log.live.watch(lambda _: None)
            await write(log, Prompted(1, "p"))
            log.live.invalidate(UnknownChat("c"))
            shown = log.live.shown
            assert shown is None
            log.live.delete()
            assert log.live.shown is not None
            assert log.live.shown.deleted
            assert log.live.shown.frames(1) == [(2, Deleted())]

    asyncio.run(use())


def test_a_timeline_that_is_read_again_is_shown_when_it_has_been_read(place: StoreFile) -> None:
    """Clients that look meanwhile, as all do when a store works again, get no older state than they have seen."""

    async def use() -> None:
        async with await place.open("c") as store:
            poor = Poor(store)
            log = await opened(poor)
            await write(log, Prompted(1, "p"), TurnBegan(1, "a", "/"))
            seen = (await log.open()).number
            shown: list[int | None] = []
            log.live.watch(lambda _: None)
            poor.fails = "before"
            with pytest.raises(StoreFailed):
                await log.write(lambda _: [ev.RunEnded(agent="a", outcome="ok", reply="", rounds=1)])
            poor.fails, read = "", store.read

            async def read_late(chat: str, **options: Any) -> Any:
                shown.append(None if log.live.shown is None else log.live.shown.number)
                return await read(chat, **options)

            poor.read = read_late  # type: ignore[attr-defined]
            assert (await log.open()).number == seen
            assert log.live.shown is not None
            assert {*shown} == {None}

    asyncio.run(use())
