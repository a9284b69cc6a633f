"""Results of calls for people: a few dim lines for a success, the last lines of a failure, the diff of an edit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from penstock.core.bounded import BoundedDict
from penstock.events import Change, QuestionAsked, ToolCalled, ToolReturned
from penstock.sinks.sanitize import clean, clean_line
from penstock.sinks.text import edits
from penstock.sinks.text.calls import Calls
from penstock.sinks.text.styles import COLOURS, Piece, SpanStyle, Style, duration, exit_words, shortened
from penstock.sinks.text.visibility import Visibility

MAX_RESULT_CHARS = 120
"""Maximum characters of a result's first line: about two lines of a terminal."""
TAIL_LINES = 10
"""Number of last lines of a failed result that are shown: the summary of a test run or of a compiler."""
MAX_ERROR_LINES = 6
"""Maximum number of earlier lines of a failed result that are shown because they name an error."""
MAX_TAIL_CHARS = 400
"""Maximum characters of one of these lines."""
MIN_DURATION_MS = 1000
"""Milliseconds of the shortest call whose duration is shown; most calls are shorter."""
MAX_NAME_CHARS = 40
"""Maximum characters of a call, if it is repeated because its result does not directly follow it."""
MAX_WHOLE_LINES = 3
"""Lines of the longest output of a command that is shown in full; of longer output only the last line is shown."""
MAX_LAST_CHARS = 4096
"""Number of characters at the end of an output in which its last line is searched."""
MAX_CALLS = 4096
"""Maximum number of open calls that are kept for their results."""

# Lines by which test runners, compilers and interpreters report an error; they may be far above the end of the output.
_ERROR_LINE = re.compile(
    r"E   |FAILED |ERROR |--- FAIL|not ok \d|.{1,200}: (?:fatal )?error: "
    r"|\s*(?:[\w.]*(?:Error|Exception)\b(?:\[\w+\])?: |error(?:\[\w+\])?: |panicked at )"
)
_OUTPUT, _ERROR_OUTPUT = (SpanStyle(sgr, is_wrapped=False) for sgr in ("", COLOURS["bad"]))
"""Styles of lines of a failed result, and of those that name an error: they may be copied from the terminal."""
_GAP = re.compile(r"[ \t]{3,}")
"""Blanks that align columns over several lines; they have no use in a single line."""
_TAG_NAMES = "tool_use_error|persisted-output|task|task_result|path|type|content|file|output|stdout|stderr"
_TAG = re.compile(rf"</?(?:{_TAG_NAMES})(?:\s[^<>\n]{{0,300}})?>")
_TAGGED_FACT = re.compile(r"\s*<(path|type)>[^<\n]*</\1>\s*\Z")


class ResultLines(NamedTuple):
    """Line of a result and the lines under it: first those that a CI service may fold, then the others."""

    head: list[Piece]
    foldable: str = ""
    shown: Sequence[Piece] = ()

    @property
    def folded_title(self) -> str:
        """Title of the folded lines, if others follow."""
        count = self.foldable.count("\n") + 1
        return f"{count:,} lines before these"


