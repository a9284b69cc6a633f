"""Store of `penstock serve`: a file, or the database of several nodes. The extra `cluster` is imported late."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from penstock.chat.people.audit import AUDIT
from penstock.chat.service.nodes import ThisNode
from penstock.chat.store.logins import LoginStore
from penstock.chat.store.protocol import ChatStore
from penstock.chat.store.sqlite import SqliteStore
from penstock.cli.console import notify
from penstock.cli.serve.node_options import NodeOptions, node_name

if TYPE_CHECKING:
    from penstock.chat.cluster.member import Member

CHATS = "chats.db"
"""File of the chats in the data directory, for one machine."""

_log = logging.getLogger("penstock.gateway")


class Opened(NamedTuple):
    """Store of the chats, and how this process takes part in the work on them."""

    store: ChatStore
    this_node: ThisNode
    member: Member | None = None
    """Membership; None if there is only one machine."""
    logins: LoginStore | None = None
    """Logins of all nodes; None if there is only one machine."""


@asynccontextmanager
async def opened(
    url: str | None, options: NodeOptions, data: Path, token: str, *, works: bool
) -> AsyncIterator[Opened]:
    """Open the store: a file in the directory `data`, or the database `url`, of which this process becomes a node.

    All nodes accept the `token` of this one. `works` is true if agents work in this process.

    Raises:
        UsageError, StoreFailed: the store cannot be opened.
    """
    if url is None:
        async with await SqliteStore.open(data / CHATS) as store:
            if store.caution:
                _log.info(store.caution)
            yield Opened(store, ThisNode())
        return
    from penstock.chat.cluster.homes import Homes
    from penstock.chat.cluster.logins import SharedLogins
    from penstock.chat.cluster.member import Member
    from penstock.chat.cluster.shared_audit import SharedAudit
    from penstock.chat.store.postgres.store import PostgresStore

    node = node_name(options)
    if not works:
        notify(f"penstock: the node {node!r} only serves the page, as it has no --root\n")
    async with await PostgresStore.open(url, node=node) as shared:
        homes = Homes(shared.database, node, works=works)
        this_node = ThisNode(name=node, by_jobs=True, elsewhere=homes)
        member = Member(shared.database, this_node, works=works)
        await member.join(lambda taken: notify(f"penstock: {taken.what}: waiting for the end of its lease\n"))
        logins = SharedLogins(shared.database, token)
        audit = SharedAudit(shared.database, node, data / AUDIT)
        try:
            await logins.register(node)
            audit.start()
            yield Opened(shared, this_node, member, logins)
        finally:
            await asyncio.gather(audit.close(), member.close())
