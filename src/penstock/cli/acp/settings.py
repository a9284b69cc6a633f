"""Settings of a session that a client can show and change: agent, model, effort and level of permission."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.chat.service.agents.offered import AgentView
from penstock.cli.acp.session import Session
from penstock.cli.stdio.agents import CAREFUL

AGENT, MODEL, EFFORT, LEVEL = "agent", "model", "effort", "permission"
"""Ids of the settings."""

OWN_EFFORT = "default"
"""Value of the effort that the agent chooses itself."""


def listed(agents: Sequence[AgentView], session: Session) -> list[Any]:
    """Return all settings of a session; only a new one can get another agent."""
    agent, model, allow, is_new = session.agent, session.model, session.allow, session.is_new
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
    efforts = view.efforts if view is not None else []
    effort = session.effort
    if efforts or effort is not None:
        known = [*efforts] if effort is None or effort in efforts else [*efforts, effort]
        offered = [(OWN_EFFORT, "Default", "The agent's own choice"), *((one, one, "") for one in known)]
        found.append(_select(EFFORT, "Effort", "thought_level", effort or OWN_EFFORT, offered))
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
