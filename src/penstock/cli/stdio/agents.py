"""Agents and levels that a client on stdin and stdout can choose."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from penstock.adapter import Allow
from penstock.chat.service.agents.offered import Agents, AgentView
from penstock.cli.stdio.peer import INVALID_PARAMS, RpcError


class AgentList(msgspec.Struct):
    """Answer with all agents."""

    agents: list[AgentView]


CAREFUL = ("read", "ask")
"""Levels that a client can choose; a higher one is given by a person on the page."""


INSTALLED = 'one that is installed; "penstock agents" lists them'
"""What is expected in place of an agent if there is none."""


def agent_of(agents: Sequence[AgentView], name: str) -> AgentView:
    """Return an agent that can be asked.

    Raises:
        RpcError: there is none of this name, or it is not available.
    """
    found = next((agent for agent in agents if agent.name == name), None)
    names = ", ".join(agent.name for agent in agents if agent.available)
    expected = f"one of {names}" if names else INSTALLED
    if found is None:
        raise RpcError(INVALID_PARAMS, f"there is no agent {name[:100]!r}; expected {expected}")
    if not found.available:
        why = found.reason or f"it is not installed{f' ({found.install})' if found.install else ''}"
        raise RpcError(INVALID_PARAMS, f"{found.name} cannot be used: {why}; expected {expected}")
    return found


def careful_level(name: str) -> Allow:
    """Return the level of a new session with an agent: it asks, or else it reads only.

    Raises:
        RpcError: the agent can do neither.
    """
    level = Agents.careful_level(name)
    if level is None:
        what = f"{name} acts without asking, which a program may not start"
        raise RpcError(INVALID_PARAMS, f"{what}; begin the chat on the page of penstock serve")
    return level
