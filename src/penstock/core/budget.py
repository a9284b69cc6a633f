"""Reason why a run was stopped at a limit that the user set. Pure."""

from __future__ import annotations

from penstock.adapter import Limit

MAX_COST_DIGITS = 6
"""Maximum number of decimal places of an amount in US dollars: every call costs more than a millionth."""


def stop_reason(limit: Limit, reached: float, most: float) -> str:
    """Return why a run was stopped at a limit: the figure that it reached, and the limit."""
    if limit == "max_cost":
        digits = next((n for n in range(2, MAX_COST_DIGITS) if _shows(reached, most, n)), MAX_COST_DIGITS)
        return f"stopped: the run cost ${reached:.{digits}f}, the limit is ${most:.{digits}f}"
    if limit == "max_turns":
        return f"stopped: the run came to turn {reached:,}, the limit is {most:,}"
    return f"stopped: the run used {reached:,} tokens, the limit is {most:,}"


def _shows(reached: float, most: float, digits: int) -> bool:
    """Return whether `digits` decimal places show the limit exactly, and show a difference from it if there is one."""
    return round(most, digits) == most and (round(reached, digits) != most or reached == most)
