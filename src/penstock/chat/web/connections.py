"""Connections of the server, with limits for clients that send or read nothing, and for those that are not logged in.

The number of connections without a login is limited, and a new one replaces the oldest: a client with a login always
gets in, because its first request arrives at once.
"""

from __future__ import annotations

import array
import asyncio
import fcntl
import socket
import termios
from collections import defaultdict
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from penstock.chat.web.security import network_of
from penstock.chat.web.trusted_proxy import peer_of_socket

HEAD_SECONDS = 20.0
"""Seconds for the head of a request, from its first byte on; for the first one from the beginning of the connection.

Browsers and programs send one in a single piece.
"""

STALLED_SECONDS = 30.0
"""Seconds after which a client is dropped if it accepts no waiting data; a slow client stays."""

STRANGER_SECONDS = 60.0
"""Seconds for which a connection stays without a request that is logged in; then its next response is the last one, and
after as many again it is cut."""

MAX_STRANGERS, MAX_STRANGERS_OF_ADDRESS = 500, 100
"""Number of connections that are not logged in: of all addresses, and of one.

For a new one the oldest is cut. A browser that loads the page has six for a few seconds; behind a proxy, the address is
the proxy's.
"""

SWEEP_SECONDS = 1.0
"""Seconds between two checks of all connections, and so the precision of each limit."""


class CountingTransport:
    """Transport that counts what is written to it."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self.written: int = 0
        """Number of bytes."""
        self._transport = transport

    def write(self, data: bytes) -> None:
        """Write to the transport."""
        self.written += len(data)
        self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Connection(H11Protocol):
    """One connection. An application can end it at once with `scope["state"]["abort"]`.

    `scope["state"]["flow"]` shows whether a send would wait for the client. `scope["state"]["write_chunk"]` writes a
    part of the body of a response that has begun and is chunked, past the layers between: a stream has ten a second.
    `scope["state"]["logged_in"]` is called when a request is authenticated.
    """

    def __init__(self, connections: Connections, **given: Any) -> None:
        """Create it; `given` are the arguments of uvicorn."""
        super().__init__(**given)
        self._all = connections
        self.network: str = ""
        """Address of the client, as limits count it."""
        self.is_stranger: bool = True
        """True until a request was authenticated."""
        self._head_since: float | None = None
        self._counter: CountingTransport
        self._accepted = -1  # bytes that the client's system had accepted at `_accepted_at`
        self._accepted_at = self._made_at = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Prepare the connection as uvicorn does, and begin to watch its time limits."""
        self._counter = CountingTransport(transport)
        super().connection_made(self._counter)  # type: ignore[arg-type]
        self.app_state: dict[str, Any] = {
            **self.app_state,
            "abort": transport.abort,
            "flow": self.flow,
            "write_chunk": self._write_chunk,
            "logged_in": self._logged_in,
            **peer_of_socket(transport.get_extra_info("socket")),
        }
        self._made_at = self._head_since = self.loop.time()
        self.network = network_of(self.client[0] if self.client is not None else "")
        self._all.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._all.remove(self)
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Handle what was received; note whether the head of a request has begun and is not complete."""
        super().handle_events()
        is_partial = self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]
        if not is_partial:
            self._head_since = None
        elif self._head_since is None:
            self._head_since = self.loop.time()

    def abort(self) -> None:
        """End the connection at once."""
        self.transport.abort()

    def check_limits(self, now: float) -> None:
        """End the connection if it has exceeded a limit at this time of the event loop."""
        age = now - self._made_at
        is_late = self._head_since is not None and now - self._head_since >= HEAD_SECONDS
        if is_late or self._is_stalled(now) or (self.is_stranger and age >= 2 * STRANGER_SECONDS):
            self.abort()
        elif self.is_stranger and age >= STRANGER_SECONDS and not self.transport.is_closing():
            self.shutdown()

    def _is_stalled(self, now: float) -> bool:
        """Return whether data has waited too long without the client accepting any."""
        waiting = self.transport.get_write_buffer_size()
        accepted = self._counter.written - waiting - (self._unacknowledged() if waiting else 0)
        if not waiting or accepted > self._accepted:
            self._accepted, self._accepted_at = accepted, now
        return now - self._accepted_at >= STALLED_SECONDS

    def _unacknowledged(self) -> int:
        """Return the bytes that the client's system has not yet accepted; 0 if unknown."""
        found = array.array("i", [0])
        one: socket.socket | None = self.transport.get_extra_info("socket")
        try:
            fcntl.ioctl(one.fileno() if one is not None else -1, termios.TIOCOUTQ, found)
        except (OSError, ValueError):
            return 0
        return found[0]

    def _logged_in(self) -> None:
        if self.is_stranger:
            self.is_stranger = False
            self._all.logged_in(self)

    def _write_chunk(self, data: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(b"%x\r\n%b\r\n" % (len(data), data))


class Connections:
    """All connections of one server. It belongs to one event loop."""

    def __init__(self) -> None:
        self._all: set[Connection] = set()
        self._strangers: dict[Connection, None] = {}  # the oldest one first
        self._by_network: defaultdict[str, dict[Connection, None]] = defaultdict(dict)
        self._timer: asyncio.TimerHandle | None = None

    def add(self, connection: Connection) -> None:
        """Add a connection; if too many are not logged in, cut the oldest of them."""
        same = self._by_network[connection.network]
        if len(same) >= MAX_STRANGERS_OF_ADDRESS:
            self._cut(next(iter(same)))
        elif len(self._strangers) >= MAX_STRANGERS:
            self._cut(next(iter(self._strangers)))
        self._all.add(connection)
        self._strangers[connection] = self._by_network[connection.network][connection] = None
        if self._timer is None:
            self._timer = connection.loop.call_later(SWEEP_SECONDS, self._sweep, connection.loop)

    def remove(self, connection: Connection) -> None:
        """Remove a connection that has ended."""
        self._all.discard(connection)
        self.logged_in(connection)

    def logged_in(self, connection: Connection) -> None:
        """Count a connection as logged in."""
        if connection in self._strangers:
            del self._strangers[connection]
            same = self._by_network[connection.network]
            del same[connection]
            if not same:
                del self._by_network[connection.network]

    def _cut(self, connection: Connection) -> None:
        self.logged_in(connection)
        connection.abort()

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for connection in [*self._all]:
            connection.check_limits(now)
        self._timer = loop.call_later(SWEEP_SECONDS, self._sweep, loop) if self._all else None
