"""`penstock store`: makes the tables of the store in PostgreSQL, checks a store, copies one machine's chats into it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli.console import notify_problem, say
from penstock.cli.exit_status import FAILED
from penstock.cli.options import string
from penstock.cli.parser import Parser
from penstock.cli.serve.node_options import NodeOptions, add_node_options, node_name
from penstock.cli.serve.stores import CHATS
from penstock.cli.store_options import required_store_url, store_url
from penstock.config.data import data_directory
from penstock.config.rules import PATH
from penstock.errors import UsageError

if TYPE_CHECKING:
    from penstock.chat.store.store_report import StoreReport

EXAMPLES = """\
examples:
  penstock store migrate --store postgresql://penstock@db/penstock     make the tables, or those that a new version adds
  penstock store check                                                 whether the file of this machine is sound
  penstock store check --store postgresql://penstock@db/penstock       whether all entries are there
  penstock store copy --store postgresql://penstock@db/penstock        copy the chats of this machine

Only copy changes chats, and it only adds some: a chat that the database has is left as it is, and so is the file. The
agents of the copied chats run on --node from then on.
"""


class StoreCommandOptions(NodeOptions):
    """Values of the arguments."""

    action: str
    data: Path | None


def command(args: list[str]) -> int:
    """Run `penstock store` and return the exit status."""
    options = StoreCommandOptions(**vars(parser().parse(args)))
    if options.action == "check":
        url = store_url(options)
        return _check_file(options) if url is None else _check(url)
    url = required_store_url(options)
    return _copy(options, url) if options.action == "copy" else _migrate(url)


def parser() -> Parser:
    """Return the parser of the command."""
    text = "Make the tables of the store in PostgreSQL, check a store, or copy the chats of this machine into it."
    made = Parser("store", text, examples=EXAMPLES, arguments="migrate|check|copy [options]")
    add = made.add_argument
    add("action", choices=("migrate", "check", "copy"), metavar="ACTION", help="migrate, check or copy")
    add_node_options(made)
    text = "with copy, or check without --store: directory of the chats (default ~/.local/share/penstock)"
    add("--data", type=lambda word: Path(string(PATH)(word)), metavar="DIR", help=text)
    return made


def _migrate(url: str) -> int:
    from penstock.chat.store.postgres.migrate import migrate

    made = asyncio.run(migrate(url))
    if not made:
        return say("The database has all tables.\n")
    return say("".join(f"made {name}\n" for name in made))


def _check(url: str) -> int:
    from penstock.chat.store.postgres.checking import check

    return _report(asyncio.run(check(url)))


def _check_file(options: StoreCommandOptions) -> int:
    from penstock.chat.store.file_check import check_file

    return _report(check_file(_file_of(options)))


def _report(found: StoreReport) -> int:
    size = f"{found.bytes / 1e6:,.0f} MB {found.place}"
    say(f"{found.chats:,} chats, {found.turns:,} turns, {found.entries:,} entries; {size}\n")
    for text in (*found.cautions, *found.problems):
        notify_problem(text)
    return FAILED if found.problems else 0


def _file_of(options: StoreCommandOptions) -> Path:
    """Return the file with the chats of this machine.

    Raises:
        UsageError: there is none.
    """
    file = data_directory(options.data) / CHATS
    if not file.exists():
        folder = str(file.parent)
        raise UsageError(f"there are no chats in the data directory {folder!r}", help="name another one with --data")
    return file


def _copy(options: StoreCommandOptions, url: str) -> int:
    from penstock.chat.store.postgres.copying import copy

    file = _file_of(options)
    home = node_name(options)
    copied = asyncio.run(copy(file, url, home=home))
    text = f"copied {copied.chats:,} chats with {copied.entries:,} entries, whose agents run on {home}\n"
    if copied.present:
        text += f"left {len(copied.present):,} chats as they are, which the database has already\n"
    return say(text)
