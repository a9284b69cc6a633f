"""`penstock doc init`: begins a document."""

from __future__ import annotations

import os
from pathlib import Path

from penstock.cli.console import say
from penstock.cli.parser import Parser
from penstock.cli.read import configured
from penstock.doc.chosen_agent import chosen_agent
from penstock.doc.new_document import new_document
from penstock.errors import UsageError


def command(args: list[str]) -> int:
    """Run `penstock doc init` and return the exit status."""
    options = parser().parse(args)
    path = Path(options.file)
    try:
        agent = chosen_agent(options.agent, None, configured())
    except UsageError:
        agent = None  # none is installed yet; the first answer chooses one
    title = path.stem.replace("-", " ").replace("_", " ").strip().capitalize() or "Notes"
    _write(path, new_document(title, agent, template=options.template))
    place = "between the lines agent:exchange" if options.template else "below ## User"
    return say(f"{path}: write {place}, save it, then: penstock doc {path}\n")


def parser() -> Parser:
    """Return the parser of the command."""
    made = Parser("doc init", "Begin a document.", arguments="FILE.md [options]")
    made.add_argument("file", metavar="FILE.md", help="file to create")
    made.add_argument("--template", action="store_true", help="with components: status, exchange and queue")
    made.add_argument("--agent", metavar="NAME", help="agent to ask (default: the first one that is installed)")
    return made


def _write(path: Path, text: str) -> None:
    """Create the file.

    Raises:
        UsageError: it exists, or cannot be created.
    """
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except FileExistsError as error:
        raise UsageError(
            f"{path} exists already", help=f"any Markdown file can be asked as it is: penstock doc {path}"
        ) from error
    except OSError as error:
        raise UsageError(f"{path} cannot be created: {error.strerror}") from error
    try:
        with open(fd, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        path.unlink()  # it would be in the way of the next try
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error
