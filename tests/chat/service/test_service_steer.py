"""Messages for an agent that works: each is a part of a turn or a turn of its own, once, and never lost."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from waiting import PATIENCE, STEP, until_true

from penstock import events as ev
from penstock.chat.errors import Conflicting, Invalid, NoSuchTurn
from penstock.chat.history.details import details_of
from penstock.chat.history.entries import Prompted, SteerRequested, TurnBegan
from penstock.chat.history.frames import Steer, TurnView
from penstock.chat.history.timeline import Timeline
from penstock.chat.service.limits import ServiceLimits

if TYPE_CHECKING:
    from chat.service.conftest import Home
    from penstock.chat.service.service import Service

PEERS = Path(__file__).parents[2] / "support"
TRIES = int(os.environ.get("PENSTOCK_TEST_RUNS", "25"))


both = pytest.mark.parametrize("agent", ["codex", "claude"])


def configured(home: Home, agent: str, *flags: str) -> Path:
    """Configure a peer as an agent; return the file that ends its turns."""
    gate = home.folder / "go"
    peer = PEERS / f"{agent}_peer.py"
    home.configure(agent, [sys.executable, "-S", str(peer), f"--did={home.folder}/did", f"--gate={gate}", *flags])
    return gate


def did(home: Home) -> list[dict[str, str]]:
    """What the model has answered, in its order."""
    path = home.folder / "did"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


async def view(service: Service, chat: str, turn: int) -> TurnView:
    """A turn as it is now."""
    return next(it for it in (await service.turns(chat))[0] if it.turn == turn)


async def until(service: Service, chat: str, turn: int, **values: Any) -> TurnView:
    """Wait until a turn has these values."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = await view(service, chat, turn)
            if all(getattr(found, name) == value for name, value in values.items()):
                return found
            await asyncio.sleep(STEP)


async def begun(service: Service, agent: str, text: str = "first") -> str:
    """A chat whose first turn runs."""
    chat = (await service.create(agent=agent)).id
    await service.prompt(chat, text)
    await until(service, chat, 1, state="running", steerable=True, reply="Working.")
    return chat


async def restored(home: Home, service: Service, chat: str, shown: list[TurnView]) -> None:
    """The rows keep the grammar, and a fold of all of them shows what was shown."""
    rows = await home.rows(chat, service._store)
    home.judge(rows)
    timeline = Timeline()
    timeline.take(rows)
    assert timeline.snapshot().turns == shown


@pytest.mark.slow
@pytest.mark.parametrize(("agent", "how"), [("codex", "prompt"), ("codex", "queue"), ("claude", "prompt")])
def test_the_agent_takes_a_message_while_it_works(home: Home, agent: str, how: str) -> None:
    """It is a part of the turn, at its place in the details; it never runs again, also after a restart."""
    gate = configured(home, agent)

    async def use() -> str:
        async with home.service() as service:
            chat = await begun(service, agent)
            if how == "prompt":
                assert await service.prompt(chat, "steer", steers=1) == (2, True)
            else:
                await service.prompt(chat, "steer")
                await service.queue.steer(chat, 2, 1)
            await until(service, chat, 2, steer=Steer(1, "taken"), state="completed", finalized=True)
            assert (await view(service, chat, 1)).state == "running"
            gate.touch()
            turns = await home.settled(service, chat)
            assert [turn.turn for turn in turns] == [2, 1], "it precedes the turn that it became a part of"
            assert (turns[1].outcome, turns[0].message, turns[0].began_at) == ("ok", "", None)
            assert service.chat(chat).state == "idle"
            details = details_of(*await service.turn(chat, 1))
            texts = [getattr(item, "text", "") for item in details.items]
            place = next(place for place, text in enumerate(texts) if text.endswith("while it worked:\nsteer"))
            assert texts.index("Working.") < place < texts.index("Taken: steer")
            await restored(home, service, chat, turns)
            made = (await service.branch(chat, 3)).chat.id
            origin = service.row(made).origin
            assert origin is not None
            assert origin.conversation is not None
            content = await service._store.read_attachment(made, origin.conversation)
            assert content is not None
            messages = [json.loads(line) for line in content.splitlines()]
            assert messages[:2] == [{"user": "steer"}, {"user": "first"}]
            assert len(messages) == 3
            return chat

    chat = asyncio.run(use())

    async def again() -> None:
        async with home.service() as service:
            latest = service.log(chat).live.latest
            assert latest is not None
            assert latest.turn == 1, "what the chat asks is what its last turn asked"
            assert [turn.turn for turn in await home.settled(service, chat)] == [2, 1]

    asyncio.run(again())
    assert did(home) == [{"prompt": "first"}, {"steer": "steer"}]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("agent", "flag", "state"),
    [
        ("codex", "--ears=/nowhere", "given"),
        ("codex", "--rejects", "late"),
        ("claude", "--ears=/nowhere", "given"),
        ("claude", "--old", "late"),
    ],
)
def test_a_message_that_was_not_taken_runs_as_the_next_turn(home: Home, agent: str, flag: str, state: Any) -> None:
    """An agent that accepts it and never reads it, and one that rejects it."""
    gate = configured(home, agent, flag)

    async def use() -> None:
        async with home.service() as service:
            chat = await begun(service, agent)
            await service.prompt(chat, "steer", steers=1)
            await until(service, chat, 2, steer=Steer(1, state))
            if state == "given":  # to a process, which may not have read it yet
                await until_true((home.folder / "did.given").exists)
            gate.touch()
            turns = await home.settled(service, chat)
            assert [(turn.turn, turn.outcome, turn.steer) for turn in turns] == [
                (1, "ok", None),
                (2, "ok", Steer(1, "late")),
            ]
            await restored(home, service, chat, turns)

    asyncio.run(use())
    assert did(home) == [{"prompt": "first"}, {"prompt": "steer"}]


