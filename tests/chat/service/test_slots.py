"""Places for agents at work."""

from __future__ import annotations

import asyncio
import random

import pytest

from penstock.chat.service.slots import Slots


async def settle() -> None:
    """Let everybody do what can be done now."""
    for _ in range(10):
        await asyncio.sleep(0)


def test_in_the_order_of_asking() -> None:
    """No more than the limit are at work, and who asked first begins first."""

    async def scenario() -> None:
        slots, began, ends = Slots(2), list[int](), [asyncio.Event() for _ in range(5)]

        async def work(number: int) -> None:
            async with slots.take():
                began.append(number)
                await ends[number].wait()

        tasks = [asyncio.create_task(work(number)) for number in range(5)]
        await settle()
        assert began == [0, 1]
        ends[1].set()
        await settle()
        assert began == [0, 1, 2]
        for end in ends:
            end.set()
        await asyncio.gather(*tasks)
        assert (began, slots.used) == ([0, 1, 2, 3, 4], 0)

    asyncio.run(scenario())


def test_who_waits_for_a_person_holds_nobody_up() -> None:
    """Its place is another's until it goes on, which it does at once."""

    async def scenario() -> None:
        slots = Slots(1)
        async with slots.take() as first:
            places = [slots.take(), slots.take()]
            other = asyncio.create_task(places[0].__aenter__())
            await settle()
            assert not other.done()
            first.work(False)
            await settle()
            assert other.done()
            first.work(True)
            assert slots.used == 2
            third = asyncio.create_task(places[1].__aenter__())
            await settle()
            assert not third.done()
        await settle()
        assert not third.done()  # the other one is still at work
        await places[0].__aexit__(None, None, None)
        await settle()
        assert third.done()
        await places[1].__aexit__(None, None, None)
        assert slots.used == 0

    asyncio.run(scenario())


@pytest.mark.parametrize("seed", range(20))
def test_whatever_happens_none_is_lost(seed: int) -> None:
    """Cancelled while they wait, while they work, while they are asked: in the end all places are free."""

    async def scenario() -> None:
        chance, slots = random.Random(seed), Slots(3)
        at_work, most = set[int](), 0

        async def work(number: int) -> None:
            nonlocal most
            async with slots.take() as slot:
                at_work.add(number)
                most = max(most, len(at_work))
                try:
                    for _ in range(chance.randrange(4)):
                        await asyncio.sleep(0)
                finally:
                    at_work.discard(number)
                slot.work(chance.random() < 0.5)
                await asyncio.sleep(0)

        tasks = [asyncio.create_task(work(number)) for number in range(40)]
        for _ in range(60):
            await asyncio.sleep(0)
            if chance.random() < 0.3:
                chance.choice(tasks).cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert most <= 3
        assert slots.used == 0

    asyncio.run(scenario())
