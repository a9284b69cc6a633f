"""`penstock doc diff`: shows what is new in a document since the last reply."""

from __future__ import annotations

from penstock.cli.console import notify_problem, pass_on
from penstock.cli.doc.answer import nothing_new
from penstock.cli.exit_status import OK
from penstock.cli.parser import Parser
from penstock.doc.opened import known_state, read_document
from penstock.doc.submission import submission


def command(args: list[str]) -> int:
    """Run `penstock doc diff` and return the exit status."""
    path = parser().parse(args).file
    document = read_document(path)
    state = known_state(path, document)
    snapshot = (state.snapshot or None) if state is not None else None
    found = submission(document, snapshot)
    if not found.is_new:
        notify_problem(f"{path}: {nothing_new(is_begun=snapshot is not None)}")
        return OK
    return pass_on(found.changes)


def parser() -> Parser:
    """Return the parser of the command."""
    made = Parser("doc diff", "Show what is new in a document since the last reply.", arguments="FILE.md")
    made.add_argument("file", metavar="FILE.md", help="document")
    return made
