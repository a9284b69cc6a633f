"""Resuming a conversation: which agents and routes can."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.agents import registry
from penstock.events import RunEnded

if TYPE_CHECKING:
    from penstock.config.settings import Config


def is_confirmed(ended: RunEnded, reported: str | None) -> bool:
    """Return whether the agent knows the conversation: its failure may repeat an id that was mistyped.

    `reported`: id of the run's `run_started`.
    """
    return ended.session_id == reported or ended.outcome == "ok" or ended.rounds > 0


def resume_warning(agent: str, route: str) -> str:
    """Return a sentence for a user whose conversation has begun, if the agent may lose it when it is resumed."""
    facts = registry.AGENTS.get(agent.partition("/")[0])
    found = facts.routes.get(route) if facts is not None else None
    return found.resume_warning if found is not None else ""


def can_resume(agent: str, route: str | None, config: Config) -> bool:
    """Return whether a run of the agent can resume a conversation, by this route or, if it is None, by its default."""
    facts, own = registry.AGENTS.get(agent.partition("/")[0]), config.agent(agent)
    if facts is None:
        return own.command is None or own.protocol == "acp" or any("{session_id}" in word for word in own.command)
    return all(facts.routes[name].resume for name in ({route} if route else facts.defaults) if name in facts.routes)
