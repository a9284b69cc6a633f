"""Checks of the store as a whole: its own check, and what the next store of a file or database has."""

from __future__ import annotations

from penstock.chat.store.conformance.promises import Open, chat_row, holds, raises, require, same
from penstock.chat.store.protocol import Conflict, StoreClosed, StoreFailed, Trimmed


async def a_check_changes_nothing(make: Open, chat: str) -> None:
    """Check that a working store passes its check, which ends a noted failure and leaves no trace."""
    async with make() as store:
        await store.create_chat(chat_row(chat))
        await store.append(chat, [b"1"], after=0, at=1)
        require(store.has_space(), "a store that works has space")
        same("the failure of a store that works", store.state.failure, None)
        store.state.failed(StoreFailed("a failure"))
        await store.check()
        same("the failure of a store that was checked", store.state.failure, None)
        await holds(store, chat, [b"1"])


async def a_new_store_has_all(make: Open, chat: str) -> None:
    """Check that the next store has everything acknowledged by a closed one, and a closed one cannot be used."""
    async with make() as store:
        await store.create_chat(chat_row(chat))
        await store.append(chat, [b"1", b"2", b"3"], after=0, at=1)
        await store.trim(chat, 1)
        subscription = store.subscribe()
    await raises(StoreClosed, store.read(chat))
    await raises(StoreClosed, store.append(chat, [b"x"], after=3, at=1))
    await raises(StoreClosed, subscription.next())
    async with make() as store:
        same("Trimmed after opening again", (await raises(Trimmed, store.read(chat))).first, 2)
        await raises(Conflict, store.append(chat, [b"stale"], after=0, at=1))
        await store.append(chat, [b"4"], after=3, at=1)
        await holds(store, chat, [b"2", b"3", b"4"], after=1)
