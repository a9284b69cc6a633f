"""Nodes: each has a name and, while it is alive, a lease of one incarnation. Only PostgreSQL's clock is compared."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec
from psycopg.types.json import Jsonb

from penstock._version import __version__
from penstock.chat.errors import Conflicting, NoSuchNode
from penstock.chat.service.nodes import NodeAbout, NodeChat, NodeView
from penstock.chat.store import permits
from penstock.chat.store.postgres.connections import Away, Database
from penstock.chat.store.protocol import StoreFailed
from penstock.config.rules import NODE_NAME_PATTERN
from penstock.errors import UsageError

TTL_SECONDS = 10.0
"""Seconds for which a lease is valid without a renewal. A lost node's turns are ended after that, and not sooner."""

RENEWAL_SECONDS = 2.0
"""Seconds between two renewals, and the limit of one: three may fail before the lease is over."""

OWN_TTL_SECONDS = TTL_SECONDS * 2 / 3
"""Seconds after which a node that could not renew its lease kills its agents: before others may follow."""


MAX_SHOWN_NAME = 63
"""Maximum characters of an invalid name from the database that are shown."""

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]")


class NameTaken(UsageError):
    """A live process has the name."""

    def __init__(self, name: str, about: NodeAbout) -> None:
        self.about = about
        super().__init__(
            f"the node {name!r} is at work already: process {about.pid} on {about.host}",
            help="end that process, or choose another --node",
        )


def described(**fields: Any) -> NodeAbout:
    """Return the description of this process."""
    return NodeAbout(__version__, socket.gethostname(), os.getpid(), **fields, knows=["branches", "queue", "rules"])


