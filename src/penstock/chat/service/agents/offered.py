"""Agents that chats can use, and the features of each."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from shutil import which
from typing import get_args

import msgspec
from msgspec.structs import replace

from penstock import adapter
from penstock.adapter import Allow, Request, Startable
from penstock.agents import registry
from penstock.agents._facts import Permission, PermissionKind
from penstock.chat.errors import Conflicting, Invalid, NoSuchAgent
from penstock.chat.service.agents.ollama import OllamaServer
from penstock.config.settings import Config
from penstock.errors import UnknownAgent, nearest
from penstock.run import launch
from penstock.run.levels import with_level

OLLAMA = "ollama"
"""Name of the agent that is a server: it has no program to search for."""

NOT_BY_NAME = frozenset({"acp", "generic"})
"""Adapters that read any program. A chat uses an agent with a name: a request never chooses the program to start."""

USUAL_EFFORTS = ("low", "medium", "high")
"""Levels of effort that are offered if the model decides which there are: those that most of them have."""

_PROFILE = re.compile(r"ccs/[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


OWN_SETTINGS = "Its own settings"
"""Label of the level `own`."""


class Level(msgspec.Struct, frozen=True):
    """What an agent does at a level of permission."""

    allow: adapter.Level
    label: str
    """Two or three words: "Asks first"."""
    text: str
    """One or two sentences."""
    kind: PermissionKind
    """The same effect by its common name, which is equal for all agents."""


CONFIGURED = [
    Level(
        "own",
        OWN_SETTINGS,
        "It does what its command in your configuration and its own settings allow.",
        "own",
    )
]
"""The only level of an agent whose whole command line comes from the configuration."""

UNKNOWN = [
    Level("edits", "Edits files", "It changes files without asking, if it supports that.", "edits"),
    Level("all", "Does everything", "It does everything without asking, if it supports that.", "all"),
    Level("own", OWN_SETTINGS, "It does what its own settings allow.", "own"),
]
"""Levels of an agent of another package, or of an agent that only another node has: its facts are unknown here."""


KINDS: tuple[PermissionKind, ...] = ("answers", "reads", "asks", "edits", "all")
"""Kinds of effects, from the least to the most. What `own` comes to is not known."""

MOST: dict[adapter.Level, PermissionKind] = {"read": "reads", "ask": "asks", "edits": "edits", "all": "all"}
"""Most that an agent may do at each level."""


class AgentView(msgspec.Struct, frozen=True, omit_defaults=True):
    """Agent as clients see it."""

    name: str
    installed: bool
    """True if its program was found; for ollama, if its server answered."""
    available: bool
    """True if it is installed and a chat with it can begin."""
    route: str
    """Route by which it is run."""
    asks: bool
    """True if its questions can be answered while it runs."""
    allows: list[Level]
    """What it does at each level, from the least to the most, `own` last; others are not supported, or have no effect
    of their own."""
    default_allow: adapter.Level
    """Level of a chat whose `allow` is `default`."""
    resumes: bool
    """True if a chat with it is one conversation; otherwise each turn begins a new one."""
    install: str | None = None
    """Instructions to install it."""
    models: list[str] = []
    """Models that can be chosen, if the agent lists them."""
    reason: str | None = None
    """Reason why it is not available, unless its program is just not installed."""
    efforts: list[str] = []
    """Levels of effort to offer, the least first. A model may have others."""


class Agents:
    """Agents of this Penstock."""

    def __init__(
        self,
        config: Config,
        environ: Mapping[str, str],
        trusts: Callable[[], bool] = lambda: True,
        *,
        default: str | None = None,
    ) -> None:
        """Collect the agents. `trusts` returns whether a project's own file may define by now how agents are started.

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
        """Return all agents that a chat can use, in the order of the list that clients see.

        The order: Penstock's own, those of the configuration, those of other packages; then those that are not proven.
        It may take half a second.
        """
        return list(self._listed())

    def require(self, name: str) -> None:
        """Check that there is an agent of this name. It need not be installed.

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

    @staticmethod
    def careful_level(name: str) -> Allow | None:
        """Return the freest level at which an agent changes nothing unasked: `ask`, else `read`; None without either.

        An agent that only the configuration or another package defines does what its owner has chosen: `default`.
        """
        entry = registry.AGENTS.get(name.partition("/")[0])
        if entry is None:
            return "default"
        levels: tuple[Allow, ...] = ("ask", "read")
        return next((it for it in levels if any(it in kept for kept in entry.allows.values())), None)

    def default(self) -> str:
        """Return the default agent: the named one, or the first that is available; if none is, the first of all.

        It may take half a second.
        """
        return self._default or next((agent.name for agent in self._listed() if agent.available), self._names[0])

    def choose(self, name: str | None, model: str | None) -> tuple[str, str | None]:
        """Return the agent and the model of a new chat, from the given ones or defaults. It may take half a second.

        Raises:
            NoSuchAgent: there is no such agent.
            Invalid: the agent needs the name of a model, and its models are not known.
        """
        name = name or self.default()
        self.require(name)
        if model is not None or not self.needs_model(name):
            return name, model
        assert self._ollama is not None  # only its agent needs one
        models = None if self.blocked(name) else self._ollama.models()
        if not models:
            raise Invalid(f"{name} needs the name of a model: {self._without(models)}", expected='"model"')
        return name, models[0]

    def needs_model(self, name: str) -> bool:
        """Return whether an agent has no default model."""
        return name == OLLAMA and self._ollama is not None

    def efforts(self, name: str) -> list[str]:
        """Return the levels of effort to offer, the least first; none if they are unknown, or there are none."""
        entry = registry.AGENTS.get(name.partition("/")[0])
        if entry is None:
            return (
                [*USUAL_EFFORTS] if any("{effort}" in word for word in self._config.agent(name).command or ()) else []
            )
        has_levels = "effort" in entry.routes[entry.default_name(can_answer=True)].features
        return [*(entry.efforts or USUAL_EFFORTS)] if has_levels else []

    def check_effort(self, name: str, effort: str | None) -> None:
        """Check that an agent can have a level of effort, as far as its facts and the configuration decide it.

        Raises:
            Invalid: it has no levels, or not this one.
        """
        if effort is None:
            return
        entry, own = registry.AGENTS.get(name.partition("/")[0]), self._config.agent(name)
        levels = self.efforts(name)
        if not levels and (entry is not None or (own.command is not None and own.protocol != "acp")):
            raise Invalid(f"{name} has no levels of effort", expected="null")
        if entry is not None and entry.efforts and effort not in levels:
            raise Invalid(f"{name} has no level of effort {effort!r}", expected="one of " + ", ".join(levels))

    def blocked(self, name: str) -> str | None:
        """Return the reason if an untrusted project file configures this agent, else None."""
        setting = launch.project_setting(name, self._config)
        if setting is None or self._trusts():
            return None
        file = setting.origin.rpartition(":")[0]
        return (
            f"{file} defines how it is started, and came with the files of this project: read it, and trust the "
            f"directory {os.path.dirname(file)}, or move it to your own configuration"
        )

    def resumes(self, name: str) -> bool:
        """Return whether a run of it can resume a conversation."""
        entry, own = registry.AGENTS.get(name.partition("/")[0]), self._config.agent(name)
        if entry is not None:
            return entry.default.resume
        return name in self._others or own.protocol == "acp" or any("{session_id}" in it for it in own.command or ())

    def loses_sessions(self, name: str, allow: adapter.Allow) -> bool:
        """Return whether a conversation that a run of it resumes, at a level, may be lost."""
        if name.partition("/")[0] not in registry.AGENTS:
            return False
        _, route = self._route(name, allow)
        return registry.AGENTS[name.partition("/")[0]].routes[route].loses_sessions

    def continues(self, name: str, allow: adapter.Allow, began: str | None) -> bool:
        """Return whether a chat with an agent, at a level, goes on with a conversation that began on a route.

        Some agents keep conversations over ACP separate from their others. `began`: None if it is unknown.
        """
        if not self.resumes(name) or self.loses_sessions(name, allow):
            return False
        entry = registry.AGENTS.get(name.partition("/")[0])
        if entry is None:
            return True
        _, route = self._route(name, allow)
        return entry.routes[route].resume and (began == route or "acp" not in (began, route))

    def level(self, name: str, allow: adapter.Allow) -> adapter.Level:
        """Return the level of a chat with an agent for what was chosen."""
        return self._effect(name, allow)[0]

    def terminal(self, name: str, allow: adapter.Allow) -> tuple[str, ...]:
        """Return the command of the agent's own program that continues a conversation in a terminal; () if unknown.

        `{session_id}` in its words stands for the id of the conversation.
        """
        if name not in registry.AGENTS:
            return ()
        _, route = self._route(name, allow)
        words, own = registry.AGENTS[name].routes[route].terminal, self._config.agent(name).command
        return (own[0], *words[1:]) if own and words else words

    def longest(self, name: str, allow: adapter.Allow) -> adapter.Longest:
        """Return the longest prompt of a run of it, at a level. Of an agent that is unknown: that of an argument."""
        base = name.partition("/")[0]
        if base not in registry.AGENTS:
            return adapter.ARGUMENT
        _, route = self._route(name, allow)
        return registry.AGENTS[base].routes[route].longest or adapter.Longest(adapter.MAX_STDIN_BYTES)

    def same_level(self, name: str, allow: adapter.Allow, other: str) -> Allow:
        """Return the level at which another agent may do what one may at a level, and no more.

        Raises:
            Conflicting: it has none.
        """
        level, permission = self._effect(name, allow)
        if level == "own" and permission is not None and permission.kind == "all":
            level = "all"
        _, found = self._effect(other, level)
        if level == "own":
            is_same = not {name.partition("/")[0], other.partition("/")[0]} & registry.AGENTS.keys()
        else:
            is_same = found is not None and found.kind in KINDS[: KINDS.index(MOST[level]) + 1]
        if not is_same:
            label = OWN_SETTINGS if permission is None else permission.label
            raise Conflicting(
                f"{other} cannot keep the permission of this chat, {label.lower()!r}",
                help="choose another agent, or first another permission in this chat",
            )
        return level

    def _effect(self, name: str, allow: adapter.Allow) -> tuple[adapter.Level, Permission | None]:
        """Return the level of a chat with an agent, and its effect, if it is known."""
        base = name.partition("/")[0]
        if base in registry.AGENTS:
            level, route = self._route(name, allow)
            return level, registry.AGENTS[base].allows.get(route, {}).get(level)
        level = "own" if allow == "default" else allow
        is_acp = self._config.agent(name).protocol == "acp"
        return level, registry.AGENTS["acp"].allows["acp"].get(level) if is_acp else None

    def _listed(self) -> Iterator[AgentView]:
        for name in self._names:
            entry, own = registry.AGENTS.get(name), self._config.agent(name)
            if entry is not None:
                level, route = self._route(name, self._config.allow)
                program = own.command[0] if own.command else entry.routes[route].program
                levels, default = self._levels(name, level, route)
                yield self._view(name, program, route, levels, default, entry.install or None)
            elif own.protocol == "acp":
                levels, default = self._levels("acp", "own", "acp")
                yield self._view(name, own.command[0] if own.command else "", "acp", levels, default)
            else:
                levels = CONFIGURED if own.command else UNKNOWN
                yield self._view(name, own.command[0] if own.command else "", "exec", levels, "own")

    def _route(self, name: str, asked: adapter.Allow) -> tuple[adapter.Level, str]:
        """Return the level and the route of a built-in agent's chat for what is asked."""
        entry = registry.AGENTS[name.partition("/")[0]]
        level, route = with_level(entry, asked, Request(prompt=" "), None, can_answer=True)
        return level, route or entry.default_name(can_answer=True)

    def _levels(self, name: str, default: adapter.Level, by: str) -> tuple[list[Level], adapter.Level]:
        """Return the levels, the agent's own default last, and the one that does what `default` does by its route.

        A level that does the same as one before is left out.
        """
        found: dict[adapter.Level, Permission] = {}
        for asked in get_args(adapter.Level):
            level, route = self._route(name, asked)
            permission = registry.AGENTS[name.partition("/")[0]].allows.get(route, {}).get(level)
            if permission is not None and permission not in found.values():
                found[level] = permission
        own = registry.AGENTS[name.partition("/")[0]].allows.get(by, {}).get(default)
        same = next((level for level, permission in found.items() if permission == own), default)
        return [_level(level, permission) for level, permission in found.items()], same

    def _view(
        self,
        name: str,
        program: str,
        route: str,
        levels: list[Level],
        default: adapter.Level,
        install: str | None = None,
    ) -> AgentView:
        models: list[str] = []
        reason = self.blocked(name)
        if reason is not None:
            installed = available = False  # nothing in an untrusted file counts
        elif name == OLLAMA and self._ollama is not None:
            found = self._ollama.models()
            models, installed, available = found or [], found is not None, bool(found)
            reason = None if found else self._without(found)
        else:
            installed = available = not program or which(program, path=self._environ.get("PATH")) is not None
        asks = route != "exec"
        resumes = self.resumes(name)
        efforts = self.efforts(name)
        return AgentView(
            name, installed, available, route, asks, levels, default, resumes, install, models, reason, efforts
        )

    def _without(self, models: list[str] | None) -> str:
        """Return the reason why Ollama is not available."""
        place = self._ollama.place if self._ollama is not None else ""
        if models is None:
            return f"no Ollama server answers at {place}"
        return f"the Ollama server at {place} has no model yet: ollama pull NAME gets one"


def of_other_nodes(agents: Sequence[AgentView], offered: Mapping[str, list[str]]) -> list[AgentView]:
    """Return the agents as other nodes offer them, with their models: those that this node does not know come last."""
    known = [
        replace(
            it, installed=it.name in offered, available=it.name in offered, models=offered.get(it.name, []), reason=None
        )
        for it in agents
    ]
    others = offered.keys() - {agent.name for agent in agents}
    return known + [
        AgentView(
            name,
            True,
            True,
            "exec",
            asks=False,
            allows=UNKNOWN,
            default_allow="own",
            resumes=True,
            models=offered[name],
        )
        for name in sorted(others)
    ]


def _level(level: adapter.Level, permission: Permission) -> Level:
    """Return a level as clients see it. What an agent's own settings come to is not known."""
    if level == "own" and permission.kind not in ("answers", "all"):
        return Level(level, OWN_SETTINGS, permission.text, "own")
    return Level(level, permission.label, permission.text, permission.kind)


def _starts(name: str) -> bool:
    """Return whether an agent of another package defines how it is started."""
    try:
        return isinstance(registry.reader(name), Startable)
    except UnknownAgent:
        return False  # its package is broken
