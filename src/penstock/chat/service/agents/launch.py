"""Makes a run of a chat and a prompt: the agent's arguments, its directory and its environment."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from penstock.chat.service.agents.agent_env import environment
from penstock.chat.service.agents.offered import Agents
from penstock.chat.service.agents.workspaces import Workspaces
from penstock.chat.store.rows import ChatRow
from penstock.config.settings import FILE_NAME, Config
from penstock.errors import UsageError
from penstock.run import lifecycle
from penstock.run.agent import Agent
from penstock.run.run import Run


class Starter:
    """Maker of the runs of all chats. `environ` is this process's environment, `extra` the names that are passed on."""

    def __init__(
        self,
        config: Config,
        workspaces: Workspaces,
        environ: Mapping[str, str],
        extra: Iterable[str],
        limits: lifecycle.Limits,
        default_agent: str | None = None,
    ) -> None:
        """Create the maker. `default_agent` is the agent of a chat for which none is named.

        Raises:
            NoSuchAgent: there is no agent of this name.
        """
        self.agents = Agents(config, environ, self._trusts_configuration, default=default_agent)
        self._config = config
        self._workspaces = workspaces
        self._environ = environ
        self._extra = tuple(extra)
        self._limits = limits

    def run(self, chat: ChatRow, prompt: str) -> Run:
        """Return a run of a prompt, not started yet.

        Raises:
            UsageError: the agent cannot do it or may not be started, or its directory has changed.
            AgentNotFound: its program is not installed.
        """
        cwd = self._workspaces.require(chat.cwd)
        reason = self.agents.blocked(chat.agent)
        if reason is not None:
            raise UsageError(f"{chat.agent} may not be started: {reason}")
        adapter = self._config.agent(chat.agent).adapter
        return Agent(chat.agent, {}, self._config).run(
            prompt,
            session_id=chat.session_id if self.agents.resumes(chat.agent) else None,
            model=chat.model,
            ask=True,
            allow=chat.allow,
            cwd=cwd,
            environ=environment(chat.agent, self._environ, self._extra, adapter=adapter),
            trust=self._trusts_configuration(),
            limits=self._limits,
        )

    def _trusts_configuration(self) -> bool:
        """Return whether a project's own file may define how agents are started: if its directory is trusted."""
        files = [Path(file) for file in self._config.files if os.path.basename(file) == FILE_NAME]
        return all(self._workspaces.is_trusted(file.parent.resolve()) for file in files)
