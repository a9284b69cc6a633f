"""The service as one of several nodes: turns begin with jobs, at the chat's home alone, and end if the node is lost."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING
from unittest.mock import AsyncMock

import pytest
from waiting import until_true

from penstock.chat.errors import Conflicting, NoSuchTurn
from penstock.chat.history.entries import Prompted, TurnBegan, TurnEnded, encode
from penstock.chat.service.nodes import NodeAbout, NodeView, ThisNode
from penstock.chat.store.protocol import StoreFailed
from penstock.chat.store.rows import ChatRow, Heartbeat
from penstock.chat.store.subscriptions import StoreSubscription

if TYPE_CHECKING:
    from chat.service.conftest import Home

MINUTE = 60_000


def node(name: str) -> ThisNode:
    """The part of a node in the work, without the others."""
    return ThisNode(name=name, by_jobs=True, incarnation=uuid.uuid4())


def row(home: Home, chat: str = "c", **fields: object) -> ChatRow:
    """A chat whose home is the node `a`."""
    return ChatRow(chat, "scripted", str(home.work.resolve()), 1, home="a", **fields)  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_turn_begins_with_its_job(home: Home) -> None:
    """A prompt waits until its job comes; a job for the second turn runs the first one before it; none runs twice."""

    async def use() -> None:
        async with home.store() as store:
            await store.create_chat(row(home))
            service = await home.open(store, this_node=node("a"))
            for text in ("1", "2", "3"):
                await service.prompt("c", text)
            assert service.node.waiting_turns() == [("c", 3)]
            await service.node.run_job("c", 2)
            assert home.asked() == ["1", "2"]
            await service.node.run_job("c", 1)
            await asyncio.gather(service.node.run_job("c", 3), service.node.run_job("c", 3))
            assert home.asked() == ["1", "2", "3"]
            assert service.node.waiting_turns() == []
            await service.node.run_job("nothing", 1)
            home.judge(await home.rows("c", store))
            await service.close()

    asyncio.run(use())


def test_another_node_works_on_nothing(home: Home) -> None:
    """A node that is not the chat's home neither begins its turns nor queues jobs for them, but takes them back."""

    async def use() -> None:
        async with home.store() as store:
            await store.create_chat(row(home))
            service = await home.open(store, this_node=node("b"))
            await service.prompt("c", "1")
            assert service.node.waiting_turns() == []
            assert await service.stop("c") == [1]
            (view,), _ = await service.turns("c")
            assert view.outcome == "cancelled"
            await service.close()
        assert home.asked() == []

    asyncio.run(use())


def test_a_home_that_is_away(home: Home) -> None:
    """A chat says so while its home is not there; its own node, and one that does not know the others, do not."""

    async def use() -> None:
        async with home.store() as store:
            await store.create_chat(row(home))
            this_node = node("b")
            service = await home.open(store, this_node=this_node)
            await service.prompt("c", "1")
            assert not service.chat("c").is_away
            this_node.live = frozenset({"b"})
            (view,) = service.chat_list.all()
            assert (view.home, view.state, view.is_away) == ("a", "queued", True)
            this_node.live = frozenset({"a", "b"})
            assert not service.chat("c").is_away
            await service.close()
            own = node("a")
            own.live = frozenset({"b"})  # as read just before its own lease
            service = await home.open(store, this_node=own)
            assert not service.chat("c").is_away
            await service.close()

    asyncio.run(use())


def test_directories_of_other_homes(home: Home) -> None:
    """A node offers the directories of its own chats, not those that chats of another machine use."""
    for name in ("mine", "theirs"):
        (home.work / name).mkdir()

    async def use() -> None:
        async with home.store() as store:
            here = home.work.resolve()
            await store.create_chat(ChatRow("c", "scripted", str(here / "mine"), 1, home="a"))
            await store.create_chat(ChatRow("d", "scripted", str(here / "theirs"), 1, home="b"))
            service = await home.open(store, this_node=node("a"))
            _, recent = await service.places.workspaces()
            assert [place.path for place in recent] == [str(here / "mine")]
            await service.close()

    asyncio.run(use())


