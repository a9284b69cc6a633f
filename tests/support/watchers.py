"""Viewers on plain sockets, whose connections are cut: what comes is taken apart byte by byte, as it comes."""

from __future__ import annotations

import json
import socket
import struct
import time
from typing import Any

from restarts import Served
from waiting import PATIENCE

from penstock.testing.viewer import Viewer


class Cut(Exception):
    """The connection is gone."""


class Stream:
    """The bytes of one answer of `GET …/events`, read as they come."""

    def __init__(
        self, served: Served, chat: str, *, delta: bool, after: int | None, query: bool = False, buffer: int = 0
    ) -> None:
        """`query`: the number goes into the address, not the header. `buffer`: bytes that the socket may hold."""
        words = [*(["delta=1"] if delta else []), *([f"after={after}"] if query and after is not None else [])]
        head = [f"GET /api/chats/{chat}/events?{'&'.join(words)} HTTP/1.1", f"Host: 127.0.0.1:{served.port}"]
        head += [f"Authorization: Bearer {served.token}", "Accept: text/event-stream"]
        if after is not None and not query:
            head.append(f"Last-Event-ID: {after}")
        self.socket = socket.socket()
        if buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        self.socket.settimeout(PATIENCE)
        self.taken = 0
        """Bytes of events that were read."""
        self._head: bytes | None = b""  # None once it is read
        self._chunks = Chunks()
        self._lines = b""
        try:
            self.socket.connect(("127.0.0.1", served.port))
            self.socket.sendall("\r\n".join([*head, "", ""]).encode())
        except OSError as error:
            self.socket.close()
            raise Cut from error

    @property
    def whole(self) -> bool:
        """The answer came to its end."""
        return self._chunks.over

    @property
    def in_a_frame(self) -> bool:
        """A frame has begun to come."""
        return b"data:" in self._lines

    def read(self, most: int, seconds: float) -> list[tuple[int | None, dict[str, Any]]]:
        """The events that the next bytes complete: at most so many bytes, waiting for them at most so long.

        Raises:
            Cut: no more will come.
        """
        self.socket.settimeout(max(seconds, 0.001))
        try:
            data = self.socket.recv(most)
        except TimeoutError:
            return []
        except OSError as error:
            raise Cut from error
        if not data:
            raise Cut
        return self._fed(data)

    def _fed(self, data: bytes) -> list[tuple[int | None, dict[str, Any]]]:
        if self._head is not None:
            self._head += data
            head, end, data = self._head.partition(b"\r\n\r\n")
            if not end:
                return []
            status = int(head.split()[1])
            if status == 503:  # about to end
                raise Cut
            assert status == 200, head
            assert b"transfer-encoding: chunked" in head.lower()
            self._head = None
        body = self._chunks.feed(data)
        self.taken += len(body)
        assert b"\r" not in body, "a line that ends with more than LF"
        *events, self._lines = (self._lines + body).split(b"\n\n")
        return [found for found in map(event, events) if found is not None]

    def cut(self, *, reset: bool = False) -> None:
        """Leave, politely or by a reset."""
        if reset:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


def event(text: bytes) -> tuple[int | None, dict[str, Any]] | None:
    """The id and the data of one event; None for a comment."""
    fields: dict[str, str] = {}
    for line in text.decode().split("\n"):
        name, _, value = line.partition(":")
        if name:  # else a comment
            assert name not in fields, f"a second {name!r} in an event"
            fields[name] = value.removeprefix(" ")
    if "data" not in fields:
        return None
    frame = json.loads(fields["data"])
    assert frame["type"] == fields["event"]
    return int(fields["id"]) if "id" in fields else None, frame


class Chunks:
    """The body of an answer that comes in chunks, wherever it is cut."""

    def __init__(self) -> None:
        self.over = False
        self._rest = b""
        self._left = 0  # of the chunk that is open, with its line end

    def feed(self, data: bytes) -> bytes:
        """The bytes of the body."""
        self._rest += data
        body = []
        while self._rest and not self.over:
            if self._left > 2:
                part, self._rest = self._rest[: self._left - 2], self._rest[self._left - 2 :]
                self._left -= len(part)
                body.append(part)
            elif self._left:
                end, self._rest = self._rest[: self._left], self._rest[self._left :]
                self._left -= len(end)
                assert not end.strip(b"\r\n")
            elif b"\r\n" in self._rest:
                size, _, self._rest = self._rest.partition(b"\r\n")
                self._left = int(size, 16) + 2
                self.over = self._left == 2
            else:
                break
        return b"".join(body)


class Watcher:
    """A viewer that outlives its connections: it comes back with the number of the last event it dispatched."""

    def __init__(self, served: Served, chat: str, *, delta: bool) -> None:
        self.served, self.chat, self.delta = served, chat, delta
        self.viewer = Viewer()
        self.moments: dict[int, dict[int, dict[str, Any]]] = {}
        """What it saw at some numbers, for `truth.judge`."""
        self.goodbye = False
        self.stream: Stream | None = None
        self._held: list[dict[str, Any]] = []  # frames without a number: they count with the next that has one

    def connect(self, *, query: bool = False, buffer: int = 0) -> Stream:
        """Look at the chat, from where it was left."""
        self._held, self.goodbye = [], False
        self.stream = Stream(
            self.served, self.chat, delta=self.delta, after=self.viewer.number, query=query, buffer=buffer
        )
        return self.stream

    def read(self, most: int = 65536, seconds: float = 1.0) -> None:
        """Read once, and take what it completes.

        Raises:
            Cut: no more will come.
        """
        assert self.stream is not None
        for id, frame in self.stream.read(most, seconds):
            self._take(frame, id)

    def _take(self, frame: dict[str, Any], id: int | None) -> None:
        assert not self.goodbye, "a frame after `goodbye`"
        if frame["type"] in ("goodbye", "deleted"):
            assert not self._held, "frames without a number at the end"
            self.goodbye = frame["type"] == "goodbye"
            self.viewer.take(frame)
        elif id is None:
            self._held.append(frame)
        else:
            held, self._held = self._held, []
            for one in held:
                self.viewer.take(one)
            self.viewer.take(frame, id)

    def cut(self, *, reset: bool = False) -> None:
        """Leave."""
        if self.stream is not None:
            self.stream.cut(reset=reset)
            self.stream = None

    def remember(self) -> None:
        """Keep what is seen now."""
        if self.viewer.number is not None:
            self.moments[self.viewer.number] = self.viewer.seen

    def read_to(self, number: int) -> None:
        """Read on, over whatever cuts, until the row of this number is reached."""
        end = time.monotonic() + PATIENCE
        while self.viewer.number is None or self.viewer.number < number:
            assert time.monotonic() < end, f"stands at {self.viewer.number}, not {number}"
            try:
                if self.stream is None:
                    self.connect()
                self.read()
            except Cut:
                self.cut()
                time.sleep(0.02)
        self.remember()
