"""Messages that wait: edited, moved and sent at once, by one person of two; all of it survives a restart."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
import pytest
from waiting import PATIENCE, STEP

from penstock.chat.errors import Conflicting, NotAllowed
from penstock.chat.history.entries import Edited, Moved, Prompted, SentNow, StopRequested
from penstock.chat.service.nodes import NodeAbout, NodeView, OneMachine, ThisNode
from penstock.chat.store.rows import ChatRow

if TYPE_CHECKING:
    from chat.service.conftest import Home
    from penstock.chat.service.service import Service


def slow(home: Home) -> None:
    """An agent that writes until it is stopped, and a quick one once the file is there."""
    home.scripted("slow", "claude/text", "--speed=0", f"--hold=60:{home.folder}/go")


async def filled(service: Service, *texts: str) -> str:
    """A chat whose first turn writes, with messages behind it."""
    made = await service.create(agent="slow")
    for text in ("first", *texts):
        await service.prompt(made.id, text)
    async with asyncio.timeout(PATIENCE):
        while not (await service.turns(made.id))[0][0].reply:
            await asyncio.sleep(STEP)
    return made.id


async def over(service: Service, chat: str, turn: int) -> None:
    """Wait until a turn is over: an agent that is stopped must not end by itself before."""
    async with asyncio.timeout(PATIENCE):
        while not any(view.turn == turn and view.finalized for view in (await service.turns(chat))[0]):
            await asyncio.sleep(STEP)


async def order(service: Service, chat: str) -> list[int]:
    """Numbers of the turns, in the order of the conversation."""
    return [turn.turn for turn in (await service.turns(chat))[0]]


@pytest.mark.slow
def test_an_edited_and_moved_queue_runs_as_it_was_left(home: Home) -> None:
    """The agent gets the new texts in the new order, also if the process ended in between; numbers stay."""
    slow(home)

    async def first() -> str:
        async with home.service() as service:
            id = await filled(service, "second", "third", "fourth")
            await service.queue.edit(id, 3, "third, edited", edits=0)
            await service.queue.move(id, [2, 3, 4], [4, 3, 2])
            await service.prompt(id, "fifth")
            assert await order(service, id) == [1, 4, 3, 2, 5]
            await service.stop(id, 1)
            await service.stop(id, 4, queued=True)
            return id

    async def second(id: str) -> None:
        (home.folder / "go").touch()
        async with home.service() as service:
            await service.queue.release(id)
            await home.settled(service, id)
            shown = (await service.turns(id))[0]
            assert [turn.turn for turn in shown if turn.began_at] == [1, 3, 2, 5]
            assert service.chat(id).turns == 5
        home.judge(await home.rows(id))
        assert home.asked() == ["first", "third, edited", "second", "fifth"]

    id = asyncio.run(first())
    asyncio.run(second(id))


def test_two_at_once(home: Home) -> None:
    """Of two who edit or move what they saw, the first counts, and the other is told so and changes nothing."""
    slow(home)

    async def use() -> None:
        async with home.service() as service:
            id = await filled(service, "second", "third")
            results = await asyncio.gather(
                *(service.queue.edit(id, 2, text, edits=0) for text in ("by one", "by the other")),
                return_exceptions=True,
            )
            assert results[0] is None
            assert isinstance(results[1], Conflicting)
            await service.queue.edit(id, 2, "by one", edits=0)  # it has this text: a repeated request does no harm
            results = await asyncio.gather(
                *(service.queue.move(id, [2, 3], [3, 2]) for _ in range(2)),
                service.queue.move(id, [2, 3], [2, 3]),
                return_exceptions=True,
            )
            assert results[:2] == [None, None]
            assert isinstance(results[2], Conflicting)
            assert await order(service, id) == [1, 3, 2]
            await service.stop(id)
            await home.settled(service, id)
            with pytest.raises(Conflicting, match="no longer waits"):
                await service.queue.edit(id, 2, "too late", edits=1)
        rows = [row.what for row in await home.rows(id)]
        assert [it for it in rows if isinstance(it, Edited | Moved)] == [Edited(2, "by one"), Moved([3, 2])]
        assert home.asked() == ["first"]

    asyncio.run(use())


def test_a_message_in_the_name_of_another_person(home: Home) -> None:
    """Who may write in a chat cannot change what another person is about to say in it."""
    slow(home)

    async def use() -> None:
        async with home.service() as service:
            id = await filled(service)
            await service.prompt(id, "Ana's", person="ana")
            with pytest.raises(NotAllowed, match="ana's"):
                await service.queue.edit(id, 2, "delete everything", edits=0, person="bob")
            await service.queue.edit(id, 2, "Ana's own", edits=0, person="ana")
            await service.stop(id)
            await home.settled(service, id)

    asyncio.run(use())


@pytest.mark.slow
def test_stop_and_send_is_one_entry(home: Home) -> None:
    """It stops what runs and goes before what waits, which is not held; with the same key nothing more is stopped."""
    slow(home)

    async def use() -> None:
        async with home.service() as service:
            id = await filled(service, "second", "third")
            assert await service.prompt(id, "now", key="k", now=True, stops=1) == (4, True)
            await over(service, id, 1)
            (home.folder / "go").touch()
            assert await service.prompt(id, "now", key="k", now=True, stops=1) == (4, False)
            turns = await home.settled(service, id)
            assert {turn.turn: turn.outcome for turn in turns} == {1: "cancelled", 2: "ok", 3: "ok", 4: "ok"}
            assert await order(service, id) == [1, 4, 2, 3]
            assert await service.prompt(id, "now", key="k", now=True, stops=1) == (4, False)
        rows = await home.rows(id)
        home.judge(rows)
        assert Prompted(4, "now", "person", "k", now=True, stops=1) in [row.what for row in rows]
        assert not any(isinstance(row.what, StopRequested) for row in rows)
        assert home.asked() == ["first", "now", "second", "third"]

    asyncio.run(use())


@pytest.mark.slow
def test_sent_now_stops_only_what_was_seen(home: Home) -> None:
    """If another turn runs by now, nothing is stopped and nothing sent: a person decided about what they saw."""
    slow(home)

    async def use() -> None:
        async with home.service() as service:
            id = await filled(service, "second", "third")
            with pytest.raises(Conflicting, match="turn 1 runs"):
                await service.prompt(id, "now", now=True, stops=7)
            with pytest.raises(Conflicting, match="turn 1 runs"):
                await service.queue.send_now(id, 3)
            assert service.chat(id).turns == 3
            await service.queue.send_now(id, 3, stops=1)
            await service.queue.send_now(id, 3, stops=1)  # once more does nothing more
            async with asyncio.timeout(PATIENCE):
                while not (await service.turns(id))[0][1].reply:
                    await asyncio.sleep(STEP)
            with pytest.raises(Conflicting, match="no longer waits"):
                await service.queue.send_now(id, 3, stops=1)
            with pytest.raises(Conflicting, match="turn 3 runs"):
                await service.queue.send_now(id, 2, stops=1)
            await service.stop(id, 3)
            await service.queue.send_now(id, 2, stops=3)  # also what a stop holds back
            await over(service, id, 3)
            (home.folder / "go").touch()
            turns = await home.settled(service, id)
            assert {turn.turn: turn.outcome for turn in turns} == {1: "cancelled", 2: "ok", 3: "cancelled"}
        rows = await home.rows(id)
        home.judge(rows)
        sent = [row.what for row in rows if isinstance(row.what, SentNow)]
        assert sent[0] == SentNow(3, 1)
        assert home.asked() == ["first", "third", "second"]

    asyncio.run(use())


@pytest.mark.slow
def test_a_question_of_a_turn_that_was_overtaken_is_closed(home: Home) -> None:
    """After a restart, too, the chat asks only what the turn asked that ran last."""
    slow(home)

    async def first() -> str:
        async with home.service() as service:
            id = await filled(service, "second")
            await service.prompt(id, "now", now=True, stops=1)
            (home.folder / "go").touch()
            await home.settled(service, id)
            return id

    async def second(id: str) -> None:
        async with home.service() as service:
            latest = service.log(id).live.latest
            assert latest is not None
            assert latest.turn == 2
            assert service.chat(id).turns == 3

    id = asyncio.run(first())
    asyncio.run(second(id))


@pytest.mark.slow
def test_stop_and_send_survives_the_end_of_the_process(home: Home) -> None:
    """As the stop and the message are one entry, there is no moment in which only one of them counts."""
    slow(home)

    async def first() -> str:
        async with home.service() as service:
            id = await filled(service, "second")
            await service.prompt(id, "now", now=True, stops=1)
            return id

    async def second(id: str) -> None:
        (home.folder / "go").touch()
        async with home.service() as service:
            turns = await home.settled(service, id)
            assert {turn.turn: turn.outcome for turn in turns}[1] in ("cancelled", "cut_off")
            assert await order(service, id) == [1, 3, 2]
        home.judge(await home.rows(id))
        assert [text for text in home.asked() if text != "first"] == ["now", "second"]

    id = asyncio.run(first())
    asyncio.run(second(id))


class Away(OneMachine):
    """Another machine, with this description."""

    def __init__(self, about: NodeAbout) -> None:
        self.about = about

    async def nodes(self) -> list[NodeView]:
        """It alone."""
        return [NodeView("oslo", False, True, 0.1, self.about, [])]


@pytest.mark.parametrize(("knows", "expected"), [([], Conflicting), (["queue"], None)])
def test_the_home_of_a_chat_is_older(knows: list[str], expected: type[Exception] | None) -> None:
    """A node ignores entries that it does not know: it would run the text as it was, so the request is rejected."""
    about = {"version": "0.9.0", "host": "oslo", "pid": 1, **({"knows": knows} if knows else {})}
    node = ThisNode("rome", by_jobs=True, elsewhere=Away(msgspec.convert(about, NodeAbout)))
    chat = ChatRow("0" * 32, "claude", "/", 0, home="oslo")
    if expected is None:
        asyncio.run(node.require_known("queue", chat))
    else:
        with pytest.raises(expected, match=r"oslo runs Penstock 0\.9\.0"):
            asyncio.run(node.require_known("queue", chat))
    asyncio.run(node.require_known("queue", msgspec.structs.replace(chat, home="rome")))
