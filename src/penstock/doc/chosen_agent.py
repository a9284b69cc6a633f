"""Choice of the agent that answers a document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.agents import registry
from penstock.errors import UsageError, shown
from penstock.run.launch import installed_agent

if TYPE_CHECKING:
    from penstock.config.settings import Config


def chosen_agent(asked: str | None, named: str | None, config: Config, env: Mapping[str, str] | None = None) -> str:
    """Return the agent that the caller asked for, else the one that the document names, else an installed one.

    A document is data, which others may have written: the name in it selects an agent that is known already. It cannot
    be a command.

    Raises:
        UsageError: the document's name is not usable, or no agent is installed.
    """
    if asked is not None:
        return asked
    if named is None:
        return installed_agent(config, env)
    base = named.partition("/")[0]
    if base not in registry.names() and base not in config.agents() and named not in config.agents():
        raise UsageError(
            f"the document names the agent {shown(named)}",
            expected="one of " + ", ".join(dict.fromkeys([*registry.names(), *config.agents()])),
            help="change the line agent: of its front matter, or use --agent NAME",
        )
    return named
