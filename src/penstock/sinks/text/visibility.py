"""Visibility of events: which ones get a line of their own, at which detail, and with which prefix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from penstock import events as ev
from penstock.core.bounded import BoundedDict
from penstock.sinks.sanitize import clean_line
from penstock.sinks.text import theme
from penstock.sinks.text.edits import Paths
from penstock.sinks.text.run_summary import RunFacts, usage_line
from penstock.sinks.text.styles import Piece

Service = Literal["github", "gitlab"]
Detail = Literal["quiet", "minimal", "normal", "verbose"]
Prefix = Literal["agent", "kind", "both", "above", "none"]
LineKind = Literal[
    "text", "thinking", "tool", "result", "plan", "notice", "question", "usage", "unknown", "run", "done"
]

_QUIET: frozenset[LineKind] = frozenset({"text", "question"})
_MINIMAL: frozenset[LineKind] = _QUIET | {"tool", "done"}
_NORMAL: frozenset[LineKind] = _MINIMAL | {"thinking", "result", "plan", "notice", "run"}
_VERBOSE: frozenset[LineKind] = _NORMAL | {"usage", "unknown"}

_SHOWN: dict[Detail, frozenset[LineKind]] = {
    "quiet": _QUIET,
    "minimal": _MINIMAL,
    "normal": _NORMAL,
    "verbose": _VERBOSE,
}

_BACKGROUND_CODES = frozenset({"user", "decision", "hook", "status", "session", "result"})
"""Codes of `info` notices that only `verbose` shows: internals of the agent, or the user's own words."""


MAX_KEPT_NAMES = 4096
"""Maximum number of calls whose names are kept, for their results and sub-agents."""
MAX_LABEL = 80
"""Maximum characters of a sub-agent's name, including the names of its callers."""


class Prefixes:
    """Prefixes of lines: the agent, and the kind of the line.

    A sub-agent is named after the call that started it, so calls are recorded as they arrive.
    """

    def __init__(self, prefix: Prefix, label_width: int = 0) -> None:
        self._prefix = prefix
        self._label_width = label_width
        self._known: dict[tuple[LineKind, str], str] = {}
        self._lanes: BoundedDict[str, str] = BoundedDict(MAX_KEPT_NAMES)

    def reset(self) -> None:
        """Forget the calls of a run."""
        self._lanes.clear()

    def learn(self, event: ev.ToolCalled) -> None:
        """Record the name of a call. Its sub-agent has the same name."""
        kind = event.input.get("subagent_type") if isinstance(event.input, dict) else None
        outer = f"{self._lanes.get(event.parent, 'agent')}>" if event.parent is not None else ""
        self._lanes[event.call_id] = (outer + (kind if isinstance(kind, str) and kind else event.name))[-MAX_LABEL:]

    def prefix(self, kind: LineKind, agent: str, parent: str | None) -> str:
        """Return the prefix of a line, in brackets and followed by a space; by a line break if it is above the line."""
        if self._prefix == "above" and kind == "text":
            label = agent if parent is None else f"{agent}>{self._lanes.get(parent, 'agent')}"
            return clean_line(f"[{label}]") + "\n"
        if parent is not None:
            return self._worded(kind, f"{agent}>{self._lanes.get(parent, 'agent')}")
        head = self._known.get((kind, agent))
        if head is None:
            head = self._known[kind, agent] = self._worded(kind, agent)
        return head

    def _worded(self, kind: LineKind, label: str) -> str:
        match self._prefix:
            case "none":
                return ""
            case "kind":
                return f"[{kind}] "
            case "both":
                return clean_line(f"[{label} {kind}] ")
        return clean_line(f"[{label}]".ljust(self._label_width + 2) + " ")


