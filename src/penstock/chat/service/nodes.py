"""Nodes: the turns that this process works on, its claim of a chat, and what nodes publish of themselves.

A single machine works on all turns as they come. A chat of several machines has a home: the node where its agent and
its files are. Each prompt queues a job for the home, and `NodeWork.run_job` works on it there. All other nodes show the
chat, and append prompts, answers and stops.
"""

from __future__ import annotations

import uuid
from typing import NamedTuple, Protocol

import msgspec

from penstock.chat.errors import Conflicting, Invalid, NoSuchNode
from penstock.chat.service.agents.workspaces import Workspace
from penstock.chat.store.protocol import ChatStore
from penstock.chat.store.rows import ChatRow
from penstock.errors import UsageError

ONLY_NODE = "here"
"""Name of the node, for a store that one process has."""


class NodeAbout(msgspec.Struct, frozen=True):
    """Description of a node, by itself."""

    version: str
    host: str
    pid: int
    roots: list[str] = []
    """Directories below which its agents work. A node without them only serves the page."""
    trusted: list[str] = []
    """Directories that are trusted there."""
    agents: list[str] = []
    """Names of the agents that can be started there, its default agent first."""
    models: dict[str, list[str]] = {}
    """Models of those agents that list theirs, the default model first."""
    slots: int = 0
    """Agents at work at once."""
    busy: int = 0
    """Number of slots in use."""
    knows: list[str] = []
    """Names of the requests that a node of an older version would not know: `branches`, `queue`, `rules`."""


class NodeChat(msgspec.Struct, frozen=True):
    """Chat that a node works on."""

    id: str
    title: str | None


class NodeView(msgspec.Struct, frozen=True):
    """Node as others see it."""

    name: str
    is_here: bool
    """True for the node that was asked."""
    is_live: bool
    """True if its lease is valid."""
    seen_seconds: float
    """Seconds since its last renewal."""
    about: NodeAbout
    chats: list[NodeChat]
    """Chats that it works on."""


class ChatPlace(NamedTuple):
    """Where the agent of a new chat works."""

    home: str | None
    agent: str
    cwd: str
    model: str | None = None
    """Model of the chat if none is named; None for the agent's own choice."""


class Offered(NamedTuple):
    """What other nodes offer for new chats."""

    agents: dict[str, list[str]]
    """Agents that can be started at one of them, each with its models if it lists them."""
    roots: list[Workspace]
    recent: list[Workspace]


class Elsewhere(Protocol):
    """The other nodes, for a service that is one of several."""

    async def nodes(self) -> list[NodeView]:
        """Return all nodes, in the order of their names.

        Raises:
            StoreFailed: the store cannot be read.
        """
        ...

    async def remove(self, name: str) -> None:
        """Remove a node that is away from the list, with its token, its trusted directories and its logins.

        Raises:
            NoSuchNode: there is none of this name.
            Conflicting: it is up.
            StoreFailed: the store cannot be reached.
        """
        ...

    async def offered(self) -> Offered | None:
        """Return what the other nodes offer; None if agents work at this one.

        Raises:
            StoreFailed: the store cannot be read.
        """
        ...

    async def place(self, home: str | None, agent: str | None, cwd: str | None) -> ChatPlace | None:
        """Return the place of a new chat at another node, which checks it again; None if it belongs to this node.

        Raises:
            Invalid, NoSuchAgent, OutsideRoots, UntrustedDirectory: there is no such node, or the chat cannot be there.
            StoreFailed: the store cannot be read.
        """
        ...

    async def trust(self, home: str | None, path: str) -> Workspace | None:
        """Trust a directory of another node; return None if it belongs to this node.

        Raises:
            Invalid, OutsideRoots: there is no such node, or the directory is not below its roots.
            StoreFailed: the decision cannot be kept.
        """
        ...


