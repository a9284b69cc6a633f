"""Reason of a run that was stopped at a limit of the user. Pure."""

from __future__ import annotations

from penstock.adapter import Limit

MAX_COST_DIGITS = 6
"""Digits after the point of an amount in US dollars, at most: a millionth is less than any call costs."""


def stop_reason(limit: Limit, reached: float, most: float) -> str:
    """Return why a run was stopped at a limit: the figure that it reached, and the limit."""
    if limit == "max_cost":
        digits = next((n for n in range(2, MAX_COST_DIGITS) if _shows(reached, most, n)), MAX_COST_DIGITS)
        return f"stopped: the run cost ${reached:.{digits}f}, the limit is ${most:.{digits}f}"
    if limit == "max_turns":
        return f"stopped: the run came to turn {reached:,}, the limit is {most:,}"
    return f"stopped: the run used {reached:,} tokens, the limit is {most:,}"


def _shows(reached: float, most: float, digits: int) -> bool:
    """Return whether so many digits show the limit as it is, and the figure as different from it if it is."""
    return round(most, digits) == most and (round(reached, digits) != most or reached == most)
