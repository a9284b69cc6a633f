"""Next step after a failure of an agent: again the same one, the next of a chain, later, or none. Pure rules.

A limit that resets closes an agent until then, and the chain goes back to an earlier agent once that is open again.
A passing failure is retried with the same agent, after minutes at most. Everything else is the run's own failure and
never changes the agent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from penstock.events import Cause

SWITCHING: frozenset[Cause] = frozenset({"usage_limit", "auth", "missing"})
"""Causes after which another agent may succeed."""

PASSING: frozenset[Cause] = frozenset({"rate_limit", "overloaded", "network", "provider"})
"""Causes that end by themselves soon."""

REPLACEABLE: frozenset[Cause] = SWITCHING | PASSING
"""Causes after which another agent, with another provider, may succeed at once."""

FIRST_WAIT_MS = 5_000
"""Milliseconds before the first retry; each further one waits twice as long."""

MAX_WAIT_MS = 300_000
"""Maximum milliseconds between two retries."""

UNKNOWN_RESET_MS = 3_600_000
"""Milliseconds for which an agent is closed if the time at which its limit resets is unknown."""


PAST_RESET_MS = 60_000
"""Milliseconds for which an agent is closed if it reports a reset in the past: its clock may differ from this one, and
without a pause it would be started again and again."""


class Chain(msgspec.Struct, frozen=True):
    """Agents in the order of preference, with what is known about each."""

    agents: tuple[str, ...]
    current: str
    closed: Mapping[str, int | None] = {}
    """Agents that cannot be used, with the time in milliseconds since 1970 from which they can be; None: never."""
    retries: int = 0
    """Retries of the current agent in a row."""

    @classmethod
    def of(cls, *agents: str) -> Chain:
        """Return a chain that begins with its first agent."""
        return cls(agents, agents[0])


class NextStep(msgspec.Struct, frozen=True):
    """Next step after a failure.

    `use`: run `agent`; `retry`: run the same one again, not before `at`; `wait`: all are closed, and `agent` is the
    first to open, at `at`; `none`: no agent can be used any more; `failed`: the run failed for a reason of its own.
    """

    action: Literal["use", "retry", "wait", "none", "failed"]
    agent: str = ""
    at: int | None = None
    """Earliest time, in milliseconds since 1970."""


def next_agent(chain: Chain, cause: Cause | None, resets_at: int | None, now: int) -> tuple[Chain, NextStep]:
    """Return the chain after a failure of its current agent, and what to do.

    Args:
        chain: the chain at the time of the failure.
        cause: cause of the failure; None if unknown.
        resets_at: time at which the limit resets, in milliseconds since 1970; None if unknown.
        now: the time, in milliseconds since 1970.
    """
    if cause in PASSING:
        at = now + wait_ms(chain.retries, resets_at, now)
        return msgspec.structs.replace(chain, retries=chain.retries + 1), NextStep("retry", chain.current, at)
    if cause not in SWITCHING:
        return chain, NextStep("failed", chain.current)
    until = _open_from(resets_at, now) if cause == "usage_limit" else None
    return _choose({**chain.closed, chain.current: until}, chain, now)


def wait_ms(retries: int, resets_at: int | None, now: int) -> int:
    """Return the milliseconds before the next retry, after this number of retries in a row."""
    wait = min(FIRST_WAIT_MS << min(retries, 10), MAX_WAIT_MS)
    return max(wait, min((resets_at or 0) - now, MAX_WAIT_MS))


def replace_agent(chain: Chain, cause: Cause | None, resets_at: int | None, now: int) -> tuple[Chain, NextStep]:
    """Return the chain without its current agent, and what to do: `use` another one now, `wait` or `none`.

    For a run whose agent has tried again by itself, so that the cause may be a passing one. Arguments as `next_agent`.
    """
    until = None if cause in ("auth", "missing") else _open_from(resets_at, now)
    return _choose({**chain.closed, chain.current: until}, chain, now)


def _open_from(resets_at: int | None, now: int) -> int:
    """Return the time, after now, at which the usage limit of an agent resets."""
    if resets_at is None:
        return now + UNKNOWN_RESET_MS
    return resets_at if resets_at > now else now + PAST_RESET_MS


def first_open(chain: Chain, now: int) -> tuple[Chain, NextStep]:
    """Return the choice before a run that follows a good one: an earlier agent whose limit has reset is used again."""
    return _choose(chain.closed, chain, now)


def _choose(closed: Mapping[str, int | None], chain: Chain, now: int) -> tuple[Chain, NextStep]:
    still = {agent: until for agent, until in closed.items() if until is None or until > now}
    for agent in chain.agents:
        if agent not in still:
            return Chain(chain.agents, agent, still), NextStep("use", agent)
    opening = [(until, agent) for agent, until in still.items() if until is not None and agent in chain.agents]
    chain = msgspec.structs.replace(chain, closed=still, retries=0)
    if not opening:
        return chain, NextStep("none")
    until, agent = min(opening)
    return chain, NextStep("wait", agent, until)
