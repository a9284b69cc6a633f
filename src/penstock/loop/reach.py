"""Reach of a loop's agents and commands: their environment, and their confinement."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from penstock.agents.registry import AGENTS
from penstock.config.settings import Config
from penstock.errors import UsageError
from penstock.loop.checks import SHELL
from penstock.loop.rows import Settings
from penstock.repo.git import clean_environment
from penstock.repo.repository import Repository
from penstock.run.confine import ToConfine, confined, machine_problem
from penstock.run.inside import FOLDER_MARK, LOOP_MARK
from penstock.run.network import Network
from penstock.run.sandbox import Confinement, Surroundings

LOGINS = ("SSH_AUTH_SOCK",)
"""Variables that lead to logins; commands of a loop do not get them."""


def environment_of(loop: str, folder: Path, config: Config, agent: str | None = None) -> dict[str, str]:
    """Return the environment of an agent, or of a command of the user if none is named.

    An agent gets the variables of its own provider and not those of other agents, a command none of them. An agent
    about which nothing is known gets all.
    """
    env = clean_environment(os.environ)
    marks = {LOOP_MARK: loop, FOLDER_MARK: os.path.realpath(folder)}
    if agent is None:
        return {**_without(env, _beginnings()), **marks}
    known = (AGENTS.get(name.partition("/")[0]) for name in (agent, config.agent(agent).adapter or ""))
    facts = next((facts for facts in known if facts is not None and facts.variables), None)
    if facts is None:
        return {**env, **marks}
    on = (switch for switch in facts.switches if env.get(switch, "").lower() not in ("", "0", "false"))
    own = (*facts.variables, *facts.switches, *(name for switch in on for name in facts.switches[switch]))
    others = {name: value for name, value in env.items() if name.startswith(own) or name in LOGINS}
    return {**_without(env, _beginnings()), **others, **marks}


def hidden_variables() -> dict[str, str]:
    """Return empty values for the variables that a command of the user does not get, for one that inherits them."""
    return dict.fromkeys(set(os.environ) - set(_without(os.environ, _beginnings())), "")


def _beginnings() -> tuple[str, ...]:
    """Return the names, or their beginnings, that any agent reads."""
    found: set[str] = set()
    for facts in AGENTS.values():
        found.update(facts.variables, facts.switches, *facts.switches.values())
    return tuple(sorted(found))


def _without(env: Mapping[str, str], beginnings: tuple[str, ...]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name not in LOGINS and not name.startswith(beginnings)}


def surroundings_of(data: Path, repository: Repository, tree: str) -> Surroundings:
    """Return what confines a loop's agents and commands to a tree: of the user's repository they read the objects."""
    return Surroundings(
        auto="on",
        hidden=(str(data),),
        covered=(str(repository.root), str(repository.git_dir), str(repository.common)),
        read_only=repository.stores(),
        writable=(tree,),
        caches=str(data / "caches"),
    )


def confinement_of(
    settings: Settings, around: Surroundings, directory: Path, env: Mapping[str, str], network: Network
) -> Confinement:
    """Return the confinement of a command of the user; its problem says why it is not confined, if it was to be.

    Raises:
        UsageError: it was asked for and is not possible.
    """
    if settings.sandbox == "off":
        return Confinement()
    run = ToConfine(
        agent="a check",
        facts=None,
        program=SHELL,
        env=env,
        cwd=str(directory),
        files=(),
        allow="all",
        surroundings=around,
        network=network,
    )
    is_asked = settings.sandbox != "auto"
    return confined(run, "own" if settings.sandbox == "own" else "on", is_asked=is_asked)


def check_sandbox(settings: Settings) -> None:
    """Check that what is asked for is possible on this machine.

    Raises:
        UsageError: it is not.
    """
    is_restricted = settings.network != "all"
    if is_restricted and settings.sandbox in ("own", "off"):
        what = f"the network of agents is restricted with --sandbox on alone, and this loop has {settings.sandbox}"
        raise UsageError(what, help="leave --sandbox out, or use --network all")
    if (is_restricted or settings.sandbox in ("on", "own")) and (problem := machine_problem()):
        raise UsageError(f"no agent can be confined here: {problem}", help="see docs/sandbox.md, or --sandbox off")
