"""Permissions of a run: which questions are open, and which actions were denied."""

from __future__ import annotations

from penstock import updates as up
from penstock.core.bounded import BoundedDict
from penstock.core.questions import PERMISSIONS

MAX_QUESTIONS = 1024
"""Number of questions and of denied calls that are remembered: more than any agent has open at once."""

_ALLOWING = ("allow_once", "allow_always")


class Permissions:
    """Collector of denied actions, from the questions and answers of a run and from what its wire reports.

    Args:
        asks_for_all: whether the agent asks for every permission. If so, the count begins at 0; otherwise it is unknown
            until an action is denied.
    """

    def __init__(self, asks_for_all: bool) -> None:
        self._open: BoundedDict[str, up.Question] = BoundedDict(MAX_QUESTIONS)
        self._denied: BoundedDict[str, None] = BoundedDict(MAX_QUESTIONS)  # calls
        self._count: int | None = 0 if asks_for_all else None
        self._reported: int | None = None

    @property
    def refused(self) -> int | None:
        """Number of denied actions; None if unknown."""
        return self._count if self._reported is None else max(self._reported, self._count or 0)

    def apply_question(self, question: up.Question) -> None:
        """Remember a question until its answer."""
        self._open[question.id] = question

    def asked(self, id: str) -> up.Question | None:
        """Return the open question with this id, as the adapter read it."""
        return self._open.get(id)

    def apply_answer(self, answer: up.Answer) -> None:
        """Count an answer that denies a permission. A withdrawn question does not count as denied."""
        question = self._open.pop(answer.id, None)
        if question is None or question.ask not in PERMISSIONS or answer.by == "withdrawn":
            return
        kinds = {option.id: option.kind for option in question.options or ()}
        if answer.option is not None and kinds.get(answer.option, "allow_once") in _ALLOWING:
            return
        self._count = (self._count or 0) + 1
        if question.call_id is not None:
            self._denied[question.call_id] = None

    def apply_return(self, result: up.ToolReturn) -> bool:
        """Return whether the permission for this call was denied; count it if only the wire reports it."""
        known = result.call_id in self._denied
        if result.refused and not known:
            self._count = (self._count or 0) + 1
        return known or result.refused

    def apply_result(self, result: up.Result) -> None:
        """Use the agent's own count."""
        if result.refused is not None:
            self._reported = result.refused
