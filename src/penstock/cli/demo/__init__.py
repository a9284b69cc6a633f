"""`penstock demo`: replays the recording beside this file at its original pace."""

from __future__ import annotations

from pathlib import Path

from penstock.cli.console import notify
from penstock.cli.options import ReadOptions
from penstock.cli.parser import Parser
from penstock.cli.replay import replay_file, with_display

RECORDING = next(Path(__file__).parent.glob("*.ndjson"))
"""Path of the recording, which is named after its agent."""

INTRO = f"""\
A real agent at work, replayed at its pace; only the model's words are scripted.

$ penstock run {RECORDING.stem} "fix the failing test" --allow all
"""
OUTRO = f"""
Now with an agent of yours: penstock run {RECORDING.stem} "…"
The agents that you have: penstock agents. All commands: penstock --help.
"""


def command(args: list[str]) -> int:
    """Run `penstock demo` and return the exit status."""
    options = ReadOptions(**vars(parser().parse(args)))
    notify(INTRO)
    status = replay_file(options, RECORDING)
    notify(OUTRO)
    return status


def parser() -> Parser:
    """Return the parser of the command."""
    return with_display(Parser("demo", "Replay a real recording of an agent at its real pace."))
