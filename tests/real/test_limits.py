"""Limits of a run, with the real agents: a run that is not finished ends at the limit, whoever notices it first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from setups import Bench

from playing import play, started

from penstock.agents.registry import AGENTS
from penstock.errors import UsageError

LIMITS = {"max_turns": 1, "max_tokens": 1500, "max_cost": 0.0001}
"""Limits that a run of three model calls, each of 1000 tokens and more, passes before its last one."""
FREE = {"opencode", "kilo", "cline", "pi"}
"""Agents that know no price of the model of these tests, and report a cost of 0."""


@pytest.mark.parametrize("limit", LIMITS)
def test_a_run_ends_at_its_limit(at: Bench, limit: str) -> None:
    """The run is cancelled with the figure and the limit in its reason, or the limit is rejected before the start."""
    asked: dict[str, Any] = {limit: LIMITS[limit]}
    route = AGENTS[at.target.agent].routes[at.target.route]
    if limit not in route.features:
        with pytest.raises(UsageError, match="cannot be stopped at"):
            started(at, "scenario=tools please", **asked)
        return
    if limit == "max_cost" and at.target.agent in FREE:
        pytest.skip("the model costs nothing")
    at.server.close_gate()  # the model answers in the turn after the limit only once the agent has been cancelled
    ended = play(at, "scenario=gated please" if limit == "max_turns" else "scenario=tools please", **asked).result
    at.server.gate.set()
    assert (ended.outcome, ended.cause) == ("cancelled", "budget"), ended
    assert str(ended.reason).startswith("stopped: the run ")
    assert "the limit is" in str(ended.reason)
    if limit == "max_turns":
        assert not (at.folder / "notes.txt").exists(), "the second turn has called a tool"
