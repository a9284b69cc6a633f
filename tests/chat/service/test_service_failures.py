"""The service over a store that fails, that is small, and that was left by a crash."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from waiting import until_true

from penstock import events as ev
from penstock.chat.errors import ContentTooLarge
from penstock.chat.history.entries import Entry, Prompted, TurnBegan, TurnEnded, encode
from penstock.chat.service.limits import ServiceLimits
from penstock.chat.store.protocol import ChatStore, Page, StoreFailed, Summary
from penstock.chat.store.rows import ChatRow
from penstock.run.process import marked

if TYPE_CHECKING:
    from chat.service.conftest import Home

FAILURES = ("before", "after", "reads")


class Fragile:
    """A store that fails when it is told to: before it changes anything, after it has, or in reads too."""

    def __init__(self, store: ChatStore) -> None:
        self._store = store
        self.fails = ""

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._store, name)
        if name in ("max_entry_bytes", "subscribe", "state", "has_space"):
            return call
        is_read = name in ("read", "summary", "get_chat") or name.startswith("list_")

        async def fail(*arguments: Any, **options: Any) -> Any:
            if self.fails == "reads" or (self.fails == "before" and not is_read):
                raise StoreFailed("the disk is full")
            found = await call(*arguments, **options)
            if self.fails == "after" and not is_read:
                raise StoreFailed("the disk is said to be full")
            return found

        return fail


@pytest.mark.sample(3)
@pytest.mark.parametrize("failure", FAILURES)
def test_a_log_that_fails_kills_the_run_and_no_more(home: Home, failure: str) -> None:
    """The run is killed, callers are told, and with the store well again the turn is marked and the chat goes on."""
    home.scripted("held", "claude/text", "--speed=0", f"--hold=60:{home.folder}/go", "--lines=100", "--stay")

    async def chat() -> None:
        async with home.store() as real:
            store = Fragile(real)
            service = await home.open(store)
            made, other = await service.create(agent="held"), await service.create()
            await service.prompt(made.id, "1")
            await service.prompt(made.id, "2")
            async with asyncio.timeout(30):
                while not (await service.turns(made.id))[0][0].reply:
                    await asyncio.sleep(0.01)
            store.fails = failure
            (home.folder / "go").touch()
            await until_true(lambda: not home.left_over())
            for id in (made.id, other.id):
                with pytest.raises(StoreFailed):
                    await service.prompt(id, "3", key="three")
            store.fails = ""
            for id in (made.id, other.id):
                await service.prompt(id, "3", key="three")
            async with asyncio.timeout(30):
                while (await service.turns(made.id))[0][1].state != "running":
                    await asyncio.sleep(0.01)
            await service.stop(made.id)
            first, second, third = await home.settled(service, made.id)
            assert first.outcome == "cut_off"
            assert "store failed" in (first.reason or "")
            assert first.message.startswith("# R")
            assert (second.outcome, third.outcome) == ("cancelled", "cancelled")
            (only,) = await home.settled(service, other.id)
            assert only.outcome == "ok"
            await service.close()
            for id in (made.id, other.id):
                home.judge(await home.rows(id, real))
        assert home.asked()[0] == "1"
        assert len(set(home.asked())) == len(home.asked()), "none ran twice"

    asyncio.run(chat())


def test_outputs_that_are_too_long_are_shortened(home: Home) -> None:
    """An entry of a small store never kills a chat: what does not fit is cut, with a mark, and the turn ends well."""
    big = "x" * 300_000
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": big, "list": [big] * 3}}
    lines: list[dict[str, Any]] = [
        {"type": "system", "subtype": "init", "session_id": "s-1", "model": "m"},
        {"type": "assistant", "message": {"id": "m1", "content": [{"type": "text", "text": big}, call]}},
        {
            "type": "user",
            "message": {"content": [{"type": "tool_result", "tool_use_id": "t1", "content": f"begins {big} ends"}]},
        },
        {"type": "assistant", "message": {"id": "m2", "content": [{"type": "text", "text": "\x01" * 70_000}]}},
        {"type": "result", "subtype": "success", "is_error": False, "result": "\x01" * 70_000, "session_id": "s-1"},
    ]
    home.scripted("big", home.lines("big", lines))

    async def chat() -> None:
        async with home.store(max_entry_bytes=100_000) as store:
            service = await home.open(store)
            made = await service.create(agent="big")
            with pytest.raises(ContentTooLarge):
                await service.prompt(made.id, "\x01" * 20_000)
            await service.prompt(made.id, "hi")
            (view,) = await home.settled(service, made.id)
            assert view.outcome == "ok"
            rows = await home.rows(made.id, store)
            home.judge(rows)
            returned = next(row.what for row in rows if isinstance(row.what, ev.ToolReturned))
            assert returned.text.startswith("begins xxx")
            assert "not kept" in returned.text
            called = next(row.what for row in rows if isinstance(row.what, ev.ToolCalled))
            assert "not kept" in called.input["command"]
            assert isinstance(rows[-1].what, ev.RunEnded)
            await service.close()
        async with home.store(max_entry_bytes=100_000) as store:
            service = await home.open(store)
            ((again,), _) = await service.turns(made.id)
            assert again.outcome == "ok"
            await service.close()

    asyncio.run(chat())


@pytest.mark.slow
def test_a_crash_is_marked_and_nothing_runs_twice(home: Home) -> None:
    """From whatever entry the store ends at: begun turns are ended, those that wait go on, whole ones stay."""

    async def use() -> None:
        async with home.service() as service:
            made = await service.create()
            await service.prompt(made.id, "1")
            await service.prompt(made.id, "2")
            await home.settled(service, made.id)
        whole = [row.what for row in await home.rows(made.id) if row.what is not None]
        before, waiting = len(home.runs()), 0
        async with home.store() as store:
            for length in range(1, len(whole) + 1):
                chat = ChatRow(f"{length:032x}", "scripted", str(home.work), 1)
                await store.create_chat(chat)
                await store.append(chat.id, encode(whole[:length]), after=0, at=1)
            service = await home.open(store)
            for length in range(1, len(whole) + 1):
                turns = await home.settled(service, f"{length:032x}")
                home.judge(await home.rows(f"{length:032x}", store))
                begun = {what.turn for what in whole[:length] if isinstance(what, TurnBegan)}
                answered = sum(isinstance(what, ev.Replied) for what in whole[:length])
                for turn in turns:
                    cut = answered < turn.turn <= len(begun)
                    assert turn.outcome == ("cut_off" if cut else "ok")
                    assert ("was stopped" in (turn.reason or "")) == cut
                waiting += len(turns) - len(begun)
            await service.close()
        assert len(home.runs()) - before == waiting, "each turn that waited ran once, and no other"

    asyncio.run(use())


def test_an_end_without_room_in_the_log_is_marked_later(home: Home) -> None:
    """A store that fails while the service ends keeps it from nothing; the next start marks the turn."""
    home.scripted("held", "claude/text", "--speed=0", f"--hold=60:{home.folder}/never")

    async def chat() -> None:
        async with home.store() as real:
            store = Fragile(real)
            service = await home.open(store, limits=ServiceLimits(closing=1.0))
            made = await service.create(agent="held")
            await service.prompt(made.id, "1")
            await until_true(lambda: len(home.runs()) == 1)
            store.fails = "reads"
            await service.close()
            assert home.left_over() == []
        async with home.store() as real:
            service = await home.open(real)
            (view,) = await home.settled(service, made.id)
            assert view.outcome == "cut_off"
            ended = (await home.rows(made.id, real))[-1].what
            assert isinstance(ended, TurnEnded)
            await service.close()

    asyncio.run(chat())


def test_what_is_left_of_a_run_is_killed(home: Home) -> None:
    """Where the guard was killed too, what bears the run's mark goes before the next turn begins."""
    mark = secrets.token_hex(8)  # other tests may run beside this one
    command = [sys.executable, "-c", "import time; time.sleep(1000)"]

    async def chat() -> None:
        async with home.store() as store:
            rows: list[Entry] = [Prompted(1, "1"), TurnBegan(1, "scripted", str(home.work), mark=mark)]
            await store.create_chat(ChatRow("a", "scripted", str(home.work), 1))
            await store.append("a", encode(rows), after=0, at=1)
            with subprocess.Popen(command, env={**os.environ, "PENSTOCK_RUN": mark}, start_new_session=True) as left:
                try:
                    await until_true(lambda: marked(mark) == [left.pid])  # it has become that program
                    service = await home.open(store)
                    (view,) = await home.settled(service, "a")
                    assert view.outcome == "cut_off"
                    assert left.wait(30) == -signal.SIGKILL
                    await service.close()
                finally:
                    left.kill()

    asyncio.run(chat())


