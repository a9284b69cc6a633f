"""Checks of what a store drops: entries that are trimmed, and turns that expire."""

from __future__ import annotations

from penstock.chat.store.conformance.promises import Open, chat_row, holds, raises, same, turn_row
from penstock.chat.store.protocol import Conflict, Submitted, Trimmed


async def trimmed_entries_are_gone(make: Open, chat: str) -> None:
    """Check that trimmed entries are gone, with their turns and keys; other numbers stay, and none is given twice."""
    async with make() as store:
        await store.create_chat(chat_row(chat))
        await store.submit(chat, b"1", at=1, key="k")
        data = [b"%d" % number for number in range(2, 11)]
        turns = [
            turn_row(1, first=1, last=4),
            turn_row(2, first=5, last=9),
            turn_row(3, first=10),
        ]
        await store.append(chat, data, after=1, at=1, turns=turns)
        for upto, first in ((0, 1), (4, 5), (2, 5), (4, 5), (5, 6)):
            await store.trim(chat, upto)
            for after in range(first - 1):
                trimmed = await raises(Trimmed, store.read(chat, after=after))
                same("the first number of a Trimmed", trimmed.first, first)
            await holds(store, chat, [b"%d" % number for number in range(first, 11)], after=first - 1)
            same("turns", await store.list_turns(chat, limit=9), turns[1 if first > 1 else 0 :])
        same("a key that was trimmed", await store.submit(chat, b"11", at=1, key="k"), Submitted(11, True))
        await store.trim(chat, 11)
        same("the first number where all is trimmed", (await raises(Trimmed, store.read(chat))).first, 12)
        same("read at the end where all is trimmed", await store.read(chat, after=11), ([], 11))
        same("turns that are not over", await store.list_turns(chat, limit=9), [turns[2]])
    async with make() as store:
        await raises(Conflict, store.append(chat, [b"anew"], after=0, at=1))
        same("append where all was trimmed", await store.append(chat, [b"12"], after=11, at=1), 12)
        await holds(store, chat, [b"12"], after=11)


async def old_turns_expire(make: Open, chat: str) -> None:
    """Check which turns expire: those that ended before a time, and the oldest if entries are too many.

    A turn that has not ended does not expire.
    """
    async with make() as store:
        await store.create_chat(chat_row(chat))
        for number in range(1, 6):
            turn = turn_row(number, first=number, last=number if number < 5 else 0, at=number * 10)
            await store.append(chat, [b"x" * 100], after=number - 1, at=number * 10, turns=[turn])
        found = [(await store.list_expired(before=at, max_bytes=None)).get(chat) for at in (10, 11, 30, 1000)]
        same("turns before a time", found, [None, 1, 2, 4])
        all_bytes = await store.list_expired(before=None, max_bytes=0)
        same("all turns that are over", all_bytes.get(chat), 4)
        same("nothing was dropped", len((await store.read(chat)).entries), 5)
        ended = turn_row(6, first=6, last=6, at=60)  # taken back while turn 5 runs
        await store.append(chat, [b"x"], after=5, at=60, turns=[ended])
        found = [(await store.list_expired(before=1000, max_bytes=None)).get(chat)]
        same("turns before one that has not ended", found, [4])
