"""Calls of plan tools. The plan is shown instead of the calls that change it, once for several open calls."""

from __future__ import annotations

from penstock.events import PlanChanged, ToolCalled, ToolReturned


class PlanCalls:
    """Calls of plan tools that wait for their result. Only then is it known whether the plan shows their effect."""

    def __init__(self) -> None:
        self._waiting: dict[str, ToolCalled] = {}
        self._changed: set[str] = set()  # of these, the calls during which the plan changed
        self._plan: PlanChanged | None = None  # waits until no open call may change it again

    def reset(self) -> None:
        """Forget the calls of a run."""
        self._waiting.clear()
        self._changed.clear()
        self._plan = None

    def add(self, event: ToolCalled) -> None:
        """Add a call that is not shown."""
        self._waiting[event.call_id] = event

    def due(self, event: PlanChanged | None, *, ended: bool = False) -> PlanChanged | None:
        """Return the plan if it is to be shown now: no call of a plan tool is open, or the run has `ended`.

        Args:
            event: a new state of the plan, which shows what the waiting calls of its agent did.
            ended: whether the run has ended, so that no more calls return.
        """
        if event is not None:
            self._changed.update(call_id for call_id, call in self._waiting.items() if call.parent == event.parent)
            self._plan = event
        if self._waiting and not ended:
            return None
        plan, self._plan = self._plan, None
        return plan

    def returned(self, event: ToolReturned) -> tuple[ToolCalled | None, bool]:
        """Return the call if it is to be shown with its result, and whether the result is to be shown."""
        call = self._waiting.pop(event.call_id, None)
        if call is None:
            return None, True
        changed = event.call_id in self._changed
        self._changed.discard(event.call_id)
        hidden = changed and not event.is_error
        return (None, False) if hidden else (call, True)

    def rest(self) -> list[ToolCalled]:
        """Return the calls that have no result at the end of the run."""
        return [call for call_id, call in self._waiting.items() if call_id not in self._changed]
