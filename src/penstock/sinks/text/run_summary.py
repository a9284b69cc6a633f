"""First and last lines of a run: what is running, how it ended, what was changed and used, and how to continue."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter

import msgspec

from penstock.core import diffs
from penstock.core.bounded import BoundedDict
from penstock.core.causes import CAUSES
from penstock.core.questions import PERMISSIONS
from penstock.events import (
    Change,
    QuestionAnswered,
    QuestionAsked,
    RunEnded,
    RunStarted,
    ToolCalled,
    ToolReturned,
    Usage,
    UsageReported,
)
from penstock.sinks.sanitize import clean_line
from penstock.sinks.text import edits
from penstock.sinks.text.edits import Paths
from penstock.sinks.text.styles import Piece, Style, duration, shortened
from penstock.sinks.text.theme import message_in_json

MAX_REASON_CHARS = 400
"""Maximum characters of a failure's reason in the closing line; `replied` and the health report have the rest."""
MIN_SHOWN_MS = 100
"""Milliseconds from which a run's duration by Penstock's clock is shown: a shorter run was read from a file."""
MIN_ASKED_MS = 1000
"""Milliseconds from which a wait for a person is shown."""
SESSION_CHARS = 8
"""Characters of a session id in the first line: enough to distinguish two."""
_PLAIN_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:-]{0,199}")
EVERYTHING_UNASKED = "does everything unasked"
"""Permission that the first line shows in the colour of warnings."""
EVERYTHING_HERE = "does everything, in this directory only"
"""Permission of the same agent if it is confined."""
RULES_UNUSED = "your rules do not apply"
"""Warning that commands are run without a question, so that the rules for commands answer nothing."""
NOT_CONFINED = "not confined: "
"""Beginning of the reason why an agent is not confined although it should be."""
MAX_FILES = 8
"""Maximum number of changed files that are named at the end."""
MAX_CALLS = 4096
"""Maximum number of open calls that are followed."""
MAX_REFUSED = 64
"""Maximum number of denied actions whose subjects are kept."""
MAX_NAMED = 3
"""Maximum number of denied actions that are named at the end."""
MAX_SUBJECT_CHARS = 60
"""Maximum characters of one name."""


def utc_time(milliseconds: int) -> str:
    """Return a time, in milliseconds since 1970, in words for readers in an unknown time zone."""
    return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M} UTC"


class Guidance(msgspec.Struct, frozen=True):
    """Words that only the program around the sink knows."""

    program: str = ""
    """Name of the agent's program, if it may differ from the label in the events."""
    resume: Callable[[str], str] | None = None
    """Function that returns the command to continue the conversation with this id; "" if there is none."""
    allow: str = ""
    """How to allow actions that were denied."""
    permission: str = ""
    """What the agent may do, in a few words for the first line; "" if unknown."""
    has_rules: bool = False
    """True if the configuration has rules for commands. An agent that does everything unasked ignores them."""
    local_time: Callable[[int], str] = utc_time
    """Function that returns words for a time in milliseconds since 1970."""
    is_confined: bool = False
    """True if the agent is confined; the first line says so."""
    network: str = ""
    """Network of a confined agent, in a few words for the first line; "" if it is that of the machine."""
    not_confined: str = ""
    """Reason why the agent is not confined although it should be; the first line shows it."""
    is_live: bool = False
    """True if the run happens now. Its duration is then by Penstock's clock, even if the agent measured it."""
    said_before: set[str] | None = None
    """Facts in the first lines of the conversation's last run, which this one replaces with its own; None if the run is
    not one of a conversation. Facts that are the same are not repeated, and the end of the run has no session."""


