"""`penstock acp --setup`: which agents are logged in, and the login of one, in a terminal."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from penstock.agents import registry
from penstock.agents._facts import Login
from penstock.chat.service.agents.offered import Agents
from penstock.cli.console import say
from penstock.config.settings import Config
from penstock.errors import TransportError
from penstock.run import installed
from penstock.run.process import output_of

STATE_SECONDS = 30.0
"""Timeout in seconds for the question whether an agent is logged in: the first start of a large program is slow."""

NOBODY = 'no agent is installed here that an editor can use; "penstock agents" lists them, with their installation'


class InstalledAgent(NamedTuple):
    """Agent that is installed."""

    name: str
    program: str
    login: Login | None

    @property
    def words(self) -> list[str]:
        """Command with which a person logs in, with the name of its program."""
        return [os.path.basename(self.program), *self.command[1:]]

    @property
    def command(self) -> list[str]:
        """Command with which a person logs in."""
        return [self.program, *(self.login.start if self.login is not None else ())]


def setup(config: Config) -> int:
    """Print which agents are logged in and, in a terminal, offer the login of one; return the exit status.

    It is 1 if no agent can be used: none is installed, or all report that nobody is logged in.
    """
    agents = found(config)
    if not agents:
        say(f"{NOBODY}\n")
        return 1
    while True:
        states = all_states(agents)
        say(as_text(agents, states))
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            break
        chosen = _choose(agents)
        if chosen is None:
            break
        _log_in(chosen)
    return 1 if all(state is False for state in states) else 0


def found(config: Config) -> list[InstalledAgent]:
    """Return the installed agents that an editor can use."""
    agents = []
    for name in registry.names():
        entry = registry.AGENTS.get(name)
        if entry is None or Agents.careful_level(name) is None:
            continue
        own = config.agent(name)
        program = installed.where(own.command[0] if own.command else entry.default.program)
        if program is not None:
            agents.append(InstalledAgent(name, program, entry.login))
    return agents


def all_states(agents: Sequence[InstalledAgent]) -> list[bool | None]:
    """Return for each agent whether somebody is logged in; None if that is unknown."""
    with ThreadPoolExecutor(8) as pool:
        return [*pool.map(_state, agents)]


def _state(agent: InstalledAgent) -> bool | None:
    if agent.login is None or not agent.login.state:
        return None
    try:
        status, _ = output_of([agent.program, *agent.login.state], os.environ, None, STATE_SECONDS)
    except TransportError:
        return None
    return {0: True, 1: False}.get(status) if status is not None else None


def as_text(agents: Sequence[InstalledAgent], states: Sequence[bool | None]) -> str:
    """Return a line for each agent: its state, and the command that logs in unless somebody is."""
    width = max(len(agent.name) for agent in agents)
    words = {True: "logged in", False: "not logged in", None: "unknown"}
    lines = []
    for agent, state in zip(agents, states, strict=True):
        login = "" if state else f"  log in: {shlex.join(agent.words)}"
        lines.append(f"{agent.name:{width}}  {words[state]:13}{login}".rstrip())
    return "\n".join(lines) + "\n"


def _log_in(agent: InstalledAgent) -> None:
    """Run the login of an agent in this terminal. Ctrl-C ends the login alone."""
    try:
        subprocess.run(agent.command, check=False)
    except KeyboardInterrupt:
        say("\n")
    except OSError as error:
        say(f"{agent.program} cannot be started: {error.strerror}\n")
    say("\n")


def _choose(agents: Sequence[InstalledAgent]) -> InstalledAgent | None:
    """Ask for an agent; None if the person has finished."""
    by_name = {agent.name: agent for agent in agents}
    while True:
        try:
            name = input("\nLog in with which agent? Its name, or Enter to finish: ").strip()
        except (EOFError, KeyboardInterrupt):
            return None
        if not name or name in by_name:
            return by_name.get(name)
        say(f"there is no agent {name!r} here\n")
