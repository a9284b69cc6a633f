"""`penstock history`: lists earlier runs, and forgets them."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

import msgspec

from penstock.cli.console import columns, pass_on, say
from penstock.cli.directory import current_directory
from penstock.cli.earlier import EarlierRun, earlier_runs
from penstock.cli.editor.prompt_history import clear as clear_prompts
from penstock.cli.options import whole_number
from penstock.cli.parser import Parser
from penstock.cli.sessions import MAX_TITLE_CHARS, SHOWN, read_history, when
from penstock.config.data import data_path
from penstock.config.rules import ABOVE_0
from penstock.errors import UsageError
from penstock.run.history import History, now_ms
from penstock.run.kept import Keeper, Removed
from penstock.sinks.sanitize import clean_line
from penstock.sinks.text.styles import shortened

ID_CHARS = 8
"""Characters of an id in the table: enough to distinguish two runs."""

EXAMPLES = """\
examples:
  penstock history                      earlier runs in this directory, the newest last
  penstock show 2                       one of them again, by its number
  penstock history clear                forget all runs and prompts of all directories, and remove their recordings
  penstock history clear --recordings   only remove the recordings
"""


def command(args: list[str]) -> int:
    """Run `penstock history` and return the exit status."""
    made = parser()
    options = made.parse(args)
    if options.action == "clear":
        return say(_clear(options))
    if options.recordings:
        made.error("--recordings is an option of penstock history clear")
    here = None if options.all else str(current_directory("penstock history --all lists the runs of all directories"))
    found = earlier_runs(read_history(), here)
    limit = options.limit or (len(found) if options.json else SHOWN)
    if options.json:
        runs = [run for earlier in reversed(found[:limit]) for run in earlier.runs]
        return pass_on(msgspec.json.Encoder().encode_lines(runs))
    if not found:
        where = "" if options.all else " in this directory; penstock history --all lists those of others"
        return say(f"There are no earlier runs{where}.\n")
    return say(as_text(found, now_ms(), limit, with_directory=options.all))


def parser() -> Parser:
    """Return the parser of the command."""
    text = "List earlier runs of this directory, or forget all runs."
    made = Parser("history", text, examples=EXAMPLES, arguments="[clear] [options]")
    text = "forget all runs and typed prompts of all directories, and remove the recordings that Penstock keeps"
    made.add_argument("action", nargs="?", choices=("clear",), metavar="clear", help=text)
    made.add_argument("--recordings", action="store_true", help="with clear: only remove the recordings")
    made.add_argument("--all", action="store_true", help="of all directories")
    made.add_argument("--json", action="store_true", help="as one JSON object a line, with all that is known")
    text = f"at most this many, the newest (default {SHOWN}; with --json all)"
    made.add_argument("--limit", type=whole_number(ABOVE_0), metavar="N", help=text)
    return made


def as_text(found: Sequence[EarlierRun], now: int, limit: int, *, with_directory: bool) -> str:
    """Return the runs, the newest first, as a table for people with the newest last.

    Runs that can be shown have the number by which `penstock show` finds them in their directory.
    """
    heading = ["", "when", "agent", "outcome", "prompt", "id"]
    rows = []
    number = 0
    for earlier in found[:limit]:
        number += earlier.is_kept
        first = earlier.first
        outcomes = dict.fromkeys((run.outcome or "–").replace("_", " ") for run in earlier.runs)
        rows.append(
            [
                str(number) if earlier.is_kept and not with_directory else "",
                when(first.at, now),
                earlier.agents,
                ", ".join(outcomes),
                shortened(clean_line(first.title), MAX_TITLE_CHARS - 1),
                first.run[:ID_CHARS] if earlier.is_kept else "not kept",
                *([first.cwd] if with_directory else []),
            ]
        )
    return columns([[*heading, "directory"] if with_directory else heading, *reversed(rows)])


def _clear(options: Namespace) -> str:
    """Remove the recordings that are kept, and the list of runs; return what was done, in words.

    Raises:
        UsageError: they cannot be removed.
    """
    data = data_path()
    keeper = Keeper(data, 0)
    try:
        done = keeper.remove(list(keeper.recordings()))
        if not options.recordings:
            History(data).clear()
            clear_prompts(data)
    except OSError as error:
        raise UsageError(f"{error.filename or data} cannot be cleared: {error.strerror}") from error
    words = _words(done)
    return f"Removed {words}.\n" if options.recordings else f"Removed {words}, and forgot all runs and prompts.\n"


def _words(done: Removed) -> str:
    in_use = f" ({done.in_use} still being written)" if done.in_use else ""
    size = f"{done.size / 1e6:.1f} MB" if done.size >= 1e6 else f"{done.size / 1e3:.0f} kB"
    return f"{done.runs:,} recording{'s' * (done.runs != 1)}{in_use}, {size}"
