"""Checks of the entries of a chat: numbered, whole, and appended once."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from msgspec.structs import asdict

from penstock.chat.store.conformance.promises import (
    HOSTILE,
    Open,
    chat_row,
    holds,
    raises,
    require,
    same,
    turn_row,
    values_of,
)
from penstock.chat.store.protocol import Ahead, Conflict, EntryTooLarge, Submitted
from penstock.chat.store.rows import ChatChanges, TurnRow
from penstock.errors import UsageError


async def entries_are_kept(make: Open, chat: str) -> None:
    """Check that numbers begin at 1 without a gap, with the given bytes and times."""
    async with make() as store:
        await store.create_chat(chat_row(chat))
        same("a read of a new chat", await store.read(chat), ([], 0))
        given = list(HOSTILE)
        same("append of several", await store.append(chat, given, after=0, at=7), len(HOSTILE))
        given[0] = b"changed by the caller afterwards"
        same("append of one", await store.append(chat, [b"more"], after=len(HOSTILE), at=5), len(HOSTILE) + 1)
        await holds(store, chat, [*HOSTILE, b"more"])
        page = await store.read(chat)
        same("the times", [entry.at for entry in page.entries], [7] * len(HOSTILE) + [5])
        same("the last number of a page", (await store.read(chat, limit=1)).last, len(HOSTILE) + 1)


async def stale_writers_conflict(make: Open, chat: str) -> None:
    """Check that an append after a wrong number changes nothing, and gets the real one."""
    async with make() as store:
        await store.create_chat(chat_row(chat))
        for number in range(3):
            await store.append(chat, [b"%d" % number], after=number, at=1)
        for after, entries in itertools.product((0, 2, 4, 1000), ([b"stale"], [])):
            write = store.append(
                chat, entries, after=after, at=1, turns=[turn_row(1)], changes=ChatChanges(title="stale")
            )
            same("the last number of a Conflict", (await raises(Conflict, write)).last, 3)
        submit = store.submit(chat, b"stale", after=2, at=1, key="k")
        same("the last number of a Conflict", (await raises(Conflict, submit)).last, 3)
        same("an append of nothing", await store.append(chat, [], after=3, at=1), 3)
        await holds(store, chat, [b"0", b"1", b"2"])
        same("the turns after conflicts", await store.list_turns(chat, limit=9), [])
        same("the row after conflicts", await store.get_chat(chat), chat_row(chat))
        same("a key after a conflict", await store.submit(chat, b"3", at=1, key="k"), Submitted(4, True))


async def appends_are_whole(make: Open, chat: str) -> None:
    """Check that the largest entry is accepted, but not a larger one, nor anything that came with it."""
    async with make() as store:
        await store.create_chat(chat_row(chat))
        largest = b"x" * store.max_entry_bytes
        await store.append(chat, [largest, b"small"], after=0, at=1)
        larger = [b"before", largest + b"x", b"behind"]
        await raises(EntryTooLarge, store.append(chat, larger, after=2, at=1, turns=[turn_row(1)]))
        await raises(EntryTooLarge, store.submit(chat, largest + b"x", at=1))
        await holds(store, chat, [largest, b"small"])
        same("the turns of an append that failed", await store.list_turns(chat, limit=9), [])


async def summaries_go_with_their_entries(make: Open, chat: str) -> None:
    """Check that turns and the chat's row are written with the entries of their append, and replaced by later ones."""
    async with make() as store:
        await store.create_chat(chat_row(chat))
        same("the summary of a new chat", await store.summary(chat, limit=9), (0, 0, []))
        first = [turn_row(1, first=1), turn_row(2, first=2)]
        await store.append(chat, [b"1", b"2"], after=0, at=1, turns=first, changes=ChatChanges(session_id="s"))
        same("turns", await store.list_turns(chat, limit=9), first)
        same("the summary", await store.summary(chat, limit=9), (2, 2, first))
        same("the row", await store.get_chat(chat), chat_row(chat, session_id="s"))
        over = turn_row(1, first=1, last=3, view=b"over")
        await store.append(chat, [b"3"], after=2, at=9, turns=[over])
        await store.append(chat, [], after=3, at=9, turns=[turn_row(3, first=3)])
    async with make() as store:
        same("turns", await store.list_turns(chat, limit=9), [over, first[1], turn_row(3, first=3)])
        same("the newest turn", await store.list_turns(chat, limit=1), [turn_row(3, first=3)])
        same("turns before one", await store.list_turns(chat, before=3, limit=1), [first[1]])
        same("turns before the first", await store.list_turns(chat, before=1, limit=9), [])
        same("the summary", await store.summary(chat, limit=1), (3, 3, [first[1], turn_row(3, first=3)]))
        await store.append(chat, [b"4"], after=3, at=1)
        same("a summary that is behind", (await store.summary(chat, limit=9))[:2], (3, 4))
        full = TurnRow(**{**values_of(TurnRow), "turn": 4, "first": 4, "last": 4})
        await store.append(chat, [], after=4, at=9, turns=[full])
        for name, value in asdict((await store.list_turns(chat, limit=1))[0]).items():
            same(f"the field {name!r} of a turn", value, getattr(full, name))


