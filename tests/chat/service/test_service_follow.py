"""Entries that another process submitted: the worker of their chat follows them, as it follows its own service's."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

import pytest
from waiting import until_true

from penstock import events as ev
from penstock.chat.history.entries import Answered, Prompted, StopRequested, encode
from penstock.chat.store.protocol import News
from penstock.chat.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from chat.service.conftest import Home


def test_a_prompt_from_elsewhere_runs(home: Home) -> None:
    """It becomes a turn as if it were asked for here, and its key is known here too."""

    async def use() -> None:
        async with home.service() as service:
            made = await service.create()
            (entry,) = encode([Prompted(1, "from elsewhere", key="k")])
            assert (await service._store.submit(made.id, entry, at=1, after=0, key="k")).is_new
            await until_true(lambda: service.chat(made.id).turns == 1 and service.chat(made.id).state == "idle")
            (view,) = await home.settled(service, made.id)
            assert (view.prompt, view.outcome) == ("from elsewhere", "ok")
            assert await service.prompt(made.id, "again", key="k") == (1, False)
            home.judge(await home.rows(made.id, service._store))
        assert home.asked() == ["from elsewhere"]

    asyncio.run(use())


def test_a_stop_from_elsewhere_stops(home: Home) -> None:
    """The run is cancelled, and what waits is taken back."""
    home.scripted("held", "claude/text", "--speed=0", f"--hold=60:{home.folder}/never")

    async def use() -> None:
        async with home.service() as service:
            made = await service.create(agent="held")
            for text in ("1", "2"):
                await service.prompt(made.id, text)
            await until_true(lambda: len(home.runs()) == 1)
            await service._store.submit(made.id, encode([StopRequested()])[0], at=1)
            turns = await home.settled(service, made.id)
            assert [turn.outcome for turn in turns] == ["cancelled", "cancelled"]
            home.judge(await home.rows(made.id, service._store))
        assert home.asked() == ["1"]
        assert home.left_over() == []

    asyncio.run(use())


@pytest.mark.slow
def test_an_answer_from_elsewhere_reaches_the_agent(home: Home) -> None:
    """The run that waits gets it, and the question is open no more."""
    home.peer()

    async def use() -> None:
        async with home.service() as service:
            made = await service.create(agent="peer")
            await service.prompt(made.id, "permission")
            await until_true(lambda: service.chat(made.id).asks)
            (view,), _ = await service.turns(made.id)
            assert view.question is not None
            assert view.question.options
            answer = Answered(1, view.question.id, view.question.options[0].id)
            await service._store.submit(made.id, encode([answer])[0], at=1)
            (view,) = await home.settled(service, made.id)
            assert (view.message, view.outcome) == ("asked: once", "ok")
            assert not service.chat(made.id).asks
            home.judge(await home.rows(made.id, service._store))

    asyncio.run(use())


def test_what_was_taken_back_before_a_crash_never_begins(home: Home) -> None:
    """A stop that was kept counts after a restart, also where the ends of the turns were not written any more."""

    async def use() -> None:
        async with home.service() as service:
            made = await service.create()
        async with home.store() as store:
            entries = encode([Prompted(1, "1"), Prompted(2, "2"), StopRequested(2)])
            await store.append(made.id, entries, after=0, at=1)
            service = await home.open(store)
            turns = await home.settled(service, made.id)
            assert [turn.outcome for turn in turns] == ["ok", "cancelled"]
            home.judge(await home.rows(made.id, store))
            await service.close()
        assert home.asked() == ["1"]

    asyncio.run(use())


def test_deltas_of_a_burst_are_few_entries(home: Home) -> None:
    """Text that comes at once is an entry for each block, and the reply has all of it."""
    home.scripted("quick", "claude/text", "--speed=0")

    async def use() -> None:
        async with home.service() as service:
            made = await service.create(agent="quick")
            await service.prompt(made.id, "hi")
            (view,) = await home.settled(service, made.id)
            rows = await home.rows(made.id, service._store)
            deltas = [row.what for row in rows if isinstance(row.what, ev.Delta) and row.what.kind == "text"]
            assert "".join(delta.text for delta in deltas).rstrip() == view.message.rstrip()
            following = [row.what for row in rows]
            merged = [
                1
                for one, other in itertools.pairwise(following)
                if isinstance(one, ev.Delta) and isinstance(other, ev.Delta) and one.block == other.block
            ]
            assert len(merged) <= 3, "a burst came in a few batches at most"

    asyncio.run(use())


def test_after_a_gap_in_the_notifications_all_chats_are_read(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that was away names no chats when it is back, and each of them may have got a prompt."""

    async def use() -> None:
        async with home.service() as service:
            store = service._store
            assert isinstance(store, SqliteStore)
            made = await service.create()
            (entry,) = encode([Prompted(1, "unheard")])
            with monkeypatch.context() as patched:
                patched.setattr(store, "_notify", lambda _: None)
                await store.submit(made.id, entry, at=1, after=0)
                await asyncio.sleep(0)
            store._notify(News({}, all=True))
            await until_true(lambda: service.chat(made.id).turns == 1)
            (view,) = await home.settled(service, made.id)
            assert (view.prompt, view.outcome) == ("unheard", "ok")

    asyncio.run(use())
