"""The agents by name, each imported when it is first asked for.

A third party's agent comes in by an entry point of the group `penstock.agents`, whose name is the agent's
and whose object is the adapter class.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from penstock.agents.base import Adapter
from penstock.errors import UnknownAgent

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINTS = "penstock.agents"


class Entry(NamedTuple):
    """Where an agent's adapter is, and what is true of it.

    `live`: its stream has text in pieces (on the recorded route). `proven`: recordings of the real agent
    are among the tests. `fork`, `resume`: whether its conversations can be forked and resumed.
    """

    module: str
    adapter: str
    live: bool
    proven: bool = True
    resume: bool = True
    fork: bool = False


AGENTS: dict[str, Entry] = {
    "claude": Entry("penstock.agents.claude", "Claude", live=True, fork=True),
    "codex": Entry("penstock.agents.codex", "Codex", live=False, fork=True),
    "gemini": Entry("penstock.agents.gemini", "Gemini", live=True),
    "opencode": Entry("penstock.agents.opencode", "OpenCode", live=False, fork=True),
    "cursor": Entry("penstock.agents.cursor", "Cursor", live=True, proven=False),
    "qwen": Entry("penstock.agents.qwen", "Qwen", live=True),
    "copilot": Entry("penstock.agents.copilot", "Copilot", live=True),
    "pi": Entry("penstock.agents.pi", "Pi", live=True, fork=True),
    "cline": Entry("penstock.agents.cline", "Cline", live=True, resume=False),
    "ccs": Entry("penstock.agents.claude", "Ccs", live=True, fork=True),
    "ollama": Entry("penstock.agents.ollama", "Ollama", live=True, proven=False, resume=False),
    "generic": Entry("penstock.agents.generic", "Generic", live=True, proven=False, resume=False),
}


def names() -> list[str]:
    """All agents that can be made, the built-in ones first."""
    return [*AGENTS, *sorted(set(_third_party()) - set(AGENTS))]


def make(name: str) -> Adapter:
    """A fresh adapter for one stream of the agent `name`.

    Raises:
        UnknownAgent: there is no such agent, or its entry point cannot be loaded.
    """
    entry = AGENTS.get(name)
    if entry is not None:
        adapter: Adapter = getattr(import_module(entry.module), entry.adapter)()
        return adapter
    point = _third_party().get(name)
    if point is None:
        raise UnknownAgent(name, names())
    try:
        made: Adapter = point.load()()
    except Exception as error:
        raise UnknownAgent(name, names(), f"its entry point cannot be loaded: {error}") from error
    if not isinstance(made, Adapter):
        raise UnknownAgent(name, names(), "its entry point is no adapter: name, traits, wire or read is missing")
    return made


def _third_party() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points  # slow to import: only when asked

    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}
