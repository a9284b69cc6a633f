"""Checks of claims: who may append to a chat."""

from __future__ import annotations

from penstock.chat.store.conformance.promises import Open, chat_row, holds, raises, require, same
from penstock.chat.store.protocol import Fenced


async def older_epochs_are_fenced(make: Open, chat: str) -> None:
    """Check that each claim is newer than the one before, and that an earlier claimant can no longer append."""
    async with make() as store:
        await store.create_chat(chat_row(chat))
        first = await store.claim(chat, "one")
        last = await store.append(chat, [b"1"], after=0, at=1, epoch=first)
        second = await store.claim(chat, "two")
        require(second > first, f"the epoch {second} is not newer than {first}")
        fenced = await raises(Fenced, store.append(chat, [b"stale"], after=last, at=1, epoch=first))
        same("the epoch of a Fenced", fenced.epoch, second)
        await store.append(chat, [b"2"], after=last, at=1, epoch=second)
        await store.append(chat, [b"3"], after=last + 1, at=1)
    async with make() as store:
        await raises(Fenced, store.append(chat, [b"stale"], after=3, at=1, epoch=first))
        require(await store.claim(chat, "one") > second, "an epoch came again after the store was opened anew")
        await holds(store, chat, [b"1", b"2", b"3"])


async def claims_are_released(make: Open, chat: str) -> None:
    """Check that a claim can be released, that appends continue after it, and that an older epoch releases nothing."""
    async with make() as store:
        await store.create_chat(chat_row(chat))
        first = await store.claim(chat, "one")
        await store.release(chat, first)
        await store.append(chat, [b"1"], after=0, at=1, epoch=first)
        second = await store.claim(chat, "two")
        await store.release(chat, first)
        await store.append(chat, [b"2"], after=1, at=1, epoch=second)
        await store.release(chat, second)
        await store.release(chat, second)
        await raises(Fenced, store.append(chat, [b"stale"], after=2, at=1, epoch=first))
        await holds(store, chat, [b"1", b"2"])
