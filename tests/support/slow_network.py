"""A network for tests: a TCP proxy that delays, cuts and holds back what goes through it, in each direction."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import Literal

Direction = Literal["to server", "to client"]

CHUNK = 65536


class Proxy:
    """Proxy to a port of 127.0.0.1. What it holds back is passed on later, as TCP does after lost packets."""

    def __init__(self, port: int) -> None:
        """Listen on a free port."""
        self._target = port
        self._held: set[Direction] = set()
        self._changed = threading.Condition()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.delay = 0.0
        """Seconds that each piece takes, in each direction."""
        self.passed = 0
        """Pieces that were passed on."""
        self.held_back = 0
        """Pieces that were held back, also if they were passed on later."""
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, url: str) -> str:
        """The URL of a database, through the proxy."""
        return url.replace(f":{self._target}/", f":{self.port}/")

    def hold(self, *directions: Direction) -> None:
        """Hold back what goes in these directions; without any, pass on again."""
        with self._changed:
            self._held = {*directions}
            self._changed.notify_all()

    def cut(self) -> None:
        """Close all connections, with what is held back in them."""
        with self._changed:
            pairs, self._pairs = self._pairs, []
            self._changed.notify_all()
        for pair in pairs:
            for side in pair:
                _shut(side)

    def close(self) -> None:
        """Close the proxy."""
        _shut(self._listener)
        self._listener.close()
        self.cut()
        self.hold()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                client.close()  # the server is away
                continue
            for side in (client, server):
                side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pair = (client, server)
            with self._changed:
                self._pairs.append(pair)
            ways: list[tuple[Direction, socket.socket, socket.socket]] = [
                ("to server", client, server),
                ("to client", server, client),
            ]
            for way in ways:
                threading.Thread(target=self._pass, args=(pair, *way), daemon=True).start()

    def _pass(
        self, pair: tuple[socket.socket, socket.socket], way: Direction, source: socket.socket, sink: socket.socket
    ) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK):
                if self.delay:
                    time.sleep(self.delay)
                with self._changed:
                    self.held_back += way in self._held
                    self._changed.wait_for(lambda: way not in self._held or pair not in self._pairs)
                    if pair not in self._pairs:
                        break
                sink.sendall(data)
                self.passed += 1
        _shut(source)
        _shut(sink)
        if way == "to client":
            source.close()
            sink.close()


def _shut(side: socket.socket) -> None:
    with contextlib.suppress(OSError):
        side.shutdown(socket.SHUT_RDWR)
