"""`penstock doc patch`: changes a component of a document as an agent would."""

from __future__ import annotations

from penstock.cli import piped
from penstock.cli.console import notify_problem, say
from penstock.cli.exit_status import OK, PROPOSED
from penstock.cli.parser import Parser
from penstock.doc.exchange import is_utf8
from penstock.doc.opened import opened
from penstock.errors import UsageError, shown


def command(args: list[str]) -> int:
    """Run `penstock doc patch` and return the exit status."""
    options = parser().parse(args)
    text = piped.read_prompt(notify_problem)
    if not is_utf8(text):
        raise UsageError("the text on stdin is not UTF-8", help="convert it to UTF-8")
    with opened(options.file) as document:
        component = document.document.component(options.name)
        if component is None:
            names = [one.name for one in document.document.markers.components]
            raise UsageError(
                f"{options.file} has no component {shown(options.name)}",
                expected="one of " + ", ".join(names) if names else "a document with components",
            )
        done = document.patch(options.name, text)
    for note in done.notes:
        notify_problem(note)
    if done.proposals:
        notify_problem(f"{options.file}: you have changed {options.name} meanwhile; the new text stands below yours")
    say(f"{options.file}: {options.name} has the text\n")
    return PROPOSED if done.proposals else OK


def parser() -> Parser:
    """Return the parser of the command."""
    text = "Replace or extend a component of a document by the text on stdin, as its attributes say."
    made = Parser("doc patch", text, arguments="FILE.md NAME < TEXT")
    made.add_argument("file", metavar="FILE.md", help="document")
    made.add_argument("name", metavar="NAME", help="name of the component: exchange, status, …")
    return made