class RunFacts:
    """Facts shown at the start and the end of a run: those already reported, and the totals."""

    def __init__(self, paths: Paths, guidance: Guidance) -> None:
        self._paths = paths
        self._guidance = guidance
        self._changes: list[Change] = []
        self._commands: BoundedDict[str, None] = BoundedDict(MAX_CALLS)
        self._titles: BoundedDict[str, str] = BoundedDict(MAX_CALLS)
        self._refused: BoundedDict[str, str] = BoundedDict(MAX_REFUSED)
        self._by_person = 0
        self._known: set[str] = set()
        self._known_before = frozenset(guidance.said_before or ())
        self._any_command = False
        self._is_confirmed = False
        self._has_directory = False
        self.has_first_line: bool = False
        """Whether the first line of the run has ended. A model that is reported later is named as one."""

    def reset(self) -> None:
        """Forget the run."""
        self._changes = []
        self._commands.clear()
        self._titles.clear()
        self._refused.clear()
        self._by_person = 0
        self._known = set()
        self._any_command = False
        self._is_confirmed = False
        self._has_directory = False
        self.has_first_line = False

    def note(self, event: ToolCalled | ToolReturned) -> None:
        """Count a call or its result."""
        if isinstance(event, ToolCalled):
            if event.tool_kind == "execute":
                self._commands[event.call_id] = None
            self._titles[event.call_id] = self._subject(event.title)
            return
        title = self._titles.pop(event.call_id, "")
        if event.refused and event.call_id not in self._refused:
            self._refused[event.call_id] = title
        self._any_command = self._any_command or (event.call_id in self._commands and not event.refused)
        for change in event.changes or ():
            self._changes.append(msgspec.structs.replace(change, diff=None, truncated=False))
        if len(self._changes) > MAX_CALLS:
            self._changes = diffs.join(self._changes)

    def note_answer(self, event: QuestionAnswered, asked: QuestionAsked | None) -> None:
        """Count the answer to a question; keep the subject of a denied permission."""
        if asked is None or asked.ask not in PERMISSIONS or event.by == "withdrawn":
            return
        kinds = {option.id: option.kind for option in asked.options or ()}
        if event.option is not None and kinds.get(event.option) not in ("reject_once", "reject_always"):
            return
        paths = ", ".join(change.path for change in asked.changes or ())
        self._refused[asked.call_id or asked.id] = self._subject(paths or asked.title or asked.text)
        self._by_person += event.by == "person"

    def _subject(self, text: str) -> str:
        """Return the first line of a command, or paths as they are shown."""
        line = ", ".join(map(self._paths.short, text.strip().partition("\n")[0].split(", ")))
        return shortened(clean_line(line), MAX_SUBJECT_CHARS)

    def started(self, event: RunStarted, *, whole: bool) -> list[Piece]:
        """Return what was not reported before: agent and version, model, directory, permission, session."""
        self._is_confirmed = self._is_confirmed or event.session_id is not None
        session = event.session_id and (event.session_id if whole else event.session_id[:SESSION_CHARS])
        cwd = event.cwd or (self._paths.given if self._guidance.is_live and not self._has_directory else None)
        self._has_directory = self._has_directory or cwd is not None
        is_free = not self._guidance.is_confined or self._guidance.permission != EVERYTHING_UNASKED
        facts = [
            f"{event.program or self._guidance.program or event.agent} {event.version}"
            if event.version
            else event.program,
            event.model,
            cwd and f"in {cwd}",
            self._guidance.permission if is_free else EVERYTHING_HERE,
            RULES_UNUSED if self._guidance.has_rules and self._guidance.permission == EVERYTHING_UNASKED else "",
            session and f"session {session}",
            "confined" if self._guidance.is_confined and is_free else "",
            self._guidance.network,
            f"{NOT_CONFINED}{self._guidance.not_confined}" if self._guidance.not_confined else "",
        ]
        known = self._known | self._known_before
        is_late = self.has_first_line
        new = [
            clean_line(f"model {fact}" if is_late and fact == event.model else fact)
            for fact in facts
            if fact and fact not in known
        ]
        self._known.update(fact for fact in facts if fact)
        if self._guidance.said_before is not None:
            self._guidance.said_before.clear()
            self._guidance.said_before.update(self._known)
        pieces: list[Piece] = []
        for fact in new:
            pieces += [("dim", " · " if pieces else "· "), ("warn" if _is_warning(fact) else "dim", fact)]
        return [(style, "".join(text for _, text in same)) for style, same in groupby(pieces, itemgetter(0))]

    def closing(self, event: RunEnded, *, whole: bool) -> list[Piece]:
        """Return the last lines of a run; without `whole`, only its outcome and the denied actions."""
        pieces = closing(event, self._guidance)
        if event.refused:
            # A person who has just denied an action needs no advice on how to allow it.
            allow = self._guidance.allow if event.refused > self._by_person else ""
            pieces += _refused(event.refused, list(filter(None, self._refused.values())), allow)
        if not whole:
            return pieces
        pieces += self._changed()
        if self._guidance.said_before is not None:
            return pieces
        if event.session_id is not None and (self._is_confirmed or event.outcome == "ok" or event.rounds):
            session, resume = clean_line(event.session_id), self._guidance.resume
            # Only a plain word may be the id in a command that the user copies.
            go_on = resume(session) if resume is not None and _PLAIN_ID.fullmatch(session) else ""
            # Text in the style `output` is not wrapped, so the command can be copied.
            pieces.append(("output", f"\ngo on: {go_on}") if go_on else ("dim", f"\nsession {session}"))
        return pieces

    def _changed(self) -> list[Piece]:
        files = diffs.join(self._changes)
        if not files:
            return []
        pieces: list[Piece] = [("dim", "\nchanged: ")]
        for number, change in enumerate(files[:MAX_FILES]):
            pieces += [("dim", ", ")] if number else []
            pieces += [
                ("text" if style == "name" else style, text) for style, text in edits.summary(change, self._paths)
            ]
        if len(files) > MAX_FILES:
            pieces += [("dim", f", and {len(files) - MAX_FILES:,} more files; in total"), *edits.counts(files)]
        return [*pieces, ("dim", "; commands may have changed more")] if self._any_command else pieces


