"""`penstock show`: shows an earlier run again."""

from __future__ import annotations

from argparse import Namespace

from penstock.cli.console import notify_problem
from penstock.cli.directory import current_directory
from penstock.cli.earlier import EarlierRun, earlier_runs, show_again
from penstock.cli.options import ReadOptions, display_flags
from penstock.cli.parser import Parser
from penstock.cli.sessions import read_history, when
from penstock.errors import UsageError, shown
from penstock.run.history import now_ms

EXAMPLES = """\
examples:
  penstock show                the last run of this directory, as penstock last
  penstock show 2              the run before it
  penstock show 4f1c --diff    what the run with this id changed, in whatever directory it was
"""


def command(args: list[str]) -> int:
    """Run `penstock show` and return the exit status."""
    options = parser().parse(args)
    return show(options, options.run)


def parser() -> Parser:
    """Return the parser of the command."""
    text = "Show an earlier run again, as it looked: penstock history lists them."
    made = Parser("show", text, examples=EXAMPLES, arguments="[N|ID] [options]")
    text = "its number in this directory (1, the default, is the last), or the beginning of its id or of its session id"
    made.add_argument("run", nargs="?", default="1", metavar="N|ID", help=text)
    add_choices(made)
    return made


def add_choices(made: Parser) -> None:
    """Add the options for the part of a run that is shown."""
    part = made.add_mutually_exclusive_group()
    add = part.add_argument
    add("--diff", action="store_true", help="only the changes of files that the agent reported")
    add("--reply", action="store_true", help="only the final reply, as --to reply")
    add("--log", action="store_true", help="all of it, in complete lines, as --detail verbose --mode none")
    add("--failures", action="store_true", help="only what failed: calls with all of their output, and the run")
    display_flags(made)


def show(options: Namespace, wanted: str) -> int:
    """Show the run that is wanted and return the exit status."""
    words = vars(options)
    words.pop("run", None)
    parts = {name: words.pop(name) for name in ("diff", "reply", "log", "failures")}
    display = ReadOptions(**words)
    part = next((name for name, is_wanted in parts.items() if is_wanted), "")
    if part and display.to != "text":
        raise UsageError(f"--{part} is for people, and --to {display.to} for programs", help="leave one of them out")
    found = find_run(wanted)
    first = found.first
    notify_problem(f"{found.agents}, {when(first.at, now_ms())}: {first.title}")
    if part in ("diff", "failures"):
        from penstock.cli.run_parts import show_diff, show_failures

        return show_diff(display, found) if part == "diff" else show_failures(display, found)
    if part == "reply":
        display.to = "reply"
    elif part == "log":
        display.detail, display.mode = "verbose", "none"
    return show_again(display, found)


def find_run(wanted: str) -> EarlierRun:
    """Return the earlier run with this number or id.

    Raises:
        UsageError: there is none, or the id may mean several.
    """
    runs = read_history()
    if wanted.isascii() and wanted.isdigit() and len(wanted) < 4:
        here = str(current_directory("penstock show ID shows a run of another directory"))
        found = earlier_runs(runs, here)
        kept = [run for run in found if run.is_kept]
        number = int(wanted)
        if not 1 <= number <= len(kept):
            if kept:
                raise UsageError(
                    f"there is no run {number} to show", help="penstock history lists the runs that are kept"
                )
            what = "no run of this directory can be shown"
            raise UsageError(what, help="runs in a terminal are kept for some days")
        if newer := found.index(kept[number - 1]) - (number - 1):
            notify_problem(f"{newer} newer run{'s were' if newer > 1 else ' was'} not kept")
        return kept[number - 1]
    matching = [run for run in earlier_runs(runs, None) if run.has_id(wanted)]
    if not matching:
        raise UsageError(f"there is no run {shown(wanted)}", help="penstock history --all lists those that are known")
    return matching[0]
