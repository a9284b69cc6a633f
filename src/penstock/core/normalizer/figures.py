"""Figures of an agent that are believed: it may print any number, and budgets and sums must hold nevertheless."""

from __future__ import annotations

import msgspec

from penstock.events import Usage
from penstock.updates import Result

MAX_TOKENS = 2**40
"""Tokens that are believed of one report: far more than any run uses, and few enough for sums of 64 bits."""

MAX_COST_USD = 1e9
"""US dollars that are believed of one report."""


def believed(usage: Usage) -> Usage:
    """Return the figures of a usage that can be true. The others are unknown."""
    wrong = {name: None for name in Usage.__struct_fields__ if not _can_be(name, getattr(usage, name))}
    return msgspec.structs.replace(usage, **wrong) if wrong else usage


def believed_totals(result: Result) -> Result:
    """Return a result whose totals can be true. A negative cost, for one, would raise the budget of a chat."""
    usage = believed(result.usage) if result.usage is not None else None
    cost = result.cost_usd if _can_be("cost_usd", result.cost_usd) else None
    if usage is result.usage and cost is result.cost_usd:
        return result
    return msgspec.structs.replace(result, usage=None if usage == Usage() else usage, cost_usd=cost)


def _can_be(name: str, value: float | None) -> bool:
    return value is None or 0 <= value <= (MAX_COST_USD if name == "cost_usd" else MAX_TOKENS)
