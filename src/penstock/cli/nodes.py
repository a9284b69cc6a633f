"""`penstock nodes`: the machines that share a store, and what runs on each."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from penstock.chat.service.dispatch import NodeView
from penstock.cli import store_options
from penstock.cli.console import columns, say
from penstock.cli.parser import Parser
from penstock.sinks.sanitize import clean_line
from penstock.sinks.text.styles import duration

EXAMPLES = """\
examples:
  penstock nodes --store postgresql://db.example.org/penstock    all machines of the store
  penstock nodes --store-file URL --json                         as JSON, with roots, agents and chats
"""


class NodesOptions(store_options.StoreOptions):
    """Options of the command line."""

    json: bool


def command(args: Sequence[str]) -> int:
    """Run `penstock nodes` and return the exit status.

    Raises:
        UsageError: no store is named, or it cannot be used.
        StoreFailed: the store cannot be read.
    """
    options = NodesOptions(**vars(parser().parse(args)))
    nodes = asyncio.run(_nodes(store_options.required_store_url(options)))
    if options.json:
        return say(msgspec.json.Encoder().encode_lines(nodes).decode())
    return say(as_text(nodes) if nodes else "There are no nodes.\n")


def parser() -> Parser:
    """Return the parser of the command."""
    made = Parser("nodes", "List the machines that share a store, and what runs on each.", examples=EXAMPLES)
    store_options.add_options(made)
    made.add_argument("--json", action="store_true", help="as one JSON object a line, with all that is known")
    return made


def as_text(nodes: Sequence[NodeView]) -> str:
    """Return the nodes as a table for people, and a table of the chats that they work on."""
    rows = [("node", "state", "version", "agents at work", "roots")]
    for node in nodes:
        about = node.about
        state = "up" if node.is_live else f"away for {duration(int(node.seen_seconds * 1000), whole=True)}"
        work = "only serves" if not about.roots else f"{about.busy} of {about.slots}" if node.is_live else ""
        rows.append((node.name, state, clean_line(about.version), work, clean_line(", ".join(about.roots))))
    chats = [(node.name, clean_line(chat.title or "New chat"), chat.id) for node in nodes for chat in node.chats]
    return columns(rows) + ("\n" + columns([("node", "works on", "chat"), *chats]) if chats else "")


async def _nodes(url: str) -> list[NodeView]:
    from penstock.chat.cluster.nodes import list_nodes
    from penstock.chat.store.postgres.connections import Database

    database = Database(url)
    try:
        return await list_nodes(database)
    finally:
        await database.close()