def _is_warning(fact: str) -> bool:
    return fact in (EVERYTHING_UNASKED, RULES_UNUSED) or fact.startswith(NOT_CONFINED)


def usage_line(event: UsageReported) -> list[Piece]:
    """Return the usage of one model call."""
    facts = [clean_line(event.model)] if event.model else []
    cached = f" ({tokens(event.cached_tokens)} cached)" if event.cached_tokens else ""
    counts = _in_out(event.input_tokens, event.output_tokens, cached)
    facts += [*counts, *money(event.cost_usd)]
    return [("dim", "· " + " · ".join(facts))] if facts else []


_PLAINLY = {"cut_off": "the stream broke before the agent had finished", "empty": "the agent said nothing"}
_ENDS: dict[str, tuple[Piece, str]] = {
    "ok": (("good", "● "), "done"),
    "error": (("bad", "✗ "), "failed"),
    "cancelled": (("warn", "■ "), "cancelled"),
    "timed_out": (("bad", "✗ "), "timed out"),
    "cut_off": (("bad", "✗ "), "cut off"),
    "empty": (("bad", "✗ "), "empty"),
}


def closing(event: RunEnded, guidance: Guidance) -> list[Piece]:
    """Return the last line of a run: its outcome with the cause and the reason, its duration and usage."""
    mark, words = _ENDS[event.outcome]
    if event.outcome == "cancelled" and event.cause == "budget" and event.reason:
        words = clean_line(event.reason)  # "stopped: …", with the figure and the limit
    elif event.outcome != "ok":
        words = ": ".join([words, *_reasons(event, guidance.local_time)])
    facts = list(_facts(event))
    if milliseconds := measured(event, is_live=guidance.is_live):
        if event.outcome == "ok":
            words += f" in {duration(milliseconds)}"
        else:
            facts.insert(0, duration(milliseconds))
    style: Style = "text" if event.outcome == "ok" else mark[0]
    return [mark, (style, words), ("dim", "".join(f" · {fact}" for fact in facts))]


def _reasons(event: RunEnded, local_time: Callable[[int], str]) -> Iterator[str]:
    if event.cause is not None:
        resets = f"; it resets at {local_time(event.resets_at)}" if event.resets_at is not None else ""
        yield CAUSES[event.cause] + resets
    reason = event.reason or (_PLAINLY.get(event.outcome) if event.cause is None else None)
    if reason:
        yield clean_line(shortened(" ".join(message_in_json(reason).split()), MAX_REASON_CHARS))


def _refused(count: int, subjects: list[str], allow: str) -> list[Piece]:
    words = "1 action was refused" if count == 1 else f"{count:,} actions were refused"
    named = "; ".join(subjects[:MAX_NAMED]) + "; …" * (count > MAX_NAMED < len(subjects))
    return [
        ("warn", f"\n{words}"),
        ("text", f" ({named})" * bool(named)),
        ("text", f": {allow}" if allow else ""),
    ]


def measured(event: RunEnded, *, is_live: bool) -> int | None:
    """Return the duration of a run in milliseconds; None if unknown. That of a live run is by Penstock's clock.

    Time spent waiting for a person is not work, whether or not the agent's own clock counts it.
    """
    own = event.at if event.at is not None and event.at >= MIN_SHOWN_MS else None
    agents = event.duration_ms
    if event.asked_ms and own is not None:
        own = max(own - event.asked_ms, 1)
        agents = agents and min(agents, own)
    return own or agents if is_live else agents or own


def _facts(event: RunEnded) -> Iterator[str]:
    if event.asked_ms is not None and event.asked_ms >= MIN_ASKED_MS:
        yield f"asked {duration(event.asked_ms)}"
    if event.rounds:
        yield "1 round" if event.rounds == 1 else f"{event.rounds} rounds"
    usage = event.usage or Usage()
    yield from _in_out(usage.input_tokens, usage.output_tokens)
    yield from money(event.cost_usd if event.cost_usd is not None else usage.cost_usd)


def _in_out(given: int | None, made: int | None, cached: str = "") -> list[str]:
    sides = [f"{tokens(given)} in{cached}"] if given else []
    sides += [f"{tokens(made)} out"] if made else []
    return [", ".join(sides)] if sides else []


def tokens(count: int) -> str:
    """Return a count for people: `64`, `3.2k`, `1.5M`."""
    if count < 1000:
        return str(count)
    return f"{count / 1000:.1f}k" if count < 999_950 else f"{count / 1_000_000:.1f}M"


def money(usd: float | None) -> list[str]:
    """Return an amount of US dollars with its significant digits; an empty list for None."""
    if not usd:
        return []
    return [f"${usd:.2f}" if usd >= 0.01 else f"${usd:.4f}" if usd >= 0.00005 else "under $0.0001"]
