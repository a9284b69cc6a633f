"""A process that claims chats and appends to them until it is killed; it prints each entry once it is acknowledged."""

from __future__ import annotations

import asyncio
import random
import sys
import uuid

from penstock.chat.store.postgres.store import PostgresStore
from penstock.chat.store.protocol import Claimed, Conflict, Fenced, LeaseLost

TTL = "1 second"
BEAT_SECONDS = 0.2
EACH = 15
"""Entries of one claim."""

BEAT = f"""INSERT INTO nodes (id, incarnation, seen, ttl) VALUES (%(id)s, %(incarnation)s, clock_timestamp(), '{TTL}')
    ON CONFLICT (id) DO UPDATE SET incarnation = excluded.incarnation, seen = excluded.seen"""


async def keep_lease(store: PostgresStore, node: str, incarnation: uuid.UUID) -> None:
    """Renew the lease of this process."""
    while True:
        await store.database.fetch(BEAT, {"id": node, "incarnation": incarnation})
        await asyncio.sleep(BEAT_SECONDS)


async def work(store: PostgresStore, node: str, incarnation: uuid.UUID, chats: list[str]) -> None:
    """Claim one chat after the other, and append some entries under the claim."""
    count = 0
    while True:
        chat = random.choice(chats)
        try:
            epoch = await store.claim(chat, node, incarnation=incarnation)
            last = (await store.summary(chat, limit=1)).last
            for _ in range(random.randint(1, EACH)):
                count += 1
                data = f"{node} {incarnation} {epoch} {count}"
                last = await store.append(chat, [data.encode()], after=last, at=1, epoch=epoch)
                print(chat, last, data, flush=True)  # noqa: T201
            await store.release(chat, epoch)
        except (Claimed, Conflict, Fenced, LeaseLost):
            await asyncio.sleep(0.01)


async def main(url: str, node: str, chats: list[str]) -> None:
    """Work with several tasks at once, so that appends are grouped."""
    incarnation = uuid.uuid4()
    async with await PostgresStore.open(url) as store:
        await store.database.fetch(BEAT, {"id": node, "incarnation": incarnation})
        await asyncio.gather(
            keep_lease(store, node, incarnation), *(work(store, node, incarnation, chats) for _ in range(3))
        )


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
