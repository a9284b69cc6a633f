"""Which events are a line of their own, at which detail, and of what kind the line is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from penstock import events as ev
from penstock.sinks import styles
from penstock.sinks.styles import Piece

Detail = Literal["quiet", "minimal", "normal", "verbose"]
Prefix = Literal["agent", "kind", "both", "none"]
LineKind = Literal["text", "thinking", "tool", "result", "plan", "notice", "hint", "usage", "unknown", "run", "done"]

_QUIET: frozenset[LineKind] = frozenset({"text", "hint"})
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


class Look:
    """What a reader wants to see. Errors are seen at every detail."""

    __slots__ = ("quiet", "shown", "verbose")

    def __init__(self, detail: Detail = "normal", *, show_unknown: bool = True) -> None:
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


def describe(event: ev.Event, look: Look) -> tuple[LineKind, list[Piece]] | None:
    """The line of an event that is neither block nor call; None where `look` leaves it out."""
    match event:
        case ev.Notice():
            return ("notice", styles.notice(event, whole=look.verbose)) if look.shows_notice(event) else None
        case ev.RunEnded():
            shown = "done" in look.shown or event.outcome != "ok"
            return ("done", styles.closing(event)) if shown else None
    kind, pieces_of = _LINES[type(event)]
    if kind not in look.shown:
        return None
    pieces = pieces_of(event)
    return (kind, pieces) if pieces else None


_LINES: dict[type, tuple[LineKind, Callable[[Any], list[Piece]]]] = {
    ev.PlanChanged: ("plan", styles.plan),
    ev.Malformed: ("notice", styles.malformed),
    ev.HintRequested: ("hint", styles.hint),
    ev.HintAnswered: ("hint", styles.hint),
    ev.UsageReported: ("usage", styles.usage_line),
    ev.Unknown: ("unknown", styles.unknown),
    ev.RunStarted: ("run", styles.started),
}

DESCRIBED: tuple[type, ...] = (*_LINES, ev.Notice)
"""The events that are told by `describe` alone."""