async def a_key_is_one_entry(make: Open, chat: str) -> None:
    """Check that a submit with a known key returns its entry, with any number of submits at once."""
    async with make() as store:
        for name in (chat, f"{chat}-other"):
            await store.create_chat(chat_row(name))
        found = await asyncio.gather(*(store.submit(chat, b"%d" % it, at=1, key="k") for it in range(6)))
        same("the numbers of one key", {it.number for it in found}, {1})
        same("how many appended it", sum(it.is_new for it in found), 1)
        same("another key", await store.submit(chat, b"x", at=1, after=1, key="K"), Submitted(2, True))
        same("no key", await store.submit(chat, b"y", at=1), Submitted(3, True))
        same("no key again", await store.submit(chat, b"y", at=1), Submitted(4, True))
        same("a key after a stale number", await store.submit(chat, b"z", at=1, after=0, key="K"), Submitted(2, False))
        same("a turn", await store.submit(chat, b"t", at=1, key="t", turn=1), Submitted(5, True))
        same("the turn again", await store.submit(chat, b"t", at=2, key="t", turn=1), Submitted(5, False))
        same("the key in another chat", await store.submit(f"{chat}-other", b"x", at=1, key="k"), Submitted(1, True))
    async with make() as store:
        same("the key after opening again", await store.submit(chat, b"x", at=1, key="k"), Submitted(1, False))
        same("the last number", (await store.read(chat)).last, 5)


async def pages_follow(make: Open, chat: str) -> None:
    """Check that a read begins after the given number, and ends at its limit."""
    async with make() as store:
        await store.create_chat(chat_row(chat))
        data = [b"%d" % number for number in range(1, 31)]
        await store.append(chat, data, after=0, at=1)
        for after, limit in itertools.product((0, 1, 7, 29, 30), (1, 2, 10, 500)):
            entries = (await store.read(chat, after=after, limit=limit)).entries
            require(len(entries) <= limit, f"a read of at most {limit} gave {len(entries)}")
            require(bool(entries) == (after < 30), f"a read after {after} of 30 gave {len(entries)} entries")
            expected = [(number, b"%d" % number) for number in range(after + 1, after + 1 + len(entries))]
            same(f"read after {after}", [(entry.number, entry.data) for entry in entries], expected)


async def chats_are_apart(make: Open, chat: str) -> None:
    """Check that changes of one chat are not visible in another, however similar their ids are."""
    async with make() as store:
        names = [chat, f"{chat}.in", f"{chat}_", chat.upper(), f"{chat}1"]
        for name in names:
            await store.create_chat(chat_row(name))
        for number, name in itertools.product(range(3), names):
            turn = turn_row(number + 1, first=number + 1, last=number + 1)
            await store.append(name, [f"{name} {number}".encode()], after=number, at=1, turns=[turn])
        await store.trim(chat, 3)
        await store.claim(chat, "n")
        for name in names[1:]:
            await holds(store, name, [f"{name} {number}".encode() for number in range(3)])
            same("the turns of another chat", len(await store.list_turns(name, limit=9)), 3)
        await store.delete_chat(chat)
        for name in names[1:]:
            await holds(store, name, [f"{name} {number}".encode() for number in range(3)])


async def numbers_ahead_are_errors(make: Open, chat: str) -> None:
    """Check that an unassigned number is an error, with the last assigned one."""
    async with make() as store:
        await store.create_chat(chat_row(chat))
        await store.append(chat, [b"1", b"2"], after=0, at=1)
        for number in (3, 1000):
            same("the last number of an Ahead", (await raises(Ahead, store.read(chat, after=number))).last, 2)
            same("the last number of an Ahead", (await raises(Ahead, store.trim(chat, number))).last, 2)
        await holds(store, chat, [b"1", b"2"])


async def nonsense_is_an_error(make: Open, chat: str) -> None:
    """Check that invalid ids and numbers are the caller's error."""
    async with make() as store:
        await store.create_chat(chat_row(chat))
        for name in ("", "/a", "../a", "a/b", "a b", "a\n", "ü", "a" * 201, "a\0"):
            await raises(UsageError, store.append(name, [b"x"], after=0, at=1))
            await raises(UsageError, store.submit(name, b"x", at=1))
            await raises(UsageError, store.read(name))
            await raises(UsageError, store.trim(name, 0))
            await raises(UsageError, store.create_chat(chat_row(name)))
        nonsense: Any = [True, "1", None, 1.0, -1, 2**63]
        for number in nonsense:
            await raises(UsageError, store.append(chat, [b"x"], after=number, at=1))
            await raises(UsageError, store.append(chat, [b"x"], after=0, at=number))
            await raises(UsageError, store.read(chat, after=number))
            await raises(UsageError, store.read(chat, limit=0 if number is True else number))
            await raises(UsageError, store.trim(chat, number))
        entries: Any
        for entries in (b"ab", "ab", ["ab"], [b"a", None], [bytearray(b"a")]):
            await raises(UsageError, store.append(chat, entries, after=0, at=1))
        same("read after nothing but nonsense", await store.read(chat), ([], 0))
