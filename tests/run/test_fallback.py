"""The choice of the agent after a failure: tables of single cases, and rules that hold for all sequences."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.events import Cause
from penstock.run.fallback import (
    FIRST_WAIT_MS,
    MAX_WAIT_MS,
    PASSING,
    PAST_RESET_MS,
    REPLACEABLE,
    SWITCHING,
    UNKNOWN_RESET_MS,
    Chain,
    NextStep,
    first_open,
    next_agent,
    replace_agent,
)

NOW = 1_800_000_000_000
CHAIN = Chain.of("claude", "codex", "gemini")


@pytest.mark.parametrize("cause", sorted(SWITCHING))
def test_another_agent_takes_over(cause: Cause) -> None:
    """A quota, a missing login and a missing model lead to the next agent."""
    chain, choice = next_agent(CHAIN, cause, None, NOW)
    assert (chain.current, choice) == ("codex", NextStep("use", "codex"))


@pytest.mark.parametrize("cause", [None, *sorted(set(get_args(Cause)) - SWITCHING - PASSING)])
def test_a_failure_of_the_run_changes_nothing(cause: Cause | None) -> None:
    """An agent that failed for another reason, or for an unknown one, is not replaced."""
    assert next_agent(CHAIN, cause, None, NOW) == (CHAIN, NextStep("failed", "claude"))


@pytest.mark.parametrize("cause", sorted(PASSING))
def test_a_passing_failure_is_retried(cause: Cause) -> None:
    """The same agent is used again, each time after twice the wait, up to a bound."""
    chain, waits = CHAIN, []
    for _ in range(9):
        chain, choice = next_agent(chain, cause, None, NOW)
        assert (choice.action, choice.agent) == ("retry", "claude")
        waits.append((choice.at or 0) - NOW)
    assert waits[:3] == [FIRST_WAIT_MS, 2 * FIRST_WAIT_MS, 4 * FIRST_WAIT_MS]
    assert waits[-1] == MAX_WAIT_MS


@pytest.mark.parametrize("cause", [None, *sorted(REPLACEABLE)])
def test_an_agent_that_has_tried_again_is_replaced(cause: Cause | None) -> None:
    """A passing failure is not retried there; only a missing login or model closes the agent for good."""
    chain, choice = replace_agent(CHAIN, cause, None, NOW)
    assert (chain.current, choice) == ("codex", NextStep("use", "codex"))
    assert (chain.closed["claude"] is None) == (cause in ("auth", "missing"))


def test_a_known_reset_is_waited_for() -> None:
    """A rate limit that names its reset is not retried earlier."""
    _, choice = next_agent(CHAIN, "rate_limit", NOW + 60_000, NOW)
    assert choice == NextStep("retry", "claude", NOW + 60_000)


def test_a_retry_is_never_later_than_its_bound() -> None:
    """A rate limit whose reset is hours away is retried after minutes: it is no usage limit, which --wait bounds."""
    _, choice = next_agent(CHAIN, "rate_limit", NOW + 10**8, NOW)
    assert choice == NextStep("retry", "claude", NOW + MAX_WAIT_MS)


@pytest.mark.parametrize("reset", [NOW, NOW - 10**9, 0])
def test_a_reset_that_has_passed_closes_the_agent(reset: int) -> None:
    """An agent at its usage limit whose reset has passed is not started again at once."""
    chain, choice = next_agent(Chain.of("claude"), "usage_limit", reset, NOW)
    assert choice == NextStep("wait", "claude", NOW + PAST_RESET_MS)
    assert chain.closed == {"claude": NOW + PAST_RESET_MS}


def test_all_are_at_their_limits() -> None:
    """When nobody is left, the first to reset is named; those without a login never open."""
    chain, _ = next_agent(CHAIN, "usage_limit", NOW + 9_000, NOW)
    chain, _ = next_agent(chain, "auth", None, NOW)
    chain, choice = next_agent(chain, "usage_limit", NOW + 5_000, NOW)
    assert choice == NextStep("wait", "gemini", NOW + 5_000)
    _, choice = first_open(chain, NOW + 9_000)
    assert choice == NextStep("use", "claude")


def test_nobody_can_be_used() -> None:
    """If none will ever open, nothing is waited for."""
    chain = Chain.of("claude")
    assert next_agent(chain, "auth", None, NOW)[1] == NextStep("none")


def test_an_unknown_reset_is_tried_in_an_hour() -> None:
    """A quota without a time closes its agent for an hour."""
    chain, _ = next_agent(Chain.of("claude"), "usage_limit", None, NOW)
    assert chain.closed == {"claude": NOW + UNKNOWN_RESET_MS}


@given(
    st.lists(
        st.tuples(
            st.sampled_from([None, *get_args(Cause)]),
            st.none() | st.integers(0, 10**7),
            st.integers(0, 10**7),
        ),
        max_size=30,
    )
)
def test_rules_of_all_sequences(failures: list[tuple[Cause | None, int | None, int]]) -> None:
    """A closed agent is never used, the most preferred open one always is, and a wait is never in the past."""
    chain, now = CHAIN, NOW
    for cause, reset, passed in failures:
        now += passed
        chain, choice = next_agent(chain, cause, None if reset is None else now + reset, now)
        still_closed = {agent for agent, until in chain.closed.items() if until is None or until > now}
        if choice.action == "use":
            assert choice.agent == next(agent for agent in chain.agents if agent not in still_closed)
            assert chain.current == choice.agent
        elif choice.action in ("wait", "none"):
            assert still_closed == set(chain.agents)
            assert choice.action == "none" or (choice.at is not None and choice.at > now)
        else:
            assert choice.agent == chain.current
