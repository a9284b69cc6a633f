"""`penstock serve` as one of several nodes: options, store and membership. It imports the extra `cluster` late."""

from __future__ import annotations

import argparse
import logging
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from penstock.chat.service.dispatch import Dispatch
from penstock.chat.store.logins import LoginStore
from penstock.chat.store.protocol import ChatStore
from penstock.chat.store.sqlite import SqliteStore
from penstock.cli import store_options
from penstock.cli.console import notify
from penstock.cli.options import string
from penstock.config.rules import Rule
from penstock.errors import UsageError

if TYPE_CHECKING:
    from penstock.chat.cluster.member import Member

CHATS = "chats.db"
"""File of the chats in the data directory, for one machine."""

NODE_NAME = Rule(
    lambda value: re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", value) is not None,
    "the name of a node: 1 to 63 of the characters A-Z a-z 0-9 . _ -, a letter or digit first",
)

_log = logging.getLogger("penstock.gateway")


class NodeOptions(store_options.StoreOptions):
    """Options that name the store and the node."""

    node: str | None
    env: list[str]
    """Names of variables that agents get."""


class Opened(NamedTuple):
    """Store of the chats, and the part of this process in the work on them."""

    store: ChatStore
    dispatch: Dispatch
    member: Member | None = None
    """Membership; None if there is one machine."""
    logins: LoginStore | None = None
    """Logins of all nodes; None if there is one machine."""


def add_options(parser: argparse.ArgumentParser) -> None:
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


@asynccontextmanager
async def opened(
    url: str | None, options: NodeOptions, data: Path, token: str, *, works: bool
) -> AsyncIterator[Opened]:
    """Open the store: the file `data`, or the database `url`, of which this process becomes a node.

    All nodes accept the `token` of this one. `works` is true if agents work in this process.

    Raises:
        UsageError, StoreFailed: it cannot be opened.
    """
    if url is None:
        async with await SqliteStore.open(data) as store:
            if store.caution:
                _log.info(store.caution)
            yield Opened(store, Dispatch())
        return
    from penstock.chat.cluster.homes import Homes
    from penstock.chat.cluster.logins import SharedLogins
    from penstock.chat.cluster.member import Member
    from penstock.chat.store.postgres.store import PostgresStore

    node = node_name(options)
    if not works:
        notify(f"penstock: the node {node!r} only serves the page, as it has no --root\n")
    async with await PostgresStore.open(url, node=node) as shared:
        homes = Homes(shared.database, node, works=works)
        dispatch = Dispatch(node=node, by_jobs=True, elsewhere=homes)
        member = Member(shared.database, dispatch, works=works)
        await member.join(lambda taken: notify(f"penstock: {taken.what}: waiting for the end of its lease\n"))
        logins = SharedLogins(shared.database, token)
        try:
            await logins.register(node)
            yield Opened(shared, dispatch, member, logins)
        finally:
            await member.close()
