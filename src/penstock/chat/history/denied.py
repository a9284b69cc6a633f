"""Denied actions of a turn: their number, and the permission that would have covered them."""

from __future__ import annotations

from typing import Literal

from penstock import events as ev
from penstock.core.bounded import BoundedDict
from penstock.core.questions import PERMISSIONS

NeededAllow = Literal["edits", "all"]
"""Permission of a chat that covers an action: `edits` for changes of files, `all` for everything else."""

MAX_OPEN = 1024
"""Number of open calls and questions that are remembered: more than any agent has at once."""

_EDITS: frozenset[ev.ToolKind] = frozenset(("edit", "delete", "move"))
_ALLOWING = ("allow_once", "allow_always")


class DeniedActions:
    """Collector of the denied actions of one run. Only the agent's own count is complete, so it takes precedence."""

    def __init__(self) -> None:
        self._kinds: BoundedDict[str, ev.ToolKind] = BoundedDict(MAX_OPEN)  # of open calls
        self._questions: BoundedDict[str, ev.QuestionAsked] = BoundedDict(MAX_OPEN)
        self._denied: BoundedDict[str, None] = BoundedDict(MAX_OPEN)  # calls that are counted by their questions
        self._known: set[NeededAllow] = set()
        self._failed: set[NeededAllow] = set()  # what would cover the calls that failed
        self._count = 0
        self._reported: int | None = None

    @property
    def count(self) -> int:
        """Number of denied actions."""
        return self._count if self._reported is None else self._reported

    @property
    def needs_allow(self) -> NeededAllow | None:
        """Permission that covers the denied actions; None if it is not known what they were.

        An agent that gives only their number reports them as failed calls: if these are of one kind, that is known.
        """
        known = self._known or (self._failed if self.count and len(self._failed) == 1 else set())
        return "all" if "all" in known else "edits" if known else None

    def take(self, event: ev.Event) -> None:
        """Apply the next event."""
        if isinstance(event, ev.ToolCalled):
            self._kinds[event.call_id] = event.tool_kind
        elif isinstance(event, ev.ToolReturned):
            needed: NeededAllow = "edits" if self._kinds.pop(event.call_id, "other") in _EDITS else "all"
            if event.is_error:
                self._failed.add(needed)
            if event.refused and event.call_id not in self._denied:
                self._deny(needed)
        elif isinstance(event, ev.QuestionAsked):
            if event.ask in PERMISSIONS:
                self._questions[event.id] = event
        elif isinstance(event, ev.QuestionAnswered):
            self._answered(event)
        elif isinstance(event, ev.RunEnded):
            self._reported = event.refused

    def _answered(self, event: ev.QuestionAnswered) -> None:
        question = self._questions.pop(event.id, None)
        if question is None or event.by == "withdrawn":
            return
        kinds = {option.id: option.kind for option in question.options or ()}
        if event.option is not None and kinds.get(event.option, "allow_once") in _ALLOWING:
            return
        self._deny("edits" if question.ask == "edit" else "all")
        if question.call_id is not None:
            self._denied[question.call_id] = None

    def _deny(self, needed: NeededAllow) -> None:
        self._count += 1
        self._known.add(needed)
