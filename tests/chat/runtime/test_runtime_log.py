"""The runtime over a log that fails, that is small, and that was left by a crash."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

from penstock import events as ev
from penstock.chat.errors import TooLarge
from penstock.chat.history.entries import Prompted, TurnBegan, TurnEnded, encode
from penstock.chat.service.index import Chat, Gone
from penstock.chat.service.limits import Limits
from penstock.chat.store.protocol import EventLog, LogFailed, Row
from penstock.run.process import marked

if TYPE_CHECKING:
    from conftest import Home

FAILURES = ("before", "after", "reads")


class Fragile:
    """A log that fails when it is told to: before it appends, after it has, or in reads too."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self.fails = ""
        self.max_row_bytes = log.max_row_bytes

    async def append(self, chat: str, rows: Sequence[bytes], *, after: int) -> int:
        if self.fails in ("before", "reads"):
            raise LogFailed("the disk is full")
        last = await self._log.append(chat, rows, after=after)
        if self.fails == "after":
            raise LogFailed("the disk is said to be full")
        return last

    async def read(self, chat: str, *, after: int = 0, limit: int = 500) -> list[Row]:
        if self.fails == "reads":
            raise LogFailed("the disk is gone")
        return await self._log.read(chat, after=after, limit=limit)

    def bell(self, chat: str) -> asyncio.Event:
        return self._log.bell(chat)

    async def trim(self, chat: str, upto: int) -> None:
        await self._log.trim(chat, upto)

    async def last(self, chat: str) -> int:
        if self.fails == "reads":
            raise LogFailed("the disk is gone")
        return await self._log.last(chat)


@pytest.mark.parametrize("failure", FAILURES)
def test_a_log_that_fails_kills_the_run_and_no_more(home: Home, failure: str) -> None:
    """The run is killed, callers are told, and with the log well again the turn is marked and the chat goes on."""
    home.scripted("held", "claude/text", "--speed=0", f"--hold=60:{home.folder}/go", "--lines=100", "--stay")

    async def chat() -> None:
        async with home.log() as real:
            log = Fragile(real)
            runtime = await home.open(log)
            made, other = await runtime.create(agent="held"), await runtime.create()
            await runtime.prompt(made.id, "1")
            await runtime.prompt(made.id, "2")
            async with asyncio.timeout(30):
                while not (await runtime.turns(made.id))[0][0].reply:
                    await asyncio.sleep(0.01)
            log.fails = failure
            (home.folder / "go").touch()
            await home.until(lambda: not home.left_over())
            for id in (made.id, other.id):
                with pytest.raises(LogFailed):
                    await runtime.prompt(id, "3", key="three")
            log.fails = ""
            for id in (made.id, other.id):
                await runtime.prompt(id, "3", key="three")
            async with asyncio.timeout(30):
                while (await runtime.turns(made.id))[0][1].state != "running":
                    await asyncio.sleep(0.01)
            await runtime.stop(made.id)
            first, second, third = await home.settled(runtime, made.id)
            assert first.outcome == "cut_off"
            assert "log failed" in (first.reason or "")
            assert first.message.startswith("# R")
            assert (second.outcome, third.outcome) == ("cancelled", "cancelled")
            (only,) = await home.settled(runtime, other.id)
            assert only.outcome == "ok"
            await runtime.close()
            for id in (made.id, other.id):
                home.judge(await home.rows(id, real))
        assert home.asked()[0] == "1"
        assert len(set(home.asked())) == len(home.asked()), "none ran twice"

    asyncio.run(chat())


def test_outputs_that_are_too_long_are_shortened(home: Home) -> None:
    """A row of a small log never kills a chat: what does not fit is cut, with a mark, and the turn ends well."""
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
        async with home.log(max_row_bytes=100_000) as log:
            runtime = await home.open(log)
            made = await runtime.create(agent="big")
            with pytest.raises(TooLarge):
                await runtime.prompt(made.id, "\x01" * 20_000)
            await runtime.prompt(made.id, "hi")
            (view,) = await home.settled(runtime, made.id)
            assert view.outcome == "ok"
            rows = await home.rows(made.id, log)
            home.judge(rows)
            returned = next(row.what for row in rows if isinstance(row.what, ev.ToolReturned))
            assert returned.text.startswith("begins xxx")
            assert "not kept" in returned.text
            called = next(row.what for row in rows if isinstance(row.what, ev.ToolCalled))
            assert "not kept" in called.input["command"]
            assert isinstance(rows[-1].what, ev.RunEnded)
            await runtime.close()
        async with home.log(max_row_bytes=100_000) as log:
            runtime = await home.open(log)
            ((again,), _) = await runtime.turns(made.id)
            assert again.outcome == "ok"
            await runtime.close()

    asyncio.run(chat())


def test_a_crash_is_marked_and_nothing_runs_twice(home: Home) -> None:
    """From whatever row the log ends at: begun turns are ended, those that wait go on, whole ones stay."""

    async def use() -> None:
        async with home.runtime() as runtime:
            made = await runtime.create()
            await runtime.prompt(made.id, "1")
            await runtime.prompt(made.id, "2")
            await home.settled(runtime, made.id)
        whole = [row.what for row in await home.rows(made.id) if row.what is not None]
        before, waiting = len(home.runs()), 0
        async with home.log() as log:
            last = await log.last("chats")
            for length in range(1, len(whole) + 1):
                chat = Chat(f"{length:032x}", "scripted", str(home.work), 1)
                await log.append(chat.id, encode(whole[:length]), after=0)
                last = await log.append("chats", [json.dumps({"type": "chat", **as_dict(chat)}).encode()], after=last)
            runtime = await home.open(log)
            for length in range(1, len(whole) + 1):
                turns = await home.settled(runtime, f"{length:032x}")
                home.judge(await home.rows(f"{length:032x}", log))
                begun = {what.turn for what in whole[:length] if isinstance(what, TurnBegan)}
                answered = sum(isinstance(what, ev.Replied) for what in whole[:length])
                for turn in turns:
                    cut = answered < turn.turn <= len(begun)
                    assert turn.outcome == ("cut_off" if cut else "ok")
                    assert ("was stopped" in (turn.reason or "")) == cut
                waiting += len(turns) - len(begun)
            await runtime.close()
        assert len(home.runs()) - before == waiting, "each turn that waited ran once, and no other"

    asyncio.run(use())


