"""Checks of many callers at once: writers, subscribers, and appends that are cancelled."""

from __future__ import annotations

import asyncio

from penstock.chat.store.conformance.promises import Open, chat_row, holds, require, same, soon
from penstock.chat.store.protocol import Conflict
from penstock.chat.store.rows import ChatChanges

WRITERS, EACH = 4, 15


async def writers_race(make: Open, chat: str) -> None:
    """Check that one of several writers at one number wins, and each acknowledged entry has its place, once."""
    async with make() as store:
        await store.create_chat(chat_row(chat))
        kept: dict[int, bytes] = {}

        async def write(who: int) -> None:
            for turn in range(EACH):
                data, after = b"%d %d" % (who, turn), 0
                while True:
                    try:
                        if who % 2:
                            number = await store.append(chat, [data], after=after, at=1)
                        else:
                            number = (await store.submit(chat, data, after=after, at=1)).number
                    except Conflict as stale:
                        after = stale.last
                        continue
                    require(number == after + 1 and number not in kept, f"number {number} was given twice")
                    kept[number] = data
                    break

        await asyncio.gather(*map(write, range(WRITERS)))
        await holds(store, chat, [kept[number] for number in sorted(kept)])
        same("the entries that were acknowledged", len(kept), WRITERS * EACH)


async def subscribers_miss_nothing(make: Open, chat: str) -> None:
    """Check that reading to the end at each notification gives all entries in order, once."""
    async with make() as store:
        total = 5 * EACH
        await store.create_chat(chat_row(chat))
        await store.append(chat, [b"1"], after=0, at=1)

        async def follow(after: int) -> None:
            subscription = store.subscribe()
            try:
                while True:
                    while page := (await store.read(chat, after=after, limit=1 + after % 5)).entries:
                        for entry in page:
                            after += 1
                            same("the next entry", (entry.number, entry.data), (after, b"%d" % after))
                    if after == total:
                        return
                    while True:
                        news = await subscription.next()
                        if news.all or news.chats.get(chat, 0) > after:
                            break
            finally:
                subscription.close()

        async def write() -> None:
            last = 1
            while last < total - 1:
                await asyncio.sleep(0)
                count = min(1 + last % 3, total - 1 - last)
                entries = [b"%d" % number for number in range(last + 1, last + count + 1)]
                last = await store.append(chat, entries, after=last, at=1)
            await asyncio.sleep(0.1)  # so that all have read the rest, and wait for a notification
            await store.submit(chat, b"%d" % total, at=1)

        await soon(asyncio.gather(write(), follow(0), follow(0), follow(1)), "the news of the last entry")


async def subscribers_are_notified_of_rows(make: Open, chat: str) -> None:
    """Check that a subscriber is notified of each chat whose row is created, replaced or deleted, and of no other."""
    async with make() as store:
        await store.create_chat(chat_row(f"{chat}-other"))
        subscription = store.subscribe()

        async def notified(id: str) -> None:
            while True:
                news = await subscription.next()
                require(id == chat or chat not in news.changed, "a chat changed without a request")
                if id in news.changed:
                    return

        await store.append(chat + "-other", [b"1"], after=0, at=1, changes=ChatChanges(title="new"))
        await soon(notified(f"{chat}-other"), "the news of a row that was replaced with an append")
        await store.create_chat(chat_row(chat))
        await soon(notified(chat), "the news of a new chat")
        await store.update_chat(chat, ChatChanges(title="new"))
        await soon(notified(chat), "the news of a replaced row")
        await store.delete_chat(chat)
        await soon(notified(chat), "the news of a deleted chat")
        subscription.close()


async def cancelled_appends_are_whole(make: Open, chat: str) -> None:
    """Check that a cancelled append is made as a whole or not at all; the next continues at the chat's end."""
    async with make() as store:
        await store.create_chat(chat_row(chat))
        kept: list[bytes] = []
        for turn in range(EACH):
            entries = [b"%d %d" % (turn, number) for number in range(3)]
            task = asyncio.ensure_future(store.append(chat, entries, after=len(kept), at=1))
            for _ in range(turn % 5):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            try:
                await store.append(chat, entries, after=len(kept), at=1)
            except Conflict as made:
                same("the last number after a cancelled append", made.last, len(kept) + len(entries))
            kept += entries
        await holds(store, chat, kept)
