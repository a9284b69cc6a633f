"""Checks of read marks: how far each person has read a chat."""

from __future__ import annotations

from functools import partial

from penstock.chat.store.conformance.promises import Open, chat_row, raises, same
from penstock.chat.store.permits import acting
from penstock.chat.store.rows import MAX_READS, ChatChanges
from penstock.chat.store.search import Reader
from penstock.errors import UsageError


async def read_marks_move_forward(make: Open, chat: str) -> None:
    """Check that each person has a mark in each chat, that it never moves back, and that it is deleted with both."""
    ana, ben, other = f"{chat}@ana", f"{chat}@ben", f"{chat}-other"
    async with make() as store:
        for id in (chat, other):
            await store.create_chat(chat_row(id))
        both = await store.mark_read(ana, {chat: 3, other: 0, f"{chat}-none": 7})
        same("chats that were marked", sorted(both), sorted([chat, other]))
        same("a mark that moves back", await store.mark_read(ana, {chat: 2}), [])
        same("marks that are there", sorted(await store.mark_read(ana, {chat: 3, other: 0})), sorted([chat, other]))
        same("a mark that moves forward", await store.mark_read(ana, {chat: 4}), [chat])
        await store.mark_read(ben, {chat: 1})
        same("a row that changes", (await store.update_chat(chat, ChatChanges(title="t"))).reads, {ana: 4, ben: 1})
        for nonsense in ({chat: -1}, {"a b": 1}, {chat: 2**63}):
            await raises(UsageError, store.mark_read(ana, nonsense))
    async with make() as store:
        same("marks after opening the store again", (await store.get_chat(chat)).reads, {ana: 4, ben: 1})
        await store.forget_reader(ana)
        await store.forget_reader(ana)
        rows = [(await store.get_chat(id)).reads for id in (chat, other)]
        same("marks without a person who was removed", rows, [{ben: 1}, {}])
        await store.mark_read(ana, {chat: 2})
        same("a mark of a new person of the same name", (await store.get_chat(chat)).reads, {ana: 2, ben: 1})
        await store.delete_chat(chat)
        await store.create_chat(chat_row(chat))
        same("marks of a chat that was created again", (await store.get_chat(chat)).reads, {})


async def read_marks_need_their_right(make: Open, chat: str) -> None:
    """Check that a chat gets no marks of people who do not see it, and not more than `MAX_READS`."""
    private, full = f"{chat}-private", f"{chat}-full"
    marks = {f"p{number}": number for number in range(MAX_READS)}
    async with make() as store:
        await store.create_chat(chat_row(chat, person="ana", visibility="team"))
        await store.create_chat(chat_row(private, person="ana"))
        await store.create_chat(chat_row(full, visibility="team", reads=marks))
        readers = {
            Reader("ben"): [chat],
            Reader("ana"): [chat, private],
            Reader("olga", is_owner=True): [chat, private],
        }
        for reader, seen in readers.items():
            with acting(partial(_as_it_is, reader)):
                marked = await store.mark_read(reader.person, {chat: 1, private: 1, full: 5, f"{chat}-none": 1})
            same(f"chats that {reader.person} has marked", sorted(marked), seen)
        same("marks of a private chat", (await store.get_chat(private)).reads, {"ana": 1, "olga": 1})
        same("a mark of a chat that has all", await store.mark_read("p0", {full: 9}), [full])
        same("the number of its marks", len((await store.get_chat(full)).reads), MAX_READS)


def _as_it_is(reader: Reader) -> Reader:
    return reader
