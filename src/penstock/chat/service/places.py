"""Places of new chats: the agents, prompts and directories that are offered, here or elsewhere, and trust in them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from penstock.agents._models import AgentModel
from penstock.chat.service.agents import directories
from penstock.chat.service.agents.directories import DirectoryState, FoundDirectory
from penstock.chat.service.agents.models import ModelLists
from penstock.chat.service.agents.offered import Agents, AgentView, of_other_nodes
from penstock.chat.service.agents.workspaces import Workspace, Workspaces
from penstock.chat.service.nodes import ChatPlace
from penstock.chat.service.prompts import StoredPrompt, stored_prompts
from penstock.chat.service.shared import Shared
from penstock.config.settings import Config


class Places:
    """Places of new chats. On several machines, a node without agents offers those of the others."""

    def __init__(
        self,
        shared: Shared,
        agents: Agents,
        models: ModelLists,
        workspaces: Workspaces,
        used: Callable[[], list[str]],
        hidden: tuple[str, ...],
        can_have_tree: Callable[[str], Awaitable[bool]],
        config: Config,
    ) -> None:
        """Create it. `used` returns the directories of this node's chats, the one used last first.

        `hidden`: files and directories that are not offered. `can_have_tree` returns whether a chat in a trusted
        directory can have a tree of its own. `config` has the stored prompts.
        """
        self._config = config
        self._can_have_tree = can_have_tree
        self._hidden = hidden
        self._shared = shared
        self._elsewhere = shared.this_node.elsewhere
        self._agents = agents
        self._models = models
        self._workspaces = workspaces
        self._used = used

    async def agents(self) -> list[AgentView]:
        """Return all agents; at a node without agents, those of others are available. It may take half a second.

        Raises:
            StoreFailed: the store cannot be read.
        """
        agents = await asyncio.to_thread(self._agents.listed)
        offered = await self._elsewhere.offered()
        return agents if offered is None else of_other_nodes(agents, offered.agents)

    async def models(self, agent: str) -> list[AgentModel]:
        """Return the models that an agent of this node lists; at a node without agents, none.

        Raises:
            NoSuchAgent: there is no agent of this name.
            StoreFailed: the store cannot be read.
        """
        self._agents.require(agent)
        return [] if await self._elsewhere.offered() is not None else await self._models.of(agent)

    async def prompts(self) -> list[StoredPrompt]:
        """Return the prompts that the user of this node has stored under names."""
        return await asyncio.to_thread(stored_prompts, self._config)

    async def workspaces(self) -> tuple[list[Workspace], list[Workspace]]:
        """Return the roots, and other directories that were used here or trusted recently.

        Raises:
            StoreFailed: the store cannot be read.
        """
        offered = await self._elsewhere.offered()
        return self._workspaces.listed(self._used()) if offered is None else (offered.roots, offered.recent)

    async def directories(self, typed: str) -> list[FoundDirectory]:
        """Return the directories of this node that continue a path, as `directories.find`.

        Raises:
            Invalid: no path has this.
        """
        return await asyncio.to_thread(directories.find, self._workspaces, typed, self._hidden)

    async def directory(self, path: str) -> DirectoryState:
        """Return the state of a directory of this node, as `directories.state_of`.

        Raises:
            Invalid, OutsideRoots: it is not a directory below a root.
        """
        found = await asyncio.to_thread(directories.state_of, self._workspaces, path, self._shared.compare)
        if found.changes is None:  # it is not trusted, or in no repository
            return found
        return replace(found, tree=await self._can_have_tree(found.path))

    async def choose(
        self, home: str | None, agent: str | None, cwd: str | os.PathLike[str] | None, model: str | None
    ) -> ChatPlace:
        """Return the place of a new chat, with defaults for everything that is not given. It may take half a second.

        Raises:
            NoSuchAgent, Invalid, OutsideRoots, UntrustedDirectory: the chat cannot be there.
            StoreFailed: the store cannot be read.
        """
        path = None if cwd is None else os.fspath(cwd)
        place = await self._elsewhere.place(home, agent, path)
        if place is not None:
            return place._replace(model=model or place.model)
        name, chosen = await asyncio.to_thread(self._agents.choose, agent, model)
        directory = await self._workspaces.require_now(path)
        return ChatPlace(self._shared.this_node.home, name, str(directory), chosen)

    async def trust(self, path: str | os.PathLike[str], home: str | None = None) -> Workspace:
        """Trust a directory: from then on its files may define what agents run.

        Raises:
            Invalid, OutsideRoots: it is not a directory below a root.
            StoreFailed: the decision cannot be kept.
        """
        self._shared.require_open()
        return await self._elsewhere.trust(home, os.fspath(path)) or await self._workspaces.trust(path)

    def check_trusted(self, path: str) -> None:
        """Check that a directory is below a root, and that a user trusts it.

        Raises:
            Invalid, OutsideRoots: it is not a directory below a root.
            UntrustedDirectory: it is not trusted yet.
        """
        self._shared.require_open()
        self._workspaces.require(path)
