"""`penstock demo`: replay of the recording beside this file at its real pace."""

from __future__ import annotations

from pathlib import Path

from penstock.agents.registry import AGENTS
from penstock.cli.console import notify
from penstock.cli.options import ReadOptions
from penstock.cli.parser import Parser
from penstock.cli.replay import replay_file, with_display

RECORDING = next(Path(__file__).parent.glob("*.ndjson"))
"""Path of the recording; its name is that of its agent."""

INTRO = f"""\
A recording of a real agent at its real pace; only the model's words were written for it:
  {AGENTS[RECORDING.stem].stream} "…" | penstock

"""
OUTRO = f"""
The same with an agent of yours: penstock run {RECORDING.stem} "…". See penstock --help, and penstock agents.
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
