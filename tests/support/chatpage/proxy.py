"""A line between a browser and the server, which a test can cut, hold and weigh."""

from __future__ import annotations

import re
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

ASKED = re.compile(rb"\A[A-Z]+ (\S+) HTTP/1\.1\r\n")
AT_ONCE = struct.pack("ii", 1, 0)
"""`SO_LINGER`: the other side hears of the end as an error, as of a line that breaks."""

Limit = Callable[[], tuple[int, float] | None]
"""How many pieces of a stream pass whole, and how much of the next one does, from 0 to 1. None: all of them."""


class Proxy:
    """Listens on a port of its own. `down` counts the bytes of answers, `asked` requests, by path without a query."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.port = int(self._listener.getsockname()[1])
        self.down: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        self.cuts = 0
        self.is_up = True
        self._limit: Limit = lambda: None
        self._lost = ("", 0)
        self._open: set[socket.socket] = set()
        self._lines: set[_Line] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        """Where a browser finds it."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def streams(self) -> int:
        """How many connections carry a stream of events now."""
        with self._lock:
            return sum(line.is_stream for line in self._lines)

    def through(self, link: str) -> str:
        """A link of the server's that leads through here."""
        return link.replace(f":{self._target}", f":{self.port}")

    # --- what a test does to it ---

    def cut_streams(self, limit: Limit) -> None:
        """Cut each stream of events as this says when it begins; the piece with its head is none of those."""
        self._limit = limit

    def lose(self, ending: str, count: int) -> None:
        """Break the connection in the place of the next so many answers to addresses that end so."""
        self._lost = (ending, count)

    def loses(self, path: str) -> bool:
        """Whether the answer to a request that was passed on is lost."""
        ending, count = self._lost
        if not count or not path.endswith(ending):
            return False
        self._lost = (ending, count - 1)
        return True

    def cut(self) -> None:
        """Break all connections."""
        with self._lock:
            broken, self._open = self._open, set()
        for side in broken:
            _break(side)

    def fall(self) -> None:
        """Break all connections, and let nobody through until `rise`."""
        self.is_up = False
        self.cut()

    def rise(self) -> None:
        """Let everybody through again."""
        self.is_up = True

    def close(self) -> None:
        """No more of it."""
        self.is_up = False
        self._listener.close()
        self.cut()

    # --- the line ---

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                browser, _ = self._listener.accept()
                threading.Thread(target=self._join, args=(browser,), daemon=True).start()

    def _join(self, browser: socket.socket) -> None:
        try:
            if not self.is_up:
                raise OSError
            server = socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            _break(browser)
            return
        with self._lock:
            self._open |= {browser, server}
        line = _Line(self, browser, server)
        with self._lock:
            self._lines.add(line)
        threading.Thread(target=line.up, daemon=True).start()
        line.down()
        with self._lock:
            self._open -= {browser, server}
            self._lines.remove(line)
        for side in (browser, server):
            _break(side) if line.is_cut else _end(side)


class _Line:
    """One connection through the proxy. The path is that of its latest request."""

    def __init__(self, proxy: Proxy, browser: socket.socket, server: socket.socket) -> None:
        self._proxy, self._browser, self._server = proxy, browser, server
        self._path = ""
        self._left: tuple[int, float] | None = None
        self._in_head = False
        self._is_lost = False
        self.is_cut = False

    @property
    def is_stream(self) -> bool:
        """Whether its latest request was for events."""
        return self._path.endswith("/events")

    def up(self) -> None:
        """From the browser to the server."""
        with suppress(OSError):
            while data := self._browser.recv(1 << 16):
                if found := ASKED.match(data):
                    self._path = found[1].decode("latin-1").partition("?")[0]
                    self._proxy.asked[self._path] += 1
                    self._is_lost = self._proxy.loses(self._path)
                    self._left, self._in_head = (self._proxy._limit() if self.is_stream else None), True
                self._server.sendall(data)
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_WR)

    def down(self) -> None:
        """From the server to the browser, as far as it goes."""
        with suppress(OSError):
            while data := self._server.recv(1 << 16):
                self._proxy.down[self._path] += len(data)
                if self._is_lost:
                    self.is_cut = True
                    return
                kept = self._kept(data)
                self._browser.sendall(kept)
                if len(kept) < len(data):
                    self._proxy.cuts += 1
                    self.is_cut = True
                    return

    def _kept(self, data: bytes) -> bytes:
        if self._left is None:
            return data
        if self._in_head:
            self._in_head = b"\r\n\r\n" not in data
            return data
        pieces, part = self._left
        self._left = (pieces - 1, part)
        return data if pieces else data[: int(part * len(data))]


def _break(side: socket.socket) -> None:
    with suppress(OSError):
        side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
    _end(side)


def _end(side: socket.socket) -> None:
    with suppress(OSError):
        side.shutdown(socket.SHUT_RDWR)  # whoever waits on it wakes up
    side.close()
