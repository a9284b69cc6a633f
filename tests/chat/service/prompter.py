"""A Penstock of chats without a gateway: it prompts and tells what was acknowledged, until somebody kills it.

prompter.py STORE DIRECTORY CONFIGURATION ROUND
"""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path

from penstock.chat.errors import TooMany
from penstock.chat.service.service import Service
from penstock.chat.store.sqlite import SqliteStore
from penstock.config import settings as config

CHATS = 3


def tell(*words: object) -> None:
    """A line to whoever started this."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


async def main(path: str, work: str, file: str, name: str) -> None:
    """Prompt on and on."""
    chance = random.Random(name)
    async with await SqliteStore.open(path) as store:
        settings = config.load({"PENSTOCK_CONFIG": file, "PENSTOCK_SANDBOX": "off"})
        service = await Service.open(store, roots=[Path(work)], config=settings, default_agent="scripted")
        await service.places.trust(work)
        while len(service.chat_list.all()) < CHATS:
            tell("made", (await service.create()).id)
        number = 0
        while True:
            number += 1
            id, text = chance.choice(service.chat_list.all()).id, f"round {name} prompt {number}"
            try:
                turn, _ = await service.prompt(id, text, key=text)
                tell("asked", id, turn, text)
            except TooMany:
                pass
            if chance.random() < 0.1:
                await service.stop(id)
            await asyncio.sleep(chance.uniform(0, 0.1))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
