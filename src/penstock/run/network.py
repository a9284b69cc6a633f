"""Network of a confined run: the addresses that it reaches, decided before the start.

With `agent` a run has a loopback of its own and no other network. `open_ports` opens ports in it and hands them out;
`proxy` serves them from outside. So what runs inside can only ask the proxy, which connects to what `Reach` allows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from penstock.agents._facts import AgentFacts
from penstock.config.addresses import ServerAddress, address_of
from penstock.errors import UsageError

Network = Literal["all", "agent", "none"]
"""Network of a confined run: that of this machine, only the addresses of the agent's model, or none."""

PROXY_PORT = 3128
"""Port of the proxy inside of a confined run, unless that port is forwarded to the machine."""
FIRST_PORT = 1024
"""Lowest port that a process without privileges can open."""
PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
"""Variables that name a proxy. Programs read them in capital or in small letters."""
LOOPBACK = ("localhost", "127.0.0.1", "::1")
_URL_VARIABLE = re.compile(r"[A-Z0-9_]*(?:URL|URI|ENDPOINT|API_BASE|HOST)")
"""Names of variables by which a user sends an agent to another server, such as `ANTHROPIC_BASE_URL`."""
_PORTS = {"http": 80, "https": 443}


class Reach(msgspec.Struct, frozen=True):
    """Addresses that a run with `agent` reaches."""

    allowed: tuple[ServerAddress, ...] = ()
    forwarded: tuple[int, ...] = ()
    """Ports of this machine's loopback, which the loopback inside has too."""

    @property
    def proxy_port(self) -> int:
        """Port inside on which the proxy is asked."""
        candidates = range(PROXY_PORT, PROXY_PORT + 1 + len(self.forwarded))
        return next(port for port in candidates if port not in self.forwarded)

    @property
    def ports(self) -> tuple[int, ...]:
        """Ports to open inside, that of the proxy first."""
        return (self.proxy_port, *self.forwarded)

    def allows(self, address: ServerAddress) -> bool:
        """Return whether an address is one of the allowed ones."""
        return any(allowed.covers(address) for allowed in self.allowed)


def reach_of(facts: AgentFacts | None, env: Mapping[str, str], hosts: Iterable[str], urls: Iterable[str] = ()) -> Reach:
    """Return what a run reaches: the agent's own hosts, those to which its variables send it, and those that are named.

    `hosts` are addresses that a user named, `urls` those of the MCP servers that a user gave the run.

    Raises:
        UsageError: the environment names a proxy, which Penstock's own does not use, or a forwarded port is one that
            nothing inside may open.
    """
    for name in PROXY_VARIABLES:
        if env.get(name) or env.get(name.lower()):
            raise UsageError(f"--network agent cannot go through another proxy, and {name} names one")
    prefixes = facts.variables if facts is not None else ()
    named = (*(facts.hosts if facts is not None else ()), *hosts)
    sent = (value for name, value in env.items() if name.startswith(prefixes) and _URL_VARIABLE.fullmatch(name))
    found = {address for address in (*map(address_of, named), *map(_of_url, (*sent, *urls))) if address is not None}
    forwarded = sorted({address.port for address in found if address.host in LOOPBACK})
    if forwarded and forwarded[0] < FIRST_PORT:
        what = f"--network agent cannot forward port {forwarded[0]} of this machine"
        raise UsageError(what, expected=f"a server at port {FIRST_PORT} or above")
    return Reach(tuple(sorted(address for address in found if address.host not in LOOPBACK)), tuple(forwarded))


def _of_url(url: str) -> ServerAddress | None:
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return None
    return ServerAddress(parts.hostname, port) if parts.hostname and port and parts.scheme in _PORTS else None


def environment(reach: Reach, env: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which programs ask the proxy for everything but their own loopback."""
    proxy = dict.fromkeys(PROXY_VARIABLES[:2], f"http://127.0.0.1:{reach.proxy_port}")
    kept = {name: value for name, value in env.items() if name.upper() not in (*PROXY_VARIABLES, "NO_PROXY")}
    for name, value in {**proxy, "NO_PROXY": ",".join(LOOPBACK)}.items():
        kept |= {name: value, name.lower(): value}
    return kept
