"""Cost of one turn, counted from its events as they come, and the limit at which the turn is stopped."""

from __future__ import annotations

from msgspec.structs import replace

from penstock import events as ev
from penstock.chat.people.spending import DailySpending, dollars
from penstock.run.limits import Budget, Spending

_COSTS = (ev.UsageReported, ev.Replied, ev.RunEnded)
"""Events that may have a cost; nearly all others are pieces of text."""


class TurnCost:
    """Cost of a turn that a person has asked for."""

    def __init__(self, person: str, of_turn: float | None, spending: DailySpending) -> None:
        """`of_turn`: most that any turn may cost, in US dollars; None for no limit."""
        left = spending.left(person)
        self.most: float | None = min((it for it in (of_turn, left) if it is not None), default=None)
        """Most that this turn may cost, in US dollars: its agent is told, if it can keep a limit."""
        is_person = left is not None and left == self.most
        self.reason: str = (
            spending.used_up(person) if is_person else f"the limit of {dollars(of_turn or 0)} a turn is reached"
        )
        """Why the turn is stopped if it costs more."""
        self.is_over: bool = False
        """True if it has cost more, or the person has: other turns of theirs may run."""
        self._person = person
        self._of_turn = of_turn
        self._spending = spending
        self._run = Spending(Budget())
        self._counted = 0.0

    def take(self, events: list[ev.Event]) -> list[ev.Event]:
        """Count events; return them, with the reason in the end of a run that its own limit has stopped."""
        if not any(type(event) in _COSTS for event in events):
            return events
        made: list[ev.Event] = []
        for event in events:
            if type(event) in _COSTS:
                self._run.add(event)
                self._count(self._run.spent.cost)
            if isinstance(event, ev.RunEnded):
                used = event.usage.cost_usd if event.usage is not None else None
                self._count(used if event.cost_usd is None else event.cost_usd)
                if event.cause == "budget" and self.most is not None:
                    made.append(replace(event, outcome="cancelled", reason=self.reason))
                    continue
            made.append(event)
        return made

    def _count(self, cost: float | None) -> None:
        if cost is None or cost <= self._counted:
            return
        self._spending.add(self._person, cost - self._counted)
        self._counted = cost
        if self._of_turn is not None and cost > self._of_turn:
            self.is_over = True
        elif self._spending.left(self._person) == 0:
            self.reason, self.is_over = self._spending.used_up(self._person), True
