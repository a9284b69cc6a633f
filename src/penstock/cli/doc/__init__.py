"""`penstock doc`: a document in which an agent answers. Each of its commands is in a module of this package."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.cli.parser import Parser

COMMANDS = {
    "init": "penstock.cli.doc.init",
    "diff": "penstock.cli.doc.diff",
    "patch": "penstock.cli.doc.patch",
    "recover": "penstock.cli.doc.recover",
    "reset": "penstock.cli.doc.reset",
    "status": "penstock.cli.doc.status",
    "watch": "penstock.cli.doc.watch",
}
"""Module of each command; its function `command` runs the command. A file with such a name is written `./status`."""


def command(args: list[str]) -> int:
    """Run `penstock doc` and return the exit status."""
    first = args[0] if args else ""
    module = COMMANDS.get(first)
    if module is not None:
        status: int = import_module(module).command(args[1:])
        return status
    from penstock.cli.doc.answer import command

    return command(args)


def parser() -> Parser:
    """Return the parser of `penstock doc FILE.md`."""
    from penstock.cli.doc.answer import parser

    return parser()


def subcommands() -> dict[str, Parser]:
    """Return the parser of each command."""
    return {name: import_module(module).parser() for name, module in COMMANDS.items()}
