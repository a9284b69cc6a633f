"""The permit of a request: where it holds, and where it does not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

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


def test_items_that_are_read_later_are_read_under_the_permit() -> None:
    """A response reads on after its request was handled: each item is checked, and the end of a right ends them."""
    rights = [True]

    def permit() -> Reader:
        return Reader("ana") if rights[0] else ended()

    async def numbers() -> AsyncIterator[int]:
        for number in range(2):
            assert permits.current() is permit
            yield number

    async def check() -> None:
        with permits.acting(permit):
            whole, cut = permits.each(numbers()), permits.each(numbers())
        assert [number async for number in whole] == [0, 1]
        assert await anext(cut) == 0
        assert permits.current() is None
        rights[0] = False
        with pytest.raises(UsageError, match="the right ended"):
            await anext(cut)

    asyncio.run(check())
