"""As many chats as there may be: the list stays fast, and one more is rejected in words that name the option."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import msgspec
import pytest

from penstock.chat.errors import TooMany
from penstock.chat.service.limits import ServiceLimits
from penstock.chat.store.rows import ChatRow

if TYPE_CHECKING:
    from chat.service.conftest import Home

pytestmark = pytest.mark.slow

START_SECONDS, LIST_SECONDS = 60.0, 10.0
"""Many times what it takes on a small machine (1.2 s and 16 ms), and far from what a cost that grows faster takes."""


def test_a_list_of_all_chats_is_fast(home: Home) -> None:
    """A start and a list with as many chats as there may be by default."""
    most = ServiceLimits().max_chats

    async def chat() -> None:
        async with home.store() as store:
            rows = [ChatRow(f"{n:032x}", "scripted", str(home.work), n, title=f"Chat {n}") for n in range(most)]
            await asyncio.gather(*(store.create_chat(row) for row in rows))
            began = time.monotonic()
            service = await home.open(store)
            assert time.monotonic() - began < START_SECONDS
            try:
                began = time.monotonic()
                listed = msgspec.json.encode(service.chat_list.all())
                assert time.monotonic() - began < LIST_SECONDS
                assert listed.count(b'"title"') == most
                asked: list[str] = []
                page, _ = service.chat_list.page(lambda row: not asked.append(row.id), limit=200)  # type: ignore[func-returns-value]
                assert len(page) == 200
                assert len(asked) == 201, "a page walks what is in it, not all chats"
                with pytest.raises(TooMany, match=rf"there are {most:,} chats already; .*--max-chats"):
                    await service.create()
            finally:
                await service.close()

    asyncio.run(chat())
