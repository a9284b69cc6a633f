"""`penstock doc status`: lists the documents that were answered, and what is new or waits in them."""

from __future__ import annotations

import os

import msgspec

from penstock.cli.console import columns, pass_on, say
from penstock.cli.parser import Parser
from penstock.cli.sessions import when
from penstock.config.data import data_path
from penstock.doc.overview import DocumentStatus, overview
from penstock.run.history import now_ms


def command(args: list[str]) -> int:
    """Run `penstock doc status` and return the exit status."""
    options = parser().parse(args)
    found = overview(data_path(), options.files)
    if options.json:
        return pass_on(msgspec.json.Encoder().encode_lines(found))
    if not found:
        return say("No document was answered yet.\n")
    return say(columns([("answered", "agent", "state", "document"), *map(_row, found)]))


def parser() -> Parser:
    """Return the parser of the command."""
    text = "List the documents that were answered, and what is new or waits in each."
    made = Parser("doc status", text, arguments="[FILE.md …] [--json]")
    made.add_argument("files", nargs="*", metavar="FILE.md", help="documents (default: all)")
    made.add_argument("--json", action="store_true", help="as one JSON object a line")
    return made


def _row(one: DocumentStatus) -> tuple[str, str, str, str]:
    answered = when(one.answered_at, now_ms()) if one.answered_at else "–"
    path = os.path.relpath(one.path) if one.path.startswith(os.getcwd() + os.sep) else one.path
    return answered, one.agent or "–", one.state, path
