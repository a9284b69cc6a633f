"""`penstock replay`: replays a recorded run at its original pace."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli.console import notify_problem, sink_output
from penstock.cli.options import ReadOptions, agent_flag, display_flags, speed_flag
from penstock.cli.parser import Parser
from penstock.cli.read import configured, flush_held, held_left, make_readings, show
from penstock.cli.screen import Screen
from penstock.run.replay import find, replay

if TYPE_CHECKING:
    from penstock.cli.sources import Chunk


def command(args: list[str]) -> int:
    """Run `penstock replay` and return the exit status."""
    options = ReadOptions(**vars(parser().parse(args)))
    return replay_file(options, Path(options.files[0]))


def parser() -> Parser:
    """Return the parser of the command."""
    text = "Replay the recording of a run, or a file with the output of an agent, at its pace if that is known."
    made = Parser("replay", text, arguments="FILE [options]")
    text = "a recording's folder, a folder with one recording, or a file"
    made.add_argument("files", nargs=1, metavar="FILE", help=text)
    return with_display(made)


def with_display(made: Parser) -> Parser:
    """Return the parser with the options of all commands that replay a recording."""
    speed_flag(made)
    agent_flag(made)
    display_flags(made)
    return made


def replay_file(options: ReadOptions, path: Path) -> int:
    """Show a recording at its original pace and return the exit status."""
    found, adapter = find(path), None
    if options.agent == "auto":
        adapter = found.reader() if found.is_resumed else None
        options.agent, options.label = found.agent or "auto", options.label or found.label
    cut = ""

    def feed() -> Iterator[Chunk]:
        nonlocal cut
        at, lines = None, 0
        for data, at in replay(found.input, options.speed, whole=found.cut is not None, sleep=sleep):
            lines += 1
            yield 0, data, at
        if found.cut is not None:
            cut = f"the recording was cut after {lines:,} line{'s' * (lines != 1)}: {found.cut}"
        yield 0, None, at

    def sleep(seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := held_left(readings)) is not None and time.monotonic() + left < end:
            time.sleep(left)
            flush_held(readings, output)
        time.sleep(max(0.0, end - time.monotonic()))

    screen, output = Screen(options), sink_output(options.to)
    readings = make_readings(options, configured(), [None], screen, adapter)
    readings[0].exit = found.exit
    with screen:
        status = show(options, readings, feed(), lambda number: None)
    if cut:
        notify_problem(cut)  # after the output that it explains
    return status