def test_a_fence_kills_before_it_returns(home: Home) -> None:
    """When the lease is over, no agent of the node lives, and its claim is forgotten."""
    home.scripted("scripted", "claude/text", "--speed=0", f"--hold=9:{home.folder}/never")

    async def use() -> None:
        async with home.store() as store:
            await store.create_chat(row(home))
            service = await home.open(store, this_node=node("a"))
            await service.prompt("c", "1")
            job = asyncio.create_task(service.node.run_job("c", 1))
            await until_true(lambda: len(home.runs()) == 1)
            await service.node.fence()
            assert home.left_over() == []
            assert service.log("c").claim.epoch is None
            await job
            await service.close()

    asyncio.run(use())


def test_a_lost_turn_is_ended_once(home: Home) -> None:
    """Another node appends its end under a newer claim; what waits stays queued, and a second call changes nothing."""

    async def use() -> None:
        async with home.store() as store:
            await store.create_chat(row(home))
            began = TurnBegan(1, "scripted", str(home.work), None, None)
            epoch = await store.claim("c", "a", incarnation=uuid.uuid4())
            lost = encode([Prompted(1, "1"), Prompted(2, "2"), began])
            await store.append("c", lost, after=0, at=1, epoch=epoch)
            service = await home.open(store, this_node=node("b"))
            await service.node.take_over("c")
            assert service.log("c").claim.epoch is None  # released: any node can go on with what is queued
            await service.node.take_over("c")
            rows = await home.rows("c", store)
            assert [entry.what for entry in rows[3:]] == [TurnEnded(1, "cut_off", "its machine was lost", until=1)]
            states = [view.state for view in (await service.turns("c"))[0]]
            assert states == ["completed", "queued"]
            assert await store.claim("c", "a", incarnation=uuid.uuid4()) > epoch + 1
            home.judge(rows)
            await service.close()
        assert home.asked() == []

    asyncio.run(use())


def test_a_heartbeat_is_sent_once_by_its_home(home: Home) -> None:
    """Of two processes of the home and one of another node, each of which finds it due, one prompt is left."""

    async def use() -> None:
        time = 10 * MINUTE

        async def sleep(seconds: float) -> None:
            await asyncio.sleep(0.01 if seconds else 0)

        async with home.store() as store:
            await store.create_chat(row(home, heartbeat=Heartbeat(1, "news?")))
            services = [
                await home.open(store, this_node=node(name), now=lambda: time, sleep=sleep) for name in ("a", "a", "b")
            ]
            await until_true(lambda: all(service.chat("c").turns for service in services))
            await asyncio.sleep(0.1)
            (entry,) = await home.rows("c", store)
            assert isinstance(entry.what, Prompted)
            assert (entry.what.by, entry.what.key) == ("heartbeat", f"heartbeat-{1 + MINUTE}")
            for service in services:
                await service.close()

    asyncio.run(use())


