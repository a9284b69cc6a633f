"""Proxy of a confined run: it connects programs inside to the addresses that the run may reach, and refuses all others.

It serves ports that `open_ports` opened inside. The first is an HTTP proxy, for `CONNECT` and for plain HTTP requests
with a whole address; each other port is forwarded to the same port of this machine's loopback. Names are resolved here,
and a connection goes to the address that was checked. An address of this machine or of a private network is refused
unless it is itself allowed: an allowed name may resolve to anything.

It runs in a thread of its own, and nothing that a program inside sends can stop it.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import threading
from array import array
from collections.abc import Callable
from functools import partial
from urllib.parse import urlsplit

import msgspec

from penstock.config.addresses import ServerAddress, address_of
from penstock.run.inside import PROXIED
from penstock.run.network import Reach

HEAD_BYTES = 64 * 1024
"""Largest head of a request."""
HEAD_SECONDS = 30.0
"""Seconds for the head of a request, and for each attempt to connect outside."""
RETRY_SECONDS = 0.1
"""Seconds between two attempts to accept a connection while no descriptor is free."""
PIECE_BYTES = 64 * 1024
MAX_CONNECTIONS = 64
"""Connections at once: each takes two of this program's descriptors. Others wait."""
MAX_REFUSED = 50
"""Addresses whose denial is reported, each once."""
CLOSE_SECONDS = 2.0
"""Seconds that `close` waits for the thread, which ends at once unless the machine is very busy."""
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_REASONS = {400: "Bad Request", 403: "Forbidden", 502: "Bad Gateway"}
_OWN_FIELDS = (b"host", b"connection", b"keep-alive", b"upgrade")
"""Headers of a plain request that the proxy replaces or removes, besides those that begin with `proxy-`."""

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Refused(Exception):
    """Request that is answered with an error: a status of HTTP and a sentence."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Proxy:
    """Proxy of one run. `on_refused` is called from its thread, once for each address that is refused.

    `control` is one end of a socket pair, whose other end `open_ports` has. It is closed with the proxy. `depth` is the
    depth of the run's agent.
    """

    def __init__(self, reach: Reach, control: int, on_refused: Callable[[str], None], depth: int = 0) -> None:
        self._reach = reach
        self._own = PROXIED.format(depth=min(depth, 255)) if depth else None
        self._control = socket.socket(fileno=control)
        self._on_refused = on_refused
        self._refused: set[ServerAddress] = set()
        self._stop: Callable[[], object] = lambda: self._control.shutdown(socket.SHUT_RDWR)  # wakes `_receive`
        self._is_closed = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="penstock proxy", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End all connections. A second call does nothing."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                with contextlib.suppress(OSError, RuntimeError):  # it has ended by itself
                    self._stop()
        self._thread.join(CLOSE_SECONDS)

    # --- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        listeners = self._receive()
        try:
            if listeners:
                asyncio.run(self._serve(listeners))
        finally:
            for listener in listeners:
                listener.close()
            with self._lock:
                self._is_closed = True
                self._control.close()

    def _receive(self) -> list[socket.socket]:
        """Return the ports that were opened inside; none if the run ends before that."""
        fds = array("i")
        try:
            _, extra, _, _ = self._control.recvmsg(16, socket.CMSG_SPACE(len(self._reach.ports) * fds.itemsize))
        except OSError:
            return []
        for _, _, data in extra:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
        return [socket.socket(fileno=fd) for fd in fds]

    async def _serve(self, listeners: list[socket.socket]) -> None:
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        with self._lock:
            if self._is_closed:
                return
            self._stop = lambda: loop.call_soon_threadsafe(stopped.set)
        free = asyncio.Semaphore(MAX_CONNECTIONS)
        work = [
            asyncio.create_task(self._accept(listener, port, free))
            for listener, port in zip(listeners, self._reach.ports, strict=False)
        ]
        await stopped.wait()
        for task in work:
            task.cancel()  # `asyncio.run` cancels the connections

    async def _accept(self, listener: socket.socket, port: int, free: asyncio.Semaphore) -> None:
        """Serve each connection to a port inside, once there is room for it."""
        listener.setblocking(False)
        served: set[asyncio.Task[None]] = set()
        while True:
            await free.acquire()
            await _readable(listener)
            try:
                inside, _ = listener.accept()  # not asyncio's, which loses a connection if it is cancelled meanwhile
            except OSError as error:
                free.release()
                if not isinstance(error, BlockingIOError):  # no descriptor is left: later there may be one
                    await asyncio.sleep(RETRY_SECONDS)
                continue
            task = asyncio.create_task(self._serve_one(inside, port))
            served.add(task)
            task.add_done_callback(served.discard)
            task.add_done_callback(partial(_ended, inside, free))

    async def _serve_one(self, inside: socket.socket, port: int) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await asyncio.open_connection(sock=inside, limit=HEAD_BYTES)
            try:
                if port == self._reach.proxy_port:
                    await self._ask(reader, writer)
                else:
                    await _join((reader, writer), await self._connected("127.0.0.1", port))
            finally:
                writer.close()

    async def _ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one request for the proxy."""
        try:
            async with asyncio.timeout(HEAD_SECONDS):
                try:
                    head = await reader.readuntil(b"\r\n\r\n")
                except asyncio.LimitOverrunError as error:
                    raise _Refused(400, f"the head of a request is longer than {HEAD_BYTES:,} bytes") from error
            address, first = _request(head)
            outside = await self._opened(address)
        except _Refused as refused:
            text = f"Penstock: {refused}\n".encode()
            status = f"HTTP/1.1 {refused.status} {_REASONS[refused.status]}\r\n".encode()
            fields = b"Content-Type: text/plain; charset=utf-8\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
            writer.write(status + fields % len(text) + text)
            await writer.drain()
            return
        if first:
            outside[1].write(first)
        else:
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await _join((reader, writer), outside)

    async def _opened(self, address: ServerAddress) -> Streams:
        """Connect to an address that the run may reach.

        Raises:
            _Refused: it may not reach it, or it cannot be reached.
        """
        if not self._reach.allows(address):
            raise self._denial(address, f"this run may not connect to {address}")
        try:
            found = await resolved(address)
        except OSError as error:
            raise _Refused(502, f"{address.host} cannot be resolved: {error.strerror}") from error
        problem = f"{address.host} has no address"
        for host in found:
            if is_private(host) and not self._reach.allows(ServerAddress(host, address.port)):
                inner = ServerAddress(host, address.port)
                raise self._denial(address, f"{address} leads to {inner}, which is not a public address")
            try:
                return await self._connected(host, address.port)
            except OSError as error:
                problem = f"{address} cannot be reached: {error.strerror or 'it does not answer'}"
        raise _Refused(502, problem)

    async def _connected(self, host: str, port: int) -> Streams:
        is_here = self._own is not None and host.startswith("127.")
        own = (self._own, 0) if is_here else None
        async with asyncio.timeout(HEAD_SECONDS):
            return await asyncio.open_connection(host, port, limit=HEAD_BYTES, local_addr=own)

    def _denial(self, address: ServerAddress, text: str) -> _Refused:
        if address not in self._refused and len(self._refused) < MAX_REFUSED:
            self._refused.add(address)
            self._on_refused(text)
        return _Refused(403, f"{text} (--network agent)")


