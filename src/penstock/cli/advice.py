"""Commands and options that `penstock run` suggests: how to continue a conversation, how to allow refused actions."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from penstock.agents.registry import AGENTS

if TYPE_CHECKING:
    from penstock.cli.options import RunOptions


def resume_command(agent: str, options: RunOptions) -> str:
    """Return the command that continues the conversation of an agent, with `{session}` for its id."""
    route = f" --route {options.asked['route']}" if options.asked["route"] else ""
    return f'penstock run {shlex.quote(agent)}{route} --session {{session}} "…"'


def allow_advice(agent: str, route: str, options: RunOptions) -> str:
    """Return how actions of the agent that were refused can be allowed; "" if they all are already."""
    ways = {"default": ["--allow edits", "--allow all"], "edits": ["--allow all"]}.get(options.asked["allow"], [])
    facts = AGENTS.get(agent.partition("/")[0])
    if ways and facts is not None and "acp" in facts.routes and route == "exec":
        ways = [*ways, "--route acp to be asked"]
    return ", or ".join(ways)
