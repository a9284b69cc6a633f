"""Homes of chats at other nodes: chosen and checked by what each node publishes about itself."""

from __future__ import annotations

from pathlib import PurePosixPath

from penstock.chat.cluster.nodes import list_nodes, workers
from penstock.chat.errors import Invalid, NoSuchAgent, OutsideRoots, UntrustedDirectory
from penstock.chat.service.dispatch import ChatPlace, NodeView
from penstock.chat.service.workspaces import MAX_PATH_CHARS, Workspace
from penstock.chat.store.postgres.connections import Database
from penstock.chat.store.protocol import clock


class Homes:
    """`Elsewhere`, by the table of the nodes."""

    def __init__(self, database: Database, here: str, *, works: bool) -> None:
        """Create it for the node `here`. `works` is true if agents work there."""
        self._database = database
        self._here = here
        self._works = works

    async def nodes(self) -> list[NodeView]:
        """As `Elsewhere.nodes`."""
        return await list_nodes(self._database, self._here)

    async def place(self, home: str | None, agent: str | None, cwd: str | None) -> ChatPlace | None:
        """As `Elsewhere.place`."""
        node = await self._node(home)
        if node is None:
            return None
        about = node.about
        chosen = agent or next(iter(about.agents), "")
        if chosen not in about.agents:
            known = ", ".join(about.agents) or "one that is installed there"
            raise NoSuchAgent(f"the node {node.name!r} has no agent {chosen[:100]!r}", expected=known)
        path = str(_below(node, about.roots[0] if cwd is None else cwd))
        if path not in about.trusted:
            raise UntrustedDirectory(path)
        return ChatPlace(node.name, chosen, path)

    async def trust(self, home: str | None, path: str) -> Workspace | None:
        """As `Elsewhere.trust`."""
        node = await self._node(home)
        if node is None:
            return None
        real = str(_below(node, path))
        await self._database.fetch(TRUST, {"node": node.name, "path": real, "at": clock()})
        return Workspace(real, True)

    async def _node(self, home: str | None) -> NodeView | None:
        """Return the node of this name, or the one with the most free slots; None for this one."""
        if home == self._here or (home is None and self._works):
            return None
        found = workers(await self.nodes())
        for node in found:
            if home in (None, node.name):
                return node
        names = ", ".join(node.name for node in found)
        if home is None:
            raise Invalid("no node is there at which agents work", help="start penstock serve with --root on a machine")
        raise Invalid(f"there is no node {home[:40]!r} at which agents work", expected=names)


def _below(node: NodeView, path: str) -> PurePosixPath:
    """Return a directory below the roots of a node, by its name alone.

    Raises:
        Invalid, OutsideRoots: it is not the name of one.
    """
    pure = PurePosixPath(path)
    if not pure.is_absolute() or ".." in pure.parts or "\0" in path or len(path) > MAX_PATH_CHARS:
        raise Invalid("the directory cannot be named so", expected="an absolute path without ..")
    if not any(pure.is_relative_to(root) for root in node.about.roots):
        raise OutsideRoots(
            f"{path!r} is not below a root of the node {node.name!r}",
            expected="a directory below " + " or ".join(node.about.roots),
        )
    return pure


TRUST = """
INSERT INTO directories (node, path, trusted_at) VALUES (%(node)s, %(path)s, %(at)s::bigint)
ON CONFLICT (node, path) DO NOTHING
"""