def test_what_another_node_did_is_found_before_its_notification(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chat, a turn, its end: what this node does not know yet is read from the store before it is refused."""

    async def use() -> None:
        async with home.store() as store:
            monkeypatch.setattr(StoreSubscription, "next", asyncio.Event().wait)  # no node hears of another
            one = await home.open(store, this_node=node("a"))
            other = await home.open(store, this_node=node("b"))
            await store.create_chat(row(home))
            for service in (one, other):
                await service.node.find("c")
                await service.node.find("nothing")
                assert [chat.id for chat in service.chat_list.all()] == ["c"]
            assert await one.prompt("c", "1", key="k") == (1, True)
            assert [view.turn for view in (await other.turns("c"))[0]] == [1]
            assert await other.prompt("c", "1", key="k") == (1, False)
            assert await other.prompt("c", "2") == (2, True)
            assert await one.stop("c", 2) == [2]
            assert await one.stop("c", 1) == [1]
            assert [view.state for view in (await other.turns("c"))[0]] == ["completed", "completed"]
            assert await other.prompt("c", "3") == (3, True)
            assert (await one.turn("c", 3))[0].prompt == "3"
            with pytest.raises(NoSuchTurn):
                await one.stop("c", 4)
            failing = AsyncMock(side_effect=StoreFailed("the database is away"))
            monkeypatch.setattr(store, "get_chat", failing)
            with pytest.raises(StoreFailed):
                await other.node.find("unknown")
            await one.close()
            await other.close()

    asyncio.run(use())


def test_a_viewer_is_told_that_another_node_deleted_the_chat(home: Home) -> None:
    """Also at a node that is not its home."""

    async def use() -> None:
        async with home.store() as store:
            await store.create_chat(row(home))
            nodes = [await home.open(store, this_node=node(name)) for name in ("a", "b")]
            logs = [service.log("c") for service in nodes]
            for log in logs:
                log.live.watch(lambda _: None)
                await log.open()
            await store.delete_chat("c")
            await until_true(lambda: all(log.live.shown is not None and log.live.shown.deleted for log in logs))
            assert [service.chat_list.all() for service in nodes] == [[], []]
            for service in nodes:
                await service.close()

    asyncio.run(use())


def test_files_of_a_chat_that_another_node_deleted_are_removed(home: Home) -> None:
    """Its attachments, as its agent got them, do not stay on this machine."""

    async def use() -> None:
        async with home.store() as store:
            await store.create_chat(row(home))
            service = await home.open(store, this_node=node("a"))
            folder = home.folder / "attachments" / "c"
            folder.mkdir(parents=True)
            (folder / "secret.txt").write_text("secret")
            await store.delete_chat("c")
            await until_true(lambda: not folder.exists())
            await service.close()

    asyncio.run(use())


def test_a_home_of_an_older_version_is_not_asked_for_more(home: Home) -> None:
    """Its node would ignore what it does not know, so the request is rejected with the way to do it."""
    match = r"the machine a runs Penstock 0\.1, .*upgrade"

    def home_that_knows(*requests: str) -> AsyncMock:
        about = NodeAbout("0.1", "host", 1, knows=[*requests])
        nodes = [NodeView("a", is_here=False, is_live=True, seen_seconds=0.0, about=about, chats=[])]
        return AsyncMock(nodes=AsyncMock(return_value=nodes))

    async def use() -> None:
        async with home.store() as store:
            await store.create_chat(row(home))
            here = node("b")
            service = await home.open(store, this_node=here)
            here.elsewhere = home_that_knows("branches", "rules")
            with pytest.raises(Conflicting, match=match):
                await service.prompt("c", "1", now=True)
            here.elsewhere = home_that_knows("branches", "queue")
            with pytest.raises(Conflicting, match=match):
                await service.answer("c", "q1", "yes", always=True)
            assert await home.rows("c", store) == []
            assert await service.prompt("c", "1", now=True) == (1, True)
            await service.close()

    asyncio.run(use())


def test_what_was_left_unread_is_read_when_it_is_needed(home: Home) -> None:
    """A node reads nothing of a turn that runs elsewhere and that nobody watches here, until somebody does."""

    async def use() -> None:
        async with home.store() as store:
            await store.create_chat(row(home))
            await store.append("c", encode([Prompted(1, "p"), TurnBegan(1, "scripted", "/")]), after=0, at=1)
            service = await home.open(store, this_node=node("b"))
            log = service.log("c")
            assert (await log.open()).number == 2
            await store.append("c", encode([TurnEnded(1, "ok")]), after=2, at=1)
            await until_true(lambda: log.live.is_skipping)
            timeline = await log.open()
            assert (timeline.number, timeline.running) == (3, None)
            await service.close()

    asyncio.run(use())
