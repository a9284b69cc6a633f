"""Chats are found by their prompts."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from penstock.chat.errors import Invalid
from penstock.chat.service.chats import search
from penstock.chat.service.chats.search import MAX_WORDS_CHARS

if TYPE_CHECKING:
    from chat.service.conftest import Home


def test_chats_are_found_by_words_of_their_prompts(home: Home) -> None:
    """Of any turn, also one that waits, whatever the case and the line breaks; the one used last comes first."""

    async def use() -> None:
        async with home.service() as service:
            ids = [(await service.create(agent="scripted")).id for _ in range(3)]
            await service.prompt(ids[0], "x" * 80 + " the NEEDLE\n  in Straße")
            await home.settled(service, ids[0])
            await service.prompt(ids[0], "later")
            await home.settled(service, ids[0])
            await service.prompt(ids[2], "a needle in it, 100% _sure_")
            assert await service.find("needle in") == ([ids[2], ids[0]], True)
            assert await service.find("needle in STRASSE") == ([ids[0]], True)
            assert await service.find("100%") == ([ids[2]], True)
            assert await service.find("_") == ([ids[2]], True)
            assert await service.find("nothing of it") == ([], True)
            await home.settled(service, ids[2])
            for wrong in ("", "  \n", "x" * (MAX_WORDS_CHARS + 1)):
                with pytest.raises(Invalid):
                    await service.find(wrong)

    asyncio.run(use())


def test_a_search_is_bounded(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends with so many chats, or after so long, and says that it did not look at all."""

    async def use() -> None:
        async with home.service() as service:
            for _ in range(4):
                made = await service.create(agent="scripted")
                await service.prompt(made.id, "needle")
                await home.settled(service, made.id)
            monkeypatch.setattr(search, "MAX_FOUND", 2)
            found, complete = await service.find("needle")
            assert (len(found), complete) == (2, False)
            monkeypatch.setattr(search, "SECONDS", 0.0)
            assert (await service.find("needle"))[1] is False

    asyncio.run(use())
