"""Denied actions of a turn: their names, the denier, and the permission that would have covered them."""

from __future__ import annotations

from typing import Literal

import msgspec

from penstock import events as ev
from penstock.core.bounded import BoundedDict
from penstock.core.questions import PERMISSIONS

NeededAllow = Literal["edits", "all"]
"""Permission of a chat that covers an action: `edits` for changes of files, `all` for everything else."""

MAX_OPEN = 1024
"""Number of open calls and questions that are remembered: more than any agent has at once."""

MAX_NAMED = 8
"""Maximum number of denied actions of a turn that are named; the details have all of them."""

MAX_NAME_CHARS = 200
"""Characters of the name of a denied action: one line, or a few if it wraps."""

_EDITS: frozenset[ev.ToolKind] = frozenset(("edit", "delete", "move"))
_ALLOWING = ("allow_once", "allow_always")


class DeniedAction(msgspec.Struct, frozen=True):
    """Denied action, and its denier."""

    name: str
    """The command, the path or the tool, in one line."""
    by: Literal["person", "policy"]
    """`person`, or `policy` for everything else: a level of permission, a rule, a run without a person."""


class DeniedActions:
    """Collector of the denied actions of one run. Only the agent's own count is complete, so it takes precedence."""

    def __init__(self) -> None:
        self._calls: BoundedDict[str, ev.ToolCalled] = BoundedDict(MAX_OPEN)  # those that are open
        self._questions: BoundedDict[str, ev.QuestionAsked] = BoundedDict(MAX_OPEN)
        self._denied: BoundedDict[str, None] = BoundedDict(MAX_OPEN)  # calls that are counted by their questions
        self._known: set[NeededAllow] = set()
        self._failed: set[NeededAllow] = set()  # what would cover the calls that failed
        self._failed_names: list[str] = []  # of those that nothing denied
        self._named: list[DeniedAction] = []
        self._count = 0
        self._reported: int | None = None
        self.rejected: int = 0
        """Number of those that a person rejected."""

    @property
    def count(self) -> int:
        """Number of denied actions."""
        return self._count if self._reported is None else max(self._reported, self.rejected)

    @property
    def named(self) -> list[DeniedAction]:
        """The first ones whose names are known.

        An agent that gives only their number reports them as failed calls: if as many failed, these are they.
        """
        left = self.count - self._count
        if 0 < left == len(self._failed_names):
            return [*self._named, *(DeniedAction(name, "policy") for name in self._failed_names)][:MAX_NAMED]
        return self._named

    @property
    def needs_allow(self) -> NeededAllow | None:
        """Permission to allow the actions denied by a policy; None if there are none, or if they are unknown.

        An agent that gives only their number reports them as failed calls: if these are of one kind, that is known.
        """
        if self.count <= self.rejected:
            return None
        known = self._known or (self._failed if len(self._failed) == 1 else set())
        return "all" if "all" in known else "edits" if known else None

    def take(self, event: ev.Event) -> None:
        """Apply the next event."""
        if isinstance(event, ev.ToolCalled):
            self._calls[event.call_id] = event
        elif isinstance(event, ev.ToolReturned):
            call = self._calls.pop(event.call_id, None)
            needed: NeededAllow = "edits" if call is not None and call.tool_kind in _EDITS else "all"
            if event.call_id in self._denied:
                return
            name = call.title or call.name if call is not None else ""
            if event.is_error:
                self._failed.add(needed)
            if event.refused:
                self._deny(name)
                self._known.add(needed)
            elif event.is_error and len(self._failed_names) <= MAX_NAMED:
                self._failed_names.append(_one_line(name))
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
        is_person = event.by == "person"
        self._deny(_name(question), "person" if is_person else "policy")
        if is_person:
            self.rejected += 1
        else:
            self._known.add("edits" if question.ask == "edit" else "all")
        if question.call_id is not None:
            self._denied[question.call_id] = None

    def _deny(self, name: str, by: Literal["person", "policy"] = "policy") -> None:
        self._count += 1
        words = _one_line(name)
        if words and len(self._named) < MAX_NAMED:
            self._named.append(DeniedAction(words, by))


def _one_line(name: str) -> str:
    words = " ".join(name.split())
    return words if len(words) <= MAX_NAME_CHARS else words[: MAX_NAME_CHARS - 1] + "…"


def _name(question: ev.QuestionAsked) -> str:
    return question.title or ", ".join(change.path for change in question.changes or ()) or question.text
