"""The order of two effects of a turn, where a promise hangs on it: what is in the store, and what happens."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

from penstock import events as ev
from penstock.chat.errors import Conflicting
from penstock.chat.history.entries import Answered, TurnBegan, decode
from penstock.chat.service.service import Service
from penstock.chat.store.protocol import ChatStore, Submitted
from penstock.run.run import Run

if TYPE_CHECKING:
    from chat.service.conftest import Home

PATIENCE_SECONDS = 60


class Ordered:
    """A store that notes what was appended in a list, where others note their effects too."""

    def __init__(self, store: ChatStore, order: list[Any]) -> None:
        self.gates: dict[bytes, asyncio.Event] = {}
        """Entries of these types are appended only once their gate is open."""
        self.reached = asyncio.Event()
        """An append waits at its gate."""
        self._store = store
        self._order = order

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def append(self, chat: str, entries: Sequence[bytes], *, after: int, **options: Any) -> int:
        await self._pass(entries)
        last = await self._store.append(chat, entries, after=after, **options)
        self._order += [entry.what for entry in decode((await self._store.read(chat, after=after)).entries)]
        return last

    async def submit(self, chat: str, entry: bytes, **options: Any) -> Submitted:
        await self._pass([entry])
        done = await self._store.submit(chat, entry, **options)
        entries = (await self._store.read(chat, after=done.number - 1, limit=1)).entries
        self._order += [entry.what for entry in decode(entries)]
        return done

    async def _pass(self, entries: Sequence[bytes]) -> None:
        for gate in [gate for kind, gate in self.gates.items() if any(kind in entry for entry in entries)]:
            self.reached.set()
            await gate.wait()


def test_a_turn_begins_in_the_store_before_its_agent_starts(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The begin is in the store, with the mark by which the run's processes are found, before there is a process: so
    what a crash leaves running is found by the next start."""
    order: list[Any] = []
    start = Run.start

    def noted(run: Run) -> Run:
        order.append(("start", run.mark))
        return start(run)

    monkeypatch.setattr(Run, "start", noted)

    async def chat() -> None:
        async with home.store() as store:
            service = await home.open(Ordered(store, order))
            made = await service.create()
            await service.prompt(made.id, "Go on")
            await home.settled(service, made.id)
            await service.close()

    asyncio.run(chat())
    began, started = [what for what in order if isinstance(what, TurnBegan | tuple)]
    assert isinstance(began, TurnBegan)
    assert began.mark
    assert started == ("start", began.mark)


@pytest.mark.slow
def test_a_question_is_in_the_store_before_its_answer_is_accepted(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
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

    async def answered(service: Service, chat: str, id: str) -> bool:
        try:
            await service.answer(chat, id, "once")
        except Conflicting:
            return False
        return True

    async def chat() -> None:
        async with home.store() as real:
            store = Ordered(real, order)
            service = await home.open(store)
            earlier = (await service.create(agent="peer")).id
            await service.prompt(earlier, "permission")
            id = await question_of(service, earlier)  # the same in each process of this agent
            assert await answered(service, earlier, id)
            await home.settled(service, earlier)
            order.clear()
            monkeypatch.setattr(Run, "poll", noted_poll)
            monkeypatch.setattr(Run, "answer", noted_answer)
            store.gates = {b'"run_started"': asyncio.Event(), b'"meanwhile"': asyncio.Event()}
            store.reached.clear()
            made = (await service.create(agent="peer")).id
            await service.prompt(made, "permission")
            await store.reached.wait()  # what the run said before its question is being appended; behind it wait,
            prompting = asyncio.create_task(service.prompt(made, "meanwhile"))  # in this order, another prompt,
            await rest()
            answering = asyncio.create_task(answered(service, made, id))  # an answer,
            await rest()
            store.gates[b'"run_started"'].set()
            await asked.wait()  # and, while the prompt is being appended, the question
            await rest()
            store.gates[b'"meanwhile"'].set()
            await prompting
            if not await answering:
                assert await answered(service, made, await question_of(service, made))
            await home.settled(service, made)
            await service.close()

    asyncio.run(chat())
    effects = [what if what == "answered" else type(what) for what in order]
    assert effects.index(ev.QuestionAsked) < effects.index(Answered) < effects.index("answered")


async def question_of(service: Service, chat: str) -> str:
    """The id of the question that a viewer of the chat is shown, once there is one."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            for turn in (await service.turns(chat))[0]:
                if turn.question is not None:
                    return turn.question.id
            await asyncio.sleep(0.005)


async def rest() -> None:
    """Let the other tasks go as far as they can without waiting for anything outside of this loop."""
    for _ in range(50):
        await asyncio.sleep(0)
