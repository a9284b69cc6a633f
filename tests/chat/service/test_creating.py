"""A chat is in the list once the store has it, at one node and at several; its id and place are taken before."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING

import pytest
from waiting import until_true

from penstock.chat.errors import Conflicting, ContentTooLarge, Invalid, NoSuchChat, TooMany
from penstock.chat.service.first_turn import FirstMessage
from penstock.chat.service.limits import ServiceLimits
from penstock.chat.service.nodes import ThisNode
from penstock.chat.store.protocol import FirstEntry, StoreFailed
from penstock.chat.store.rows import ChatRow

if TYPE_CHECKING:
    from chat.service.conftest import Home
    from penstock.chat.store.sqlite import SqliteStore

ID, OTHER = "a" * 32, "b" * 32


class SlowCreation:
    """The creation of a chat in a store that waits, before it has the chat or before it says so."""

    def __init__(self, store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self._create = store.create_chat
        self.says_late = False
        self.fails = False
        self.reached = asyncio.Event()
        self.may_end = asyncio.Event()
        monkeypatch.setattr(store, "create_chat", self._created)

    async def _created(self, row: ChatRow, first: FirstEntry | None = None) -> None:
        if self.says_late:
            await self._create(row, first)
        self.reached.set()
        await self.may_end.wait()
        if self.fails:
            raise StoreFailed("the disk is full")
        if not self.says_late:
            await self._create(row, first)


def test_a_chat_is_listed_once_it_is_stored(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the store has no chat yet, nobody sees it, and no other chat gets its id or its place."""

    async def use() -> None:
        async with home.store() as store:
            service = await home.open(store, limits=ServiceLimits(max_chats=1))
            slow = SlowCreation(store, monkeypatch)
            changed: list[str] = []
            service.chat_list.watch(changed.append)
            making = asyncio.create_task(service.create(id=ID))
            await slow.reached.wait()
            assert (service.chat_list.all(), service.chat_list.ids(), changed) == ([], set(), [])
            with pytest.raises(NoSuchChat):
                await service.turns(ID)
            with pytest.raises(NoSuchChat):
                await service.prompt(ID, "1")
            with pytest.raises(TooMany):
                await service.create(id=OTHER)
            slow.may_end.set()
            made = await making
            assert (made.id, service.chat_list.ids(), changed) == (ID, {ID}, [ID])
            assert (await service.turns(ID))[0] == []
            await service.close()

    asyncio.run(use())


