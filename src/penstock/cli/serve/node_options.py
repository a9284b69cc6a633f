"""Options that name the store and the node: of `penstock serve`, and of the commands for its store."""

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
    """Names of variables that agents get."""


def add_node_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that name the store and the node."""
    store_options.add_options(parser)
    text = "name of this machine among those of the store (default: its host name)"
    parser.add_argument("--node", type=string(NODE_NAME), metavar="NAME", help=text)


def store_url(options: NodeOptions) -> str | None:
    """Return the URL of the store in PostgreSQL, and remove it from the environment; None if none is named.

    Raises:
        UsageError: it cannot be used, two are named, the extra is not installed, or agents are to get its variables.
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
        UsageError: the host name cannot be one.
    """
    return options.node or string(NODE_NAME)(socket.gethostname().partition(".")[0])
