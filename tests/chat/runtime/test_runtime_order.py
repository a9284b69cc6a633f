"""The order of two effects of a turn, where a promise hangs on it: what is in the log, and what happens."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

from penstock import events as ev
from penstock.chat.errors import Conflicting
from penstock.chat.history.entries import TurnBegan, decode
from penstock.chat.service.service import Runtime
from penstock.chat.store.protocol import EventLog
from penstock.run.run import Run

if TYPE_CHECKING:
    from conftest import Home

PATIENCE_SECONDS = 60


class Ordered:
    """A log that notes what was appended in a list, where others note their effects too."""

    def __init__(self, log: EventLog, order: list[Any]) -> None:
        self.gates: dict[bytes, asyncio.Event] = {}
        """Rows of these types are appended only once their gate is open."""
        self.reached = asyncio.Event()
        """An append waits at its gate."""
        self._log = log
        self._order = order

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def append(self, chat: str, rows: Sequence[bytes], *, after: int) -> int:
        for gate in [gate for kind, gate in self.gates.items() if any(kind in row for row in rows)]:
            self.reached.set()
            await gate.wait()
        last = await self._log.append(chat, rows, after=after)
        self._order += [row.what for row in decode(await self._log.read(chat, after=after))]
        return last


def test_a_turn_begins_in_the_log_before_its_agent_starts(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The begin is in the log, with the mark by which the run's processes are found, before there is a process: so
    what a crash leaves running is found by the next start."""
    order: list[Any] = []
    start = Run.start

    def noted(run: Run) -> Run:
        order.append(("start", run.mark))
        return start(run)

    monkeypatch.setattr(Run, "start", noted)

    async def chat() -> None:
        async with home.log() as log:
            runtime = await home.open(Ordered(log, order))
            made = await runtime.create()
            await runtime.prompt(made.id, "Go on")
            await home.settled(runtime, made.id)
            await runtime.close()

    asyncio.run(chat())
    began, started = [what for what in order if isinstance(what, TurnBegan | tuple)]
    assert isinstance(began, TurnBegan)
    assert began.mark
    assert started == ("start", began.mark)


def test_a_question_is_in_the_log_before_its_answer_is_accepted(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that comes before its question was appended is rejected: nobody can have seen what it answers."""
    home.peer()
    order: list[Any] = []
    asked = asyncio.Event()
    poll, answer = Run.poll, Run.answer

    def noted_poll(run: Run) -> list[ev.Event]:
        events = poll(run)
        if any(isinstance(event, ev.QuestionAsked) for event in events):
            asked.set()
        return events

    def noted_answer(run: Run, id: str, text: str) -> None:
        order.append("answered")
        answer(run, id, text)

    async def answered(runtime: Runtime, chat: str, id: str) -> bool:
        try:
            await runtime.answer(chat, id, "once")
        except Conflicting:
            return False
        return True

    async def chat() -> None:
        async with home.log() as real:
            log = Ordered(real, order)
            runtime = await home.open(log)
            earlier = (await runtime.create(agent="peer")).id
            await runtime.prompt(earlier, "permission")
            id = await question_of(runtime, earlier)  # the same in each process of this agent
            assert await answered(runtime, earlier, id)
            await home.settled(runtime, earlier)
            order.clear()
            monkeypatch.setattr(Run, "poll", noted_poll)
            monkeypatch.setattr(Run, "answer", noted_answer)
            log.gates = {b'"run_started"': asyncio.Event(), b'"meanwhile"': asyncio.Event()}
            log.reached.clear()
            made = (await runtime.create(agent="peer")).id
            await runtime.prompt(made, "permission")
            await log.reached.wait()  # what the run said before its question is being appended; behind it wait,
            prompting = asyncio.create_task(runtime.prompt(made, "meanwhile"))  # in this order, another prompt,
            await rest()
            answering = asyncio.create_task(answered(runtime, made, id))  # an answer,
            await rest()
            log.gates[b'"run_started"'].set()
            await asked.wait()  # and, while the prompt is being appended, the question
            await rest()
            log.gates[b'"meanwhile"'].set()
            await prompting
            if not await answering:
                assert await answered(runtime, made, await question_of(runtime, made))
            await home.settled(runtime, made)
            await runtime.close()

    asyncio.run(chat())
    effects = [what if what == "answered" else type(what) for what in order]
    assert effects.index(ev.QuestionAsked) < effects.index("answered")


async def question_of(runtime: Runtime, chat: str) -> str:
    """The id of the question that a viewer of the chat is shown, once there is one."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            for turn in (await runtime.turns(chat))[0]:
                if turn.hint is not None:
                    return turn.hint.id
            await asyncio.sleep(0.005)


async def rest() -> None:
    """Let the other tasks go as far as they can without waiting for anything outside of this loop."""
    for _ in range(50):
        await asyncio.sleep(0)