def test_an_id_is_taken_before_its_chat_is_stored(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two requests for one id at the same time one gets the chat, and the other one is told so."""

    async def use() -> None:
        async with home.store() as store:
            service = await home.open(store)
            slow = SlowCreation(store, monkeypatch)
            making = asyncio.create_task(service.create(id=ID))
            await slow.reached.wait()
            with pytest.raises(Conflicting):
                await service.create(id=ID)
            slow.may_end.set()
            assert (await making).id == ID
            await service.close()

    asyncio.run(use())


@pytest.mark.parametrize("says_late", [False, True])
def test_a_caller_that_is_cancelled_meanwhile(home: Home, monkeypatch: pytest.MonkeyPatch, says_late: bool) -> None:
    """What the store keeps is listed, though nobody waits for it any more; a failure leaves nothing."""

    async def use() -> None:
        async with home.store() as store:
            service = await home.open(store)
            slow = SlowCreation(store, monkeypatch)
            slow.says_late = says_late
            for slow.fails in (True, False):
                if slow.fails and says_late:
                    continue
                slow.reached.clear()
                slow.may_end.clear()
                making = asyncio.create_task(service.create(id=ID))
                await slow.reached.wait()
                making.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await making
                with pytest.raises(Conflicting):
                    await service.create(id=ID)
                slow.may_end.set()
                await until_true(lambda: not service._chats._creating)
            assert service.chat_list.ids() == {ID}
            assert [row.id for row in await store.list_chats()] == [ID]
            await service.close()

    asyncio.run(use())


def test_a_chat_that_cannot_be_stored_leaves_nothing(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failure no list has the chat, and its id and its place are free."""

    async def use() -> None:
        async with home.store() as store:
            service = await home.open(store, limits=ServiceLimits(max_chats=1))
            slow = SlowCreation(store, monkeypatch)
            changed: list[str] = []
            service.chat_list.watch(changed.append)
            slow.fails = True
            slow.may_end.set()
            with pytest.raises(StoreFailed):
                await service.create(id=ID)
            assert (service.chat_list.all(), changed) == ([], [])
            slow.fails = False
            assert (await service.create(id=ID)).id == ID
            await service.close()

    asyncio.run(use())


def test_a_chat_that_the_store_reports_first_is_one_chat(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """At several nodes the notification of a new chat may come before the end of its creation: it is the same chat."""

    async def use() -> None:
        async with home.store() as store:
            here = ThisNode(name="a", by_jobs=True, incarnation=uuid.uuid4())
            service = await home.open(store, this_node=here)
            slow = SlowCreation(store, monkeypatch)
            slow.says_late = True
            making = asyncio.create_task(service.create(id=ID))
            await slow.reached.wait()
            await until_true(lambda: service.chat_list.ids() == {ID})
            listed = service._chats.require(ID)
            await service.prompt(ID, "1")
            slow.may_end.set()
            assert (await making).turns == 1
            assert service._chats.require(ID) is listed
            await service.close()

    asyncio.run(use())


@pytest.mark.parametrize("fails", [False, True])
def test_a_chat_begins_with_its_first_turn(home: Home, monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    """Both are kept by one call of the store, which has neither before; then the turn runs, once."""

    async def use() -> None:
        async with home.store() as store:
            service = await home.open(store)
            slow = SlowCreation(store, monkeypatch)
            slow.fails = fails
            first = FirstMessage("a question about pelicans. And more.", "key", [("a.txt", b"text")])
            making = asyncio.create_task(service.create(id=ID, person="ana", first=first))
            await slow.reached.wait()
            assert (await store.list_chats(), service.chat_list.ids()) == ([], set())
            slow.may_end.set()
            if fails:
                with pytest.raises(StoreFailed):
                    await making
                assert (await store.list_chats(), service.chat_list.ids()) == ([], set())
            else:
                made = await making
                assert (made.id, made.title, made.turns) == (ID, "a question about pelicans", 1)
                assert await service.prompt(ID, "the same again", key="key") == (1, False)
                await until_true(lambda: service.chat(ID).state == "idle")
                ((view,), _) = await service.turns(ID)
                assert (view.prompt, view.person, view.outcome) == (first.text, "ana", "ok")
                (file,) = await store.list_attachments(ID)
                assert (file.name, file.turn, file.person) == ("a.txt", 1, "ana")
            await service.close()

    asyncio.run(use())


@pytest.mark.parametrize(
    ("first", "error"),
    [
        (FirstMessage(" "), Invalid),
        (FirstMessage("x", "k" * 201), Invalid),
        (FirstMessage("x", most=0), TooMany),
        (FirstMessage("x", files=[("a", b"")]), Invalid),
        (FirstMessage("x", files=[("a", b"b")] * 11), Invalid),
        (FirstMessage("x" * (ServiceLimits().max_prompt_bytes + 1)), ContentTooLarge),
    ],
)
def test_a_first_message_that_is_rejected_leaves_nothing(
    home: Home, first: FirstMessage, error: type[Exception]
) -> None:
    """It is checked as any other one, before there is a chat."""

    async def use() -> None:
        async with home.store() as store:
            service = await home.open(store)
            with pytest.raises(error):
                await service.create(id=ID, first=first)
            assert (await store.list_chats(), service.chat_list.ids()) == ([], set())
            await service.close()

    asyncio.run(use())
