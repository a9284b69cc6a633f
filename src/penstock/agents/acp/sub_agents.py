"""Sub-agents of an ACP session. The protocol has none, and few agents mark everything that a sub-agent sends.

A sub-agent is active while the call that started it runs. Some agents mark its calls and not its text, some mark
nothing. The top agent waits meanwhile, so updates without a mark are the sub-agent's.
"""

from __future__ import annotations

from typing import Any

from penstock.agents._json import as_dict
from penstock.agents.acp.calls import AcpCall, AcpCalls, meta_of, titled_name
from penstock.core.bounded import BoundedDict

MAX_SUB_AGENTS = 256
"""Number of sub-agents whose starting calls are remembered by the sub-agent's own id."""

_NAMES = frozenset({"agent", "delegate_to_agent", "invoke_agent", "spawn_agent", "subagent", "task"})
_KINDS = ("subagent_type", "agent_type", "agent_name")


class SubAgents:
    """Finder of an update's lane: None for the top agent, else the call that started the sub-agent."""

    def __init__(self, calls: AcpCalls) -> None:
        self._calls = calls
        # By the sub-agent's own id, the call that started it.
        self._callers: BoundedDict[str, str] = BoundedDict(MAX_SUB_AGENTS)
        self._named: str | None = None  # the lane that a mark named last

    def marked(self, update: dict[str, Any]) -> str | None:
        """Return the lane that a mark names."""
        if "_meta" not in update:
            return None
        lane = meta_of(update, "parentToolUseId", "parentToolCallId")
        if not lane and (agent := meta_of(update, "agentId")):
            lane = self._caller(agent)
        if lane:
            self._named = lane
        return lane or None

    def of_text(self, update: dict[str, Any]) -> str | None:
        """Return the lane of text, or of a plan."""
        return self.marked(update) or (self._at_work() if self._calls.any_open else None)

    def of_call(self, patch: dict[str, Any]) -> str | None:
        """Return the lane of a call: that in which it was announced."""
        lane = self.marked(patch)
        if lane is not None or not self._calls.quirks.marks_no_calls:
            return lane
        if (call := self._calls.find(patch)) is not None:
            return call.lane
        return None if titled_name(patch).lower() in _NAMES else self._at_work()

    def _at_work(self) -> str | None:
        """Return the sub-agent that sends updates without a mark: the one named last, else the one started last."""
        if self._calls.quirks.marks_sub_agents:
            return None
        ids = self._running()
        return self._named if self._named in ids else (ids[-1] if ids else None)

    def _caller(self, agent: str) -> str:
        """Return the call that started a sub-agent: the first of those whose sub-agent is still unknown."""
        known = self._callers.get(agent)
        if known is not None:
            return known
        free = [id for id in self._running() if id not in self._callers.values()]
        if not free:
            return agent
        self._callers[agent] = free[0]
        return free[0]

    def _running(self) -> list[str]:
        early = self._calls.quirks.marks_no_calls
        return [call.id for call in self._calls.open() if (call.emitted or early) and _starts_sub_agent(call)]


def _starts_sub_agent(call: AcpCall) -> bool:
    """Return whether a call starts a sub-agent, by the tool's name or by its input."""
    given = as_dict(call.fields.get("rawInput"))
    return call.name.lower() in _NAMES or any(isinstance(given.get(key), str) for key in _KINDS)
