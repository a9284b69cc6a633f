"""Time in which a run waited for a person. It does not count as work of the agent or of the call in question."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.core.bounded import BoundedDict

MAX_WAITS = 1024
"""Maximum number of questions, and of calls with questions, whose times are kept: more than any agent has open at
once."""


class _Wait:
    """Time in which at least one of some questions was open."""

    __slots__ = ("_ended", "_open", "_since")

    def __init__(self) -> None:
        self._open = 0
        self._since = 0
        self._ended = 0

    def begin(self, at: int) -> None:
        if not self._open:
            self._since = at
        self._open += 1

    def end(self, at: int) -> None:
        self._open -= 1
        if not self._open:
            self._ended += max(0, at - self._since)

    def total(self, at: int) -> int:
        return self._ended + (max(0, at - self._since) if self._open else 0)


class Waits:
    """Times of the open questions of a run, in milliseconds since its start.

    Each question counts for the run, and for the calls that it holds up: the call that it is about and those whose
    sub-agents made that call, or all open calls if it names none.
    """

    def __init__(self) -> None:
        self._run = _Wait()
        self._unnamed = _Wait()
        self._calls: BoundedDict[str, _Wait] = BoundedDict(MAX_WAITS)
        self._open: BoundedDict[str, list[_Wait]] = BoundedDict(MAX_WAITS)

    def begin(self, question: str, calls: Iterable[str], at: int | None) -> None:
        """Begin the time of a question that holds up these calls; do nothing without a clock."""
        if at is None or question in self._open:
            return
        waits = [self._run]
        for call in calls:
            if call not in self._calls:
                self._calls[call] = _Wait()
            waits.append(self._calls[call])
        if len(waits) == 1:
            waits.append(self._unnamed)
        self._open[question] = waits
        for wait in waits:
            wait.begin(at)

    def end(self, question: str, at: int | None) -> None:
        """End the time of a question."""
        for wait in self._open.pop(question, None) or ():
            wait.end(at or 0)

    def of_call(self, call: str, at: int | None) -> int:
        """Return how long this call was held up until now."""
        own = self._calls.get(call)
        return 0 if at is None else self._unnamed.total(at) + (own.total(at) if own is not None else 0)

    def of_run(self, at: int | None) -> int:
        """Return how long the run has waited until now."""
        return 0 if at is None else self._run.total(at)
