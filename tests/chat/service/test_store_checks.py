"""A store that fails is checked until it works again, and a disk that becomes full is noticed, without any request."""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING

import pytest
from waiting import until_true

from penstock.chat.service import store_checks
from penstock.chat.service.store_checks import check_again
from penstock.chat.store import sqlite
from penstock.chat.store.protocol import StoreFailed

if TYPE_CHECKING:
    from chat.service.conftest import Home


def test_the_state_of_a_store_is_noticed_without_a_request(
    home: Home, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Recovery after a failed request, a disk that becomes full while nothing is written, and space on it again."""
    monkeypatch.setattr(store_checks, "CHECK_SECONDS", 0.001)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def use() -> None:
        async with home.store() as store:
            checks = asyncio.create_task(check_again(store))
            await asyncio.sleep(0)
            store.state.failed(StoreFailed("the disk was away"))
            await until_true(lambda: store.state.failure is None)
            with monkeypatch.context() as patched:
                patched.setattr(sqlite, "free_bytes", lambda _: 0)
                patched.setattr(sqlite, "write_scratch", full)
                await until_true(lambda: store.state.failure is not None)
            await until_true(lambda: store.state.failure is None)
            store.state.failed(StoreFailed("the disk is away"))
        await asyncio.wait_for(checks, 60)  # a closed store is checked no more

    asyncio.run(use())
    words = [record.message.partition(",")[0].partition(":")[0] for record in caplog.records]
    assert words == ["nothing can be kept", "the store works again"] * 2 + ["nothing can be kept"]
