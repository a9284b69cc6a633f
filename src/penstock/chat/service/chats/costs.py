"""What turns have cost, by day, agent, chat or person: the sums of the store, with names for people."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time, timedelta

import msgspec

from penstock.chat.store.costs import MAX_DAYS as MAX_DAYS
from penstock.chat.store.costs import CostGroup, CostSum
from penstock.chat.store.protocol import ChatStore
from penstock.chat.store.search import Reader

MOST_SUMS = 100
"""Number of sums of one answer. Days are bounded by themselves."""


class CostOfTurns(msgspec.Struct, frozen=True):
    """What the turns of one day, agent, chat or person have cost."""

    name: str
    """Day as `2026-01-31`, name of the agent or person, or id of the chat."""
    title: str | None
    """Title of the chat; null for another kind of sum, and for a chat that the person does not see."""
    turns: int
    cost_usd: float | None
    """US dollars of the turns whose agents reported a cost; null if none did."""
    turns_without_cost: int
    input_tokens: int
    output_tokens: int


class Costs(msgspec.Struct, frozen=True):
    """What turns have cost that ended in the last days, by the clock and the time zone of the server."""

    by: CostGroup
    days: int
    sums: list[CostOfTurns]
    """Days, the newest first; or the sums with the highest costs first."""
    complete: bool
    """False if there are more sums."""


async def costs_of(
    store: ChatStore,
    by: CostGroup,
    days: int,
    reader: Reader,
    now: int,
    title_of: Callable[[str], str | None],
) -> Costs:
    """Return what turns have cost in the last `days`, up to the time `now` in milliseconds since 1970.

    Raises:
        StoreFailed: the store cannot be read.
    """
    begins = beginnings(now, days)
    most = MAX_DAYS if by == "day" else MOST_SUMS
    found = await store.costs(by, [*begins], reader, limit=most + 1)
    return Costs(by, days, [_shown(it, by, begins, title_of) for it in found[:most]], len(found) <= most)


def beginnings(now: int, days: int) -> dict[int, str]:
    """Return the beginnings of the last days in milliseconds since 1970, with their dates, in this machine's zone."""
    today = datetime.fromtimestamp(now / 1000).date()
    dates: list[date] = [today - timedelta(before) for before in reversed(range(days))]
    return {round(datetime.combine(it, time()).timestamp() * 1000): it.isoformat() for it in dates}


def _shown(found: CostSum, by: CostGroup, days: dict[int, str], title_of: Callable[[str], str | None]) -> CostOfTurns:
    has_cost = found.turns > found.turns_without_cost
    return CostOfTurns(
        days[int(found.name)] if by == "day" else found.name,
        title_of(found.name) if by == "chat" else None,
        found.turns,
        found.cost_usd if has_cost else None,
        found.turns_without_cost,
        found.input_tokens,
        found.output_tokens,
    )
