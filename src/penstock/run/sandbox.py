"""Types of a run's confinement: the request, the facts around the run, and the result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from penstock.run.network import Network, Reach
from penstock.run.planted import Watched

if TYPE_CHECKING:
    from penstock.adapter import Level
    from penstock.agents._facts import AgentFacts

Mode = Literal["on", "own", "off"]
"""Confinement in force: all of it, only Penstock's own files hidden, or none."""
Sandbox = Literal["auto", "on", "own", "off"]
"""Confinement that is asked for; `auto` depends on the agent, on what it may do, and on what starts it."""


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about the confinement that the program around a run knows."""

    auto: Mode = "off"
    """Mode that `auto` means for agents of the usual kind: they can ask, and change files."""
    hidden: tuple[str, ...] = ()
    """Files and directories of Penstock besides the data directory, such as the file of a store."""
    covered: tuple[str, ...] = ()
    """Directories that a run with `on` does not see either, such as the repository beside its tree."""
    read_only: tuple[str, ...] = ()
    """Directories in what is hidden or covered that it reads."""
    writable: tuple[str, ...] = ()
    """Directories that it writes besides its own."""
    caches: str = ""
    """Directory with its caches; "": that of its working directory in the data directory."""


def automatic(facts: AgentFacts | None, allow: Level, surroundings: Surroundings) -> Mode:
    """Return the mode that `auto` means. `facts` are the agent's, None for a command of the configuration."""
    mode = surroundings.auto
    if allow == "read" or (facts is not None and facts.never_asks):
        mode = "on"
    if mode == "on" and (facts is None or not facts.state):
        return "own"  # an agent without its state, of which nothing is known, would not work
    return mode


class Confinement(msgspec.Struct, frozen=True):
    """Confinement of one run."""

    mode: Mode = "off"
    words: tuple[str, ...] = ()
    """Words that start bubblewrap, before the command; () with `off`."""
    problem: str = ""
    """Why the run is not confined although `auto` wanted it; "" if it is, or is not to be."""
    network: Network = "all"
    reach: Reach | None = None
    """Addresses that a run with the network `agent` reaches."""
    watched: Watched | None = None
    """Places in which a run with `on` could plant what later runs obey."""
