"""The permit of a request: where it holds, and where it does not."""

from __future__ import annotations

import asyncio

import pytest

from penstock.chat.store import permits
from penstock.chat.store.search import Reader
from penstock.errors import UsageError


def ended() -> Reader:
    """A right that has ended."""
    raise UsageError("the right ended")


def test_a_permit_holds_for_its_request() -> None:
    """It is checked inside its context, also in tasks that begin there, unless they are Penstock's own work."""

    async def work() -> bool:
        return permits.current() is not None

    async def check() -> None:
        permits.check()
        with permits.acting(ended):
            with pytest.raises(UsageError, match="the right ended"):
                permits.check()
            assert await asyncio.create_task(work())
            assert not await asyncio.create_task(work(), context=permits.outside())
            with permits.acting(None):
                permits.check()
            assert permits.current() is ended
        assert permits.current() is None

    asyncio.run(check())


def test_a_check_with_a_right_that_holds() -> None:
    """It does nothing."""
    with permits.acting(lambda: Reader("ana")):
        permits.check()