class Visibility:
    """Settings that decide what is shown. Errors are shown at every detail.

    `marked`: cut-off text is marked with words.
    """

    __slots__ = ("marked", "quiet", "shown", "verbose")

    def __init__(self, detail: Detail = "normal", *, show_unknown: bool = True, mark_partial: bool = True) -> None:
        self.marked: bool = mark_partial
        self.shown: frozenset[LineKind] = _SHOWN[detail] - (frozenset() if show_unknown else {"unknown"})
        self.quiet: bool = detail == "quiet"
        self.verbose: bool = detail == "verbose"

    @property
    def shows_diffs(self) -> bool:
        """Whether the diff of an edit is shown."""
        return "result" in self.shown

    def shows_block(self, kind: ev.Kind) -> bool:
        """Whether text of this kind is shown as it streams; output of calls is shown only in `verbose`."""
        return self.verbose if kind == "tool_output" else kind in self.shown

    def shows_result(self, event: ev.ToolReturned) -> bool:
        """Whether the result has a line; `minimal` shows only those that failed."""
        return "result" in self.shown or ((event.failed or not event.complete) and not self.quiet)

    def shows_notice(self, event: ev.Notice) -> bool:
        """Whether the notice has a line."""
        if event.level == "error":
            return True
        hidden = event.level == "info" and event.code in _BACKGROUND_CODES and not self.verbose
        return "notice" in self.shown and not hidden


class Describer:
    """Formatter of events that are neither blocks nor calls. It keeps questions for the labels of their answers."""

    def __init__(self, visibility: Visibility, paths: Paths, facts: RunFacts) -> None:
        self._visibility = visibility
        self._paths = paths
        self._facts = facts
        self._questions: BoundedDict[str, ev.QuestionAsked] = BoundedDict(MAX_QUESTIONS)
        self._plans: dict[str | None, list[ev.PlanItem]] = {}  # the last shown, by agent

    def reset(self) -> None:
        """Forget the plans of a run."""
        self._plans.clear()

    def describe(self, event: ev.Event) -> tuple[LineKind, list[Piece]] | None:
        """Return the kind and the pieces of an event's line; None if it is not shown."""
        visibility = self._visibility
        match event:
            case ev.Notice():
                return (
                    ("notice", theme.notice(event, whole=visibility.verbose))
                    if visibility.shows_notice(event)
                    else None
                )
            case ev.RunEnded():
                whole = "done" in visibility.shown
                shown = whole or event.outcome != "ok" or event.refused
                return ("done", self._facts.closing(event, whole=whole)) if shown else None
            case ev.RunStarted():
                pieces = self._facts.started(event, whole=visibility.verbose) if "run" in visibility.shown else []
                return ("run", pieces) if pieces else None
            case ev.QuestionAsked():
                self._questions[event.id] = event
                return "question", theme.question(event, self._paths)
            case ev.QuestionAnswered():
                asked = self._questions.pop(event.id, None)
                self._facts.note_answer(event, asked)
                return "question", theme.answer(event, asked)
            case ev.PlanChanged():
                if "plan" not in visibility.shown:
                    return None
                before = [] if visibility.verbose else self._plans.get(event.parent, [])
                self._plans[event.parent] = event.items
                return "plan", theme.plan(event, before)
        kind, pieces_of = _LINES[type(event)]
        if kind not in visibility.shown:
            return None
        pieces = pieces_of(event)
        return (kind, pieces) if pieces else None


_LINES: dict[type, tuple[LineKind, Callable[[Any], list[Piece]]]] = {
    ev.Malformed: ("notice", theme.malformed),
    ev.UsageReported: ("usage", usage_line),
    ev.Unknown: ("unknown", theme.unknown),
}

DESCRIBED: tuple[type, ...] = (*_LINES, ev.PlanChanged, ev.Notice, ev.QuestionAsked, ev.QuestionAnswered, ev.RunStarted)
"""Types of events that `Describer` formats."""

MAX_QUESTIONS = 64
"""Maximum number of open questions that are kept; answers to further ones show the option's id instead of its label."""