@pytest.mark.slow
def test_a_chat_that_cannot_be_read_keeps_nobody_from_the_others(home: Home) -> None:
    """With one chat's rows damaged the others are there, and that one says what is wrong."""

    class Damaged(Fragile):
        bad = ""

        async def read(self, chat: str, **where: Any) -> Page:
            if chat.startswith(self.bad):
                raise StoreFailed("an entry is missing")
            return await self._store.read(chat, **where)

        async def summary(self, chat: str, *, limit: int) -> Summary:
            if chat.startswith(self.bad):
                raise StoreFailed("an entry is missing")
            return await self._store.summary(chat, limit=limit)

    async def chat() -> None:
        async with home.service() as service:
            bad, good = await service.create(), await service.create()
            for made in (bad, good):
                await service.prompt(made.id, "1")
                await home.settled(service, made.id)
        async with home.store() as real:
            store = Damaged(real)
            store.bad = bad.id
            service = await home.open(store)
            assert await service.prompt(good.id, "2") == (2, True)
            with pytest.raises(StoreFailed):
                await service.prompt(bad.id, "2")
            store.bad = "none"
            assert await service.prompt(bad.id, "2") == (2, True)
            assert len(await home.settled(service, bad.id)) == 2
            await service.close()

    asyncio.run(chat())


def test_a_deletion_that_fails_is_told(home: Home) -> None:
    """Where the store accepts nothing the chat stays, and can be deleted later."""

    async def chat() -> None:
        async with home.store() as real:
            store = Fragile(real)
            service = await home.open(store)
            made = await service.create()
            store.fails = "before"
            with pytest.raises(StoreFailed):
                await service.delete(made.id)
            assert [view.id for view in service.chat_list.all()] == [made.id]
            for change in ({"title": "x"}, {"model": "m"}):
                with pytest.raises(StoreFailed):
                    await service.change(made.id, **change)
            with pytest.raises(StoreFailed):
                await service.create()
            assert service.chat(made.id) == made
            store.fails = ""
            await service.delete(made.id)
            assert service.chat_list.all() == []
            await service.close()

    asyncio.run(chat())