def as_dict(chat: Chat) -> dict[str, Any]:
    """The fields of a chat that a row has to have."""
    return {"id": chat.id, "agent": chat.agent, "cwd": chat.cwd, "created_at": chat.created_at}


def test_a_deletion_that_was_cut_off_is_finished(home: Home) -> None:
    """A chat that is deleted in the index is trimmed at the next start, and then gone."""

    async def chat() -> None:
        async with home.runtime() as runtime:
            made = await runtime.create()
            await runtime.prompt(made.id, "1")
            await home.settled(runtime, made.id)
            worker = runtime._workers[made.id]
            await runtime._index.put(Chat(made.id, "scripted", worker.chat.cwd, 1, deleted=True))
        async with home.runtime() as runtime:
            assert runtime.chats() == []
            assert runtime._index.chats == {}
            last = await runtime._log.last(made.id)
            (row,) = await runtime._log.read(made.id, after=last - 1)
            assert b"chat_deleted" in row.data
        assert Gone(made.id).id == made.id

    asyncio.run(chat())


def test_an_end_without_room_in_the_log_is_marked_later(home: Home) -> None:
    """A log that fails while the runtime ends keeps it from nothing; the next start marks the turn."""
    home.scripted("held", "claude/text", "--speed=0", f"--hold=60:{home.folder}/never")

    async def chat() -> None:
        async with home.log() as real:
            log = Fragile(real)
            runtime = await home.open(log, limits=Limits(closing=1.0))
            made = await runtime.create(agent="held")
            await runtime.prompt(made.id, "1")
            await home.until(lambda: len(home.runs()) == 1)
            log.fails = "reads"
            await runtime.close()
            assert home.left_over() == []
        async with home.log() as real:
            runtime = await home.open(real)
            (view,) = await home.settled(runtime, made.id)
            assert view.outcome == "cut_off"
            ended = (await home.rows(made.id, real))[-1].what
            assert isinstance(ended, TurnEnded)
            await runtime.close()

    asyncio.run(chat())


def test_what_is_left_of_a_run_is_killed(home: Home) -> None:
    """Where the guard was killed too, what bears the run's mark goes before the next turn begins."""
    mark = "0123456789abcdef"
    command = [sys.executable, "-c", "import time; time.sleep(1000)"]

    async def chat() -> None:
        async with home.log() as log:
            rows = [Prompted(1, "1"), TurnBegan(1, "scripted", str(home.work), mark=mark)]
            await log.append("a", encode(rows), after=0)
            row = {"type": "chat", **as_dict(Chat("a", "scripted", str(home.work), 1))}
            await log.append("chats", [json.dumps(row).encode()], after=0)
            with subprocess.Popen(command, env={**os.environ, "PENSTOCK_RUN": mark}, start_new_session=True) as left:
                try:
                    await home.until(lambda: marked(mark) == [left.pid])  # it has become that program
                    runtime = await home.open(log)
                    (view,) = await home.settled(runtime, "a")
                    assert view.outcome == "cut_off"
                    assert left.wait(30) == -signal.SIGKILL
                    await runtime.close()
                finally:
                    left.kill()

    asyncio.run(chat())


def test_a_chat_that_cannot_be_read_keeps_nobody_from_the_others(home: Home) -> None:
    """With one chat's rows damaged the others are there, and that one says what is wrong."""

    class Damaged(Fragile):
        bad = ""

        async def read(self, chat: str, *, after: int = 0, limit: int = 500) -> list[Row]:
            if chat.startswith(self.bad):
                raise LogFailed("a row is missing")
            return await super().read(chat, after=after, limit=limit)

    async def chat() -> None:
        async with home.runtime() as runtime:
            bad, good = await runtime.create(), await runtime.create()
            for made in (bad, good):
                await runtime.prompt(made.id, "1")
                await home.settled(runtime, made.id)
        async with home.log() as real:
            log = Damaged(real)
            log.bad = bad.id
            runtime = await home.open(log)
            assert await runtime.prompt(good.id, "2") == (2, True)
            with pytest.raises(LogFailed):
                await runtime.prompt(bad.id, "2")
            log.bad = "none"
            assert await runtime.prompt(bad.id, "2") == (2, True)
            assert len(await home.settled(runtime, bad.id)) == 2
            await runtime.close()

    asyncio.run(chat())


def test_a_deletion_that_fails_is_told(home: Home) -> None:
    """Where the log takes nothing the chat stays, and can be deleted later."""

    async def chat() -> None:
        async with home.log() as real:
            log = Fragile(real)
            runtime = await home.open(log)
            made = await runtime.create()
            log.fails = "before"
            with pytest.raises(LogFailed):
                await runtime.delete(made.id)
            assert [view.id for view in runtime.chats()] == [made.id]
            for change in ({"title": "x"}, {"model": "m"}):
                with pytest.raises(LogFailed):
                    await runtime.change(made.id, **change)
            with pytest.raises(LogFailed):
                await runtime.create()
            assert runtime.chat(made.id) == made
            log.fails = ""
            await runtime.delete(made.id)
            assert runtime.chats() == []
            await runtime.close()

    asyncio.run(chat())