class Results:
    """Formatter of results. It keeps the calls, and the output that was shown while they ran."""

    def __init__(self, visibility: Visibility, calls: Calls, *, folds: bool) -> None:
        self._visibility = visibility
        self._folds = folds  # a CI service folds the first part of a failure
        self._format = calls
        self._open: BoundedDict[str, ToolCalled] = BoundedDict(MAX_CALLS)
        self._live: dict[str, str] = {}
        self._asked: BoundedDict[str, list[Change]] = BoundedDict(MAX_CALLS)

    def reset(self) -> None:
        """Forget the calls of a run."""
        self._open.clear()
        self._live.clear()
        self._asked.clear()

    def learn(self, event: ToolCalled) -> None:
        """Record a call until its result."""
        self._open[event.call_id] = event

    def note_question(self, event: QuestionAsked) -> None:
        """Record the diff that a question shows, so that the result does not repeat it."""
        if event.call_id is not None and event.changes:
            self._asked[event.call_id] = event.changes

    @property
    def running(self) -> str:
        """Words for the latest running call; "" if none runs."""
        last = next(reversed(self._open.values()), None)
        return self._words(last) if last is not None else ""

    def _words(self, event: ToolCalled) -> str:
        return shortened(self._format.words(event), MAX_NAME_CHARS)

    def note_live(self, call_id: str, output: str) -> None:
        """Record output that was shown while its call ran, so that the result does not repeat it."""
        self._live[call_id] = output

    def lines(self, event: ToolReturned, *, own: bool) -> ResultLines | None:
        """Return the lines of a result; None if there is nothing to show. `own`: it directly follows its call."""
        live = self._live.pop(event.call_id, None)
        call = self._open.pop(event.call_id, None)
        name = "" if own else self._words(call) if call is not None else clean_line(event.name or "")
        if live is not None:
            return self._after_live(event, name, live)
        if event.refused:
            return self._denied(event, name)
        if event.failed:
            return self._failure(event, name)
        if event.changes:
            return self._edit(event, name, call.changes if call is not None else None)
        if self._visibility.verbose and "\n" in event.text.strip("\n"):
            count = f"{_count(event.text):,} lines{_time(event)}"
            return ResultLines(
                [_mark(event), ("dim", _joined(name, *self._notes(event), count))], clean(event.text.strip("\n"))
            )
        return self._short(event, call, name)

    def _after_live(self, event: ToolReturned, name: str, live: str) -> ResultLines:
        """Return the line of a result whose output was shown as it streamed, with the part that was not shown."""
        shown, whole = clean(live).strip("\n"), clean(event.text).strip("\n")
        before, found, after = f"\n{whole}\n".partition(f"\n{shown}\n") if shown else ("", "", "")  # whole lines only
        pieces: list[Piece] = []
        if found:
            if before := before.strip("\n"):
                pieces += [("output", f"\n{before}"), ("dim", f"\n… the {_lines_of(shown)} above")]
            if after := after.strip("\n"):
                pieces.append(("output", f"\n{after}"))
        elif (
            f"\n{whole}\n" not in f"\n{shown}\n"
        ):  # other text, or the same in another order, which readers could not combine
            pieces.append(("output", f"\n{whole}"))
        words = _joined(name, *self._notes(event))
        words = words + _figures(event, event.text) if words else _lines_of(event.text) + _time(event)
        return ResultLines([_mark(event), (_style(event), words)], "", pieces)

    def _denied(self, event: ToolReturned, name: str) -> ResultLines:
        head: list[Piece] = [("bad", "✗ "), ("bad", _joined(name, "refused"))]
        if self._visibility.verbose:
            text = clean(event.text).strip("\n")
            return ResultLines(head, "", [("dim", f"\n{text}")] if text else [])
        reason = _first_line(event.text)
        return ResultLines([*head, ("dim", f": {reason}" * bool(reason))])

    def _notes(self, event: ToolReturned) -> list[str]:
        notes = [] if event.complete or not self._visibility.marked else ["no result was reported"]
        return [*notes, exit_words(event.exit_code)] if event.exit_code else notes

    def _short(self, event: ToolReturned, call: ToolCalled | None, name: str) -> ResultLines | None:
        text, notes = event.text, self._notes(event)
        kind = call.tool_kind if call is not None else "other"
        if kind == "read" and "\n" in text.strip() and event.complete:  # the first line alone means little
            return ResultLines([_mark(event), ("dim", _joined(name, f"{_count(text):,} lines") + _time(event))])
        if self._visibility.verbose:
            shown, figures = [clean(text).strip("\n")], _time(event)
        elif kind == "execute":
            shown = _last_lines(text)
            figures = _figures(event, text) if len(shown) == 1 else _time(event)
        else:
            shown, figures = [_first_line(text)], _figures(event, text)
        if not (event.complete or notes or shown[0]):
            return None
        words = _joined(name, *notes, shown[0])
        if not words or (not shown[0] and name and event.complete):
            words = _joined(name, *notes, _without_text(event, kind))
        below: list[Piece] = [("output", f"\n{line}") for line in shown[1:]]
        return ResultLines([_mark(event), ("dim", words + figures)], "", below)

    def _failure(self, event: ToolReturned, name: str) -> ResultLines:
        """Return the end of the output, and the lines above it that name an error; in `verbose` all of it."""
        text, verbose = event.text, self._visibility.verbose
        most = len(text) if verbose else MAX_TAIL_CHARS
        lines = clean(text if verbose else _TAG.sub("", text)).strip("\n").split("\n")
        words = _joined(name, *self._notes(event))
        if len(lines) == 1:
            line = shortened(lines[0].strip(), most)
            pieces: list[Piece] = [("bad", words), ("text", f"{': ' * bool(words and line)}{line}")]
            if not words and not line:
                pieces = [("bad", "failed")]
            return ResultLines([_mark(event), *pieces, ("dim", _time(event))])
        head: list[Piece] = [_mark(event), ("bad", words or "failed"), ("dim", _figures(event, text))]
        tail = len(lines) - TAIL_LINES if len(lines) > TAIL_LINES + 1 else 0
        errors = [index for index, line in enumerate(lines[:tail]) if _ERROR_LINE.match(line)][-MAX_ERROR_LINES:]
        rest = range(tail, len(lines))
        if self._folds:
            return ResultLines(head, "\n".join(lines[:tail]), _excerpt(lines, [*errors, *rest], most, gaps=False))
        if verbose:
            return ResultLines(head, "\n".join(lines[:tail]), _excerpt(lines, rest, most, gaps=False))
        return ResultLines(head, "", _excerpt(lines, [*errors, *rest], most, gaps=True))

    def _edit(self, event: ToolReturned, name: str, proposed: list[Change] | None) -> ResultLines:
        changes, verbose = event.changes or [], self._visibility.verbose
        pieces: list[Piece] = [_mark(event)]
        if len(changes) > 1:
            pieces += [("dim", _joined(name, f"{len(changes)} files changed")), *edits.counts(changes)]
        else:
            pieces.append(("dim", _joined(name, edits.DONE[changes[0].kind])))
            if proposed is None or edits.counts(proposed) != edits.counts(changes):
                pieces += edits.counts(changes)
        pieces.append(("dim", _time(event)))
        asked = self._asked.pop(event.call_id, None)
        before = proposed if verbose else asked
        was_shown = before and edits.changed_lines(before) == edits.changed_lines(changes)
        limit = None if verbose else edits.MAX_SHORT_DIFF_LINES
        rows = [] if was_shown or not self._visibility.shows_diffs else edits.diffs(changes, self._format.paths, limit)
        text = clean(event.text).strip("\n") if verbose else ""
        return ResultLines(pieces, "", [("dim", f"\n{text}"), *rows] if text else rows)