async def _readable(listener: socket.socket) -> None:
    """Wait until a connection waits."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(listener, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(listener)


def _ended(inside: socket.socket, free: asyncio.Semaphore, task: asyncio.Task[None]) -> None:
    """Make room for the next connection. One whose task was cancelled before it began is still open."""
    free.release()
    if task.cancelled():
        inside.close()


def _request(head: bytes) -> tuple[ServerAddress, bytes]:
    """Return the address that a request is for, and what is sent there first; b"" for `CONNECT`.

    Raises:
        _Refused: it is not a request for a proxy.
    """
    line, *fields = head[:-4].split(b"\r\n")
    words = line.split(b" ")
    wrong = _Refused(400, "expected CONNECT HOST:PORT, or a request for http://HOST/PATH")
    if len(words) != 3 or not words[2].startswith(b"HTTP/1.") or not line.isascii():
        raise wrong
    method, target, _ = line.decode("ascii").split(" ")
    if method == "CONNECT":
        address = address_of(target)
        if address is None or "*" in address.host:
            raise wrong
        return msgspec.structs.replace(address, host=_plain(address.host)), b""
    try:
        parts = urlsplit(target)
        port = parts.port or 80
    except ValueError as error:
        raise wrong from error
    if parts.scheme != "http" or not parts.hostname:
        raise wrong
    address = ServerAddress(_plain(parts.hostname), port)
    place = target[target.index("//") + 2 :]
    path = place[place.find("/") :] if "/" in place else "/"
    kept = [field for field in fields if not _is_own(field)]
    first = f"{method} {path} HTTP/1.1".encode()
    host = f"Host: {address}" if port != 80 else f"Host: {str(address).rpartition(':')[0]}"
    return address, b"\r\n".join([first, host.encode(), *kept, b"Connection: close", b"", b""])


def _plain(host: str) -> str:
    """Return a host as addresses have it: in small letters, without the dot that ends a whole name."""
    return host.lower().rstrip(".")


def _is_own(field: bytes) -> bool:
    name = field.partition(b":")[0].strip().lower()
    return name in _OWN_FIELDS or name.startswith(b"proxy-")


def is_private(host: str) -> bool:
    """Return whether an IP address is of this machine, of a private network, or of none."""
    address = ipaddress.ip_address(host.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        address = inner or address
    return not address.is_global or address.is_multicast


def look_up(address: ServerAddress) -> list[str]:
    """Return the IP addresses of a host, in the order in which they should be tried.

    Raises:
        OSError, UnicodeError: it has none.
    """
    found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def resolved(address: ServerAddress) -> list[str]:
    """Return what `look_up` returns.

    In a thread of its own, as the resolver may take long and cannot be stopped: nothing has to wait for it.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[str]] = loop.create_future()

    def resolve() -> None:
        try:
            result: list[str] | OSError = look_up(address)
        except (OSError, UnicodeError) as error:
            result = error if isinstance(error, OSError) else OSError(0, "it is not a name")
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(_settle, answer, result)

    threading.Thread(target=resolve, name="penstock resolver", daemon=True).start()
    return await answer


def _settle(answer: asyncio.Future[list[str]], result: list[str] | OSError) -> None:
    if answer.done():
        return
    if isinstance(result, OSError):
        answer.set_exception(result)
    else:
        answer.set_result(result)


async def _join(inside: Streams, outside: Streams) -> None:
    """Pass on bytes in both directions, until both have ended."""
    try:
        await asyncio.gather(_pass(inside[0], outside[1]), _pass(outside[0], inside[1]))
    finally:
        outside[1].close()
        inside[1].close()


async def _pass(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while data := await source.read(PIECE_BYTES):
        sink.write(data)
        await sink.drain()
    if sink.can_write_eof():
        sink.write_eof()
