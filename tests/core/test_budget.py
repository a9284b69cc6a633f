"""The reason of a run that was stopped at a limit."""

from __future__ import annotations

import pytest

from penstock.adapter import Limit
from penstock.core.budget import stop_reason


@pytest.mark.parametrize(
    ("limit", "reached", "most", "reason"),
    [
        ("max_cost", 0.31, 0.3, "stopped: the run cost $0.31, the limit is $0.30"),
        ("max_cost", 1.0, 1, "stopped: the run cost $1.00, the limit is $1.00"),
        ("max_cost", 0.3004, 0.3, "stopped: the run cost $0.3004, the limit is $0.3000"),
        ("max_cost", 0.02, 0.0125, "stopped: the run cost $0.0200, the limit is $0.0125"),
        ("max_cost", 0.5, 1 / 3, "stopped: the run cost $0.500000, the limit is $0.333333"),
        ("max_turns", 4, 3, "stopped: the run came to turn 4, the limit is 3"),
        ("max_tokens", 103_041, 100_000, "stopped: the run used 103,041 tokens, the limit is 100,000"),
    ],
)
def test_the_reason_has_the_figure_and_the_limit(limit: Limit, reached: float, most: float, reason: str) -> None:
    """An amount has as many digits as show that it is above the limit, and at least two."""
    assert stop_reason(limit, reached, most) == reason