def _without_text(event: ToolReturned, kind: str) -> str:
    """Return the words for a result without text.

    Only for a command do they say that there was no output: some agents send what a tool has read only to the model.
    """
    if not event.output_reported:
        return "(output not reported)"
    return "(no output)" if kind == "execute" else "done"


def _mark(event: ToolReturned) -> Piece:
    """Return `✓` or `✗`, `–` if the agent does not report the status, or `◌` for an incomplete result."""
    if event.failed:
        return ("bad", "✗ ")
    if not event.status_reported:
        return ("dim", "– ")
    return ("good", "✓ ") if event.complete else ("warn", "◌ ")


def _style(event: ToolReturned) -> Style:
    return "bad" if event.failed else "dim"


def _joined(*words: str) -> str:
    return ": ".join(word for word in words if word)


def _figures(event: ToolReturned, text: str) -> str:
    """Return the number of lines if there are several, and the duration if it is long."""
    count = _count(text)
    return (f" ({count:,} lines)" if count > 1 else "") + _time(event)


def _count(text: str) -> int:
    return text.rstrip("\n").count("\n") + 1


def _time(event: ToolReturned) -> str:
    long = event.duration_ms is not None and event.duration_ms >= MIN_DURATION_MS
    return f" · {duration(event.duration_ms or 0)}" if long else ""


def _excerpt(lines: list[str], indexes: Iterable[int], most: int, *, gaps: bool) -> list[Piece]:
    """Return the lines at `indexes`, each with at most `most` characters; `gaps`: mark the lines left out."""
    pieces: list[Piece] = []
    last = 0
    for index in indexes:
        if gaps and index > last:
            pieces.append(("dim", f"\n… {index - last:,} {'lines' if index - last > 1 else 'line'}"))
        style = _ERROR_OUTPUT if _ERROR_LINE.match(lines[index]) else _OUTPUT
        pieces.append((style, "\n" + shortened(lines[index].rstrip(), most)))
        last = index + 1
    return pieces


def _lines_of(text: str) -> str:
    return f"{_count(text):,} {'line' if _count(text) == 1 else 'lines'}"


def _last_lines(text: str) -> list[str]:
    """Return all lines of a command's output if it is short, else the last one, where most programs print their result.

    A last line without a letter or a digit is skipped, such as a rule or a bracket.
    """
    end = text.rstrip()
    lines = end[-MAX_LAST_CHARS:].split("\n")
    shown = [line for line in map(_one_line, lines) if line]
    if len(shown) <= MAX_WHOLE_LINES and len(end) <= MAX_LAST_CHARS:
        return shown or [""]
    return [next((line for line in reversed(shown) if any(map(str.isalnum, line))), shown[-1] if shown else "…")]


def _one_line(line: str) -> str:
    return shortened(_GAP.sub("  ", clean(_TAG.sub("", line.rstrip("\r"))).strip()), MAX_RESULT_CHARS)


def _first_line(text: str) -> str:
    at = 0
    for _ in range(100):  # a result that begins with more blank lines has no short form
        end = text.find("\n", at)
        line = text[at : end if end >= 0 else len(text)][: 8 * MAX_RESULT_CHARS].rstrip("\r")
        shown = clean(_TAG.sub("", line)).strip()
        if shown and (end < 0 or _TAGGED_FACT.match(line) is None):
            return shortened(_GAP.sub("  ", shown), MAX_RESULT_CHARS)
        if end < 0:
            return ""
        at = end + 1
    return "…"
