"""Permissions of a run: which questions are open, and which actions were denied."""

from __future__ import annotations

from msgspec.structs import replace

from penstock import updates as up
from penstock.core.bounded import BoundedDict
from penstock.core.questions import PERMISSIONS, SAME_COMMAND, option_of

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
        self._same: BoundedDict[str, None] = BoundedDict(MAX_QUESTIONS)  # answered by `SAME_COMMAND`
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

    def allow_same(self, id: str) -> up.Answer | None:
        """Return the answer for the agent if a person chose Penstock's own option: it allows once.

        None if the open question with this id has no such option.
        """
        question = self._open.get(id)
        if question is None or SAME_COMMAND not in (question.options or ()):
            return None
        once = option_of(question.options, "allow_once")
        if once is None:
            return None
        self._same[id] = None
        return up.Answer(id, "person", once.id)

    def apply_answer(self, answer: up.Answer) -> up.Answer:
        """Count an answer that denies a permission. A withdrawn question does not count as denied.

        Returns:
            The answer as the person gave it.
        """
        question = self._open.pop(answer.id, None)
        if question is None or question.ask not in PERMISSIONS or answer.by == "withdrawn":
            return answer
        kinds = {option.id: option.kind for option in question.options or ()}
        if answer.option is not None and kinds.get(answer.option, "allow_once") in _ALLOWING:
            return replace(answer, option=SAME_COMMAND.id) if answer.id in self._same else answer
        self._count = (self._count or 0) + 1
        if question.call_id is not None:
            self._denied[question.call_id] = None
        return answer

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
