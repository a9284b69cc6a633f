"""`penstock doc reset`: forgets the replies and the conversation of a document."""

from __future__ import annotations

from penstock.cli.console import say
from penstock.cli.parser import Parser
from penstock.doc.opened import opened


def command(args: list[str]) -> int:
    """Run `penstock doc reset` and return the exit status."""
    path = parser().parse(args).file
    with opened(path) as document:
        document.state.reset()
    return say(f"{path}: the next answer is to all of the document, in a new conversation\n")


def parser() -> Parser:
    """Return the parser of the command."""
    text = "Forget the replies and the conversation of a document: all of it is new. The document stays as it is."
    made = Parser("doc reset", text, arguments="FILE.md")
    made.add_argument("file", metavar="FILE.md", help="document")
    return made
