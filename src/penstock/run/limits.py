"""Limits of one run: its cost, turns and tokens, counted from its events. Pure: the same events give the same answer.

A limit is passed by the first event after which the run has more than it. A figure that no event reports is unknown,
and never zero: a limit of such a figure is never passed, so no run is started with one (`penstock.agents.support`).
"""

from __future__ import annotations

import msgspec

from penstock.adapter import Limit
from penstock.config.rules import ABOVE_0, MAX_EXACT_INTEGER, Rule, Rules, check, optional, whole
from penstock.core.budget import stop_reason
from penstock.events import (
    BlockStarted,
    Event,
    MessageEnded,
    MessageStarted,
    PlanChanged,
    Replied,
    ToolCalled,
    ToolReturned,
    UsageReported,
    added,
)

COUNT = Rule(whole(1, MAX_EXACT_INTEGER).fits, "a whole number, 1 or more")
BUDGET_RULES: Rules = {
    "max_cost": optional(ABOVE_0),
    "max_turns": optional(COUNT),
    "max_tokens": optional(COUNT),
}


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """Most that a run may spend; None: no limit."""

    max_cost: float | None = None
    """US dollars."""
    max_turns: int | None = None
    """Turns of the main agent, see `Spent`."""
    max_tokens: int | None = None
    """Input and output tokens of all model calls."""

    def __post_init__(self) -> None:
        check(msgspec.structs.asdict(self), BUDGET_RULES)

    @property
    def limits(self) -> list[Limit]:
        """Limits that are set."""
        names: tuple[Limit, ...] = ("max_cost", "max_turns", "max_tokens")
        return [name for name in names if getattr(self, name) is not None]


class Spent(msgspec.Struct, frozen=True):
    """Cost, turns and tokens of a run so far; None: no event has reported it yet."""

    cost: float | None = None
    """US dollars, of all model calls, those of sub-agents too."""
    turns: int = 0
    """Turns of the main agent: the model's output up to the next results of tools. A turn that is tried again counts
    once."""
    tokens: int | None = None
    """Input and output tokens of all model calls, those of sub-agents and those from a cache too."""

    def passed(self, budget: Budget) -> str | None:
        """Return the reason to stop if a limit is passed, else None."""
        figures: dict[Limit, float | None] = {
            "max_cost": self.cost,
            "max_turns": self.turns,
            "max_tokens": self.tokens,
        }
        for limit in budget.limits:
            figure, most = figures[limit], getattr(budget, limit)
            if figure is not None and figure > most:
                return stop_reason(limit, figure, most)
        return None


class Spending:
    """Counter of what a run spends; `add` each of its events, in their order.

    Args:
        budget: what the run may spend.
        turn_limit_status: exit status by which the agent reports that it has met the limit of turns, if it has one.
        has_next_turn: whether the agent always begins another turn after results of tools. If so, the limit of turns
            is passed with the results of the last turn, before the agent can call more tools.
    """

    def __init__(self, budget: Budget, turn_limit_status: int | None = None, *, has_next_turn: bool = False) -> None:
        self.spent: Spent = Spent()
        self._budget = budget
        self._turn_limit_status = turn_limit_status
        self._passed: str | None = None  # the limit that was passed, in words
        self._is_new_turn = True  # the next content begins a turn
        self._has_results = False  # the next message begins a turn
        self._has_next_turn = has_next_turn
        self._open: set[str | int] = set()  # messages and calls of the main agent
        self._has_tool_results = False  # in the turn

    def add(self, event: Event) -> bool:
        """Count an event; return whether it is the one that passes a limit."""
        if self._passed is not None:
            return False
        if isinstance(event, UsageReported):
            self._add_usage(event)
        elif isinstance(event, Replied):
            self._add_total(event)
            self._has_results = True
        elif event.parent is None:
            self._add_turn(event)
        self._passed = self.spent.passed(self._budget) or (self._last_turn_over(event) if self._has_next_turn else None)
        return self._passed is not None

    def _last_turn_over(self, event: Event) -> str | None:
        """Return the reason to stop if the event is the end of the last turn that is allowed, and not of the run."""
        if event.parent is not None:
            return None
        match event:
            case MessageStarted():
                self._open.add(event.message)
                self._has_tool_results = self._has_tool_results and not self._is_new_turn
            case MessageEnded():
                self._open.discard(event.message)
            case ToolCalled():
                self._open.add(event.call_id)
            case ToolReturned():
                self._open.discard(event.call_id)
                self._has_tool_results = True
            case Replied():
                self._has_tool_results = False
            case _:
                return None
        most = self._budget.max_turns
        if most is None or self.spent.turns < most or self._open or not self._has_tool_results:
            return None
        return stop_reason("max_turns", most + 1, most)

    def passed(self, exit_status: int | None) -> str | None:
        """Return the reason of a run that has passed a limit, by its events or by the exit status of the agent."""
        most = self._budget.max_turns
        if self._passed is not None or most is None or exit_status is None or exit_status != self._turn_limit_status:
            return self._passed
        return stop_reason("max_turns", most + 1, most)

    def _add_usage(self, event: UsageReported) -> None:
        spent = self.spent
        tokens = added(event.input_tokens, event.output_tokens)
        self.spent = Spent(added(spent.cost, event.cost_usd), spent.turns, added(spent.tokens, tokens))

    def _add_total(self, event: Replied) -> None:
        """Use the agent's own total of the cost, which is that of all turns so far."""
        known = [cost for cost in (self.spent.cost, event.cost_usd) if cost is not None]
        self.spent = msgspec.structs.replace(self.spent, cost=max(known, default=None))

    def _add_turn(self, event: Event) -> None:
        if isinstance(event, MessageStarted):
            self._is_new_turn = self._is_new_turn or self._has_results
            self._has_results = False
        elif isinstance(event, ToolReturned | PlanChanged):
            self._has_results = True
        elif isinstance(event, ToolCalled) or (isinstance(event, BlockStarted) and event.kind != "tool_output"):
            if self._is_new_turn:
                self.spent = msgspec.structs.replace(self.spent, turns=self.spent.turns + 1)
            self._is_new_turn = False
