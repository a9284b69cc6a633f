"""Homes of chats at other nodes: chosen and checked by what each node publishes about itself."""

from __future__ import annotations

from pathlib import PurePosixPath

from penstock.chat.cluster.nodes import list_nodes, remove_node, workers
from penstock.chat.errors import Invalid, NoSuchAgent, OutsideRoots, UntrustedDirectory
from penstock.chat.service.agents.workspaces import MAX_PATH_CHARS, MAX_RECENT, Workspace
from penstock.chat.service.nodes import ChatPlace, NodeView, Offered
from penstock.chat.store import permits
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

    async def remove(self, name: str) -> None:
        """As `Elsewhere.remove`."""
        await remove_node(self._database, name)

    async def place(self, home: str | None, agent: str | None, cwd: str | None) -> ChatPlace | None:
        """As `Elsewhere.place`."""
        node = await self._node(home, cwd)
        if node is None:
            return None
        about = node.about
        chosen = agent or next(iter(about.agents), "")
        if chosen not in about.agents:
            known = ", ".join(about.agents) or "one that is installed there"
            raise NoSuchAgent(f"the node {node.name!r} has no agent {chosen[:100]!r}", expected=known)
        path = str(_below(node, about.roots[0] if cwd is None else cwd))
        # The table and not the description, which is some seconds old.
        if not await self._database.fetch(TRUSTED, {"node": node.name, "path": path}):
            raise UntrustedDirectory(path)
        return ChatPlace(node.name, chosen, path, next(iter(about.models.get(chosen, ())), None))

    async def trust(self, home: str | None, path: str) -> Workspace | None:
        """As `Elsewhere.trust`."""
        node = await self._node(home, path)
        if node is None:
            return None
        real = str(_below(node, path))
        await self._database.fetch(TRUST, {"node": node.name, "path": real, "at": clock()}, permit=permits.current())
        return Workspace(real, True)

    async def offered(self) -> Offered | None:
        """As `Elsewhere.offered`."""
        if self._works:
            return None
        found = [node.about for node in workers(await self.nodes())]
        agents = {name: about.models.get(name, []) for about in reversed(found) for name in about.agents}
        roots = [Workspace(root, root in about.trusted) for about in found for root in about.roots]
        recent = [Workspace(path, True) for about in found for path in about.trusted if path not in about.roots]
        return Offered(agents, list(dict.fromkeys(roots)), list(dict.fromkeys(recent))[:MAX_RECENT])

    async def _node(self, home: str | None, path: str | None) -> NodeView | None:
        """Return the node of this name, or the one with the most free slots that has the path; None for this one."""
        if home == self._here or (home is None and self._works):
            return None
        nodes = await self.nodes()
        found = workers(nodes)
        having = [node for node in found if path is None or any(_is_below(path, root) for root in node.about.roots)]
        for node in [*having, *found]:
            if home in (None, node.name):
                return node
        names = ", ".join(node.name for node in found)
        if home is None:
            raise Invalid("no node that runs agents is up", help="start penstock serve with --root on a machine")
        if any(node.name == home and not node.is_live for node in nodes):
            raise Invalid(f"the node {home!r} is away", help="wait until it is back, or choose another one")
        raise Invalid(f"there is no node {home[:40]!r} that runs agents", expected=names)


def _below(node: NodeView, path: str) -> PurePosixPath:
    """Return a directory below the roots of a node, judged by its name alone.

    Raises:
        Invalid, OutsideRoots: it is not the name of one.
    """
    pure = PurePosixPath(path)
    if not pure.is_absolute() or ".." in pure.parts or "\0" in path or len(path) > MAX_PATH_CHARS:
        raise Invalid("this is not the name of a directory", expected="an absolute path without ..")
    if not any(_is_below(path, root) for root in node.about.roots):
        raise OutsideRoots(
            f"{path!r} is not below a root of the node {node.name!r}",
            expected="a directory below " + " or ".join(node.about.roots),
        )
    return pure


def _is_below(path: str, root: str) -> bool:
    return PurePosixPath(path).is_relative_to(root)


TRUSTED = "SELECT true FROM directories WHERE node = %(node)s AND path = %(path)s"

TRUST = """
INSERT INTO directories (node, path, trusted_at) VALUES (%(node)s, %(path)s, %(at)s::bigint)
ON CONFLICT (node, path) DO NOTHING
"""
