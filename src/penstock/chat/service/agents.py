"""Which agents can be chatted with, and what each of them can do."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from shutil import which

import msgspec

from penstock.adapter import Startable
from penstock.agents import registry
from penstock.chat.errors import Invalid, NoSuchAgent
from penstock.chat.service.ollama import OllamaServer
from penstock.config.settings import Config
from penstock.errors import UnknownAgent, nearest
from penstock.run import launch

OLLAMA = "ollama"
"""The agent that is a server, and has no program to look for."""

NOT_BY_NAME = frozenset({"acp", "generic"})
"""Ways to read any program. A chat is with an agent that has a name: a request never says which program is started."""

_PROFILE = re.compile(r"ccs/[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class AgentView(msgspec.Struct, frozen=True, omit_defaults=True):
    """An agent as it is offered."""

    name: str
    installed: bool
    """Its program is there; of ollama, its server answered."""
    available: bool
    """It is installed, and a chat with it can begin."""
    route: str
    """How it is run."""
    asks: bool
    """Its questions can be answered while it runs."""
    resumes: bool
    """A chat with it is one conversation; else each turn begins a new one."""
    install: str | None = None
    """How people get it."""
    models: list[str] = []
    """Those that it can be asked for, where it lists them."""
    reason: str | None = None
    """Why it is not available, where that is more than a program that is not there."""


class Agents:
    """The agents of this Penstock."""

    def __init__(
        self,
        config: Config,
        environ: Mapping[str, str],
        trusts: Callable[[], bool] = lambda: True,
        *,
        default: str | None = None,
    ) -> None:
        """`trusts`: whether what a project's own file says of how agents are started counts by now.

        Raises:
            NoSuchAgent: there is no agent `default`.
        """
        self._config = config
        self._environ = environ
        self._trusts = trusts
        self._others = [name for name in registry.names() if name not in registry.AGENTS and _starts(name)]
        proven = [name for name, entry in registry.AGENTS.items() if entry.proven]
        own = [name for name in config.agents() if config.agent(name).command]
        offered = (*proven, *own, *self._others, *registry.AGENTS)
        self._names = list(dict.fromkeys(name for name in offered if name not in NOT_BY_NAME))
        ollama = config.agent(OLLAMA)
        self._default = default
        if default:
            self.require(default)
        self._ollama = OllamaServer({**environ, **ollama.env}.get("OLLAMA_HOST", "")) if not ollama.command else None

    def listed(self) -> list[AgentView]:
        """All that can be chatted with, in the order in which they are offered.

        Penstock's own, those of the configuration, those of other packages; then those that are not proven. It may
        take half a second.
        """
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
                help=f"did you mean {guess!r}?" if guess else "",
            )

    def default(self) -> str:
        """The one that was named, or the first that is available; the first of all where none is.

        It may take half a second.
        """
        return self._default or next((agent.name for agent in self._listed() if agent.available), self._names[0])

    def choose(self, name: str | None, model: str | None) -> tuple[str, str | None]:
        """The agent and the model of a new chat, where these are named. It may take half a second.

        Raises:
            NoSuchAgent: there is no such agent.
            Wrong: the agent has to be given a model, and it is not known which there are.
        """
        name = name or self.default()
        self.require(name)
        if model is not None or name != OLLAMA or self._ollama is None:
            return name, model
        models = None if self.blocked(name) else self._ollama.models()
        if not models:
            raise Invalid(f"{name} needs the name of a model: {self._without(models)}", expected='"model"')
        return name, models[0]

    def blocked(self, name: str) -> str | None:
        """Why it may not be started: nobody trusts the file of the project that says how."""
        setting = launch.project_setting(name, self._config)
        if setting is None or self._trusts():
            return None
        file = setting.origin.rpartition(":")[0]
        return (
            f"{file} says how it is started, and came with the files of this project: read it, and trust the directory "
            f"{os.path.dirname(file)}, or move it to your own configuration"
        )

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
        models: list[str] = []
        reason = self.blocked(name)
        if reason is not None:
            installed = available = False  # of a file that nobody trusts nothing counts
        elif name == OLLAMA and self._ollama is not None:
            found = self._ollama.models()
            models, installed, available = found or [], found is not None, bool(found)
            reason = None if found else self._without(found)
        else:
            installed = available = not program or which(program, path=self._environ.get("PATH")) is not None
        asks = route != "exec"
        return AgentView(name, installed, available, route, asks, self.resumes(name), install, models, reason)

    def _without(self, models: list[str] | None) -> str:
        """Why Ollama is not available."""
        place = self._ollama.place if self._ollama is not None else ""
        if models is None:
            return f"no Ollama server answers at {place}"
        return f"the Ollama server at {place} has no model yet: ollama pull NAME gets one"


def _starts(name: str) -> bool:
    """Whether an agent of another package says how it is started."""
    try:
        return isinstance(registry.reader(name), Startable)
    except UnknownAgent:
        return False  # its package is broken
