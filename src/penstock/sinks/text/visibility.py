"""Visibility of events: which ones are a line of their own, at which detail, and with which prefix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from penstock import events as ev
from penstock.core.bounded import BoundedDict
from penstock.sinks.sanitize import clean_line
from penstock.sinks.text import theme
from penstock.sinks.text.theme import Piece

Service = Literal["github", "gitlab"]
Detail = Literal["quiet", "minimal", "normal", "verbose"]
Prefix = Literal["agent", "kind", "both", "none"]
LineKind = Literal[
    "text", "thinking", "tool", "result", "plan", "notice", "question", "usage", "unknown", "run", "done"
]

_QUIET: frozenset[LineKind] = frozenset({"text", "question"})
_MINIMAL: frozenset[LineKind] = _QUIET | {"tool", "done"}
_NORMAL: frozenset[LineKind] = _MINIMAL | {"thinking", "result", "plan", "notice"}
_VERBOSE: frozenset[LineKind] = _NORMAL | {"usage", "unknown", "run"}

_SHOWN: dict[Detail, frozenset[LineKind]] = {
    "quiet": _QUIET,
    "minimal": _MINIMAL,
    "normal": _NORMAL,
    "verbose": _VERBOSE,
}

_BACKGROUND_CODES = frozenset({"user", "decision", "hook", "status", "session", "result"})
"""Codes of `info` notices that only `verbose` shows: internals of the agent, or the reader's own words."""


MAX_KEPT_NAMES = 4096
"""Calls whose names are kept, for their results and sub-agents."""
MAX_LABEL = 80
"""Characters of a sub-agent's name, with the names of its callers."""


class Prefixes:
    """Prefixes of lines: the agent, and the kind of the line.

    A sub-agent is named after the call that started it, so calls are recorded as they arrive.
    """

    def __init__(self, prefix: Prefix) -> None:
        self._prefix = prefix
        self._known: dict[tuple[LineKind, str], str] = {}
        self._names: BoundedDict[str, str] = BoundedDict(MAX_KEPT_NAMES)
        self._lanes: BoundedDict[str, str] = BoundedDict(MAX_KEPT_NAMES)

    def reset(self) -> None:
        """Forget the calls of a run."""
        self._names.clear()
        self._lanes.clear()

    def learn(self, event: ev.ToolCalled) -> None:
        """Record the name of a call."""
        self._names[event.call_id] = event.name
        kind = event.input.get("subagent_type") if isinstance(event.input, dict) else None
        outer = f"{self._lanes.get(event.parent, 'agent')}>" if event.parent is not None else ""
        self._lanes[event.call_id] = (outer + (kind if isinstance(kind, str) and kind else event.name))[-MAX_LABEL:]

    def name(self, call_id: str) -> str:
        """Return the name of the tool that was called, "" if it is not known."""
        return self._names.get(call_id, "")

    def prefix(self, kind: LineKind, agent: str, parent: str | None) -> str:
        """Return the prefix of a line, in brackets and with a space behind."""
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
        return clean_line(f"[{label}] ")


class Visibility:
    """What a reader asked to see. Errors are shown at every detail.

    `marked`: cut-off text is marked with words, and a prefix is dim while its block streams.
    """

    __slots__ = ("marked", "quiet", "shown", "verbose")

    def __init__(self, detail: Detail = "normal", *, show_unknown: bool = True, mark_partial: bool = True) -> None:
        self.marked = mark_partial
        self.shown = _SHOWN[detail] - (frozenset() if show_unknown else {"unknown"})
        self.quiet = detail == "quiet"
        self.verbose = detail == "verbose"

    def shows_result(self, event: ev.ToolReturned) -> bool:
        """Whether the result has a line; `minimal` shows only those that failed."""
        failed = event.is_error or bool(event.exit_code) or not event.complete
        return "result" in self.shown or (failed and not self.quiet)

    def shows_notice(self, event: ev.Notice) -> bool:
        """Whether the notice has a line."""
        if event.level == "error":
            return True
        hidden = event.level == "info" and event.code in _BACKGROUND_CODES and not self.verbose
        return "notice" in self.shown and not hidden


class Describer:
    """Formatter of events that are neither block nor call. It keeps questions, for the labels of their answers."""

    def __init__(self, visibility: Visibility) -> None:
        self._visibility = visibility
        self._questions: BoundedDict[str, ev.QuestionAsked] = BoundedDict(MAX_QUESTIONS)

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
                shown = "done" in visibility.shown or event.outcome != "ok"
                return ("done", theme.closing(event)) if shown else None
            case ev.QuestionAsked():
                self._questions[event.id] = event
            case ev.QuestionAnswered():
                return "question", theme.answer(event, self._questions.pop(event.id, None))
        kind, pieces_of = _LINES[type(event)]
        if kind not in visibility.shown:
            return None
        pieces = pieces_of(event)
        return (kind, pieces) if pieces else None


_LINES: dict[type, tuple[LineKind, Callable[[Any], list[Piece]]]] = {
    ev.PlanChanged: ("plan", theme.plan),
    ev.Malformed: ("notice", theme.malformed),
    ev.QuestionAsked: ("question", theme.question),
    ev.UsageReported: ("usage", theme.usage_line),
    ev.Unknown: ("unknown", theme.unknown),
    ev.RunStarted: ("run", theme.started),
}

DESCRIBED: tuple[type, ...] = (*_LINES, ev.Notice, ev.QuestionAnswered)
"""Types of events that `Describer` formats."""

MAX_QUESTIONS = 64
"""Open questions that are kept; answers to more of them show the option's id instead of its label."""


def fold(service: Service, number: int, title: str) -> tuple[str, str]:
    """Return the lines before and after text that the service's log shows folded under `title`."""
    if service == "github":
        return f"::group::{title.replace('%', '%25')}\n", "::endgroup::\n"  # GitHub decodes `%`
    # GitLab recognizes a section by exactly these bytes; its log viewer does not show them.
    begin = f"\x1b[0Ksection_start:0:penstock_{number}[collapsed=true]\r\x1b[0K{title}\n"
    return begin, f"\x1b[0Ksection_end:0:penstock_{number}\r\x1b[0K\n"
