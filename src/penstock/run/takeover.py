"""Fallback of a run, for the command line and for Python: another agent takes over if one cannot work."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from penstock.errors import AgentNotFound
from penstock.events import Cause, RunEnded
from penstock.run.fallback import REPLACEABLE, Chain, replace_agent

_WHY: dict[Cause | None, str] = {
    "usage_limit": "has reached its usage limit",
    "auth": "is not logged in",
    "missing": "has no such model, or is not installed",
    "rate_limit": "has made too many requests for the moment",
    "overloaded": "has an overloaded provider",
    "network": "cannot reach its provider",
    "provider": "has a provider that fails",
    None: "has not answered in time",
}

AnyRun = TypeVar("AnyRun")
"""Type of the runs."""


class Takeover(Generic[AnyRun]):
    """Agents that take over, one after the other.

    Args:
        first: name of the agent that begins.
        agents: names of the agents that may take over, in this order.
        make: returns the run of the agent of a name, with its number in the output; AgentNotFound if the agent is not
            installed.
        notify: gets one line for the user at each change.
    """

    def __init__(
        self, first: str, agents: Sequence[str], make: Callable[[str, int], AnyRun], notify: Callable[[str], None]
    ) -> None:
        self.exhausted: bool = False
        """True if all agents have been tried, and the last one is at its limit as well."""
        self._make = make
        self._notify = notify
        self._chain = Chain.of(first, *agents) if agents else None
        self._number = 1

    def run_instead(self, error: AgentNotFound) -> AnyRun:
        """Return the run of the next agent for one that is not installed.

        Raises:
            AgentNotFound: none of the agents is installed.
        """
        run = self._switch("missing", None, error.what)
        if run is None:
            raise error
        return run

    def run_after(self, ended: RunEnded, label: str, *, called_tools: bool) -> AnyRun | None:
        """Return the run after one that has ended; None if it was the last one."""
        # At a time limit an agent that has said nothing has most likely waited for its provider.
        is_silent = ended.outcome == "timed_out" and not ended.rounds
        if self._chain is None or not (is_silent or ended.cause in REPLACEABLE):
            return None
        why = f"{label} {_WHY.get(ended.cause, _WHY[None])}"
        if ended.resets_at is not None:
            why += time.strftime(" (it resets at %H:%M on %Y-%m-%d)", time.localtime(ended.resets_at / 1000))
        if called_tools:
            self._notify(f"{why}; no other agent takes over, because it had begun to work: see what it has changed")
            return None
        run = self._switch(ended.cause, ended.resets_at, why)
        if run is None:
            self.exhausted = ended.cause == "usage_limit"
            self._notify(f"{why}, and there is no other agent to take over")
        return run

    def _switch(self, cause: Cause | None, resets_at: int | None, why: str) -> AnyRun | None:
        """Return the run of the next agent that is installed."""
        while self._chain is not None:
            self._chain, choice = replace_agent(self._chain, cause, resets_at, time.time_ns() // 1_000_000)
            if choice.action != "use":
                return None
            try:
                run = self._make(choice.agent, self._number + 1)
            except AgentNotFound as error:
                self._notify(str(error))
                cause, resets_at = "missing", None
                continue
            self._number += 1
            self._notify(f"{why}; {choice.agent} takes over")
            return run
        return None
