"""Sockets of the gateway: a port of the loopback, a Unix socket, or, if explicitly requested, the network."""

from __future__ import annotations

import errno
import ipaddress
import os
import re
import socket
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from penstock.chat.web import PORT
from penstock.chat.web.auth import TOKEN_VARIABLE
from penstock.chat.web.security import check_host
from penstock.errors import UsageError

OTHER_PORTS = 20
"""Number of ports to try, `PORT` first, if none was requested: the first free one is used."""


class Place(NamedTuple):
    """Sockets on which the gateway listens, and their address."""

    sockets: list[socket.socket]
    url: str
    """URL of the page; "" for a Unix socket, whose public address only a proxy has, unless a host is allowed."""
    hosts: list[str]
    """Hosts that requests may name, besides the loopback."""
    cookie: str
    """Name of the cookie: another Penstock on this machine has another one."""
    path: Path | None = None
    """Path of the Unix socket."""
    warning: str = ""
    """Warning for the user."""

    def close(self) -> None:
        """Close the sockets and remove the Unix socket's file."""
        for one in self.sockets:
            one.close()
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def listen(host: str, port: int | None, *, allow_hosts: Sequence[str] = (), has_token: bool = False) -> Place:
    """Listen on a port; None: the default one, or one after it. `has_token`: the user chose the token.

    Raises:
        UsageError: the port is taken, the address is invalid, or is open to others without the options that allow it.
    """
    addresses = _addresses(host)
    is_open = not all(ipaddress.ip_address(address.partition("%")[0]).is_loopback for _, address in addresses)
    warning = _check_open(host, allow_hosts, has_token) if is_open else ""
    first = PORT if port is None else port
    ports = range(first, first + OTHER_PORTS) if port is None else [first]
    sockets = _bind(addresses, ports)
    if sockets is None:
        more = f", and so are the {OTHER_PORTS - 1} behind it" if len(ports) > 1 else ""
        raise UsageError(
            f"port {first} of {host} is taken{more}",
            help="end what uses it, or choose another: penstock serve --port 0",
        )
    taken = sockets[0].getsockname()[1]
    name = check_host(allow_hosts[0]) if is_open else f"[{host}]" if ":" in host else host.lower()
    place = name if re.search(r":[0-9]+$", name) else f"{name}:{taken}"
    return Place(sockets, f"http://{place}", [] if is_open else [name], f"penstock_{taken}", warning=warning)


def _addresses(host: str) -> list[tuple[socket.AddressFamily, str]]:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise UsageError(
            f"{host!r} is not an address of this machine", expected="an address such as 127.0.0.1 or ::1"
        ) from error
    return list(dict.fromkeys((family, str(address[0])) for family, _, _, _, address in found))


def _check_open(host: str, allow_hosts: Sequence[str], has_token: bool) -> str:
    """Return the warning for a host that other machines can reach.

    Raises:
        UsageError: the options do not allow it: no host is allowed, or the user did not choose the token.
    """
    what = f"{host} can be reached by other machines"
    if not allow_hosts:
        expected = "the name by which they reach it"
        raise UsageError(what, expected=expected, help="--allow-host NAME; or leave --host away")
    if not has_token:
        expected = f"a token that you chose: {TOKEN_VARIABLE}, or --token-file"
        raise UsageError(what, expected=expected, help="docs/deploy.md shows how")
    return f"{what}: everybody who has the token, or can read the network traffic, can act as you; put TLS before it"


def _bind(addresses: Sequence[tuple[socket.AddressFamily, str]], ports: Sequence[int]) -> list[socket.socket] | None:
    """Return sockets at all addresses, with the first port that is free at each; None if there is none.

    Raises:
        UsageError: an address cannot be used, for another reason than that it is taken.
    """
    for port in ports:
        sockets: list[socket.socket] = []
        for family, address in addresses:
            # If the protocol is named, asyncio sends small frames at once (TCP_NODELAY); else they wait for an ACK.
            one = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
            try:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                one.bind((address, sockets[0].getsockname()[1] if sockets else port))
                one.listen(1)  # reserves the port: two processes that only bind could both succeed
                sockets.append(one)
            except OSError as error:
                for other in (one, *sockets):
                    other.close()
                if error.errno == errno.EADDRINUSE:
                    break
                raise UsageError(f"{address}, port {port}, cannot be bound: {error.strerror}") from error
        else:
            return sockets
    return None


def listen_at_path(path: Path, *, allow_hosts: Sequence[str] = ()) -> Place:
    """Listen on a Unix socket, for its owner and group.

    Raises:
        UsageError: something is at this path already, or the socket cannot be made.
    """
    path = path.absolute()
    _clear(path)
    one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        before = os.umask(0o117)  # its group may connect, e.g. a proxy; others not even for a moment
        try:
            one.bind(str(path))
        finally:
            os.umask(before)
        one.listen(1)
    except OSError as error:
        one.close()
        raise UsageError(f"{path} cannot be bound: {error.strerror or error}") from error
    return Place([one], f"https://{check_host(allow_hosts[0])}" if allow_hosts else "", [], "penstock", path)


def _clear(path: Path) -> None:
    """Remove the socket of a process that is gone.

    Raises:
        UsageError: the path has something that must not be removed, or cannot be examined.
    """
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise UsageError(f"{path} is there already, and is not a socket")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            try:
                probe.connect(str(path))
            except ConnectionRefusedError:
                path.unlink()
                return
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(f"{path} cannot be bound: {error.strerror or error}") from error
    raise UsageError(f"something listens at {path} already")