@pytest.mark.slow
def test_a_turn_that_cannot_take_messages(home: Home) -> None:
    """A prompt for it waits, as does one for a turn that is over; a message that waits is not touched."""
    home.scripted("slow", "claude/text", "--speed=0", f"--hold=60:{home.folder}/go")

    async def use() -> None:
        async with home.service() as service:
            chat = (await service.create(agent="slow")).id
            await service.prompt(chat, "first")
            await until(service, chat, 1, state="running")
            await service.prompt(chat, "second", steers=1)
            await service.prompt(chat, "third", steers=7)
            for turn, into in ((2, 1), (3, 7)):
                assert (await view(service, chat, turn)).steer == Steer(into, "late")
            with pytest.raises(Conflicting, match="turn 1 takes no messages"):
                await service.queue.steer(chat, 2, 1)
            with pytest.raises(NoSuchTurn):
                await service.queue.steer(chat, 9, 1)
            with pytest.raises(Invalid):
                await service.prompt(chat, "both", steers=1, now=True)
            (home.folder / "go").touch()
            turns = await home.settled(service, chat)
            assert [turn.turn for turn in turns] == [1, 2, 3]
            await restored(home, service, chat, turns)

    asyncio.run(use())
    assert home.asked() == ["first", "second", "third"]


@pytest.mark.slow
@both
def test_what_was_given_is_neither_changed_nor_taken_back(home: Home, agent: str) -> None:
    """The agent may read it at any time. After a stop of the turn it waits, held like all others, and is free again."""
    configured(home, agent, "--ears=/nowhere")

    async def use() -> None:
        async with home.service() as service:
            chat = await begun(service, agent)
            await service.prompt(chat, "steer", steers=1)
            await service.prompt(chat, "third")
            for request in (
                service.queue.edit(chat, 2, "other", edits=0),
                service.queue.send_now(chat, 2, stops=1),
                service.stop(chat, 2, queued=True),
            ):
                with pytest.raises(Conflicting, match="given to the agent"):
                    await request
            await service.queue.steer(chat, 2, 1)  # once more does nothing more
            assert await service.stop(chat, queued=True) == [3], "all that waits, but for what was given"
            await service.stop(chat, 1)
            await until(service, chat, 1, finalized=True)
            await until(service, chat, 2, steer=Steer(1, "late"), held=True, state="queued")
            await service.queue.edit(chat, 2, "other", edits=0)
            assert await service.stop(chat, 2, queued=True) == [2]
            turns = await home.settled(service, chat)
            assert {turn.turn: turn.outcome for turn in turns} == dict.fromkeys((1, 2, 3), "cancelled")
        rows = await home.rows(chat)
        home.judge(rows)
        assert not any(isinstance(row.what, SteerRequested) for row in rows)

    asyncio.run(use())
    assert did(home) == [{"prompt": "first"}]


