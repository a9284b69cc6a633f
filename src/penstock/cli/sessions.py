"""`penstock sessions`: lists the conversations of earlier runs, and how to resume one."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from penstock.cli.console import columns, fitted, pass_on, say
from penstock.cli.directory import current_directory
from penstock.cli.options import whole_number
from penstock.cli.parser import Parser
from penstock.config.data import data_path
from penstock.config.rules import ABOVE_0
from penstock.errors import UsageError
from penstock.run.history import History, RunRecord, conversations, now_ms
from penstock.sinks.sanitize import clean_line

SHOWN = 20
"""Number of conversations that are shown, without --limit."""

MAX_TITLE_CHARS = 48
"""Maximum characters of a title in the table, so that a line with a session id fits into a common terminal."""

EXAMPLES = """\
examples:
  penstock sessions                                 conversations in this directory, the newest last
  penstock sessions --all --json                    all that are known, as one JSON object a line
  penstock sessions --search parser bug             those with both words in their prompts
  penstock run claude --continue "and now the docs"       the newest of `penstock run claude` here
  penstock run claude --session 019a… "and now the docs"  any other
"""

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000


def command(args: list[str]) -> int:
    """Run `penstock sessions` and return the exit status."""
    options = parser().parse(args)
    found = conversations(read_history(), None if options.all else _directory(), options.search or ())
    limit = options.limit or (len(found) if options.json else SHOWN)
    found = found[-limit:] if limit else found
    if options.json:
        return pass_on(msgspec.json.Encoder().encode_lines(found))
    if not found:
        if options.search:
            return say(fitted("No conversation has all of these words in its prompts.\n"))
        where = "" if options.all else " in this directory; penstock sessions --all lists those of others"
        return say(fitted(f"There are no earlier conversations{where}.\n"))
    return say(as_text(found, now_ms(), with_directory=options.all))


def _directory() -> str:
    return str(current_directory("penstock sessions --all lists the conversations of all directories"))


def parser() -> Parser:
    """Return the parser of the command."""
    made = Parser("sessions", "List the conversations of earlier runs in this directory.", examples=EXAMPLES)
    made.add_argument("--all", action="store_true", help="of all directories")
    made.add_argument("--json", action="store_true", help="as one JSON object a line, with all that is known")
    text = "those with all of these words at the beginnings of their prompts, in any order; case does not matter"
    made.add_argument("--search", nargs="+", metavar="WORD", help=text)
    text = f"at most this many, the newest (default {SHOWN}; with --json all)"
    made.add_argument("--limit", type=whole_number(ABOVE_0), metavar="N", help=text)
    return made


def read_history() -> list[RunRecord]:
    """Return the runs of the history.

    Raises:
        UsageError: it cannot be read.
    """
    history = History(data_path())
    try:
        return [run for run in history.runs() if run.agent]  # of the others, too little is known
    except OSError as error:
        raise UsageError(f"{history.path} cannot be read: {error.strerror}") from error


def as_text(found: Sequence[RunRecord], now: int, *, with_directory: bool) -> str:
    """Return the conversations as a table for people."""
    heading = ["when", "kind", "agent", "outcome", "prompt", "session"]
    cells = [[*heading, "directory"] if with_directory else heading]
    for run in found:
        title = clean_line(run.title)
        if len(title) > MAX_TITLE_CHARS:
            title = title[: MAX_TITLE_CHARS - 1] + "…"
        outcome = (run.outcome or "–").replace("_", " ")
        row = [when(run.at, now), run.kind, run.agent, outcome, title, run.session_id or ""]
        cells.append([*row, run.cwd] if with_directory else row)
    return columns(cells)


def when(at: int, now: int) -> str:
    """Return a time for people: minutes or hours ago, then the date."""
    passed = max(0, now - at)
    if passed < MINUTE_MS:
        return "just now"
    if passed < HOUR_MS:
        return f"{passed // MINUTE_MS} min ago"
    if passed < DAY_MS:
        return f"{passed // HOUR_MS} h ago"
    return time.strftime("%Y-%m-%d", time.localtime(at / 1000))
