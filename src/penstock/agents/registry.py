"""The agents by name. The facts of an agent, and its reader, are imported at their first use.

A third party's agent is an entry point of the group `penstock.agents`, whose name is the agent's and whose object is
the adapter class.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from penstock.adapter import Adapter, Command, Feature, Request, unsupported
from penstock.agents.support import support_error
from penstock.errors import UnknownAgent

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from penstock.agents._facts import AcpQuirks, AgentFacts
    from penstock.agents._project_files import ProjectFiles

ENTRY_POINTS = "penstock.agents"


class _Facts(Mapping[str, "AgentFacts"]):
    """Facts of each built-in agent, from `facts.py` in the folder of its name. Names alone import nothing."""

    def __init__(self, *names: str) -> None:
        self._loaded: dict[str, AgentFacts | None] = dict.fromkeys(names)

    def __getitem__(self, name: str) -> AgentFacts:
        found = self._loaded[name]
        if found is None:
            found = self._loaded[name] = import_module(f"penstock.agents.{name}.facts").FACTS
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._loaded

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaded)

    def __len__(self) -> int:
        return len(self._loaded)


AGENTS: Mapping[str, AgentFacts] = _Facts(
    "claude",
    "codex",
    "gemini",
    "opencode",
    "kilo",
    "kimi",
    "cursor",
    "qwen",
    "copilot",
    "pi",
    "cline",
    "droid",
    "goose",
    "vibe",
    "ccs",
    "ollama",
    "acp",
    "generic",
)
"""Built-in agents. A slash may follow a name: `codex/server` is a route to read, `AGENT/NAME` a profile of the
agent."""


def project_files() -> ProjectFiles:
    """Return the files of a project that any built-in agent obeys.

    A file that starts something for one agent counts as such, even if another agent only reads its text.
    """
    from penstock.agents._project_files import ProjectFiles

    starts = dict.fromkeys(pattern for facts in AGENTS.values() for pattern in facts.project_files.starts)
    instructs = dict.fromkeys(pattern for facts in AGENTS.values() for pattern in facts.project_files.instructs)
    return ProjectFiles(starts=tuple(starts), instructs=tuple(it for it in instructs if it not in starts))


def names() -> list[str]:
    """Return all agents that can be made, the built-in ones first."""
    return [*AGENTS, *sorted(set(_third_party()) - set(AGENTS))]


def make(name: str, *, is_resumed: bool = False) -> Adapter:
    """Return a new adapter for one stream of the agent `name`: its `exec` route, or the one after the slash.

    `is_resumed`: the stream is that of a run which continues a session, for adapters that read it differently.

    Raises:
        UnknownAgent: there is no such agent, or its entry point cannot be loaded.
    """
    made: Any
    found = reader(name)
    try:
        made = found()
    except Exception as error:
        raise UnknownAgent(name, names(), f"its entry point cannot be loaded: {error}") from error
    if not isinstance(made, Adapter):
        raise UnknownAgent(name, names(), "its entry point is not an adapter: name, traits, wire or read is missing")
    if is_resumed and hasattr(made, "is_resumed"):
        made.is_resumed = True
    return made


def reader(name: str) -> Callable[..., Any]:
    """Return the adapter class of an agent; see `make`.

    Raises:
        UnknownAgent: there is no such agent, or its entry point cannot be loaded.
    """
    base, _, after = name.partition("/")
    facts = AGENTS.get(base)
    found: Callable[..., Any]
    if facts is not None:
        found = load((facts.routes.get(after or "exec") or facts.default).reader)
        return found
    point = _third_party().get(name)
    if point is None:
        raise UnknownAgent(name, names())
    try:
        found = point.load()
    except Exception as error:
        raise UnknownAgent(name, names(), f"its entry point cannot be loaded: {error}") from error
    return found


def command(name: str, route: str, request: Request) -> Command:
    """Return the command line that starts a built-in agent on one of its routes.

    Raises:
        UsageError: the agent does not support the request.
    """
    facts = AGENTS[name]
    chosen = facts.routes[route]
    if request.profile is not None and not facts.profiles:
        having = ", ".join(f"{agent}/NAME" for agent, other in AGENTS.items() if other.profiles)
        raise unsupported(name, f"take the profile {request.profile!r}", can=f"only these have profiles: {having}")
    check_support(name, request, chosen.features, route)
    starts = load(chosen.starter) if chosen.starter else load(chosen.reader).command
    made: Command = starts(request)
    return made


def check_support(name: str, request: Request, supported: Collection[Feature], route: str = "") -> None:
    """Check that an agent supports all features of a request. `route` is empty for an agent that is not built in.

    Raises:
        UsageError: it lacks one; the error names what has it.
    """
    error = support_error(name, request, supported, AGENTS, route)
    if error is not None:
        raise error


def acp_quirks(called: str) -> AcpQuirks:
    """Return how the ACP of an agent differs from the protocol, by the agent's own name for itself."""
    from penstock.agents._facts import AcpQuirks

    known = (facts.acp for facts in AGENTS.values())
    found = (quirks for quirks in known if quirks is not None and quirks.called in called.lower())
    return next(found, AcpQuirks(called=called))


def acp_agent(called: str) -> str | None:
    """Return the agent that has this name for itself over ACP; None if it is none of the built-in ones."""
    known = ((name, facts.acp) for name, facts in AGENTS.items())
    return next((name for name, quirks in known if quirks is not None and quirks.called in called.lower()), None)


def load(place: str) -> Any:
    """Return the object at `module:name` in `penstock.agents`."""
    module, _, name = place.partition(":")
    return getattr(import_module(f"penstock.agents.{module}"), name)


def _third_party() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points  # slow to import, and rarely needed

    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}
