"""The agents by name, each imported when it is first asked for.

A third party's agent comes in by an entry point of the group `penstock.agents`, whose name is the agent's
and whose object is the adapter class.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.adapter import Adapter, Longest
from penstock.errors import UnknownAgent

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINTS = "penstock.agents"
MIB = 1024 * 1024


class Route(NamedTuple):
    """One way to run an agent: `exec`, its plain JSON command; `server`, its own two-way protocol; `acp`.

    `program` is what is looked up in PATH; "" where there is none. `live`: text comes in pieces.
    """

    reader: str
    """The class that reads it, as `module:Class` in `penstock.agents`."""
    program: str
    starter: str = ""
    """The function that makes its command line, as `module:function`; "": the reader's own `command`."""
    live: bool = True
    resume: bool = True
    fork: bool = False
    longest: Longest | None = None
    """The longest prompt, where the agent drops or refuses more than that."""


class Entry(NamedTuple):
    """What is true of an agent."""

    routes: dict[str, Route]
    """The best one first: it is the default."""
    install: str = ""
    """How people get it."""
    tested: str | None = None
    """The version of the recordings among the tests."""
    proven: bool = True
    """There are recordings of the real agent."""

    @property
    def default(self) -> Route:
        """The route that is taken where none is asked for."""
        return next(iter(self.routes.values()))


def _npm(package: str) -> str:
    return f"npm install -g {package}"


AGENTS: dict[str, Entry] = {
    "claude": Entry(
        {
            "exec": Route("claude.exec:Claude", "claude", fork=True, longest=Longest(10 * MIB)),
            "acp": Route("acp.dialogue:Acp", "claude-agent-acp", "claude.exec:acp", fork=True),
        },
        _npm("@anthropic-ai/claude-code"),
        "2.1.329",
    ),
    "codex": Entry(
        {
            "server": Route("codex.server:CodexServer", "codex", fork=True, longest=Longest(MIB, "characters")),
            "exec": Route("codex.exec:Codex", "codex", live=False, fork=True, longest=Longest(MIB, "characters")),
            "acp": Route("acp.dialogue:Acp", "codex-acp", "codex.exec:acp"),
        },
        _npm("@openai/codex"),
        "0.169.0",
    ),
    "gemini": Entry(
        {
            "exec": Route("gemini.exec:Gemini", "gemini", longest=Longest(8 * MIB)),
            "acp": Route("acp.dialogue:Acp", "gemini", "gemini.exec:acp"),
        },
        _npm("@google/gemini-cli"),
        "0.61.0",
    ),
    "opencode": Entry(
        {
            "server": Route("opencode.server:OpenCodeServer", "opencode", fork=True),
            "exec": Route("opencode.exec:OpenCode", "opencode", live=False, fork=True),
            "acp": Route("acp.dialogue:Acp", "opencode", "opencode.exec:acp", fork=True),
        },
        _npm("opencode-ai"),
        "1.18.33",
    ),
    "cursor": Entry(
        {"exec": Route("cursor.exec:Cursor", "cursor-agent")},
        "curl https://cursor.com/install -fsS | bash",
        proven=False,
    ),
    "qwen": Entry(
        {
            "exec": Route("qwen.exec:Qwen", "qwen", longest=Longest(8 * MIB)),
            "acp": Route("acp.dialogue:Acp", "qwen", "qwen.exec:acp"),
        },
        _npm("@qwen-code/qwen-code"),
        "0.15.10",
    ),
    "copilot": Entry(
        {
            "exec": Route("copilot.exec:Copilot", "copilot"),
            "acp": Route("acp.dialogue:Acp", "copilot", "copilot.exec:acp"),
        },
        _npm("@github/copilot"),
        "1.0.102",
    ),
    "pi": Entry({"exec": Route("pi.exec:Pi", "pi", fork=True)}, _npm("@mariozechner/pi-coding-agent"), "0.73.1"),
    "cline": Entry(
        {
            "exec": Route("cline.exec:Cline", "cline", resume=False),
            "acp": Route("acp.dialogue:Acp", "cline", "cline.exec:acp"),
        },
        _npm("cline"),
        "3.0.65",
    ),
    "ccs": Entry(
        {"exec": Route("claude.exec:Ccs", "ccs", fork=True, longest=Longest(10 * MIB))},
        _npm("@kaitranntt/ccs"),
        "7.79.1",
    ),
    "ollama": Entry(
        {"exec": Route("ollama.exec:Ollama", "", resume=False)}, "see https://ollama.com/download", proven=False
    ),
    "acp": Entry({"acp": Route("acp.dialogue:Acp", "", fork=True)}, "any program that speaks ACP on its stdio"),
    "generic": Entry({"exec": Route("generic.adapter:Generic", "", resume=False)}, proven=False),
}
"""The agents. A name may go on after a slash: `ccs/glm` is a profile, `codex/server` a route to be read."""


def names() -> list[str]:
    """All agents that can be made, the built-in ones first."""
    return [*AGENTS, *sorted(set(_third_party()) - set(AGENTS))]


def make(name: str) -> Adapter:
    """A fresh adapter that reads one stream of the agent `name`: of its `exec` route, or of the one after the slash.

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
        raise UnknownAgent(name, names(), "its entry point is no adapter: name, traits, wire or read is missing")
    return made


def reader(name: str) -> Callable[..., Any]:
    """The adapter class of an agent; see `make`.

    Raises:
        UnknownAgent: there is no such agent, or its entry point cannot be loaded.
    """
    base, _, after = name.partition("/")
    entry = AGENTS.get(base)
    found: Callable[..., Any]
    if entry is not None:
        found = load((entry.routes.get(after or "exec") or entry.default).reader)
        return found
    point = _third_party().get(name)
    if point is None:
        raise UnknownAgent(name, names())
    try:
        found = point.load()
    except Exception as error:
        raise UnknownAgent(name, names(), f"its entry point cannot be loaded: {error}") from error
    return found


def load(place: str) -> Any:
    """What stands at `module:name` in `penstock.agents`."""
    module, _, name = place.partition(":")
    return getattr(import_module(f"penstock.agents.{module}"), name)


def _third_party() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points  # slow to import: only when asked

    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}
