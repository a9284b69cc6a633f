"""`penstock serve` as one of several nodes: options, store and membership. It imports the extra `cluster` late."""

from __future__ import annotations

import argparse
import importlib.util
import logging
import os
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
from penstock.cli.console import notify
from penstock.cli.options import string
from penstock.config.rules import PATH, Rule
from penstock.errors import UsageError

if TYPE_CHECKING:
    from penstock.chat.cluster.member import Member

STORE_VARIABLE = "PENSTOCK_STORE"
"""Variable with the URL of the store. It is removed from the environment, so that no agent finds it."""

MAX_URL_BYTES = 4096
"""Bytes of the longest URL: a larger file is something else."""

PACKAGES = ("psycopg", "psycopg_pool", "procrastinate")

NODE_NAME = Rule(
    lambda value: re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", value) is not None,
    "the name of a node: 1 to 63 of the characters A-Z a-z 0-9 . _ -, a letter or digit first",
)


_log = logging.getLogger("penstock.gateway")


class StoreOptions(argparse.Namespace):
    """Options that name the store."""

    store: str | None
    store_file: Path | None
    node: str | None


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
    add = parser.add_argument
    text = "PostgreSQL for the chats of several machines, without a password"
    add("--store", metavar="URL", help=text)
    text = f"file with the URL of the store, which may have a password; {STORE_VARIABLE} has it too"
    add("--store-file", type=lambda word: Path(string(PATH)(word)), metavar="F", help=text)
    text = "name of this machine among those of the store (default: its host name)"
    add("--node", type=string(NODE_NAME), metavar="NAME", help=text)


def store_url(options: StoreOptions) -> str | None:
    """Return the URL of the store in PostgreSQL, and remove it from the environment; None if none is named.

    Raises:
        UsageError: it cannot be used, two are named, or the extra is not installed.
    """
    given = os.environ.pop(STORE_VARIABLE, None)
    if options.store is not None and options.store_file is not None:
        raise UsageError("--store and --store-file cannot be used together", expected="one of them")
    url = given
    if options.store is not None:
        url = options.store
    elif options.store_file is not None:
        url = _read(options.store_file)
    if url is None:
        if options.node is not None:
            raise UsageError("--node needs a store of several machines", expected="--store postgresql://HOST/NAME")
        return None
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(
            f"a store in PostgreSQL needs {', '.join(missing)}", help="install it with: pip install 'penstock[cluster]'"
        )
    _check(url, may_have_password=options.store is None)
    return url


def _read(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(MAX_URL_BYTES + 1)[: MAX_URL_BYTES + 1].decode("utf-8", "replace").strip()
    except OSError as error:
        raise UsageError(f"the file of the store {path} cannot be read: {error.strerror}") from error


def _check(url: str, *, may_have_password: bool) -> None:
    import psycopg
    from psycopg import conninfo

    try:
        given = conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        raise UsageError("this is not the URL of a database", expected="postgresql://USER@HOST/NAME") from error
    if given.get("password") is not None and not may_have_password:
        raise UsageError(
            "--store has a password, which everybody on this machine can see",
            expected="a URL without one",
            help=f"put the URL into a file for --store-file, or into {STORE_VARIABLE}; PGPASSFILE works as well",
        )


def node_name(options: StoreOptions) -> str:
    """Return the name of this node.

    Raises:
        UsageError: the host name cannot be one.
    """
    return options.node or string(NODE_NAME)(socket.gethostname().partition(".")[0])


@asynccontextmanager
async def opened(
    url: str | None, options: StoreOptions, data: Path, token: str, *, works: bool
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
