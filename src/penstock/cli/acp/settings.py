"""Settings of a session that a client can show and change: agent, model and level of permission."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.adapter import Allow
from penstock.chat.service.agents.offered import Agents, AgentView
from penstock.cli.acp.peer import INVALID_PARAMS, RpcError

AGENT, MODEL, LEVEL = "agent", "model", "permission"
"""Ids of the settings."""

CAREFUL = ("read", "ask")
"""Levels that a client can choose: a person gives an agent more on the page."""


def agent_of(agents: Sequence[AgentView], name: str) -> AgentView:
    """Return an agent that can be asked.

    Raises:
        RpcError: there is none of this name, or it is not available.
    """
    found = next((agent for agent in agents if agent.name == name), None)
    names = ", ".join(agent.name for agent in agents if agent.available)
    if found is None:
        raise RpcError(INVALID_PARAMS, f"there is no agent {name[:100]!r}; expected one of {names}")
    if not found.available:
        why = found.reason or f"it is not installed{f' ({found.install})' if found.install else ''}"
        raise RpcError(INVALID_PARAMS, f"{found.name} cannot be used: {why}; expected one of {names}")
    return found


def careful_level(name: str) -> Allow:
    """Return the level of a new session with an agent: it asks, or else it reads only.

    Raises:
        RpcError: the agent can do neither.
    """
    level = Agents.careful_level(name)
    if level is None:
        what = f"{name} acts without asking, which a client of ACP may not start"
        raise RpcError(INVALID_PARAMS, f"{what}; begin the chat on the page of penstock serve, and load it")
    return level


def listed(agents: Sequence[AgentView], agent: str, model: str | None, allow: Allow, *, is_new: bool) -> list[Any]:
    """Return all settings of a session; only a new one can get another agent."""
    view = next((one for one in agents if one.name == agent), None)
    if view is not None and allow == "default":
        allow = view.default_allow
    names = [one.name for one in agents if one.available or one.name == agent] if is_new else [agent]
    found = [_select(AGENT, "Agent", None, agent, [(name, name, "") for name in names])]
    models = view.models if view is not None else []
    if models:
        current = model or models[0]
        values = [current, *(one for one in models if one != current)]
        found.append(_select(MODEL, "Model", "model", current, [(one, one, "") for one in values]))
    levels = [
        (level.allow, level.label, level.text)
        for level in (view.allows if view is not None else [])
        if level.allow in (*CAREFUL, allow)
    ]
    if levels and allow in {value for value, _, _ in levels}:
        found.append(_select(LEVEL, "Permission", "mode", allow, levels))
    return found


def modes_of(options: Sequence[Any]) -> dict[str, Any] | None:
    """Return the level of permission as the modes of a session, for clients that do not know its settings."""
    level = next((option for option in options if option["id"] == LEVEL), None)
    if level is None:
        return None
    modes = [
        {**{key: value for key, value in one.items() if key != "value"}, "id": one["value"]} for one in level["options"]
    ]
    return {"currentModeId": level["currentValue"], "availableModes": modes}


def _select(id: str, name: str, category: str | None, current: str, values: Sequence[tuple[str, str, str]]) -> Any:
    options = [
        {"value": value, "name": label, **({"description": text} if text else {})} for value, label, text in values
    ]
    made = {"id": id, "name": name, "type": "select", "currentValue": current, "options": options}
    return made if category is None else {**made, "category": category}
