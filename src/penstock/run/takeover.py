"""Fallback of a run, for the command line and for Python: another agent takes over if one cannot work."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import Generic, TypeVar, get_args

from penstock.config.rules import Rule, check
from penstock.errors import AgentNotFound
from penstock.events import Cause, RunEnded
from penstock.run.fallback import REPLACEABLE, Chain, replace_agent

TIMEOUT = "timeout"
"""Cause of a run that had a time limit and was silent until then."""

CUT_OFF = "cut_off"
"""Cause of a run whose stream was cut off."""

BY_DEFAULT: frozenset[str] = REPLACEABLE | {TIMEOUT}
"""Causes after which another agent takes over, unless others are named."""

CAUSES: tuple[str, ...] = (*(cause for cause in get_args(Cause) if cause != "budget"), TIMEOUT, CUT_OFF)
"""Causes that may be named. At a limit that the user has set, no other agent may go on."""

CAUSE_WORDS = Rule(
    lambda text: all(name.strip() in CAUSES for name in text.split(",")),
    f"causes with commas between them, of {', '.join(CAUSES)}",
)
"""Rule for causes as one word of the command line."""

_WHY: dict[str | None, str] = {
    "usage_limit": "has reached its usage limit",
    "auth": "is not logged in",
    "missing": "has no such model, or is not installed",
    "rate_limit": "has made too many requests for the moment",
    "overloaded": "has an overloaded provider",
    "network": "cannot reach its provider",
    "provider": "has a provider that fails",
    "context": "has a model for which the conversation is too long",
    "length": "has reached the limit of its reply's length",
    "refusal": "has declined",
    "agent": "has failed by a fault of its own",
    CUT_OFF: "was cut off",
    TIMEOUT: "has not answered in time",
}


def checked_causes(names: Sequence[str] | None) -> frozenset[str]:
    """Return the causes with these names; None: those by default.

    Raises:
        UsageError: they are no causes.
    """
    if names is None:
        return BY_DEFAULT
    check({"fallback_on": names}, {"fallback_on": _NAMES})
    return frozenset(names)


_NAMES = Rule(
    lambda names: isinstance(names, list | tuple) and bool(names) and all(name in CAUSES for name in names),
    f"a list of these: {', '.join(CAUSES)}",
)

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
        causes: causes after which another agent takes over.
    """

    def __init__(
        self,
        first: str,
        agents: Sequence[str],
        make: Callable[[str, int], AnyRun],
        notify: Callable[[str], None],
        causes: Collection[str] = BY_DEFAULT,
    ) -> None:
        self.exhausted: bool = False
        """True if all agents have been tried, and the last one is at its limit as well."""
        self._make = make
        self._notify = notify
        self._chain = Chain.of(first, *agents) if agents else None
        self._causes = causes

    def run_instead(self, error: AgentNotFound, number: int = 1) -> AnyRun:
        """Return the run of the next agent for one that is not installed and has this number in the output.

        Raises:
            AgentNotFound: none of the agents is installed, or none takes over for this cause.
        """
        run = self._switch("missing", None, error.what, number) if "missing" in self._causes else None
        if run is None:
            raise error
        return run

    def run_after(self, ended: RunEnded, label: str, number: int, *, called_tools: bool) -> AnyRun | None:
        """Return the run after one that has ended, and has this number in the output; None if it was the last one."""
        cause = self._cause_of(ended)
        if self._chain is None or cause is None:
            return None
        why = f"{label} {_WHY[cause]}"
        if ended.resets_at is not None:
            why += time.strftime(" (it resets at %H:%M on %Y-%m-%d)", time.localtime(ended.resets_at / 1000))
        if called_tools:
            self._notify(f"{why}; no other agent takes over, because it had begun to work: see what it has changed")
            return None
        run = self._switch(ended.cause, ended.resets_at, why, number)
        if run is None:
            self.exhausted = ended.cause == "usage_limit"
            self._notify(f"{why}, and there is no other agent to take over")
        return run

    def _cause_of(self, ended: RunEnded) -> str | None:
        """Return the cause after which another agent takes over; None if there is none."""
        found: list[str | None] = [ended.cause]
        if ended.outcome == "timed_out" and not ended.rounds:  # it has most likely waited for its provider
            found.append(TIMEOUT)
        if ended.outcome == "cut_off":
            found.append(CUT_OFF)
        return next((cause for cause in found if cause is not None and cause in self._causes), None)

    def _switch(self, cause: Cause | None, resets_at: int | None, why: str, number: int) -> AnyRun | None:
        """Return the run of the next agent that is installed."""
        while self._chain is not None:
            self._chain, choice = replace_agent(self._chain, cause, resets_at, time.time_ns() // 1_000_000)
            if choice.action != "use":
                return None
            try:
                run = self._make(choice.agent, number + 1)
            except AgentNotFound as error:
                self._notify(str(error))
                cause, resets_at = "missing", None
                continue
            self._notify(f"{why}; {choice.agent} takes over")
            return run
        return None
