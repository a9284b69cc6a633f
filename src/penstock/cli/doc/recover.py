"""`penstock doc recover`: publishes a reply that is missing from its document."""

from __future__ import annotations

from penstock.cli.console import notify_problem, say
from penstock.cli.parser import Parser
from penstock.doc.opened import locked
from penstock.doc.recovery import publish_again


def command(args: list[str]) -> int:
    """Run `penstock doc recover` and return the exit status."""
    file = parser().parse(args).file
    with locked(file) as (path, state):
        done = publish_again(path, state)
    if done is None:
        return say(f"{file}: the last reply is in the document, or there was none yet\n")
    for note in done.notes:
        notify_problem(note)
    return say(f"{file}: the reply is in the document again\n")


def parser() -> Parser:
    """Return the parser of the command."""
    text = "Publish a reply that is not in its document: the command was interrupted, or an editor overwrote the reply."
    made = Parser("doc recover", text, arguments="FILE.md")
    made.add_argument("file", metavar="FILE.md", help="document")
    return made
