"""Cost of one turn, counted from its events as they come, and the limit at which the turn is stopped."""

from __future__ import annotations

from msgspec.structs import replace

from penstock import events as ev
from penstock.chat.errors import TooMany
from penstock.chat.people.spending import DailySpending, dollars
from penstock.chat.store.rows import ChatFields
from penstock.run.limits import Budget, Spending

_COSTS = (ev.UsageReported, ev.Replied, ev.RunEnded)
"""Events that may have a cost; nearly all others are pieces of text."""


def left_of(chat: ChatFields) -> float | None:
    """Return the US dollars that are left of a chat's budget; None if it has none."""
    return None if chat.budget is None else max(0.0, round(chat.budget - chat.spent, 6))


def check_budget(chat: ChatFields) -> None:
    """Check that something is left of a chat's budget.

    Raises:
        TooMany: nothing is left.
    """
    if left_of(chat) == 0:
        raise TooMany(_used_up(chat), help="set a higher budget in the settings of the chat, or begin another chat")


def _used_up(chat: ChatFields) -> str:
    return f"the budget of {dollars(chat.budget or 0)} of this chat is used up"


class TurnCost:
    """Cost of a turn that a person has asked for."""

    def __init__(self, person: str, of_turn: float | None, spending: DailySpending, chat: ChatFields) -> None:
        """`of_turn`: most that any turn may cost, in US dollars; None for no limit."""
        of_person, self._of_chat = spending.left(person), left_of(chat)
        limits = [it for it in (of_turn, of_person, self._of_chat) if it is not None]
        self.most: float | None = min(limits, default=None)
        """Most that this turn may cost, in US dollars: its agent is told, if it can keep a limit."""
        self.reason: str = f"the limit of {dollars(of_turn or 0)} a turn is reached"
        self._chat_reason = _used_up(chat)
        if self._of_chat is not None and self._of_chat == self.most:
            self.reason = self._chat_reason
        elif of_person is not None and of_person == self.most:
            self.reason = spending.used_up(person)
        """Why the turn is stopped if it costs more."""
        self.is_over: bool = False
        """True if it has cost more, or the person has: other turns of theirs may run."""
        self._person = person
        self._of_turn = of_turn
        self._spending = spending
        self._run = Spending(Budget())
        self.counted: float = 0.0
        """US dollars so far, as far as the agent has reported them."""

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
        if cost is None or cost <= self.counted:
            return
        self._spending.add(self._person, cost - self.counted)
        self.counted = cost
        if self._of_turn is not None and cost > self._of_turn:
            self.is_over = True
        elif self._of_chat is not None and cost > self._of_chat:
            self.reason, self.is_over = self._chat_reason, True
        elif self._spending.left(self._person) == 0:
            self.reason, self.is_over = self._spending.used_up(self._person), True