def seconds() -> float:
    """Return the time of a clock that is never set, and that goes on while the machine sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Lease:
    """Lease of a node. One object is used for all incarnations of a process."""

    def __init__(self, database: Database, name: str, about: Callable[[], NodeAbout]) -> None:
        """Create the lease, not taken yet. `about` returns the description of this process."""
        self.name = name
        self.incarnation: uuid.UUID | None = None
        """Current incarnation; None if the lease is over."""
        self._database = database
        self._link = database.link()
        self._about = about
        self._until = 0.0  # time by `seconds()` at which this process stops relying on the lease

    async def take(self) -> None:
        """Take the lease under a new incarnation.

        Raises:
            NameTaken: another process has it.
            StoreFailed: it is not known whether the lease was taken.
        """
        incarnation, sent = uuid.uuid4(), seconds()
        values = {"node": self.name, "incarnation": incarnation, "ttl": TTL_SECONDS, "about": _json(self._about())}
        rows = await self._database.fetch(TAKE, values)
        if not rows[0][0]:
            raise NameTaken(self.name, msgspec.convert(rows[0][1], NodeAbout))
        self.incarnation, self._until = incarnation, sent + OWN_TTL_SECONDS

    async def hold(self) -> None:
        """Renew the lease again and again. Return when it is over, or when this process cannot rely on it."""
        while (left := self._until - seconds()) > 0:
            sent = seconds()
            renewal = asyncio.create_task(self._renew())
            done, _ = await asyncio.wait([renewal], timeout=left)
            if not done:
                renewal.cancel()
                break
            renewed = renewal.result()
            if renewed:
                self._until = sent + OWN_TTL_SECONDS
            elif renewed is not None:
                break
            pause = RENEWAL_SECONDS if renewed else RENEWAL_SECONDS / 4
            await asyncio.sleep(max(0.0, min(pause, self._until - seconds())))
        self.incarnation = None

    async def publish(self) -> bool:
        """Renew the lease, with the description of this process; return whether it goes on.

        If the database is away, nothing changes.
        """
        sent = seconds()
        renewed = await self._renew()
        if renewed:
            self._until = sent + OWN_TTL_SECONDS
        return renewed is not False

    async def leave(self) -> None:
        """End the lease, so that others need not wait.

        Raises:
            StoreFailed: it ends by itself.
        """
        incarnation, self.incarnation = self.incarnation, None
        if incarnation is not None:
            await self._database.fetch(LEAVE, {"node": self.name, "incarnation": incarnation})

    async def close(self) -> None:
        """Close the connection."""
        await self._link.close()

    async def _renew(self) -> bool | None:
        """Renew the lease; return False if it has expired, and None if that is unknown."""
        values = {"node": self.name, "incarnation": self.incarnation, "about": _json(self._about())}
        try:
            return bool(await self._link.run(RENEW, values, RENEWAL_SECONDS, RENEWAL_SECONDS))
        except (Away, StoreFailed):
            return None


async def list_nodes(database: Database, here: str | None = None) -> list[NodeView]:
    """Return all nodes that the store knows, in the order of their names.

    Raises:
        StoreFailed: the store cannot be read.
    """
    return [
        NodeView(
            _name(name),
            name == here,
            is_live,
            round(float(seen), 1),
            msgspec.convert(about, NodeAbout),
            msgspec.convert(chats, list[NodeChat]),
        )
        for name, is_live, seen, about, chats in await database.fetch(LIST)
    ]


class RemovedNode(NamedTuple):
    """A node that was removed from the list."""

    browsers: int
    """Number of browsers that had signed in there, and are signed out."""
    chats: int
    """Number of chats whose home it was. They are kept."""


async def remove_node(database: Database, name: str) -> RemovedNode:
    """Remove a node that is away, with its token, its trusted directories and the logins of browsers there.

    Raises:
        NoSuchNode: there is none of this name.
        Conflicting: it is up.
        StoreFailed: the store cannot be reached.
    """
    if not await database.fetch(KNOWN, {"node": name}):  # one that is not there later was removed by a lost attempt
        raise NoSuchNode(name)
    ((is_gone, is_known, browsers, chats),) = await database.fetch(REMOVE, {"node": name}, permit=permits.current())
    if is_gone:
        return RemovedNode(browsers, chats)
    if is_known:
        raise Conflicting(f"the node {name!r} is up", help="stop it, and wait for 10 s")
    raise NoSuchNode(name)


def _name(name: str) -> str:
    """Return the name of a node from the database, without invalid characters: any client can write it."""
    return name if NODE_NAME_PATTERN.fullmatch(name) else _NOT_IN_NAMES.sub("?", name)[:MAX_SHOWN_NAME]


async def live_nodes(database: Database) -> frozenset[str]:
    """Return the names of the nodes that are up.

    Raises:
        StoreFailed: the store cannot be read.
    """
    return frozenset(name for (name,) in await database.fetch(LIVE))


def workers(nodes: Sequence[NodeView]) -> list[NodeView]:
    """Return the nodes at which agents can work now, the one with the most free slots first."""
    found = [node for node in nodes if node.is_live and node.about.roots]
    return sorted(found, key=lambda node: (node.about.busy - node.about.slots, node.name))


def _json(about: NodeAbout) -> Jsonb:
    return Jsonb(msgspec.to_builtins(about))


TAKE = """
WITH taken AS (
    INSERT INTO nodes AS n (id, incarnation, seen, ttl, about)
    VALUES (%(node)s, %(incarnation)s::uuid, clock_timestamp(), make_interval(secs => %(ttl)s), %(about)s)
    ON CONFLICT (id) DO UPDATE SET
        incarnation = excluded.incarnation, seen = excluded.seen, ttl = excluded.ttl, about = excluded.about
    WHERE n.incarnation = excluded.incarnation OR n.seen + n.ttl <= clock_timestamp()
    RETURNING about
)
SELECT true, about FROM taken
UNION ALL SELECT false, about FROM nodes WHERE id = %(node)s AND NOT EXISTS (SELECT FROM taken)
"""
"""Statement to take an expired lease, or one taken by an earlier attempt of the same statement."""

RENEW = """
UPDATE nodes SET seen = clock_timestamp(), about = %(about)s
WHERE id = %(node)s AND incarnation = %(incarnation)s::uuid AND seen + ttl > clock_timestamp()
RETURNING true
"""

LEAVE = "UPDATE nodes SET ttl = interval '0' WHERE id = %(node)s AND incarnation = %(incarnation)s::uuid"

LIST = """
SELECT n.id, n.seen + n.ttl > clock_timestamp(), extract(epoch FROM clock_timestamp() - n.seen)::float8,
    n.about || jsonb_build_object('trusted', coalesce(
        (SELECT jsonb_agg(d.path ORDER BY d.trusted_at DESC, d.path) FROM directories AS d WHERE d.node = n.id), '[]'
    )),
    coalesce(
        (SELECT jsonb_agg(jsonb_build_object('id', h.id, 'title', c.title) ORDER BY h.id)
         FROM heads AS h JOIN chats AS c USING (key) WHERE h.owner = n.id AND h.incarnation = n.incarnation), '[]'
    )
FROM nodes AS n ORDER BY n.id
"""
"""Statement that lists the nodes. The trusted directories are those of the table, as a node describes itself later."""

KNOWN = "SELECT id FROM nodes WHERE id = %(node)s"

REMOVE = """
WITH gone AS (DELETE FROM nodes WHERE id = %(node)s AND seen + ttl <= clock_timestamp() RETURNING id),
    token AS (DELETE FROM tokens WHERE node IN (SELECT id FROM gone) RETURNING digest),
    browser AS (
        DELETE FROM browsers WHERE token IN (SELECT digest FROM token)
            AND token NOT IN (SELECT digest FROM tokens WHERE node <> %(node)s)
        RETURNING id
    ),
    directory AS (DELETE FROM directories WHERE node IN (SELECT id FROM gone)),
    known AS (SELECT FROM nodes WHERE id = %(node)s)
SELECT EXISTS (SELECT FROM gone) OR (%(again)s AND NOT EXISTS (SELECT FROM known)), EXISTS (SELECT FROM known),
    (SELECT count(*) FROM browser), (SELECT count(*) FROM chats WHERE home = %(node)s)
"""
"""Statement that removes a node; an earlier attempt may have removed it."""

LIVE = "SELECT id FROM nodes WHERE seen + ttl > clock_timestamp()"
