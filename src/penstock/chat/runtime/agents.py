"""Which agents can be chatted with, and what each of them can do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from shutil import which

import msgspec

from penstock import registry
from penstock.agents.base import Startable
from penstock.chat.refusals import NoSuchAgent
from penstock.config import Config
from penstock.errors import UnknownAgent, nearest

NOT_BY_NAME = frozenset({"acp", "generic"})
"""Ways to read any program. A chat is with an agent that has a name: a request never says which program is started."""

_PROFILE = re.compile(r"ccs/[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class AgentView(msgspec.Struct, frozen=True, omit_defaults=True):
    """An agent as it is offered."""

    name: str
    installed: bool
    route: str
    """How it is run."""
    asks: bool
    """Its questions can be answered while it runs."""
    resumes: bool
    """A chat with it is one conversation; else each turn begins a new one."""
    install: str | None = None
    """How people get it."""


class Agents:
    """The agents of this Penstock."""

    def __init__(self, config: Config, environ: Mapping[str, str]) -> None:
        self._config = config
        self._environ = environ
        self._others = [name for name in registry.names() if name not in registry.AGENTS and _starts(name)]
        own = [name for name in config.agents() if config.agent(name).command]
        self._names = list(
            dict.fromkeys(name for name in (*registry.AGENTS, *own, *self._others) if name not in NOT_BY_NAME)
        )

    def listed(self) -> list[AgentView]:
        """All that can be chatted with: Penstock's own, those of the configuration, those of other packages."""
        return list(self._listed())

    def require(self, name: str) -> None:
        """See that there is such an agent. It need not be installed.

        Raises:
            NoSuchAgent: there is none.
        """
        known = self._names
        if name not in known and not _PROFILE.fullmatch(name):
            guess = nearest(name[:100], known)
            raise NoSuchAgent(
                f"there is no agent {name[:100]!r} to chat with",
                expected="one of " + ", ".join(known),
                way_out=f"did you mean {guess!r}?" if guess else "",
            )

    def default(self) -> str:
        """The first one that is installed; the first of all where none is."""
        agents = self.listed()
        return next((agent.name for agent in agents if agent.installed), agents[0].name)

    def resumes(self, name: str) -> bool:
        """Whether a run of it can go on with a conversation."""
        entry, own = registry.AGENTS.get(name.partition("/")[0]), self._config.agent(name)
        if entry is not None:
            return entry.default.resume
        return name in self._others or own.protocol == "acp" or any("{session_id}" in it for it in own.command or ())

    def _listed(self) -> Iterator[AgentView]:
        for name in self._names:
            entry, own = registry.AGENTS.get(name), self._config.agent(name)
            if entry is not None:
                program = own.command[0] if own.command else entry.default.program
                yield self._view(name, program, next(iter(entry.routes)), entry.install or None)
            else:
                yield self._view(
                    name, own.command[0] if own.command else "", "acp" if own.protocol == "acp" else "exec"
                )

    def _view(self, name: str, program: str, route: str, install: str | None = None) -> AgentView:
        installed = not program or which(program, path=self._environ.get("PATH")) is not None
        return AgentView(name, installed, route, route != "exec", self.resumes(name), install)


def _starts(name: str) -> bool:
    """Whether an agent of another package says how it is started."""
    try:
        return isinstance(registry.reader(name), Startable)
    except UnknownAgent:
        return False  # its package is broken
