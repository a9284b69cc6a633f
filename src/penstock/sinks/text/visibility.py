"""Which events are a line of their own, at which detail, and of what kind the line is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from penstock import events as ev
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
"""Notices of level `info` that only `verbose` shows: they tell what goes on inside, or what the reader said."""


MAX_KEPT_NAMES = 4096
"""Calls whose names are kept for their results and sub-agents."""
MAX_LABEL = 80
"""Characters of a sub-agent's name, its callers' included."""


class Heads:
    """The prefixes of lines: who speaks, and what the line is.

    A sub-agent is called after the call that started it, so calls are learned as they come.
    """

    def __init__(self, prefix: Prefix) -> None:
        self._prefix = prefix
        self._known: dict[tuple[LineKind, str], str] = {}
        self._names: dict[str, str] = {}
        self._lanes: dict[str, str] = {}

    def reset(self) -> None:
        """Forget the calls of a run."""
        self._names.clear()
        self._lanes.clear()

    def learn(self, event: ev.ToolCalled) -> None:
        """A call and its name."""
        for known in (self._names, self._lanes):
            if len(known) >= MAX_KEPT_NAMES:
                del known[next(iter(known))]
        self._names[event.call_id] = event.name
        kind = event.input.get("subagent_type") if isinstance(event.input, dict) else None
        outer = f"{self._lanes.get(event.parent, 'agent')}>" if event.parent is not None else ""
        self._lanes[event.call_id] = (outer + (kind if isinstance(kind, str) and kind else event.name))[-MAX_LABEL:]

    def name(self, call_id: str) -> str:
        """The name of the tool that was called, "" if that was never told."""
        return self._names.get(call_id, "")

    def head(self, kind: LineKind, agent: str, parent: str | None) -> str:
        """What a line begins with, in brackets and with a space behind."""
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


class Look:
    """What a reader wants to see. Errors are seen at every detail.

    `marked`: words say what was cut off, and a prefix is dim while its block streams.
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
    """Makes the lines of events that are neither block nor call. Remembers questions, for the labels of answers."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._questions: dict[str, ev.QuestionAsked] = {}

    def describe(self, event: ev.Event) -> tuple[LineKind, list[Piece]] | None:
        """The line of an event; None if the reader does not want to see it."""
        look = self._look
        match event:
            case ev.Notice():
                return ("notice", theme.notice(event, whole=look.verbose)) if look.shows_notice(event) else None
            case ev.RunEnded():
                shown = "done" in look.shown or event.outcome != "ok"
                return ("done", theme.closing(event)) if shown else None
            case ev.QuestionAsked():
                if len(self._questions) >= MAX_QUESTIONS:
                    del self._questions[next(iter(self._questions))]
                self._questions[event.id] = event
            case ev.QuestionAnswered():
                return "question", theme.answer(event, self._questions.pop(event.id, None))
        kind, pieces_of = _LINES[type(event)]
        if kind not in look.shown:
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
"""The events that `Describer` alone makes lines of."""

MAX_QUESTIONS = 64
"""Questions that wait for an answer at once; more are answered by the id of an option, without its label."""


def fold(service: Service, number: int, title: str) -> tuple[str, str]:
    """The lines before and after what the service's log shall show folded, under `title`."""
    if service == "github":
        return f"::group::{title.replace('%', '%25')}\n", "::endgroup::\n"  # GitHub decodes `%`
    # GitLab knows a section by these very bytes; they are for its log viewer, which shows none of them.
    begin = f"\x1b[0Ksection_start:0:penstock_{number}[collapsed=true]\r\x1b[0K{title}\n"
    return begin, f"\x1b[0Ksection_end:0:penstock_{number}\r\x1b[0K\n"
