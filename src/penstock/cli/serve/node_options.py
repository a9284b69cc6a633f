"""Options that name the store and the node, for `penstock serve` and the commands for its store."""

from __future__ import annotations

import argparse
import socket

from penstock.cli import store_options
from penstock.cli.options import string
from penstock.config.rules import NODE_NAME
from penstock.errors import UsageError


class NodeOptions(store_options.StoreOptions):
    """Options that name the store and the node."""

    node: str | None
    env: list[str]
    """Names of further variables that agents get."""


def add_node_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that name the store and the node."""
    store_options.add_options(parser)
    text = "name of this machine among those of the store (default: its host name)"
    parser.add_argument("--node", type=string(NODE_NAME), metavar="NAME", help=text)


def store_url(options: NodeOptions) -> str | None:
    """Return the URL of the store in PostgreSQL, and remove it from the environment; None if no store is named.

    Raises:
        UsageError: the URL cannot be used, two are named, the extra is not installed, or agents would get its
            variables.
    """
    url = store_options.store_url(options)
    if url is None and options.node is not None:
        raise UsageError("--node needs a store of several machines", expected="--store postgresql://HOST/NAME")
    of_store = [name for name in options.env if name.startswith("PG")]
    if url is not None and of_store:
        raise UsageError(f"agents do not get {of_store[0]}: it may open the store of the chats")
    return url


def node_name(options: NodeOptions) -> str:
    """Return the name of this node.

    Raises:
        UsageError: the host name is not a valid name of a node.
    """
    return options.node or string(NODE_NAME)(socket.gethostname().partition(".")[0])