class OneMachine:
    """The other nodes of a service that is the only one: there are none."""

    async def nodes(self) -> list[NodeView]:
        """Return no node."""
        return []

    async def remove(self, name: str) -> None:
        """Raise the error for a node that does not exist.

        Raises:
            NoSuchNode: always.
        """
        raise NoSuchNode(name)

    async def offered(self) -> Offered | None:
        """Return None: agents work here."""
        return None

    async def place(self, home: str | None, agent: str | None, cwd: str | None) -> ChatPlace | None:
        """Return None: each chat belongs to this process.

        Raises:
            Invalid: a home is named.
        """
        if home is not None:
            raise Invalid("a chat has a home only if there are several machines")
        return None

    async def trust(self, home: str | None, path: str) -> Workspace | None:
        """Return None: each directory belongs to this process.

        Raises:
            Invalid: a home is named.
        """
        if home is not None:
            raise Invalid("a directory has a home only if there are several machines")
        return None


class ThisNode(msgspec.Struct):
    """This process among the nodes: the turns that it works on."""

    name: str = ONLY_NODE
    """Name under which this process claims chats."""
    by_jobs: bool = False
    """True if a turn begins with a job; otherwise it begins as soon as it waits and there is a slot."""
    incarnation: uuid.UUID | None = None
    """Lease under which this process claims chats. None: it has none, or needs none."""

    live: frozenset[str] | None = None
    """Names of the present nodes, as last seen; None if unknown."""

    elsewhere: Elsewhere = msgspec.field(default_factory=OneMachine)
    """Other nodes."""

    @property
    def home(self) -> str | None:
        """Home of the chats that are created here; None if there is only one machine."""
        return self.name if self.by_jobs else None

    @property
    def has_lease(self) -> bool:
        """True if this node may work on chats. It always may if there is one machine."""
        return not self.by_jobs or self.incarnation is not None

    def is_home(self, chat: ChatRow) -> bool:
        """Return whether the chat's agent works in this process."""
        return not self.by_jobs or chat.home == self.name

    async def require_known(self, request: str, chat: ChatRow) -> None:
        """Check that the home of a chat knows a kind of request. A node ignores entries that it does not know.

        Raises:
            Conflicting: its version is older.
            StoreFailed: the store cannot be read.
        """
        if self.is_home(chat):
            return
        about = next((node.about for node in await self.elsewhere.nodes() if node.name == chat.home), None)
        if about is not None and request not in about.knows:
            raise Conflicting(
                f"the machine {chat.home} runs Penstock {about.version}, which does not know this request",
                help="upgrade Penstock there, and try again",
            )

    def is_away(self, chat: ChatRow) -> bool:
        """Return whether the chat's home is another node that is down, so that its prompts wait."""
        return self.live is not None and not self.is_home(chat) and chat.home not in self.live


class Unclaimed(UsageError):
    """The store has lost entries, and the claim with them: it was restored from a backup."""

    def __init__(self, chat: str) -> None:
        self.chat = chat
        super().__init__(f"nothing was appended to the chat {chat!r}: the store has lost entries since it was claimed")


class Claim:
    """Fencing token of one chat: the store accepts appends of its newest holder only."""

    def __init__(self, store: ChatStore, chat: str) -> None:
        self.epoch: int | None = None
        """Epoch of the appends of a run; None if the chat is not claimed."""
        self.rows_lost: bool = False
        """True after entries were lost (a restored backup), until the affected turn has ended or another begins."""
        self._store = store
        self._chat = chat

    async def take(self, this_node: ThisNode) -> None:
        """Claim the chat, if it is not claimed yet. Call it before a run.

        Raises:
            Claimed: another node has claimed it, and is alive.
            LeaseLost: the lease of this node is over.
            StoreFailed: the claim could not be kept.
        """
        if self.epoch is None:
            self.epoch = await self._store.claim(self._chat, this_node.name, incarnation=this_node.incarnation)

    async def release(self) -> None:
        """End the claim, so that any node can claim the chat.

        Raises:
            StoreFailed: the claim is kept until the lease of this node is over.
        """
        epoch, self.epoch = self.epoch, None
        if epoch is not None:
            await self._store.release(self._chat, epoch)

    def forget(self) -> None:
        """Stop appending under the claim: the lease of this node is over."""
        self.epoch = None

    def void(self) -> None:
        """Stop appending under the claim: the store has lost entries since the claim was made."""
        self.epoch, self.rows_lost = None, True
