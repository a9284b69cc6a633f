"""`penstock nodes`: lists the machines that share a store, and what runs on each."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from penstock.chat.service.nodes import NodeView
from penstock.cli import store_options
from penstock.cli.console import columns, pass_on, say
from penstock.cli.options import string
from penstock.cli.parser import Parser
from penstock.config.rules import NODE_NAME
from penstock.errors import UsageError
from penstock.sinks.text.styles import duration

EXAMPLES = """\
examples:
  penstock nodes --store postgresql://db.example.org/penstock    all machines of the store
  penstock nodes --store-file URL --json                         as JSON, with roots, agents and chats
  penstock nodes --store-file URL --remove oslo                  remove a machine that does not come back
"""


class NodesOptions(store_options.StoreOptions):
    """Options of the command line."""

    json: bool
    remove: str | None


def command(args: Sequence[str]) -> int:
    """Run `penstock nodes` and return the exit status.

    Raises:
        UsageError: no store is named, the store cannot be used, or the node cannot be removed.
        StoreFailed: the store cannot be read.
    """
    options = NodesOptions(**vars(parser().parse(args)))
    if options.json and options.remove is not None:
        raise UsageError("--json and --remove cannot be used together", expected="one of them")
    url = store_options.required_store_url(options)
    if options.remove is not None:
        return say(asyncio.run(_remove(url, options.remove)))
    nodes = asyncio.run(_nodes(url))
    if options.json:
        return pass_on(msgspec.json.Encoder().encode_lines(nodes))
    return say(as_text(nodes) if nodes else "There are no nodes.\n")


def parser() -> Parser:
    """Return the parser of the command."""
    made = Parser("nodes", "List the machines that share a store, or remove one.", examples=EXAMPLES)
    store_options.add_options(made)
    made.add_argument("--json", action="store_true", help="as one JSON object a line, with all that is known")
    text = "remove a machine that does not come back: its token and the logins there are no longer valid"
    made.add_argument("--remove", type=string(NODE_NAME), metavar="NAME", help=text)
    return made


def as_text(nodes: Sequence[NodeView]) -> str:
    """Return a table of the nodes and a table of the chats that they work on, for people."""
    rows = [("node", "state", "version", "agents at work", "roots")]
    for node in nodes:
        about = node.about
        state = "up" if node.is_live else f"away for {duration(int(node.seen_seconds * 1000), whole=True)}"
        work = "only serves" if not about.roots else f"{about.busy} of {about.slots}" if node.is_live else ""
        rows.append((node.name, state, about.version, work, ", ".join(about.roots)))
    chats = [(node.name, chat.title or "New chat", chat.id) for node in nodes for chat in node.chats]
    return columns(rows) + ("\n" + columns([("node", "works on", "chat"), *chats]) if chats else "")


async def _nodes(url: str) -> list[NodeView]:
    from penstock.chat.cluster.nodes import list_nodes
    from penstock.chat.store.postgres.connections import Database

    async with Database(url) as database:
        return await list_nodes(database)


async def _remove(url: str, name: str) -> str:
    from penstock.chat.cluster.nodes import remove_node
    from penstock.chat.store.postgres.connections import Database

    async with Database(url) as database:
        removed = await remove_node(database, name)
    return (
        f"The node {name!r} is removed. Its token is no longer valid.\n"
        f"Browsers that are signed out: {removed.browsers:,}\n"
        f"Chats that can be read, and work again once there is a node of this name: {removed.chats:,}\n"
    )
