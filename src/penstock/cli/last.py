"""`penstock last`: shows the last run of this directory again."""

from __future__ import annotations

from penstock.cli.parser import Parser
from penstock.cli.show import add_choices, show

EXAMPLES = """\
examples:
  penstock last                the last `penstock run` of this directory, as it looked
  penstock last --reply        only its reply
  penstock last --failures     what failed in it
"""


def command(args: list[str]) -> int:
    """Run `penstock last` and return the exit status."""
    return show(parser().parse(args), "1")


def parser() -> Parser:
    """Return the parser of the command."""
    made = Parser("last", "Show the last run of this directory again, as it looked.", examples=EXAMPLES)
    add_choices(made)
    return made
