"""Reverse proxy that signs people in: it names the person of each request in a header.

Agents are processes of the server's user on the server's machine, so the header counts only if the request comes from a
peer that no agent can be: over a Unix socket a process of the proxy's own user, as the system says; over TCP a peer at
the proxy's address that knows a secret. A request with the header from anybody else is rejected, whatever else it has.
"""

from __future__ import annotations

import hmac
import ipaddress
import os
import pwd
import re
import socket
import struct
from pathlib import Path

from starlette.requests import Request

from penstock.chat.history.entries import OWNER
from penstock.chat.people.persons import People, Person
from penstock.chat.web.auth import read_token
from penstock.chat.web.errors import Forbidden
from penstock.errors import UsageError, shown

SECRET_HEADER = "x-penstock-proxy"
"""Header with the secret of a proxy that connects over TCP."""

PEER_UID, PEER_PID = "peer_uid", "peer_pid"
"""Keys in the state of a connection: user and id of the process that connected; None if it is not a Unix socket."""

HEADER_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}")
TAKEN = re.compile(
    r"host|origin|cookie|authorization|connection|date|via|range|te|upgrade|expect|accept.*|content-.*|if-.*|sec-.*|"
    r"transfer-.*|proxy-.*|access-control-.*|user-agent|referer|last-event-id|idempotency-key|x-penstock-.*|"
    r"x-forwarded-(for|proto|host)|forwarded",
    re.IGNORECASE,
)
"""Pattern of headers that have another meaning, so that browsers and programs send them."""

CREDENTIALS = struct.Struct("iII")
"""Process, user and group of a peer, as the system has them."""

_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class RejectedProxy(Forbidden):
    """A header that names a person is not accepted."""

    def __init__(self, what: str, expected: str = "") -> None:
        super().__init__(what, expected=expected, help="docs/deploy.md shows the settings of the proxy")


class TrustedProxy:
    """Proxy whose header names the person of a request. Create it with `proxy_at_socket` or `proxy_at_address`."""

    def __init__(
        self, header: str, *, uid: int | None = None, network: _Network | None = None, secret: str = ""
    ) -> None:
        self.header: str = header
        self._uid = uid
        self._network = network
        self._secret = secret.encode()

    def person_of(self, request: Request, people: People) -> Person | None:
        """Return the person whom the proxy names; None if the request has no such header.

        Raises:
            RejectedProxy: the request does not come from the proxy, or names nobody whom the server knows, or two.
        """
        named = request.headers.getlist(self.header)
        if not named:
            return None
        if not self._sent(request):
            raise RejectedProxy(f"{self.header} does not come from the proxy that this server trusts")
        if len(named) > 1:
            raise RejectedProxy(f"the request has {self.header} more than once")
        # Nobody is the owner because of a name at an identity provider.
        person = people.find(named[0]) if named[0] != OWNER else None
        if person is None:
            raise RejectedProxy(f"{self.header} names no person whom this server knows", "one of penstock people")
        return person

    def _sent(self, request: Request) -> bool:
        if self._uid is not None:
            uid: int | None = request.scope.get("state", {}).get(PEER_UID)
            return uid == self._uid
        given = request.headers.getlist(SECRET_HEADER)
        is_known = len(given) == 1 and hmac.compare_digest(given[0].encode("utf-8", "surrogateescape"), self._secret)
        return is_known and self._is_address(request.client.host if request.client is not None else "")

    def _is_address(self, host: str) -> bool:
        try:
            address = ipaddress.ip_address(host.partition("%")[0])
        except ValueError:
            return False
        mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
        return self._network is not None and (mapped or address) in self._network


def trusted_proxy(
    header: str | None, proxy: str | None, secret_file: Path | None, *, at_socket: bool
) -> TrustedProxy | None:
    """Return the proxy that the options name; None if they name none.

    `proxy`: with a Unix socket (`at_socket`) the user of the proxy's processes, otherwise its address or network.

    Raises:
        UsageError: the options do not fit together, or an agent could be this proxy.
    """
    if header is None and proxy is None and secret_file is None:
        return None
    if header is None or proxy is None:
        values = {"--person-header": header, "--proxy": proxy, "--proxy-secret-file": secret_file}
        given = next(name for name, value in values.items() if value is not None)
        missing = next(name for name, value in values.items() if value is None)
        raise UsageError(f"{given} needs {missing}", expected="--person-header and --proxy, or none of them")
    if not HEADER_NAME.fullmatch(header) or TAKEN.fullmatch(header):
        raise UsageError(
            f"--person-header cannot be {shown(header)}", expected="the name of a header such as Remote-User"
        )
    if at_socket:
        if secret_file is not None:
            raise UsageError("--proxy-secret-file is for a port", expected="with --uds, the user of the proxy alone")
        return TrustedProxy(header, uid=_uid_of(proxy))
    try:
        network = ipaddress.ip_network(proxy)
    except ValueError as error:
        expected = "an address such as 10.0.0.5, or a network such as 10.0.0.0/28"
        raise UsageError(
            f"--proxy cannot be {shown(proxy)}", expected=expected, help="with --uds it is a user"
        ) from error
    if secret_file is None:
        raise UsageError(
            "a proxy at a port needs --proxy-secret-file: an agent could be at its address",
            help=f"the proxy sends the secret as {SECRET_HEADER}; or use --uds, which needs none",
        )
    return TrustedProxy(header, network=network, secret=read_token(secret_file))


def peer_of_socket(one: socket.socket | None) -> dict[str, int | None]:
    """Return the user and the id of the process that connected to a Unix socket, by their keys in the state."""
    found: dict[str, int | None] = {PEER_UID: None, PEER_PID: None}
    if one is None or one.family != socket.AF_UNIX or not hasattr(socket, "SO_PEERCRED"):
        return found
    try:
        data = one.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    except OSError:
        return found
    found[PEER_PID], found[PEER_UID], _ = CREDENTIALS.unpack(data)
    return found


def _uid_of(user: str) -> int:
    """Return the id of the user of the proxy.

    Raises:
        UsageError: there is no such user, it is that of the server, or this system does not say who connects.
    """
    if not hasattr(socket, "SO_PEERCRED"):
        raise UsageError("--person-header with --uds needs Linux: only there the socket says who connects")
    try:
        uid = int(user) if user.isdecimal() and len(user) < 10 else pwd.getpwnam(user).pw_uid
    except (KeyError, ValueError) as error:
        expected = "the user of the proxy's processes, such as www-data"
        raise UsageError(f"--proxy names no user of this machine: {shown(user)}", expected=expected) from error
    if uid == os.geteuid():
        raise UsageError(
            f"--proxy cannot be {shown(user)}, the user of this server: agents are processes of this user",
            expected="a proxy with a user of its own, or a server with one",
        )
    return uid
