"""Keys of `[run]`, which are those of a profile too, and which of their values allow less than others."""

from __future__ import annotations

from penstock.config.addresses import ADDRESSES
from penstock.config.rules import Rule, one_of, whole

LEVELS = ("read", "ask", "edits", "all", "own")
"""Levels of permission, as in `penstock.adapter`."""
NETWORKS = ("none", "agent", "all")
"""Networks of runs, the smallest first, as in `penstock.run.network`."""
MAX_TMPFS_MB = 1024 * 1024
"""Megabytes of the largest directory in memory of a confined run."""
OF_PROFILES: dict[str, Rule] = {
    "sandbox": one_of("auto", "on", "own", "off", quote='"'),
    "allow": one_of("default", *LEVELS, quote='"'),
    "network": one_of(*NETWORKS, quote='"'),
    "network_hosts": ADDRESSES,
}
"""Rules of the keys of `[run]` that its profiles have too."""
RUN: dict[str, Rule] = {**OF_PROFILES, "sandbox_tmpfs": whole(1, MAX_TMPFS_MB)}
"""Rules of the keys of `[run]`."""

_FREEDOM: dict[str, int] = {"read": 0, "ask": 1, "default": 1, "own": 1, "edits": 2, "all": 3}
"""Order of the levels. The defaults of agents are unknown here: only `read` and `ask` allow no more than these do."""


def is_lower(value: str, users: str) -> bool:
    """Return whether a level allows no more than another one."""
    return value not in ("own", "default") and _FREEDOM[value] <= _FREEDOM[users]


def is_smaller(value: str, users: str) -> bool:
    """Return whether a network is not larger than another one."""
    return NETWORKS.index(value) <= NETWORKS.index(users)