@pytest.mark.slow
@both
def test_a_process_that_ends_meanwhile(home: Home, agent: str) -> None:
    """The turn is cut off, and the message that it had not taken runs after the restart."""
    gate = configured(home, agent, "--ears=/nowhere")

    async def first() -> str:
        async with home.service() as service:
            chat = await begun(service, agent)
            await service.prompt(chat, "steer", steers=1)
            return chat

    async def second(chat: str) -> None:
        async with home.service() as service:
            turns = await home.settled(service, chat)
            assert [(it.turn, it.outcome, it.steer) for it in turns] == [
                (1, "cut_off", None),
                (2, "ok", Steer(1, "late")),
            ]
            await restored(home, service, chat, turns)

    chat = asyncio.run(first())
    gate.touch()
    asyncio.run(second(chat))
    assert did(home) == [{"prompt": "first"}, {"prompt": "steer"}]


@pytest.mark.slow
@both
def test_texts_are_only_texts(home: Home, agent: str) -> None:
    """A command, a line of the protocol, quotes, and a large text arrive as they are; a NUL is rejected."""
    gate = configured(home, agent)
    line = json.dumps({"method": "turn/interrupt", "id": 1, "params": {}})
    texts = ["/quit", line, "\u2028\r\n\"'\\ 🌍", "x" * 200_000]

    async def use() -> None:
        async with home.service() as service:
            chat = await begun(service, agent)
            for turn, text in enumerate(texts, 2):
                await service.prompt(chat, text, steers=1)
                await until(service, chat, turn, steer=Steer(1, "taken"))
            with pytest.raises(Invalid):
                await service.prompt(chat, "a\0b", steers=1)
            gate.touch()
            await home.settled(service, chat)

    asyncio.run(use())
    assert [it.get("steer") for it in did(home)[1:]] == texts


@pytest.mark.slow
@both
def test_at_whatever_time_each_text_runs_once(home: Home, agent: str) -> None:
    """Two people give messages at random times to turns that end at random times, and stop some: none is lost."""
    configured(home, agent, "--random")
    chance = random.Random(agent)

    async def one(service: Service, chat: str, person: str, count: int) -> list[str]:
        texts = []
        for number in range(count):
            text = f"{person} {number}"
            turns, _ = await service.turns(chat)
            running = next((it.turn for it in turns if it.state == "running"), None)
            into = running or len(turns)
            how = chance.random()
            if how < 0.8:
                await service.prompt(chat, text, steers=into, person=person)
            else:
                turn, _ = await service.prompt(chat, text, person=person)
                try:
                    await service.queue.steer(chat, turn, into, person=person)
                except Conflicting:
                    pass  # it began, or there is no such turn any more
            texts.append(text)
            if how < 0.1 and running is not None:
                await service.stop(chat, running, person=person)
            if how < 0.2:
                await service.queue.release(chat, person=person)
            await asyncio.sleep(chance.choice([0, 0.005, 0.02, 0.05]))
        return texts

    async def use() -> None:
        limits = ServiceLimits(max_queue=1000)
        async with home.service(limits=limits) as service:
            chat = (await service.create(agent=agent)).id
            first, second = await asyncio.gather(*(one(service, chat, name, TRIES) for name in "ab"))
            async with asyncio.timeout(PATIENCE * 4):
                while not all(it.finalized for it in (await service.turns(chat, limit=1000))[0]):
                    await service.queue.release(chat)
                    await asyncio.sleep(STEP)
            turns, _ = await service.turns(chat, limit=1000)
        rows = await home.rows(chat)
        home.judge(rows)
        assert sorted(it.prompt for it in turns) == sorted(first + second)
        began = [row.what.turn for row in rows if isinstance(row.what, TurnBegan)]
        notices = [row.what for row in rows if isinstance(row.what, ev.Notice) and row.what.code == "user"]
        taken = [int(it.steer) for it in notices if it.steer is not None]
        assert sorted(began + taken) == [it.turn for it in sorted(turns, key=lambda it: it.turn)]
        assert {it.turn for it in turns if it.whole is not None} == {*taken}
        names = {row.what.turn: row.what.text for row in rows if isinstance(row.what, Prompted)}
        answered = [it["steer"] for it in did(home) if "steer" in it]
        assert {names[turn] for turn in taken} <= {*answered}
        assert not {*answered} & {names[turn] for turn in began}
        asked = [it["prompt"] for it in did(home) if "prompt" in it]
        assert len(asked) == len({*asked})

    asyncio.run(use())
